// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Queue pairs: creation, state, destruction. Connections come through the event file (events.cpp), not through
// modify_qp.
#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <memory>
#include <new>

#include "command.h"
#include "context.h"
#include "log.h"
#include "refusal.h"
#include "ud.h"
#include "verbs.h"

namespace swrnic::verbs {
namespace {

static_assert(static_cast<int>(engine::QpState::kReset) == IBV_QPS_RESET);
static_assert(static_cast<int>(engine::QpState::kInit) == IBV_QPS_INIT);
static_assert(static_cast<int>(engine::QpState::kRtr) == IBV_QPS_RTR);
static_assert(static_cast<int>(engine::QpState::kRts) == IBV_QPS_RTS);
static_assert(static_cast<int>(engine::QpState::kSqd) == IBV_QPS_SQD);
static_assert(static_cast<int>(engine::QpState::kSqe) == IBV_QPS_SQE);
static_assert(static_cast<int>(engine::QpState::kErr) == IBV_QPS_ERR);
static_assert(static_cast<int>(CrcMode::kAuto) == SWRNIC_CRC_AUTO && static_cast<int>(CrcMode::kOn) == SWRNIC_CRC_ON &&
              static_cast<int>(CrcMode::kOff) == SWRNIC_CRC_OFF);
static_assert(static_cast<int>(FpduMode::kAuto) == SWRNIC_FPDU_AUTO &&
              static_cast<int>(FpduMode::kEmss) == SWRNIC_FPDU_EMSS &&
              static_cast<int>(FpduMode::k64k) == SWRNIC_FPDU_64K);

constexpr unsigned kQpAccess = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;

// What is granted for what was asked, or an errno.
int grant(const ibv_device_attr& limits, ibv_qp_cap& cap) {
    const auto max_wr = static_cast<std::uint32_t>(limits.max_qp_wr);
    const auto max_sge = std::min(static_cast<std::uint32_t>(limits.max_sge), kMaxSge);
    if (cap.max_send_wr > max_wr || cap.max_recv_wr > max_wr) return EINVAL;
    if (cap.max_send_sge > max_sge || cap.max_recv_sge > max_sge) return EINVAL;
    if (cap.max_inline_data > kMaxInline) return EINVAL;
    cap.max_send_wr = std::max(cap.max_send_wr, 1u);
    cap.max_recv_wr = std::max(cap.max_recv_wr, 1u);
    cap.max_send_sge = std::max(cap.max_send_sge, 1u);
    cap.max_recv_sge = std::max(cap.max_recv_sge, 1u);
    cap.max_inline_data = std::max(cap.max_inline_data, kMinInline);
    return 0;
}

bool is_offered(ibv_qp_type type) {
    return type == IBV_QPT_RC || type == IBV_QPT_UC || type == IBV_QPT_UD;
}

// The objects of another context have handles that mean something else here.
int check_init_attr(const ibv_context& context, const ibv_qp_init_attr& attr) {
    if (!is_offered(attr.qp_type)) return EOPNOTSUPP;  // VERBS-46
    if (!attr.send_cq || !attr.recv_cq) return EINVAL;
    if (attr.send_cq->context != &context || attr.recv_cq->context != &context) return EINVAL;
    return attr.srq && attr.srq->context != &context ? EINVAL : 0;
}

// The device is shown as an adapter of InfiniBand, by SWRNIC_PERSONA.
bool shows_adapter(const ibv_pd& pd) {
    return pd.context->device->transport_type == IBV_TRANSPORT_IB;
}

// Of a QP that rdma_cm connects. An RNIC's requests are complete when they are sent, an adapter's when they are placed.
bool completes_when_placed(const ibv_pd& pd, CompletionMode mode) {
    return mode == CompletionMode::kPlaced || (mode == CompletionMode::kAuto && shows_adapter(pd));
}

int tell_shim(ibv_pd* pd, const ContextState& state, ibv_qp_init_attr& attr, bool confirms, ibv_qp* qp) {
    const Config& config = state.config();
    swrnic_create_qp_req driver{};
    driver.crc_mode = static_cast<std::uint8_t>(config.crc);
    driver.fpdu_mode = static_cast<std::uint8_t>(config.fpdu);
    driver.mpa_rev = config.mpa_rev;
    driver.rfc7306 = state.abi_version() >= 3 ? 1 : 0;
    driver.timeout_ms = static_cast<std::uint32_t>(config.timeout.count());
    driver.own_reads = confirms && state.abi_version() >= 4 ? 1 : 0;
    Request<ib_uverbs_create_qp, swrnic_create_qp_req> request(driver);
    Response<ib_uverbs_create_qp_resp> response;
    return abi::libibverbs.ibv_cmd_create_qp(pd, qp, &attr, request.data(), request.size(), response.core(),
                                             response.size());
}

// EADDRINUSE: the shim has made the QP, but its number is that of one that has not left us yet.
int create(ibv_pd* pd, ibv_qp_init_attr& attr, Qp& qp) {
    ContextState& state = to_state(pd->context);
    int error = check_init_attr(*pd->context, attr);
    if (error) return error;
    qp.cap = attr.cap;
    if (attr.srq) qp.cap.max_recv_wr = qp.cap.max_recv_sge = 0;  // ignored with an SRQ (ibv_create_qp(3))
    error = grant(state.limits(), qp.cap);
    if (error) return error;
    ibv_qp_init_attr granted = attr;
    granted.cap = qp.cap;
    const bool is_ud = attr.qp_type == IBV_QPT_UD;
    const bool confirms = attr.qp_type == IBV_QPT_RC && completes_when_placed(*pd, state.config().completion);
    // The socket of a UD QP comes behind the command, and is to find the QP.
    auto held = is_ud ? state.hold_control() : std::unique_lock<std::mutex>();
    error = tell_shim(pd, state, granted, confirms, &qp.base.qp);
    if (error) return error;
    if (state.statistics().has_qp(qp.base.qp.qp_num)) return EADDRINUSE;
    qp.sq_sig_all = attr.sq_sig_all != 0;
    qp.engine = &state.engine();
    const engine::QpInit init{.qpn = qp.base.qp.qp_num,
                              .pd = domain_of(*pd),
                              .send_cq = to_cq(attr.send_cq).impl,
                              .recv_cq = to_cq(attr.recv_cq).impl,
                              .max_send_wr = qp.cap.max_send_wr,
                              .max_recv_wr = qp.cap.max_recv_wr,
                              .max_send_sge = qp.cap.max_send_sge,
                              .max_recv_sge = qp.cap.max_recv_sge,
                              .max_inline = qp.cap.max_inline_data,
                              .sq_sig_all = qp.sq_sig_all,
                              .srq = attr.srq ? to_srq(attr.srq).impl : nullptr,
                              .counters = state.statistics().add_qp(qp.base.qp.qp_num),
                              .unreliable = attr.qp_type == IBV_QPT_UC,
                              .confirms = confirms,
                              .infiniband = shows_adapter(*pd)};
    if (is_ud) {
        qp.datagrams = qp.engine->create_datagram_qp(init);
        held.unlock();
        state.control_readable();
    } else {
        qp.impl = qp.engine->create_qp(init);
    }
    if (!qp.impl && !qp.datagrams) {
        state.statistics().remove_qp(qp.base.qp.qp_num);
        abi::libibverbs.ibv_cmd_destroy_qp(&qp.base.qp);
        return ENOMEM;
    }
    attr.cap = qp.cap;
    return 0;
}

int check_attr(const ibv_device_attr& limits, engine::QpState now, const ibv_qp_attr& attr, int mask) {
    if ((mask & IBV_QP_CUR_STATE) && static_cast<int>(attr.cur_qp_state) != static_cast<int>(now)) return EINVAL;
    if ((mask & IBV_QP_STATE) && (attr.qp_state < IBV_QPS_RESET || attr.qp_state > IBV_QPS_ERR)) return EINVAL;
    if ((mask & IBV_QP_PORT) && attr.port_num != 1) return EINVAL;
    if ((mask & IBV_QP_PKEY_INDEX) && attr.pkey_index != 0) return EINVAL;
    if ((mask & IBV_QP_MAX_QP_RD_ATOMIC) && attr.max_rd_atomic > limits.max_qp_init_rd_atom) return EINVAL;
    if ((mask & IBV_QP_MAX_DEST_RD_ATOMIC) && attr.max_dest_rd_atomic > limits.max_qp_rd_atom) return EINVAL;
    return 0;
}

// The kernel's rdma_cm brings the QP of an active iWARP side to INIT with access 0, before it has a connection that it
// could ask (cma.c rdma_init_qp_attr), so 0 with a change of state says nothing, and the regions decide. 0 by itself is
// meant. Nor does it know that an iWARP device may have atomics: what it grants to everybody leaves them out. A program
// that wires its QP itself means what it says (wire()).
unsigned access_of(const ibv_qp_attr& attr, int attr_mask) {
    constexpr unsigned kOfRdmaCm = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;
    const unsigned access = attr.qp_access_flags & kQpAccess;
    const bool says_nothing = access == 0 || access == kOfRdmaCm;
    return says_nothing && (attr_mask & IBV_QP_STATE) ? kQpAccess : access;
}

// rdma_disconnect() begins so, and may come as soon as rdma_accept() has returned: see posted().
bool changed(Qp& qp, engine::QpState to) {
    if (qp.engine->modify_state(*qp.impl, to)) return true;
    return to == engine::QpState::kSqd && to_state(qp.base.qp.context).control_readable() &&
           qp.engine->modify_state(*qp.impl, to);
}

// ---- wired by hand

// How long the requests of a UC QP wait for its stream, which its program takes to be there, before they are lost.
constexpr std::chrono::seconds kUnreliablePatience{1};

constexpr int kWiring = IBV_QP_AV | IBV_QP_DEST_QPN;

// What is set of a wired QP, kept for query_qp alone. What stands outside the mask is garbage in many programs.
void note_wiring(ibv_qp_attr& to, const ibv_qp_attr& from, int mask) {
    if (mask & IBV_QP_AV) to.ah_attr = from.ah_attr;
    if (mask & IBV_QP_DEST_QPN) to.dest_qp_num = from.dest_qp_num;
    if (mask & IBV_QP_PATH_MTU) to.path_mtu = from.path_mtu;
    if (mask & IBV_QP_RQ_PSN) to.rq_psn = from.rq_psn;
    if (mask & IBV_QP_SQ_PSN) to.sq_psn = from.sq_psn;
    if (mask & IBV_QP_TIMEOUT) to.timeout = from.timeout;
    if (mask & IBV_QP_RETRY_CNT) to.retry_cnt = from.retry_cnt;
    if (mask & IBV_QP_RNR_RETRY) to.rnr_retry = from.rnr_retry;
    if (mask & IBV_QP_MIN_RNR_TIMER) to.min_rnr_timer = from.min_rnr_timer;
}

// How long InfiniBand would wait for a peer that does not answer; 0: for ever. But a peer here is found by a TCP
// connection and the threads of two processes, which an adapter's shortest times do not allow for (UCX's own tests name
// half a millisecond); adapters, too, wait longer than the shortest times that can be named.
std::chrono::nanoseconds patience_of(const ibv_qp_attr& wiring) {
    constexpr std::chrono::nanoseconds kUnit{4096}, kShortest = std::chrono::milliseconds(250);
    if (wiring.timeout == 0) return {};
    return std::max(kUnit * (std::int64_t{1} << (wiring.timeout & 31)) * std::max<int>(wiring.retry_cnt, 1), kShortest);
}

// What InfiniBand's five bits of the RNR timer mean (IBA 9.7.5.2.8), in units of 10 us.
constexpr std::array<std::uint32_t, 32> kRnrTimer{65536, 1,    2,    3,    4,    6,     8,     12,    16,    24,   32,
                                                  48,    64,   96,   128,  192,  256,   384,   512,   768,   1024, 1536,
                                                  2048,  3072, 4096, 6144, 8192, 12288, 16384, 24576, 32768, 49152};

void note_rnr_timer(Qp& qp, const ibv_qp_attr& attr, int mask) {
    if (mask & IBV_QP_MIN_RNR_TIMER)
        qp.engine->set_rnr_timer(*qp.impl, std::chrono::microseconds(10) * kRnrTimer[attr.min_rnr_timer & 31]);
}

void note_rnr_retry(Qp& qp, const ibv_qp_attr& attr, int mask) {
    if (mask & IBV_QP_RNR_RETRY) qp.engine->set_rnr_retry(*qp.impl, attr.rnr_retry & 7);
}

int tell_shim(Qp& qp, ibv_qp_attr& attr, int mask) {
    Request<ib_uverbs_modify_qp> request;
    return abi::libibverbs.ibv_cmd_modify_qp(&qp.base.qp, &attr, mask, request.data(), request.size());
}

// RTR with the peer's address. The shim goes first: it knows what can be reached.
int wire(Qp& qp, ibv_qp_attr& attr, int mask) {
    const auto held = to_state(qp.base.qp.context).hold_control();
    if (qp.engine->query(*qp.impl).state != engine::QpState::kInit) return EINVAL;
    if (const int error = tell_shim(qp, attr, mask)) return error;
    qp.wiring = {};
    note_wiring(qp.wiring, attr, mask);
    note_rnr_retry(qp, attr, mask);
    qp.engine->set_access(*qp.impl, qp.access);
    const bool is_uc = qp.base.qp.qp_type == IBV_QPT_UC;
    const bool asks = to_state(qp.base.qp.context).config().completion != CompletionMode::kSent;
    qp.engine->wire(*qp.impl, asks && !is_uc);
    if (is_uc) qp.engine->set_retries(*qp.impl, kUnreliablePatience, false);
    return qp.engine->modify_state(*qp.impl, engine::QpState::kRtr) ? 0 : EINVAL;
}

// What follows RTR. The engine goes first, as it ends streams.
int change_wired(Qp& qp, ibv_qp_attr& attr, int mask) {
    const auto held = to_state(qp.base.qp.context).hold_control();
    note_wiring(qp.wiring, attr, mask);
    note_rnr_retry(qp, attr, mask);
    const bool is_uc = qp.base.qp.qp_type == IBV_QPT_UC;
    if (!is_uc && (mask & (IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_MAX_QP_RD_ATOMIC)))
        qp.engine->set_retries(*qp.impl, patience_of(qp.wiring), qp.ord != 0);
    if ((mask & IBV_QP_STATE) && !qp.engine->modify_state(*qp.impl, static_cast<engine::QpState>(attr.qp_state)))
        return EINVAL;
    return tell_shim(qp, attr, mask);
}

engine::QpAttributes attributes_of(Qp& qp) {
    if (!qp.datagrams) return qp.engine->query(*qp.impl);
    engine::QpAttributes attributes{};
    attributes.state = qp.engine->state_of(*qp.datagrams);
    return attributes;
}

[[gnu::cold]] void tell_of_modify(Qp& qp, const ibv_qp_attr& attr, int mask, engine::QpState now, int error) {
    const auto name = to_state(qp.base.qp.context).statistics().name_of(qp.base.qp.qp_num);
    const bool connects = !qp.datagrams && (mask & IBV_QP_STATE) != 0 && now < engine::QpState::kRts &&
                          (attr.qp_state == IBV_QPS_RTR || attr.qp_state == IBV_QPS_RTS);
    if (connects) {
        tell(
            Refusal::kConnectByHand,
            "{}: ibv_modify_qp refused ({}): RTR needs the peer's QP number and a GID that this host can reach, and an "
            "index of a GID of ours (`swrnic doctor` lists them); RTS comes behind it",
            name, std::strerror(error));
    } else {
        tell(Refusal::kOtherModify, "{}: ibv_modify_qp refused ({}): mask {:#x}, state {} to {}", name,
             std::strerror(error), mask, static_cast<int>(now), static_cast<int>(attr.qp_state));
    }
}

int change(Qp& qp, ibv_qp_attr& attr, int mask, bool wired) {
    const bool wires = (mask & IBV_QP_STATE) != 0 && attr.qp_state == IBV_QPS_RTR && (mask & kWiring) != 0;
    if (mask & IBV_QP_EN_SQD_ASYNC_NOTIFY) qp.engine->set_drain_notice(*qp.impl, attr.en_sqd_async_notify != 0);
    if (!wires && !wired && (mask & IBV_QP_STATE) && !changed(qp, static_cast<engine::QpState>(attr.qp_state)))
        return EINVAL;
    note_rnr_timer(qp, attr, mask);
    if (mask & IBV_QP_MAX_QP_RD_ATOMIC) qp.ord = attr.max_rd_atomic;
    if (mask & IBV_QP_MAX_DEST_RD_ATOMIC) qp.ird = attr.max_dest_rd_atomic;
    if (mask & IBV_QP_ACCESS_FLAGS) {
        qp.access = attr.qp_access_flags & kQpAccess;
        qp.engine->set_access(*qp.impl, wired ? qp.access.load() : access_of(attr, mask));
    }
    return wires ? wire(qp, attr, mask) : wired ? change_wired(qp, attr, mask) : tell_shim(qp, attr, mask);
}

}  // namespace

ibv_qp* create_qp(ibv_pd* pd, ibv_qp_init_attr* attr) noexcept {
    std::unique_ptr<Qp> qp(new (std::nothrow) Qp{});
    const int error = qp ? create(pd, *attr, *qp) : ENOMEM;
    // destroy_qp() in another thread gives the number back to the shim before the engine has let go of it. Our QP keeps
    // it while the next one is made.
    if (error == EADDRINUSE) {
        ibv_qp* const next = create_qp(pd, attr);
        abi::libibverbs.ibv_cmd_destroy_qp(&qp->base.qp);
        return next;
    }
    if (error) {
        if (error == EOPNOTSUPP) {
            tell(Refusal::kQpType,
                 "ibv_create_qp refused ({}): QP type {} is not offered; RC (2), UC (3) and UD (4) are (of an older "
                 "kernel module RC alone)",
                 std::strerror(error), static_cast<int>(attr->qp_type));
        } else {
            tell(Refusal::kQpSize,
                 "ibv_create_qp refused ({}): SQ {}x{}, RQ {}x{}, inline {}; `ibv_devinfo -v` shows the limits",
                 std::strerror(error), attr->cap.max_send_wr, attr->cap.max_send_sge, attr->cap.max_recv_wr,
                 attr->cap.max_recv_sge, attr->cap.max_inline_data);
        }
        errno = error;
        return nullptr;
    }
    return &qp.release()->base.qp;
}

// The engine decides (VERBS-20), the shim is told what happened. A mask without state, which librdmacm sends, changes
// none (VERBS-21).
int modify_qp(ibv_qp* ibqp, ibv_qp_attr* attr, int attr_mask) noexcept {
    Qp& qp = to_qp(ibqp);
    const engine::QpAttributes now = attributes_of(qp);
    int error = check_attr(to_state(ibqp->context).limits(), now.state, *attr, attr_mask);
    if (!error)
        error = qp.datagrams ? modify_datagram_qp(qp, *attr, attr_mask) : change(qp, *attr, attr_mask, now.wired);
    if (error) tell_of_modify(qp, *attr, attr_mask, now.state, error);
    return error;
}

// IRD and ORD are what was asked for until a stream has negotiated them. What InfiniBand has and iWARP has not is 0.
int query_qp(ibv_qp* ibqp, ibv_qp_attr* attr, int attr_mask, ibv_qp_init_attr* init_attr) noexcept {
    Qp& qp = to_qp(ibqp);
    const engine::QpAttributes now = attributes_of(qp);
    *attr = now.wired || qp.datagrams ? qp.wiring : ibv_qp_attr{};
    attr->qp_state = attr->cur_qp_state = static_cast<ibv_qp_state>(now.state);
    attr->qp_access_flags = now.access;
    const bool negotiated = now.negotiated && !now.wired;  // a wired QP's are what its program set
    const std::uint16_t ord = negotiated ? now.ord : qp.ord.load();
    const std::uint16_t ird = negotiated ? now.ird : qp.ird.load();
    attr->max_rd_atomic = static_cast<std::uint8_t>(std::min<std::uint16_t>(ord, 255));
    attr->max_dest_rd_atomic = static_cast<std::uint8_t>(std::min<std::uint16_t>(ird, 255));
    attr->sq_draining = now.draining ? 1 : 0;
    attr->port_num = 1;
    abi::PortAttributes port{};
    if (!now.wired && (attr_mask & IBV_QP_PATH_MTU) && query_port(ibqp->context, 1, &port.attr) == 0)
        attr->path_mtu = port.attr.active_mtu;
    attr->cap = qp.cap;
    *init_attr = ibv_qp_init_attr{};
    init_attr->qp_context = ibqp->qp_context;
    init_attr->send_cq = ibqp->send_cq;
    init_attr->recv_cq = ibqp->recv_cq;
    init_attr->srq = ibqp->srq;
    init_attr->cap = qp.cap;
    init_attr->qp_type = ibqp->qp_type;
    init_attr->sq_sig_all = qp.sq_sig_all;
    return 0;
}

// The command first: it waits for the acknowledgement of events, and until then the application may query the QP.
int destroy_qp(ibv_qp* ibqp) noexcept {
    Qp& qp = to_qp(ibqp);
    const int error = abi::libibverbs.ibv_cmd_destroy_qp(ibqp);
    if (error) return error;
    const std::uint32_t qpn = ibqp->qp_num;
    if (qp.datagrams) {
        qp.engine->destroy_qp(qp.datagrams);
    } else {
        qp.engine->destroy_qp(qp.impl);
    }
    to_state(ibqp->context).statistics().remove_qp(qpn);  // last: from now on another QP may have the number
    delete &qp;
    return 0;
}

}  // namespace swrnic::verbs
