// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Addresses: bind, resolve, query.
#include <netinet/tcp.h>
#include <rdma/ib_user_sa.h>
#include <rdma/ib_user_verbs.h>

#include <algorithm>
#include <array>

#include "device.h"
#include "log.h"
#include "port_space.h"
#include "state.h"
#include "ucma.h"

namespace swrnic::shim {
namespace {

constexpr sa_family_t kAfIb = 27;

// struct sockaddr_ib of the kernel's uAPI, as far as QUERY_GID fills it.
struct SockaddrIb {
    std::uint16_t family;
    std::uint16_t pkey;  // network order
    std::uint32_t flow_info;
    std::uint8_t address[16];
    std::uint64_t service_id;
    std::uint64_t service_mask;
    std::uint64_t scope_id;
};
static_assert(sizeof(SockaddrIb) == 48);

template <typename Storage>
void put_address(Storage& storage, const Address& address) {
    static_assert(sizeof(Storage) >= sizeof(sockaddr_in6));
    if (!address.empty()) std::memcpy(&storage, address.get(), address.size());
}

}  // namespace

namespace {

int bind_port(int fd, const Address& local, PortMay may) {
    const int error = sys::bind(fd, local.get(), local.size());
    if (error != -EADDRINUSE || may == PortMay::kNot) return error;
    // With SO_REUSEADDR the kernel refuses for those who bind without it, as our own do until they listen or connect,
    // and for listeners.
    sys::set_option(fd, SOL_SOCKET, SO_REUSEADDR, 1);
    const int again = sys::bind(fd, local.get(), local.size());
    sys::set_option(fd, SOL_SOCKET, SO_REUSEADDR, 0);
    if (again != -EADDRINUSE || !plain_socket_admits(local)) return again;
    sys::set_option(fd, SOL_SOCKET, SO_REUSEPORT, 1);
    return sys::bind(fd, local.get(), local.size());
}

}  // namespace

int cm_make_socket(Locked& locked, const CmId& id, const Address& local, PortMay may) {
    const int family = local.empty() ? id.peer.family() : local.family();
    const int fd = open_socket(family, (id.is_for_datagrams() ? SOCK_DGRAM : SOCK_STREAM) | SOCK_NONBLOCK, 0);
    if (fd < 0) return fd;
    locked->fds.keep(locked, fd);
    if (id.is_for_datagrams()) {
        may = PortMay::kNot;
        tell_destination(fd, family);
    } else {
        sys::set_option(fd, IPPROTO_TCP, TCP_NODELAY, 1);  // a listener's connections inherit it
    }
    if (family == AF_INET6) sys::set_option(fd, IPPROTO_IPV6, IPV6_V6ONLY, id.af_only ? 1 : 0);
    cm_set_tos(id, fd);
    if (local.empty()) return fd;
    if (may == PortMay::kLinger) cm_share_port(id, fd);
    if (const int error = bind_port(fd, local, may); error != 0) {
        sys::close(fd);
        return error;
    }
    return fd;
}

// Of what rdma_cm calls SO_REUSEADDR TCP's SO_REUSEPORT comes nearest: all must agree, and only to bind.
void cm_share_port(const CmId& id, int fd) {
    sys::set_option(fd, SOL_SOCKET, SO_REUSEPORT, id.reuse_address ? 1 : 0);
}

void cm_set_tos(const CmId& id, int fd) {
    if (!id.has_tos) return;
    set_traffic_class(fd, id.tos);
}

// ---- bind ----

int UcmaFile::bind_to(Locked& locked, std::uint32_t handle, const void* bytes, std::size_t size) {
    int error = 0;
    const auto id = find(locked, handle, error);
    if (id == nullptr) return error;
    if (id->state != CmState::kIdle) return -EINVAL;
    sa_family_t family = AF_UNSPEC;
    if (size >= sizeof(family)) std::memcpy(&family, bytes, sizeof(family));
    if (family == kAfIb) {  // librdmacm's probe for the newer commands; nothing more can come of it
        id->state = CmState::kBound;
        return 0;
    }
    const Address address = Address::from(bytes, size);
    if (address.empty()) return -EAFNOSUPPORT;
    const int fd = cm_make_socket(locked, *id, address, PortMay::kLinger);
    // To the kernel rdma_cm's ports are no UDP ports, and librdmacm's rsockets bind an id to the port that a UDP socket
    // of theirs has. Such an id is refused only if it listens.
    const bool others = fd == -EADDRINUSE && id->is_for_datagrams();
    if (fd < 0 && !others) return fd;
    id->socket = others ? -1 : fd;
    id->local = others ? address : Address::local_of(fd);
    // The kernel's rdma_cm counts loopback as any address. libfabric offers as sources what names the device, the first
    // of them first, and peers elsewhere could reach none of it. With nothing but loopback, that is the device's.
    id->on_device = !address.is_any() && (!address.is_loopback() || !has_network_address());
    id->state = CmState::kBound;
    return 0;
}

int UcmaFile::bind_ip(Locked& locked, UcmaRequest& request) {
    rdma_ucm_bind_ip command;
    if (!request.take(command)) return -EINVAL;
    return bind_to(locked, command.id, &command.addr, sizeof(command.addr));
}

int UcmaFile::bind(Locked& locked, UcmaRequest& request) {
    rdma_ucm_bind command;
    if (!request.take(command)) return -EINVAL;
    if (command.reserved != 0 || command.addr_size == 0 || command.addr_size > sizeof(command.addr)) return -EINVAL;
    return bind_to(locked, command.id, &command.addr, command.addr_size);
}

// ---- resolve: the kernel's routing table answers at once, so the events are there when the command returns ----

int UcmaFile::resolve_to(Locked& locked, std::uint32_t handle, const Address& source, Address target) {
    int error = 0;
    const auto id = find(locked, handle, error);
    if (id == nullptr) return error;
    if (id->state != CmState::kIdle && id->state != CmState::kBound) return -EINVAL;
    if (target.empty() || (!source.empty() && source.family() != target.family())) return -EINVAL;
    if (id->state == CmState::kIdle && !source.empty()) {
        const int bound = bind_to(locked, handle, source.get(), source.size());
        if (bound != 0) return bound;
    }
    if (!id->local.empty() && id->local.family() != target.family()) return -EINVAL;
    if (target.is_any()) {  // "any" names this host, as in the kernel
        Address loopback = Address::any(target.family());
        error = find_source({}, loopback, loopback);
        loopback.set_port(target.port());
        target = loopback;
    }
    Address found;
    if (error == 0) error = find_source(id->local, target, found);
    id->peer = target;
    if (error != 0) {
        cm_post(locked, *id, CmEventType::kAddrError, error);
        return 0;
    }
    if (id->socket < 0) {
        // Bound early, so that the port is known from now on; without SO_REUSEADDR the kernel never picks one that a
        // connection to the same peer still lingers on. When no port is free for that, connect() finds one.
        const int fd = cm_make_socket(locked, *id, found, PortMay::kNot);
        if (fd >= 0) id->socket = fd;
    }
    const std::uint16_t port = id->socket >= 0 ? Address::local_of(id->socket).port() : std::uint16_t{0};
    id->local = found;
    id->local.set_port(port);
    id->on_device = true;
    id->state = CmState::kAddrResolved;
    cm_post(locked, *id, CmEventType::kAddrResolved);
    return 0;
}

int UcmaFile::resolve_ip(Locked& locked, UcmaRequest& request) {
    rdma_ucm_resolve_ip command;
    if (!request.take(command)) return -EINVAL;
    return resolve_to(locked, command.id, Address::from(&command.src_addr, sizeof(command.src_addr)),
                      Address::from(&command.dst_addr, sizeof(command.dst_addr)));
}

int UcmaFile::resolve_addr(Locked& locked, UcmaRequest& request) {
    rdma_ucm_resolve_addr command;
    if (!request.take(command)) return -EINVAL;
    if (command.reserved != 0 || command.src_size > sizeof(command.src_addr) ||
        command.dst_size > sizeof(command.dst_addr)) {
        return -EINVAL;
    }
    return resolve_to(locked, command.id, Address::from(&command.src_addr, command.src_size),
                      Address::from(&command.dst_addr, command.dst_size));
}

int UcmaFile::resolve_route(Locked& locked, UcmaRequest& request) {
    rdma_ucm_resolve_route command;
    int error = 0;
    if (!request.take(command)) return -EINVAL;
    const auto id = find(locked, command.id, error);
    if (id == nullptr) return error;
    if (id->state != CmState::kAddrResolved) return -EINVAL;
    id->state = CmState::kRouteResolved;
    cm_post(locked, *id, CmEventType::kRouteResolved);
    return 0;
}

// ---- query; iWARP has no paths, RoCE one ----

namespace {

// The record that the kernel makes for RoCE, of a path to be found by IP alone.
constexpr std::uint8_t kHopLimit = 64, kEqual = 2, kRate10Gb = 3, kLifetime = 18;

bool has_path(const CmId& id) {
    return persona() == Persona::kRoce && id.on_device && !id.peer.empty();
}

ib_path_rec_data path_of(const CmId& id) {
    ib_path_rec_data out{};
    constexpr std::uint32_t kPrimary = 1u << 0 | 1u << 1, kBidirectional = 1u << 3 | 1u << 5;  // and for the GMP
    constexpr std::uint8_t kExactly = kEqual << 6, kReversible = 0x80;
    constexpr std::size_t kDgid = 8, kSgid = 24, kHopLimitAt = 47, kReversibleAt = 49, kPkey = 50, kMtu = 54,
                          kRate = 55, kLifetimeAt = 56;
    std::array<std::uint8_t, sizeof(out.path_rec)> record{};
    const Gid local = id.local.as_gid(), peer = id.peer.as_gid();
    std::copy(peer.begin(), peer.end(), record.begin() + kDgid);
    std::copy(local.begin(), local.end(), record.begin() + kSgid);
    record[kHopLimitAt] = kHopLimit;
    record[kReversibleAt] = kReversible | 1;
    record[kPkey] = record[kPkey + 1] = 0xff;
    record[kMtu] = kExactly | active_mtu();
    record[kRate] = kExactly | kRate10Gb;
    record[kLifetimeAt] = kExactly | kLifetime;
    out.flags = kPrimary | kBidirectional;
    std::memcpy(out.path_rec, record.data(), record.size());
    return out;
}

// The same, as the older command has it.
ib_user_path_rec user_path_of(const CmId& id) {
    ib_user_path_rec out{};
    const Gid local = id.local.as_gid(), peer = id.peer.as_gid();
    std::ranges::copy(peer, out.dgid);
    std::ranges::copy(local, out.sgid);
    out.reversible = 1;
    out.mtu = active_mtu();
    out.pkey = 0xffff;
    out.hop_limit = kHopLimit;
    out.numb_path = 1;
    out.mtu_selector = out.rate_selector = out.packet_life_time_selector = kEqual;
    out.rate = kRate10Gb;
    out.packet_life_time = kLifetime;
    return out;
}

}  // namespace

int UcmaFile::query_route(Locked& locked, UcmaRequest& request) {
    rdma_ucm_query command;
    int error = 0;
    if (!request.take(command, offsetof(rdma_ucm_query, option))) return -EINVAL;
    if (error = request.room(offsetof(rdma_ucm_query_route_resp, ibdev_index), sizeof(rdma_ucm_query_route_resp));
        error != 0)
        return error;
    const auto id = find(locked, command.id, error);
    if (id == nullptr) return error;
    rdma_ucm_query_route_resp out{};
    put_address(out.src_addr, id->local);
    put_address(out.dst_addr, id->peer);
    if (has_path(*id)) {
        out.num_paths = 1;
        out.ib_route[0] = user_path_of(*id);
    }
    if (id->on_device) {  // the first one, of index 0
        out.node_guid = node_guid_be();
        out.port_num = 1;
    }
    request.reply(out);
    return 0;
}

int UcmaFile::query(Locked& locked, UcmaRequest& request) {
    rdma_ucm_query command;
    int error = 0;
    if (!request.take(command)) return -EINVAL;
    const auto id = find(locked, command.id, error);
    if (id == nullptr) return error;
    if (command.option == RDMA_USER_CM_QUERY_PATH) {
        rdma_ucm_query_path_resp head{};
        std::array<std::uint8_t, sizeof(head) + sizeof(ib_path_rec_data)> paths{};
        if (error = request.room(sizeof(head), sizeof(paths)); error != 0) return error;
        if (has_path(*id)) {
            head.num_paths = 1;
            const ib_path_rec_data path = path_of(*id);
            std::memcpy(paths.data() + sizeof(head), &path, sizeof(path));
        }
        std::memcpy(paths.data(), &head, sizeof(head));
        request.reply(paths);
        return 0;
    }
    if (command.option != RDMA_USER_CM_QUERY_ADDR && command.option != RDMA_USER_CM_QUERY_GID) return -ENOSYS;
    if (error = request.room(offsetof(rdma_ucm_query_addr_resp, ibdev_index), sizeof(rdma_ucm_query_addr_resp));
        error != 0)
        return error;
    rdma_ucm_query_addr_resp out{};
    if (id->on_device) {  // as above
        out.node_guid = node_guid_be();
        out.port_num = 1;
        out.pkey = 0xffff;
    }
    if (command.option == RDMA_USER_CM_QUERY_ADDR) {
        put_address(out.src_addr, id->local);
        put_address(out.dst_addr, id->peer);
        out.src_size = static_cast<std::uint16_t>(id->local.size());
        out.dst_size = static_cast<std::uint16_t>(id->peer.size());
    } else {
        SockaddrIb own{};
        own.family = kAfIb;
        own.pkey = 0xffff;
        if (id->on_device) {
            const Gid gid = persona() == Persona::kRoce ? id->local.as_gid() : port_gid(locked);
            std::memcpy(own.address, gid.data(), sizeof(own.address));
        }
        std::memcpy(&out.src_addr, &own, sizeof(own));
        SockaddrIb other{};
        other.family = kAfIb;
        if (persona() == Persona::kRoce && !id->peer.empty()) {
            const Gid gid = id->peer.as_gid();
            std::memcpy(other.address, gid.data(), sizeof(other.address));
        }
        std::memcpy(&out.dst_addr, &other, sizeof(other));
        out.src_size = out.dst_size = sizeof(SockaddrIb);
    }
    request.reply(out);
    return 0;
}

// What the kernel's iw_cm tells: INIT and RTR set the access rights, RTS nothing, since the connection manager makes
// that step. A control connection has none of them to make. Of datagrams librdmacm asks for INIT alone, and goes on by
// itself.
int UcmaFile::init_qp_attr(Locked& locked, UcmaRequest& request) {
    rdma_ucm_init_qp_attr command;
    int error = 0;
    if (!request.take(command)) return -EINVAL;
    ib_uverbs_qp_attr out{};
    if (error = request.room(sizeof(out)); error != 0) return error;
    const auto id = find(locked, command.id, error);
    if (id == nullptr) return error;
    constexpr std::uint32_t kInit = 1, kRtr = 2, kErr = 6;
    constexpr std::uint32_t kMaskState = 1u << 0, kMaskAccess = 1u << 3, kMaskPkeyIndex = 1u << 4, kMaskPort = 1u << 5,
                            kMaskQKey = 1u << 6;
    constexpr std::uint32_t kLocalWrite = 1, kRemoteWrite = 2, kRemoteRead = 4, kRemoteAtomic = 8;
    if (!id->on_device || command.qp_state > kErr) return -EINVAL;
    if (id->is_control && !id->peer_hello && command.qp_state != kInit) return -EINVAL;
    out.qp_state = command.qp_state;
    out.qp_attr_mask = kMaskPort;
    out.port_num = 1;
    if (id->is_for_datagrams()) {
        out.qp_attr_mask |= kMaskState | kMaskPkeyIndex | kMaskQKey;
        out.qkey = kUdpQKey;
    } else if (command.qp_state == kInit || command.qp_state == kRtr) {
        out.qp_attr_mask |= kMaskState | kMaskAccess;
        out.qp_access_flags = kLocalWrite | kRemoteWrite | kRemoteRead;
    }
    if (persona() == Persona::kRoce && command.qp_state == kInit) {
        out.qp_attr_mask |= kMaskPkeyIndex;
        out.qp_access_flags |= kRemoteAtomic;
    }
    if (id->peer_hello) id->peer_hello->fill(out, id->local, id->peer);
    request.reply(out);
    return 0;
}

}  // namespace swrnic::shim
