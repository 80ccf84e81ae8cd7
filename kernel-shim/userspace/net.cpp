// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "net.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fmt/core.h>
#include <net/if.h>
#include <netinet/tcp.h>

#include <algorithm>
#include <cstring>
#include <string_view>
#include <vector>

#include "device.h"
#include "log.h"
#include "real.h"

namespace swrnic::shim {

Address Address::from(const void* sockaddr_bytes, std::size_t size) {
    Address address;
    sa_family_t family = AF_UNSPEC;
    if (size < sizeof(family)) return address;
    std::memcpy(&family, sockaddr_bytes, sizeof(family));
    if (family == AF_INET && size >= sizeof(sockaddr_in)) {
        std::memcpy(&address.u_.v4, sockaddr_bytes, sizeof(sockaddr_in));
    } else if (family == AF_INET6 && size >= sizeof(sockaddr_in6)) {
        std::memcpy(&address.u_.v6, sockaddr_bytes, sizeof(sockaddr_in6));
    }
    return address;
}

Address Address::local_of(int fd) {
    sockaddr_in6 raw{};
    socklen_t size = sizeof(raw);
    if (sys::getsockname(fd, reinterpret_cast<sockaddr*>(&raw), &size) != 0) return {};
    return from(&raw, size);
}

Address Address::any(int family) {
    Address address;
    address.u_.base.sa_family = static_cast<sa_family_t>(family);
    return address;
}

bool Address::is_any() const {
    if (family() == AF_INET) return u_.v4.sin_addr.s_addr == INADDR_ANY;
    return family() == AF_INET6 && IN6_IS_ADDR_UNSPECIFIED(&u_.v6.sin6_addr);
}

std::uint32_t Address::v4_or_zero() const {
    if (family() == AF_INET) return u_.v4.sin_addr.s_addr;
    std::uint32_t value = 0;
    if (family() == AF_INET6 && IN6_IS_ADDR_V4MAPPED(&u_.v6.sin6_addr)) {
        std::memcpy(&value, u_.v6.sin6_addr.s6_addr + 12, sizeof(value));
    }
    return value;
}

bool Address::is_loopback() const {
    if (const std::uint32_t v4 = v4_or_zero(); v4 != 0) return ntohl(v4) >> 24 == 127;
    return family() == AF_INET6 && IN6_IS_ADDR_LOOPBACK(&u_.v6.sin6_addr);
}

std::uint16_t Address::port() const {
    if (family() == AF_INET) return ntohs(u_.v4.sin_port);
    return family() == AF_INET6 ? ntohs(u_.v6.sin6_port) : 0;
}

void Address::set_port(std::uint16_t port) {
    if (family() == AF_INET) u_.v4.sin_port = htons(port);
    if (family() == AF_INET6) u_.v6.sin6_port = htons(port);
}

socklen_t Address::size() const {
    if (family() == AF_INET) return sizeof(sockaddr_in);
    return family() == AF_INET6 ? sizeof(sockaddr_in6) : 0;
}

bool Address::same_host_part(const Address& other) const {
    if (v4_or_zero() != 0 || other.v4_or_zero() != 0) return v4_or_zero() == other.v4_or_zero();
    if (family() != AF_INET6 || other.family() != AF_INET6) return false;
    return std::memcmp(&u_.v6.sin6_addr, &other.u_.v6.sin6_addr, sizeof(in6_addr)) == 0;
}

bool Address::operator==(const Address& other) const {
    if (family() != other.family() || port() != other.port()) return false;
    if (family() == AF_INET) return u_.v4.sin_addr.s_addr == other.u_.v4.sin_addr.s_addr;
    return family() != AF_INET6 || (std::memcmp(&u_.v6.sin6_addr, &other.u_.v6.sin6_addr, sizeof(in6_addr)) == 0 &&
                                    u_.v6.sin6_scope_id == other.u_.v6.sin6_scope_id);
}

std::string Address::text() const {
    char host[INET6_ADDRSTRLEN] = "-";
    if (family() == AF_INET) {
        inet_ntop(AF_INET, &u_.v4.sin_addr, host, sizeof(host));
        return fmt::format("{}:{}", host, port());
    }
    if (family() == AF_INET6) inet_ntop(AF_INET6, &u_.v6.sin6_addr, host, sizeof(host));
    return fmt::format("[{}]:{}", host, port());
}

swrnic_address Address::for_abi() const {
    swrnic_address out{};
    out.port = port();
    if (const std::uint32_t v4 = v4_or_zero(); v4 != 0 || family() == AF_INET) {
        out.version = 4;
        std::memcpy(out.octets, &v4, sizeof(v4));
    } else if (family() == AF_INET6) {
        out.version = 6;
        std::memcpy(out.octets, u_.v6.sin6_addr.s6_addr, sizeof(out.octets));
    }
    return out;
}

std::array<std::uint8_t, 16> Address::as_gid() const {
    std::array<std::uint8_t, 16> gid{};
    if (const std::uint32_t v4 = v4_or_zero(); v4 != 0 || family() == AF_INET) {
        gid[10] = gid[11] = 0xff;
        std::memcpy(gid.data() + 12, &v4, sizeof(v4));
    } else {
        std::memcpy(gid.data(), u_.v6.sin6_addr.s6_addr, gid.size());
    }
    return gid;
}

std::uint32_t Address::interface() const {
    return family() == AF_INET6 ? u_.v6.sin6_scope_id : 0;
}

namespace {

bool is_v4(const Gid& gid) {
    in6_addr address;
    std::memcpy(&address, gid.data(), gid.size());
    return IN6_IS_ADDR_V4MAPPED(&address);
}

Address v4_address(in_addr_t number) {
    sockaddr_in v4{};
    v4.sin_family = AF_INET;
    v4.sin_addr.s_addr = number;
    return Address::from(&v4, sizeof(v4));
}

Address v4_of(const Gid& gid) {
    in_addr_t number;
    std::memcpy(&number, gid.data() + 12, sizeof(number));
    const bool one_host = number != INADDR_ANY && number != INADDR_BROADCAST && !IN_MULTICAST(ntohl(number));
    return one_host ? v4_address(number) : Address{};
}

}  // namespace

Address address_of(const Gid& gid, std::uint32_t interface_index) {
    if (is_v4(gid)) return v4_of(gid);
    sockaddr_in6 v6{};
    v6.sin6_family = AF_INET6;
    std::memcpy(&v6.sin6_addr, gid.data(), gid.size());
    if (IN6_IS_ADDR_UNSPECIFIED(&v6.sin6_addr) || IN6_IS_ADDR_MULTICAST(&v6.sin6_addr)) return {};
    if (IN6_IS_ADDR_LINKLOCAL(&v6.sin6_addr)) {
        const std::vector<GidEntry> table = gid_table();
        if (gid == table.front().gid) {
            const auto first =
                std::find_if(table.begin(), table.end(), [](const auto& entry) { return is_v4(entry.gid); });
            return first != table.end() ? v4_of(first->gid) : v4_address(htonl(INADDR_LOOPBACK));
        }
        const auto own = std::find_if(table.begin(), table.end(), [&](const auto& entry) { return entry.gid == gid; });
        const std::string& netdev = (own != table.end() ? *own : table.front()).netdev;
        v6.sin6_scope_id = interface_index != 0 ? interface_index : if_nametoindex(netdev.c_str());
    }
    return Address::from(&v6, sizeof(v6));
}

Address group_of(const Gid& gid) {
    in_addr_t number;
    std::memcpy(&number, gid.data() + 12, sizeof(number));
    Gid mapped = gid;
    if (gid[0] == 0xff && gid[1] == 0x0e) mapped[0] = mapped[1] = 0;
    if (is_v4(mapped)) return IN_MULTICAST(ntohl(number)) ? v4_address(number) : Address{};
    sockaddr_in6 v6{};
    v6.sin6_family = AF_INET6;
    std::memcpy(&v6.sin6_addr, gid.data(), gid.size());
    return IN6_IS_ADDR_MULTICAST(&v6.sin6_addr) ? Address::from(&v6, sizeof(v6)) : Address{};
}

bool on_same_host(const Address& local, const Address& peer) {
    return local.same_host_part(peer) || (local.is_loopback() && peer.is_loopback());
}

int accept_one(int listener, Address& peer) {
    sockaddr_in6 raw{};
    socklen_t size = sizeof(raw);
    const int fd = sys::accept(listener, reinterpret_cast<sockaddr*>(&raw), &size);
    if (fd >= 0) peer = Address::from(&raw, size);
    return fd;
}

bool has_ended(int fd) {
    char octet;
    const long there = sys::recv(fd, &octet, sizeof(octet), MSG_PEEK | MSG_DONTWAIT);
    return there == 0 || (there < 0 && there != -EAGAIN && there != -EINTR);
}

int open_socket(int family, int type, int protocol) {
    const int fd = sys::socket(family, type | SOCK_CLOEXEC, protocol);
    if (fd == -EMFILE || fd == -ENFILE)
        log(LogLevel::kWarn, "no descriptor left for a connection: each takes one; the limit is `ulimit -n`");
    return fd;
}

void tell_destination(int fd, int family) {
    if (family == AF_INET6) {
        sys::set_option(fd, IPPROTO_IPV6, IPV6_RECVPKTINFO, 1);
    } else {
        sys::set_option(fd, IPPROTO_IP, IP_PKTINFO, 1);
    }
}

std::string pacing_of(int fd) {
    char name[16]{};
    socklen_t size = sizeof(name) - 1;
    if (sys::getsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, name, &size) != 0) return {};
    return std::string_view(name).starts_with("bbr") ? name : "";
}

void free_port_later(int fd) {
    sys::set_option(fd, SOL_SOCKET, SO_REUSEADDR, 1);
}

// Whichever the socket's family has no use for fails; one for both is asked for both.
void set_traffic_class(int fd, int value) {
    sys::set_option(fd, IPPROTO_IP, IP_TOS, value);
    sys::set_option(fd, IPPROTO_IPV6, IPV6_TCLASS, value);
}

void set_congestion_control(int fd, std::string_view name) {
    sys::setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, name.data(), static_cast<socklen_t>(name.size()));
}

int find_source(const Address& from, const Address& peer, Address& source) {
    const int fd = open_socket(peer.family(), SOCK_DGRAM, 0);
    if (fd < 0) return fd;
    int error = 0;
    if (!from.empty() && !from.is_any()) {
        Address start = from;
        start.set_port(0);
        error = sys::bind(fd, start.get(), start.size());
    }
    Address target = peer;
    if (target.port() == 0) target.set_port(9);  // the kernel refuses no port, but some sandboxes do
    if (error == 0) error = sys::connect(fd, target.get(), target.size());
    if (error == 0) {
        source = Address::local_of(fd);
        source.set_port(0);
    }
    sys::close(fd);
    return error;
}

}  // namespace swrnic::shim
