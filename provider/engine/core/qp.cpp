// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "engine/core/qp.h"

#include <new>
#include <utility>

namespace swrnic::engine {

Qp::Qp(const QpInit& init, MemoryTable& memory, RandomSource& random)
    : init_(init),
      own_counters_(init.counters == nullptr ? std::make_unique<Counters>() : nullptr),
      counters_(init.counters == nullptr ? *own_counters_ : *init.counters),
      confirms_(init.confirms),
      status_(counters_, init.infiniband),
      sq_(init, reads_, status_),
      receive_completions_(*init.recv_cq),
      tx_(init.pd, init.qpn, memory, random, counters_, status_, stream_, sq_, reads_, receive_completions_),
      rq_(init, memory),
      reads_(init.pd, init.qpn, memory, status_),
      rx_(init.pd, init.qpn, memory, counters_, status_, stream_, sq_, rq_, reads_, receive_completions_) {
    stream_.unreliable = init.unreliable;
}

// ---- posting ----

PostResult Qp::check(const SendWr& wr) const {
    // docs/spec/verbs.md section 6: not before the stream is there; at its end and after it what is posted is flushed.
    if (state() < QpState::kRts && !(state() == QpState::kRtr && is_wired())) return PostResult::kBadState;
    if (!is_plain(wr.opcode)) {
        if (const PostResult checked = check_other(wr); checked != PostResult::kOk) return checked;
    }
    if (wr.sges.size() > init_.max_send_sge) return PostResult::kInvalid;
    const bool is_inline = (wr.flags & send_flag::kInline) != 0;
    const std::uint64_t length = total_length(wr.sges);
    if (length > kMaxMessage || (is_inline && length > init_.max_inline)) return PostResult::kInvalid;
    return PostResult::kOk;
}

PostResult Qp::check_other(const SendWr& wr) const {
    const bool is_inline = (wr.flags & send_flag::kInline) != 0;
    if (is_local(wr.opcode)) return is_inline || !wr.sges.empty() ? PostResult::kInvalid : PostResult::kOk;
    const bool may_read = may_read_.load(std::memory_order_relaxed);
    if (awaits_response(wr.opcode) && (is_inline || !may_read)) return PostResult::kInvalid;  // RDMAP-68
    const bool fits = wr.sges.size() == 1 && wr.sges[0].length == sizeof(std::uint64_t);
    if (is_atomic(wr.opcode) && !fits) return PostResult::kInvalid;
    // Before there is a stream nobody knows: then it fails when there is one.
    const bool refused = needs_rfc7306(wr.opcode) && negotiated() && !stream_.parameters.rfc7306;
    return refused ? PostResult::kNotAgreed : PostResult::kOk;
}

PostResult Qp::post_send(const SendWr& wr) {
    if (const PostResult checked = check(wr); checked != PostResult::kOk) return checked;
    return sq_.post(wr);
}

PostResult Qp::post_sends(std::span<const SendWr> wrs) {
    for (const SendWr& wr : wrs)
        if (const PostResult checked = check(wr); checked != PostResult::kOk) return checked;
    return sq_.post(wrs);
}

PostResult Qp::post_recv(const RecvWr& wr) {
    if (state() == QpState::kReset) return PostResult::kBadState;
    return rq_.post(wr);
}

// ---- driving ----

bool Qp::start(const RxGuard&, const TxGuard&, const StreamParameters& parameters,
               std::unique_ptr<Transport>& transport) {
    const QpState now = state();
    const bool wired = is_wired();
    const bool prepared = wired ? now >= QpState::kRtr && now <= QpState::kSqd && !negotiated()
                                : now == QpState::kInit || now == QpState::kRtr;
    if (connected_ || !prepared) return false;
    stream_.parameters = parameters;
    status_.prepare_fault();
    reads_.start(parameters);
    const bool bypass = transport->may_be_bypassed();
    const std::uint8_t rtr_due = parameters.initiator && parameters.terminate == 0 ? parameters.rtr : 0;
    rx_.start(parameters.crc, parameters.markers_rx, parameters.short_first,
              !parameters.initiator && parameters.p2p && (parameters.rtr & rtr::kSend) != 0, bypass);
    sq_.confirm(confirms_ && parameters.ord != 0);
    tx_.start(parameters.crc, parameters.markers_tx, parameters.large_fpdu, parameters.short_first, rtr_due, bypass);
    stream_.fenced = !parameters.initiator;
    if (!wired) {  // a wired QP's requests have their MSNs since they were posted
        sq_.start(rtr_due == rtr::kSend ? 2 : 1);
        allow_reads(parameters.ord != 0);
    }
    stream_.transport = std::move(transport);
    if (!wired && !apply(QpEvent::kConnected)) {
        transport = std::move(stream_.transport);
        return false;
    }
    negotiated_.store(true, std::memory_order_release);
    connected_.store(true, std::memory_order_release);
    if (parameters.terminate != 0) raise(Fault::answered({2, 0, parameters.terminate}, AsyncEvent::kQpFatal));
    return true;
}

Rx::Status Qp::receive(const RxGuard& guard, Pass& pass) {
    if (!stream_.transport) return Rx::Status::kAgain;
    try {
        const Rx::Status status = rx_.step(guard, pass);
        if (state() == QpState::kSqd) [[unlikely]]
            tell_if_drained(pass);
        return status;
    } catch (const std::bad_alloc&) {
        raise_no_memory();
        return Rx::Status::kBroken;  // octets may be lost
    }
}

bool Qp::settle_receives(const RxGuard&, Pass& pass) {
    if (!receive_completions_.any_waits()) [[likely]]
        return true;
    if (!receive_completions_.publish(pass)) status_.lose_completion();
    return !receive_completions_.waits_for_passes();
}

Tx::Status Qp::transmit(const TxGuard& guard, Pass& pass, Tx::Tail tail) {
    if (!stream_.transport) return Tx::Status::kIdle;
    try {
        const Tx::Status status = tx_.step(guard, pass, tail);
        if (state() == QpState::kSqd) [[unlikely]]
            tell_if_drained(pass);
        return status;
    } catch (const std::bad_alloc&) {
        raise_no_memory();
        return Tx::Status::kBroken;  // an FPDU may be cut off
    }
}

// Ends this stream, not the process.
void Qp::raise_no_memory() {
    Fault fault;
    fault.event = AsyncEvent::kQpFatal;
    raise(fault);
}

std::unique_ptr<Transport> Qp::end(const RxGuard& rx, const TxGuard&, Pass& pass, CloseReason reason) {
    if (!connected_) return nullptr;
    sq_.retire(pass);  // what is done is done
    if (!receive_completions_.end(pass)) status_.lose_completion();
    const bool spared = !has_fault() || status_.fault().spares_qp;
    if (is_wired() && spared && state() <= QpState::kSqd) return leave_stream(pass, reason);
    if (has_fault() && stream_.parameters.to_itself) rx_.hear_own_fault(rx, status_.fault(), pass);
    apply(QpEvent::kEnded);
    connected_.store(false, std::memory_order_release);
    const Fault* fault = has_fault() ? &status_.fault() : nullptr;
    if (fault != nullptr && fault->event) pass.outbox().events.push_back({*fault->event, init_.qpn});
    flush_queues(pass);
    tell_last_wqe(pass);
    const bool failed = fault != nullptr && fault->code;
    // A wired QP comes here with an error alone (leave_stream()), and its shim need not look for the peer any more.
    pass.outbox().closed.push_back({init_.qpn, failed || is_wired() ? CloseReason::kError : reason,
                                    failed ? fault->code : std::nullopt, failed && !fault->received});
    return std::move(stream_.transport);
}

// A wired QP's peer has gone: only a request that waits for it hears of that, and not before its time is over, as on
// InfiniBand: programs end when they have what they want, and do not look what has become of their last answers. A
// stream in which nothing has come, since its caller went before, does not count.
std::unique_ptr<Transport> Qp::leave_stream(Pass& pass, CloseReason reason) {
    connected_.store(false, std::memory_order_release);
    if (stream_.fenced) negotiated_.store(false, std::memory_order_release);
    const auto code = has_fault() ? status_.fault().code : std::nullopt;
    if (code) reason = CloseReason::kLost;  // not of the QP
    status_.forget_fault();
    pass.outbox().closed.push_back({init_.qpn, reason, code, code.has_value()});
    return std::move(stream_.transport);
}

void Qp::give_up_peer(const RxGuard&, const TxGuard&, Pass& pass) {
    if (connected_ || state() == QpState::kErr || sq_.is_empty()) return;
    if (init_.unreliable) return sq_.lose_unsent(pass);
    status_.give_up_peer(sq_.head());
    flush_queues(pass);
    tell_last_wqe(pass);
    pass.outbox().closed.push_back({init_.qpn, CloseReason::kError, std::nullopt, false});  // no stream may come
}

bool Qp::drain(const RxGuard&, const TxGuard&, Pass& pass) {
    if (!apply(QpEvent::kToSqdWired)) return false;
    sq_.hold(true);
    tell_if_drained(pass);
    return true;
}

bool Qp::send_again() {
    if (!apply(QpEvent::kToRtsWired)) return false;
    set_drain_notice(false);
    sq_.hold(false);
    return true;
}

// SQD of rdma_cm's is the end of the stream, and drained when FIN is sent (Engine::Impl::drive_tx()).
void Qp::tell_if_drained(Pass& pass) {
    if (is_wired() && sq_.is_empty() && take_drain_notice())
        pass.outbox().events.push_back({AsyncEvent::kSqDrained, init_.qpn});
}

std::unique_ptr<Transport> Qp::abandon(const RxGuard&, const TxGuard&, Pass& pass) {
    if (!connected_) return nullptr;
    receive_completions_.forget();
    connected_.store(false, std::memory_order_release);
    pass.outbox().closed.push_back({init_.qpn, CloseReason::kLost, std::nullopt, false});
    return std::move(stream_.transport);
}

void Qp::flush(const RxGuard&, const TxGuard&, Pass& pass) {
    if (state() == QpState::kErr && !connected_) flush_queues(pass);
}

// VERBS-19, VERBS-23: the request that failed says why, all others are flushed, in order.
void Qp::flush_queues(Pass& pass) {
    Fault* fault = has_fault() ? &status_.fault() : nullptr;
    sq_.flush(fault, pass);
    rq_.flush(fault, pass);
}

void Qp::reset(const RxGuard&, const TxGuard& tx) {
    tx_.set_rnr_retry(tx, rnr_notice::kForEver);
    sq_.reset();
    rq_.reset();
    status_.reset();
    negotiated_ = false;
    may_read_ = false;
    confirms_ = init_.confirms;
    stream_.fenced = false;
    drain_notice_ = false;
}

}  // namespace swrnic::engine
