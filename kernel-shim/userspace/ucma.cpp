// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// The write() side of rdma_cm: framing, dispatch, ids and events.
#include "ucma.h"

#include <algorithm>

#include "log.h"
#include "startup.h"
#include "state.h"
#include "sysfs.h"
#include "ucma_datagrams.h"

namespace swrnic::shim {

void CmId::close_socket() {
    if (socket >= 0) sys::close(socket);
    socket = -1;
}

ssize_t UcmaFile::write(int fd, const void* buffer, std::size_t size) {
    rdma_ucm_cmd_hdr header;
    if (size < sizeof(header)) return -EINVAL;
    if (!readable(buffer, sizeof(header))) return -EFAULT;
    std::memcpy(&header, buffer, sizeof(header));
    if (header.in + sizeof(header) > size) return -EINVAL;
    if (!readable(buffer, header.in + sizeof(header), sizeof(header))) return -EFAULT;
    UcmaRequest request;
    request.in = {static_cast<const std::uint8_t*>(buffer) + sizeof(header), header.in};
    request.out = header.out;
    int error = 0;
    if (header.cmd == RDMA_USER_CM_CMD_GET_EVENT) {
        error = get_event(fd, request);
    } else {
        Locked locked;
        if (any_fd() < 0) return -EBADF;  // another thread was faster with the close
        error = dispatch(locked, header.cmd, request);
        if (error != 0) log(LogLevel::kDebug, "rdma_cm command {}: error {}", header.cmd, -error);
    }
    return error == 0 ? static_cast<ssize_t>(size) : error;
}

int UcmaFile::dispatch(Locked& locked, std::uint32_t command, UcmaRequest& request) {
    switch (command) {
        case RDMA_USER_CM_CMD_CREATE_ID:
            return create_id(locked, request);
        case RDMA_USER_CM_CMD_DESTROY_ID:
            return destroy_id(locked, request);
        case RDMA_USER_CM_CMD_BIND_IP:
            return bind_ip(locked, request);
        case RDMA_USER_CM_CMD_RESOLVE_IP:
            return resolve_ip(locked, request);
        case RDMA_USER_CM_CMD_RESOLVE_ROUTE:
            return resolve_route(locked, request);
        case RDMA_USER_CM_CMD_QUERY_ROUTE:
            return query_route(locked, request);
        case RDMA_USER_CM_CMD_CONNECT:
            return connect(locked, request);
        case RDMA_USER_CM_CMD_LISTEN:
            return listen(locked, request);
        case RDMA_USER_CM_CMD_ACCEPT:
            return accept(locked, request);
        case RDMA_USER_CM_CMD_REJECT:
            return reject(locked, request);
        case RDMA_USER_CM_CMD_DISCONNECT:
            return disconnect(locked, request);
        case RDMA_USER_CM_CMD_INIT_QP_ATTR:
            return init_qp_attr(locked, request);
        case RDMA_USER_CM_CMD_GET_OPTION:
            return -ENOSYS;
        case RDMA_USER_CM_CMD_SET_OPTION:
            return set_option(locked, request);
        case RDMA_USER_CM_CMD_NOTIFY:
            return notify(locked, request);
        case RDMA_USER_CM_CMD_JOIN_IP_MCAST:
            return join_ip_mcast(locked, request);
        case RDMA_USER_CM_CMD_LEAVE_MCAST:
            return leave_mcast(locked, request);
        case RDMA_USER_CM_CMD_JOIN_MCAST:
            return join_mcast(locked, request);
        case RDMA_USER_CM_CMD_MIGRATE_ID:
            return migrate_id(locked, request);
        case RDMA_USER_CM_CMD_QUERY:
            return query(locked, request);
        case RDMA_USER_CM_CMD_BIND:
            return bind(locked, request);
        case RDMA_USER_CM_CMD_RESOLVE_ADDR:
            return resolve_addr(locked, request);
        default:
            return -EINVAL;
    }
}

bool UcmaFile::fake_stat(struct stat& out) const {
    fill_stat("/dev/infiniband/rdma_cm", Node{Node::Kind::kRdmaCm, {}, 0}, out);
    return true;
}

std::shared_ptr<CmId> UcmaFile::find(Locked& locked, std::uint32_t handle, int& error) {
    const auto it = locked->cm_ids.find(handle);
    error = it == locked->cm_ids.end() ? -ENOENT : it->second->file != this ? -EINVAL : 0;
    return error == 0 ? it->second : nullptr;
}

// ---- ids ----

std::shared_ptr<CmId> make_cm_id(Locked& locked, UcmaFile& file) {
    auto id = std::make_shared<CmId>();
    do {
        id->handle = locked->next_cm_id++;
    } while (locked->cm_ids.contains(id->handle));
    id->file = &file;
    locked->cm_ids.emplace(id->handle, id);
    return id;
}

int UcmaFile::create_id(Locked& locked, UcmaRequest& request) {
    rdma_ucm_create_id command;
    if (!request.take(command)) return -EINVAL;
    rdma_ucm_create_id_resp made{};
    if (const int error = request.room(sizeof(made)); error != 0) return error;
    // Nothing comes of IPoIB here; the id is made all the same, since some only resolve addresses by it.
    const auto id = make_cm_id(locked, *this);
    id->uid = command.uid;
    id->port_space = command.ps;
    made.id = id->handle;
    request.reply(made);
    return 0;
}

void UcmaFile::destroy(Locked& locked, const std::shared_ptr<CmId>& id) {
    cm_stop_datagrams(locked, *id);
    cm_stop(locked, *id);
    std::vector<std::shared_ptr<CmId>> orphans;  // children that nobody has heard of yet
    remove_if(locked, [&](const CmEvent& event) {
        if (event.id != id && event.child != id) return false;
        if (event.child != nullptr && event.child != id) orphans.push_back(event.child);
        return true;
    });
    locked->cm_ids.erase(id->handle);
    for (const auto& orphan : orphans)
        destroy(locked, orphan);
}

int UcmaFile::destroy_id(Locked& locked, UcmaRequest& request) {
    rdma_ucm_destroy_id command;
    int error = 0;
    if (!request.take(command)) return -EINVAL;
    rdma_ucm_destroy_id_resp counts{};
    if (error = request.room(sizeof(counts)); error != 0) return error;
    const auto id = find(locked, command.id, error);
    if (id == nullptr) return error;
    destroy(locked, id);
    counts.events_reported = id->events_reported;
    request.reply(counts);
    return 0;
}

void UcmaFile::closed(Locked& locked) {
    std::vector<std::shared_ptr<CmId>> mine;
    for (const auto& [handle, id] : locked->cm_ids) {
        if (id->file == this) mine.push_back(id);
    }
    for (const auto& id : mine) {
        if (locked->cm_ids.contains(id->handle)) destroy(locked, id);
    }
    shut(locked);
}

int UcmaFile::set_option(Locked& locked, UcmaRequest& request) {
    rdma_ucm_set_option command;
    int error = 0;
    if (!request.take(command)) return -EINVAL;
    const auto id = find(locked, command.id, error);
    if (id == nullptr) return error;
    if (command.level != RDMA_OPTION_ID || command.optval == 0) return -EINVAL;
    const auto* bytes = reinterpret_cast<const std::uint8_t*>(command.optval);
    std::uint32_t value = 0;
    const bool octet = command.optname == RDMA_OPTION_ID_TOS || command.optname == RDMA_OPTION_ID_ACK_TIMEOUT;
    const std::size_t size = octet ? 1 : sizeof(value);
    if (command.optlen != size) return -EINVAL;
    if (!readable(bytes, size)) return -EFAULT;
    std::memcpy(&value, bytes, size);
    switch (command.optname) {
        case RDMA_OPTION_ID_TOS:
            id->tos = static_cast<std::uint8_t>(value);
            id->has_tos = true;
            if (id->socket >= 0) cm_set_tos(*id, id->socket);
            return 0;
        case RDMA_OPTION_ID_REUSEADDR:
            if (id->state != CmState::kIdle && (value == 0 || id->state == CmState::kListening)) return -EINVAL;
            // Two datagram sockets at one port would share what comes, whichever of them listens.
            id->reuse_address = value != 0 && !id->is_for_datagrams();
            if (id->socket >= 0) cm_share_port(*id, id->socket);
            return 0;
        case RDMA_OPTION_ID_AFONLY:
            if (id->state != CmState::kIdle && id->state != CmState::kBound) return -EINVAL;
            return set_af_only(locked, *id, value != 0);
        case RDMA_OPTION_ID_ACK_TIMEOUT:
            return 0;  // InfiniBand's; TCP has its own
        default:
            return -ENOSYS;
    }
}

// Linux takes the option before a bind alone, so a bound socket changes places with another at its port.
int UcmaFile::set_af_only(Locked& locked, CmId& id, bool af_only) {
    const bool was = std::exchange(id.af_only, af_only);
    if (id.socket < 0 || id.local.family() != AF_INET6 || was == af_only) return 0;
    const bool shared = std::exchange(id.reuse_address, true);
    cm_share_port(id, id.socket);
    const int fd = cm_make_socket(locked, id, id.local, PortMay::kLinger);
    id.reuse_address = shared;
    if (fd < 0) {
        id.af_only = was;
    } else {
        sys::close(std::exchange(id.socket, fd));
    }
    cm_share_port(id, id.socket);
    return fd < 0 ? fd : 0;
}

int UcmaFile::notify(Locked& locked, UcmaRequest& request) {
    rdma_ucm_notify command;
    int error = 0;
    if (!request.take(command)) return -EINVAL;
    const auto id = find(locked, command.id, error);
    if (id == nullptr) return error;
    return id->on_device ? 0 : -EINVAL;  // of no use to iWARP, and harmless
}

// Written to the new file; names the old one by descriptor.
int UcmaFile::migrate_id(Locked& locked, UcmaRequest& request) {
    rdma_ucm_migrate_id command;
    int error = 0;
    if (!request.take(command)) return -EINVAL;
    rdma_ucm_migrate_resp counts{};
    if (error = request.room(sizeof(counts)); error != 0) return error;
    const auto old = std::dynamic_pointer_cast<UcmaFile>(locked->fds.find(locked, static_cast<int>(command.fd)));
    if (old == nullptr) return -ENOENT;
    const auto id = old->find(locked, command.id, error);
    if (id == nullptr) return error;
    if (old.get() != this) {
        std::vector<CmEvent> moved;
        old->remove_if(locked, [&](const CmEvent& event) {
            if (event.id != id) return false;
            moved.push_back(event);
            return true;
        });
        id->file = this;
        for (CmEvent& event : moved) {
            if (event.child != nullptr) event.child->file = this;
            push(locked, std::move(event));
        }
    }
    counts.events_reported = id->events_reported;
    request.reply(counts);
    return 0;
}

// ---- events ----

namespace {

const char* event_name(CmEventType type) {
    switch (type) {
        case CmEventType::kAddrResolved:
            return "ADDR_RESOLVED";
        case CmEventType::kAddrError:
            return "ADDR_ERROR";
        case CmEventType::kRouteResolved:
            return "ROUTE_RESOLVED";
        case CmEventType::kConnectRequest:
            return "CONNECT_REQUEST";
        case CmEventType::kConnectResponse:
            return "CONNECT_RESPONSE";
        case CmEventType::kConnectError:
            return "CONNECT_ERROR";
        case CmEventType::kUnreachable:
            return "UNREACHABLE";
        case CmEventType::kRejected:
            return "REJECTED";
        case CmEventType::kEstablished:
            return "ESTABLISHED";
        case CmEventType::kDisconnected:
            return "DISCONNECTED";
        case CmEventType::kMulticastJoin:
            return "MULTICAST_JOIN";
        case CmEventType::kTimewaitExit:
            return "TIMEWAIT_EXIT";
    }
    return "?";
}

}  // namespace

void cm_post(Locked& locked, CmId& id, CmEventType type, int status, const rdma_ucm_conn_param* conn) {
    const auto it = locked->cm_ids.find(id.handle);
    if (it == locked->cm_ids.end()) return;
    CmEvent event{it->second, nullptr, id.uid, id.handle, type, status, {}};
    if (conn != nullptr) event.conn = *conn;
    log(LogLevel::kInfo, "rdma_cm id {} qp {:#x} peer {}: {} {}", id.handle, id.qpn, id.peer, event_name(type), status);
    id.file->post(locked, std::move(event));
}

void cm_post(Locked& locked, CmId& id, CmEventType type, int status, const rdma_ucm_ud_param& ud) {
    const auto it = locked->cm_ids.find(id.handle);
    if (it == locked->cm_ids.end()) return;
    log(LogLevel::kInfo, "rdma_cm id {} peer {}: {} {}", id.handle, id.peer, event_name(type), status);
    id.file->post(locked, CmEvent{it->second, nullptr, id.uid, id.handle, type, status, {}, ud});
}

int UcmaFile::get_event(int fd, UcmaRequest& request) {
    rdma_ucm_get_event command;
    if (!request.take(command)) return -EINVAL;
    constexpr std::size_t kMinimum = offsetof(rdma_ucm_event_resp, reserved);
    if (request.out < kMinimum) return -ENOSPC;
    const long result = take_from_queue(fd, [&](Locked&) -> long {
        if (const int error = request.room(kMinimum, sizeof(rdma_ucm_event_resp)); error != 0)
            return error;  // it stays
        const CmEvent event = std::move(queue_.front());
        queue_.pop_front();
        ++event.id->events_reported;
        if (event.child != nullptr) ++event.id->backlog;
        rdma_ucm_event_resp out{};
        out.uid = event.uid;
        out.id = event.handle;
        out.event = static_cast<std::uint32_t>(event.type);
        out.status = static_cast<std::uint32_t>(event.status);
        if (event.group != nullptr) ++event.group->events_reported;
        if (event.ud) {
            out.param.ud = *event.ud;
        } else {
            out.param.conn = event.conn;
        }
        request.reply(out);
        return 0;
    });
    if (result != -EIO) return static_cast<int>(result);
    // The channel was closed under us. In the kernel such a call sleeps on, since it holds the open file; rping counts
    // on it: its event thread ends the process with a failure on any error. The descriptor's number may be another's
    // now.
    ::pause();
    return -EINTR;
}

}  // namespace swrnic::shim
