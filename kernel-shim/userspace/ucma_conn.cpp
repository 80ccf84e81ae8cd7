// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Connections: connect, listen, accept, reject, disconnect, and what the stream's life means to the id.
#include <algorithm>

#include "device.h"
#include "device_limits.h"
#include "event_file.h"
#include "log.h"
#include "startup.h"
#include "state.h"
#include "ucma.h"
#include "ucma_datagrams.h"

namespace swrnic::shim {
namespace {

constexpr std::uint8_t kQpStateInit = 1, kQpStateRtr = 2;

// The QP of a connect or accept: any of this process's contexts may own it.
Qp* usable_qp(Locked& locked, std::uint32_t qpn) {
    const auto it = locked->qps.find(qpn);
    if (it == locked->qps.end()) return nullptr;
    Qp* qp = it->second;
    const bool idle = qp->stream == SWRNIC_STREAM_NONE && !qp->has_cm_id && qp->wired == nullptr;
    const bool prepared = qp->state == kQpStateInit || qp->state == kQpStateRtr;
    return qp->type == kQptRc && idle && prepared && qp->context->event_file(locked) != nullptr ? qp : nullptr;
}

std::shared_ptr<CmId> id_of(Locked& locked, const Qp& qp) {
    const auto it = qp.has_cm_id ? locked->cm_ids.find(qp.cm_id) : locked->cm_ids.end();
    return it == locked->cm_ids.end() ? nullptr : it->second;
}

void attach(CmId& id, Qp& qp) {
    id.qpn = qp.qpn;
    qp.cm_id = id.handle;
    qp.has_cm_id = true;
}

void detach(Locked& locked, CmId& id) {
    const auto it = locked->qps.find(id.qpn);
    if (id.qpn != 0 && it != locked->qps.end() && it->second->cm_id == id.handle) it->second->has_cm_id = false;
}

Startup::Terms terms_of(const Qp& qp, const rdma_ucm_conn_param& conn, bool same_host) {
    // iw_cm looks at no rnr_retry_count, and programs that are written for RNICs leave 0 there.
    const auto retries = static_cast<std::uint8_t>(std::min<int>(conn.rnr_retry_count, 7) + 1);
    return {swrnic_terms(&qp.startup, conn.responder_resources, conn.initiator_depth, same_host ? 1 : 0),
            {conn.private_data, conn.private_data_len},
            persona() == Persona::kRoce ? retries : std::uint8_t{0}};
}

// Why a connect was rejected: enum ib_cm_rej_reason, as rdma_reject(3) names them, or an errno from iw_cm.
int rejection(int error, bool by_program) {
    constexpr int kInvalidServiceId = 8, kConsumerDefined = 28;
    if (persona() != Persona::kRoce) return error;
    return by_program ? kConsumerDefined : kInvalidServiceId;
}

// Raises the events that belong to the failure, unless what becomes of the id was decided before.
void connect_failed(Locked& locked, CmId& id, int error, const rdma_ucm_conn_param* conn = nullptr) {
    const bool passive = id.state == CmState::kAccepting;
    if (id.state != CmState::kConnecting && !passive) return;
    id.state = CmState::kOver;
    id.startup = 0;
    detach(locked, id);
    if (passive) {
        // What was accepted is established, whatever happens to it: so iw_cm tells it, and so servers expect it.
        cm_post(locked, id, CmEventType::kEstablished, 0, &id.outcome);
        cm_post_disconnected(locked, id);
        return;
    }
    const CmEventType type = error == -ECONNREFUSED || error == -ECONNRESET ? CmEventType::kRejected
                             : error == -ETIMEDOUT                          ? CmEventType::kUnreachable
                                                                            : CmEventType::kConnectError;
    cm_post(locked, id, type, type == CmEventType::kRejected ? rejection(error, conn != nullptr) : error, conn);
}

// What InfiniBand's messages hold of a program's private data: of the 92 octets of a REQ rdma_cm takes 36.
constexpr std::size_t kReqPrivate = 56, kRepPrivate = 196, kRejPrivate = 148;

bool too_long(std::size_t length, std::size_t held) {
    return persona() == Persona::kRoce && length > held;
}

}  // namespace

// ---- commands ----

int UcmaFile::connect(Locked& locked, UcmaRequest& request) {
    rdma_ucm_connect command;
    int error = 0;
    if (!request.take(command, offsetof(rdma_ucm_connect, ece))) return -EINVAL;
    const auto id = find(locked, command.id, error);
    if (id == nullptr) return error;
    if (command.conn_param.valid == 0 || id->state != CmState::kRouteResolved) return -EINVAL;
    if (id->is_for_datagrams()) return cm_ask(locked, id, command.conn_param);
    if (too_long(command.conn_param.private_data_len, kReqPrivate)) return -EINVAL;
    Qp* qp = usable_qp(locked, command.conn_param.qp_num);
    if (qp == nullptr && persona() != Persona::kRoce) return -EINVAL;
    Startup* startup = Startup::get(locked);
    if (startup == nullptr) return -ENOMEM;
    if (id->socket < 0) id->socket = cm_make_socket(locked, *id, {}, PortMay::kNot);
    if (id->socket < 0) return id->socket;
    if (qp == nullptr) return connect_control(locked, id, command.conn_param);
    id->state = CmState::kConnecting;
    id->asked = command.conn_param;
    attach(*id, *qp);
    // The source was found when the address was resolved, so both ends are known before TCP connects.
    error = startup->connect(locked, id, id->socket, {id->local, id->peer}, qp,
                             terms_of(*qp, command.conn_param, on_same_host(id->local, id->peer)), id->startup);
    if (error != 0) {
        detach(locked, *id);
        id->state = CmState::kRouteResolved;
        return error;
    }
    id->socket = -1;
    return 0;
}

int UcmaFile::listen(Locked& locked, UcmaRequest& request) {
    rdma_ucm_listen command;
    int error = 0;
    if (!request.take(command)) return -EINVAL;
    const auto id = find(locked, command.id, error);
    if (id == nullptr) return error;
    if (!id->is_for_connections() && !id->is_for_datagrams()) {
        log(LogLevel::kWarn, "rdma_listen refused: IPoIB is not offered, and no request would ever come");
        return -EOPNOTSUPP;
    }
    if (id->state == CmState::kIdle) {
        const Address any = Address::any(AF_INET);
        error = bind_to(locked, command.id, any.get(), any.size());
        if (error != 0) return error;
    }
    if (id->state == CmState::kBound && id->is_for_datagrams() && id->socket < 0 && !id->local.empty()) {
        const int fd = cm_make_socket(locked, *id, id->local, PortMay::kNot);
        if (fd < 0) return fd;
        id->socket = fd;
    }
    if (id->state != CmState::kBound || id->socket < 0) return -EINVAL;
    Startup* startup = Startup::get(locked);
    if (startup == nullptr) return -ENOMEM;
    const bool sane = command.backlog > 0 && command.backlog < static_cast<std::uint32_t>(kMaxBacklog);
    id->backlog = sane ? static_cast<int>(command.backlog) : kMaxBacklog;
    error = id->is_for_datagrams() ? SidrListener::begin(locked, id)
                                   : startup->listen(locked, id, id->socket, SWR_TCP_BACKLOG, id->startup);
    if (error != 0) return error;
    id->socket = -1;
    id->state = CmState::kListening;
    return 0;
}

int UcmaFile::accept(Locked& locked, UcmaRequest& request) {
    rdma_ucm_accept command;
    int error = 0;
    if (!request.take(command, offsetof(rdma_ucm_accept, ece))) return -EINVAL;
    const auto id = find(locked, command.id, error);
    if (id == nullptr) return error;
    if (command.conn_param.valid == 0) return id->is_for_datagrams() ? -EINVAL : establish(locked, *id);
    if (id->state != CmState::kRequested) return -EINVAL;
    if (id->is_for_datagrams()) {
        error = cm_answer(*id, command.conn_param);
        if (error == 0) id->uid = command.uid;
        return error;
    }
    if (too_long(command.conn_param.private_data_len, kRepPrivate)) return -EINVAL;
    Startup* startup = Startup::get(locked);
    if (id->is_control && startup != nullptr) {
        id->uid = command.uid;
        return accept_control(locked, *id, command.conn_param);
    }
    Qp* qp = usable_qp(locked, command.conn_param.qp_num);
    if (qp == nullptr || startup == nullptr) return -EINVAL;
    id->uid = command.uid;
    id->state = CmState::kAccepting;
    id->asked = command.conn_param;
    attach(*id, *qp);
    error =
        startup->accept(locked, id->startup, qp, terms_of(*qp, command.conn_param, startup->same_host(id->startup)));
    if (error != 0) {
        detach(locked, *id);
        id->uid = 0;
        id->state = error == -EINVAL ? CmState::kRequested : CmState::kOver;
    }
    return error;
}

int UcmaFile::reject(Locked& locked, UcmaRequest& request) {
    rdma_ucm_reject command;
    int error = 0;
    if (!request.take(command)) return -EINVAL;
    const auto id = find(locked, command.id, error);
    if (id == nullptr) return error;
    if (id->state == CmState::kResponded) return reject_control(locked, *id);
    if (id->state != CmState::kRequested) return -EINVAL;
    if (id->is_for_datagrams()) return cm_refuse(*id, {command.private_data, command.private_data_len});
    if (too_long(command.private_data_len, kRejPrivate)) return -EINVAL;
    Startup* startup = Startup::get(locked);
    if (startup == nullptr) return -ENOMEM;
    id->state = CmState::kOver;
    return startup->reject(locked, std::exchange(id->startup, 0), {command.private_data, command.private_data_len});
}

int UcmaFile::disconnect(Locked& locked, UcmaRequest& request) {
    rdma_ucm_disconnect command;
    int error = 0;
    if (!request.take(command)) return -EINVAL;
    const auto id = find(locked, command.id, error);
    if (id == nullptr) return error;
    if (id->is_for_datagrams()) return id->state == CmState::kEstablished ? 0 : -EINVAL;  // there is nothing to end
    if (id->is_control) return disconnect_control(locked, *id);
    switch (id->state) {
        case CmState::kEstablished:
            id->state = CmState::kDisconnecting;
            cm_order_disconnect(locked, *id);
            return 0;
        case CmState::kAccepting:  // iw_cm waits for the end of the accept
            if (!std::exchange(id->disconnects, true)) cm_order_disconnect(locked, *id);
            return 0;
        case CmState::kRequested:
        case CmState::kDisconnecting:
        case CmState::kOver:
            return 0;  // the peer was first, or there is nothing to end: iw_cm does not complain
        default:
            return -EINVAL;
    }
}

// ---- what startup tells ----

int CmId::new_socket(Locked& locked, const Address& from) {
    return cm_make_socket(locked, *this, from, PortMay::kNot);
}

std::shared_ptr<StartupOwner> CmId::request(Locked& locked, const Request& request) {
    PrivateData said = request.said;
    const std::optional<ControlHello> hello = ControlHello::take(said);
    if (hello && persona() != Persona::kRoce) {
        log(LogLevel::kWarn, "listener id {}: {} connects without a stream, as in SWRNIC_PERSONA=roce: refused", handle,
            request.peer);
        return nullptr;
    }
    if (backlog <= 0 || said.size() > SWR_MAX_PRIVATE) {  // refused in the open rather than cut short
        log(LogLevel::kInfo, "listener id {}: connection from {} refused: {}", handle, request.peer,
            backlog <= 0 ? "backlog full" : "private data too long");
        return nullptr;
    }
    --backlog;
    auto child = make_cm_id(locked, *file);
    child->state = CmState::kRequested;
    child->port_space = port_space;
    child->local = request.local;
    child->peer = request.peer;
    child->on_device = true;
    child->startup = request.key;
    child->is_control = hello.has_value();
    child->peer_hello = hello;

    // VERBS-51: what the peer may have outstanding we must hold, and the reverse; without revision 2 the maxima are
    // shown.
    const bool enhanced = request.asked.enhanced != 0;
    rdma_ucm_conn_param conn = cm_param_of(said, CmEventType::kConnectRequest);
    conn.responder_resources = swrnic_shown_depth(enhanced ? request.asked.ord : std::uint16_t{SWR_MAX_READS});
    conn.initiator_depth = swrnic_shown_depth(enhanced ? request.asked.ird : std::uint16_t{SWR_MAX_READS});
    if (hello) hello->show(conn);
    log(LogLevel::kInfo, "listener id {}: request from {}, revision {}", handle, request.peer, request.asked.rev);
    file->post(locked,
               CmEvent{locked->cm_ids.at(handle), child, uid, child->handle, CmEventType::kConnectRequest, 0, conn});
    return child;
}

void CmId::full_operation(Locked& locked, const swrnic_connected& agreed, PrivateData said, bool terminated) {
    if (disconnects) cm_order_disconnect(locked, *this);
    if (terminated) return;
    outcome =
        agreed.role == SWRNIC_ROLE_INITIATOR ? cm_param_of(said, CmEventType::kEstablished) : rdma_ucm_conn_param{};
    outcome.valid = 1;
    // Not what the provider has for itself (swrnic_create_qp_req.own_reads).
    outcome.responder_resources = std::min(swrnic_shown_depth(agreed.ird), asked.responder_resources);
    outcome.initiator_depth = std::min(swrnic_shown_depth(agreed.ord), asked.initiator_depth);
    outcome.qp_num = qpn;
}

void CmId::failed(Locked& locked, int error, PrivateData said) {
    if (state == CmState::kRequested) {
        startup = 0;  // nothing may be told before ACCEPT, which then fails with ECONNRESET
        return;
    }
    if (error == -ECONNREFUSED && said.data() == nullptr && calls_again(locked)) return;
    const rdma_ucm_conn_param conn = cm_param_of(said, CmEventType::kRejected);
    connect_failed(locked, *this, error, said.data() != nullptr ? &conn : nullptr);
}

// An adapter's acknowledgement reaches a server before its client can do anything else, and perftest's listens anew
// when its last message is acknowledged. Here the client may be first, so it comes again for a quarter of a second.
bool CmId::calls_again(Locked& locked) {
    constexpr unsigned kMost = 7;
    if (persona() != Persona::kRoce || is_control || state != CmState::kConnecting || refusals == kMost) return false;
    startup = locked->startup->call_later(locked, locked->cm_ids.at(handle), 2u << refusals++);
    return true;
}

// What two timers of an id come to, of which there is one at a time: the end of time-wait, and the next call.
void CmId::try_again(Locked& locked) {
    startup = 0;
    if (state == CmState::kOver) return cm_post(locked, *this, CmEventType::kTimewaitExit);
    const auto qp = locked->qps.find(qpn);
    if (qp == locked->qps.end()) return connect_failed(locked, *this, -ECONNABORTED);
    Address source = local;
    source.set_port(0);
    const int fd = new_socket(locked, source);
    if (fd < 0) return connect_failed(locked, *this, fd);
    local = Address::local_of(fd);
    const int error = locked->startup->connect(locked, locked->cm_ids.at(handle), fd, {local, peer}, qp->second,
                                               terms_of(*qp->second, asked, on_same_host(local, peer)), startup);
    if (error == 0) return;
    sys::close(fd);
    connect_failed(locked, *this, error);
}

// ---- outcomes ----

rdma_ucm_conn_param cm_param_of(PrivateData said, CmEventType type) {
    rdma_ucm_conn_param conn{};
    const std::size_t length = std::min<std::size_t>(said.size(), SWR_MAX_PRIVATE);
    if (length > 0) std::memcpy(conn.private_data, said.data(), length);
    const std::size_t held = type == CmEventType::kConnectRequest ? kReqPrivate
                             : type == CmEventType::kRejected     ? kRejPrivate
                                                                  : kRepPrivate;
    conn.private_data_len = static_cast<std::uint8_t>(persona() == Persona::kRoce ? std::max(length, held) : length);
    conn.valid = 1;
    return conn;
}

void cm_post_disconnected(Locked& locked, CmId& id) {
    constexpr std::uint32_t kTimewaitMs = 1000;
    cm_post(locked, id, CmEventType::kDisconnected);
    const auto it = locked->cm_ids.find(id.handle);
    if (persona() == Persona::kRoce && it != locked->cm_ids.end() && locked->startup != nullptr)
        id.startup = locked->startup->call_later(locked, it->second, kTimewaitMs);
}

void cm_order_disconnect(Locked& locked, CmId& id) {
    const auto it = locked->qps.find(id.qpn);
    if (it == locked->qps.end() || it->second->stream == SWRNIC_STREAM_NONE) return;
    if (EventFile* file = it->second->context->event_file(locked))
        file->order(locked, id.qpn, SWRNIC_DOWN_QP_DISCONNECT);
}

void cm_stop(Locked& locked, CmId& id) {
    const CmState was = std::exchange(id.state, CmState::kOver);
    Startup* startup = locked->startup;
    if (was == CmState::kRequested && startup != nullptr) {
        startup->reject(locked, id.startup, {});  // destroying a request refuses it
    } else if (id.startup != 0 && startup != nullptr) {
        startup->cancel(locked, id.startup);
    }
    id.startup = 0;
    id.close_socket();
    const auto it = locked->qps.find(id.qpn);
    if (id.qpn == 0 || it == locked->qps.end()) return;
    detach(locked, id);
    const bool live = was == CmState::kConnecting || was == CmState::kAccepting || was == CmState::kEstablished;
    if (live && it->second->stream != SWRNIC_STREAM_NONE) order_error(locked, *it->second);  // abrupt, as iw_cm does it
}

void cm_stream_ready(Locked& locked, Qp& qp) {
    const auto id = id_of(locked, qp);
    if (id == nullptr || (id->state != CmState::kConnecting && id->state != CmState::kAccepting)) return;
    if (locked->startup != nullptr) locked->startup->ready(locked, id->startup);
    id->startup = 0;
    id->state = CmState::kEstablished;
    cm_post(locked, *id, CmEventType::kEstablished, 0, &id->outcome);
}

void cm_stream_closed(Locked& locked, Qp& qp, bool was_ready) {
    const auto id = id_of(locked, qp);
    if (id == nullptr) return;
    if (!was_ready) {
        if (locked->startup != nullptr && id->startup != 0) locked->startup->cancel(locked, id->startup);
        connect_failed(locked, *id, -ECONNRESET);
        return;
    }
    if (id->state != CmState::kEstablished && id->state != CmState::kDisconnecting) return;
    id->state = CmState::kOver;
    detach(locked, *id);
    cm_post_disconnected(locked, *id);
}

void cm_abort_startup(Locked& locked, Qp& qp, int error) {
    const auto id = id_of(locked, qp);
    if (id == nullptr || qp.stream != SWRNIC_STREAM_NONE) return;  // a live stream is the engine's to end
    if (id->state != CmState::kConnecting && id->state != CmState::kAccepting) return;
    if (locked->startup != nullptr && id->startup != 0) locked->startup->cancel(locked, id->startup);
    connect_failed(locked, *id, error);
}

void cm_qp_gone(Locked& locked, Qp& qp) {
    const bool was_ready = std::exchange(qp.stream, SWRNIC_STREAM_NONE) == SWRNIC_STREAM_READY;
    cm_stream_closed(locked, qp, was_ready);
}

}  // namespace swrnic::shim
