// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "engine/core/qp.h"

#include <algorithm>
#include <cstring>
#include <new>
#include <utility>

#include "engine/core/probes.h"

namespace swrnic::engine {

namespace {

constexpr std::uint64_t kMaxMessage = 0xffffffff;  // RFC 5041 5.2

std::size_t send_room(const QpInit& init) {
    return std::max<std::size_t>(init.max_send_sge * sizeof(Sge), init.max_inline);
}

WcOpcode wc_opcode(WrOpcode opcode) {
    switch (opcode) {
        case WrOpcode::kWrite:
            return WcOpcode::kWrite;
        case WrOpcode::kRead:
            return WcOpcode::kRead;
        case WrOpcode::kLocalInv:
            return WcOpcode::kLocalInv;
        case WrOpcode::kBind:
            return WcOpcode::kBind;
        default:
            return WcOpcode::kSend;
    }
}

std::uint64_t total_length(std::span<const Sge> sges) {
    std::uint64_t total = 0;
    for (const Sge& sge : sges)
        total += sge.length;
    return total;
}

}  // namespace

Qp::Qp(const QpInit& init, MemoryTable& memory, RandomSource& random)
    : init_(init),
      own_counters_(init.counters == nullptr ? std::make_unique<Counters>() : nullptr),
      counters_(init.counters == nullptr ? *own_counters_ : *init.counters),
      memory_(memory),
      random_(random),
      sq_(init.max_send_wr, send_room(init)),
      receive_completions_(*init.recv_cq),
      tx_(*this),
      rq_(init.srq == nullptr ? init.max_recv_wr : 1,
          (init.srq == nullptr ? init.max_recv_sge : init.srq->max_sge()) * sizeof(Sge)),
      rx_(*this) {}

// ---- posting
// -------------------------------------------------------------------------------------------------------------

PostResult Qp::check(const SendWr& wr) const {
    // docs/spec/verbs.md section 6: not before the stream is there; at its end and after it what is posted is flushed.
    if (state() < QpState::kRts && !(state() == QpState::kRtr && is_wired())) return PostResult::kBadState;
    const bool is_inline = (wr.flags & send_flag::kInline) != 0;
    const bool is_read = wr.opcode == WrOpcode::kRead;
    if (is_local(wr.opcode)) return is_inline || !wr.sges.empty() ? PostResult::kInvalid : PostResult::kOk;
    if (wr.sges.size() > init_.max_send_sge || (is_inline && is_read)) return PostResult::kInvalid;
    const std::uint64_t length = total_length(wr.sges);
    if (length > kMaxMessage || (is_inline && length > init_.max_inline)) return PostResult::kInvalid;
    if (is_read && !may_read_.load(std::memory_order_relaxed)) return PostResult::kInvalid;  // RDMAP-68
    return PostResult::kOk;
}

PostResult Qp::post_send(const SendWr& wr) {
    if (const PostResult checked = check(wr); checked != PostResult::kOk) return checked;
    const std::lock_guard hold(send_posters_);
    return write(wr);
}

PostResult Qp::post_sends(std::span<const SendWr> wrs) {
    for (const SendWr& wr : wrs)
        if (const PostResult checked = check(wr); checked != PostResult::kOk) return checked;
    const std::lock_guard hold(send_posters_);
    if (sq_.room() < wrs.size()) return PostResult::kFull;
    for (const SendWr& wr : wrs)
        write(wr);
    return PostResult::kOk;
}

// Under send_posters_.
PostResult Qp::write(const SendWr& wr) {
    const std::uint64_t length = total_length(wr.sges);
    SendWqe* wqe = sq_.reserve();
    if (wqe == nullptr) return PostResult::kFull;
    wqe->wr_id = wr.wr_id;
    wqe->remote_to = wr.remote_addr;
    const bool invalidates = wr.opcode == WrOpcode::kSendInv || wr.opcode == WrOpcode::kLocalInv;
    wqe->remote_stag = invalidates ? wr.invalidate_stag : wr.rkey;
    wqe->length = static_cast<std::uint32_t>(length);
    posted_octets_.store(posted_octets_.load(std::memory_order_relaxed) + length, std::memory_order_relaxed);
    const bool send = wr.opcode == WrOpcode::kSend || wr.opcode == WrOpcode::kSendInv;
    if (send) wqe->remote_to = next_send_msn_++;  // free in a Send: its MSN
    wqe->reads_before = wr.opcode == WrOpcode::kRead ? reads_posted_++ : reads_posted_;
    wqe->opcode = wr.opcode;
    wqe->flags = static_cast<std::uint8_t>(wr.flags | (init_.sq_sig_all ? send_flag::kSignaled : 0));
    if (wr.opcode == WrOpcode::kBind) {
        wqe->sge_count = 0;
        wqe->bind() = wr.bind;
    } else if ((wr.flags & send_flag::kInline) != 0) {
        wqe->sge_count = 0;
        std::byte* to = wqe->inline_data();
        for (const Sge& sge : wr.sges) {
            if (sge.length == 0) continue;
            std::memcpy(to, reinterpret_cast<const void*>(static_cast<std::uintptr_t>(sge.addr)), sge.length);
            to += sge.length;
        }
    } else {
        wqe->sge_count = static_cast<std::uint16_t>(wr.sges.size());
        std::copy(wr.sges.begin(), wr.sges.end(), wqe->sges());
    }
    sq_.publish();
    SWRNIC_PROBE(post_send, init_.qpn, wr.wr_id, static_cast<int>(wr.opcode), length);
    return PostResult::kOk;
}

PostResult Qp::post_recv(const RecvWr& wr) {
    if (state() == QpState::kReset) return PostResult::kBadState;
    if (init_.srq != nullptr || wr.sges.size() > init_.max_recv_sge) return PostResult::kInvalid;
    const std::lock_guard hold(recv_posters_);
    RecvWqe* wqe = rq_.reserve();
    if (wqe == nullptr) return PostResult::kFull;
    fill(*wqe, wr);
    rq_.publish();
    SWRNIC_PROBE(post_recv, init_.qpn, wr.wr_id, wr.sges.size());
    return PostResult::kOk;
}

bool Qp::has_receives() const {
    return rq_.head() != rq_.tail() || (init_.srq != nullptr && !init_.srq->empty());
}

bool Qp::take_shared_receive() {
    if (ForeignMemory* foreign = memory_.foreign(); foreign != nullptr) {
        const auto taken = foreign->take_receive(init_.qpn);
        if (!taken) return false;
        const Sge sge{kForeignAddress, taken->length, 0};
        return post_recv({taken->wr_id, {&sge, taken->length != 0 ? 1u : 0u}}) == PostResult::kOk;
    }
    if (init_.srq == nullptr || !init_.srq->take(*rq_.reserve())) return false;
    rq_.publish();
    return true;
}

// ---- state
// ---------------------------------------------------------------------------------------------------------------

bool Qp::apply(QpEvent event) {
    QpState now = state();
    for (;;) {
        const QpTransition transition = qp_transition(now, event);
        if (transition.kind == QpTransition::kRefused) return false;
        if (transition.kind == QpTransition::kStays) return true;
        if (!state_.compare_exchange_weak(now, transition.next, std::memory_order_acq_rel)) continue;
        counters_.set(Count::kState, static_cast<std::uint64_t>(state()));
        return true;
    }
}

bool Qp::raise(const Fault& fault) {
    const std::lock_guard hold(fault_lock_);
    const QpState now = state();
    const bool has_stream = now == QpState::kRts || now == QpState::kSqd || (now == QpState::kRtr && is_wired());
    if (faulted_ || !has_stream) return false;
    if (!fault_) fault_ = std::make_unique<Fault>();
    *fault_ = fault;
    faulted_.store(true, std::memory_order_release);
    return apply(QpEvent::kFault);
}

// ---- driving
// -------------------------------------------------------------------------------------------------------------

bool Qp::start(const RxGuard&, const TxGuard&, const StreamParameters& parameters,
               std::unique_ptr<Transport>& transport) {
    const QpState now = state();
    const bool wired = is_wired();
    const bool prepared = wired ? (now == QpState::kRtr || now == QpState::kRts) && !negotiated()
                                : now == QpState::kInit || now == QpState::kRtr;
    if (connected_ || !prepared) return false;
    parameters_ = parameters;
    inbound_reads_ = std::max<std::uint32_t>(parameters.ird, (parameters.rtr & rtr::kRead) != 0 ? 1 : 0);
    irq_.resize(inbound_reads_ * 2);
    responses_given_ = 0;
    fault_ = std::make_unique<Fault>();                       // now: a fault may be that there is no memory
    orq_.resize(std::max<std::uint32_t>(parameters.ord, 1));  // an RTR by Read is allowed one whatever the ORD (MPA-51)
    const bool bypass = transport->may_be_bypassed();
    rx_.start(parameters.crc, parameters.markers_rx, parameters.short_first,
              !parameters.initiator && parameters.p2p && (parameters.rtr & rtr::kSend) != 0, bypass);
    tx_.start(parameters.crc, parameters.markers_tx, parameters.large_fpdu, parameters.short_first,
              parameters.initiator && parameters.terminate == 0 ? parameters.rtr : 0, bypass);
    fenced_ = !parameters.initiator;
    if (!wired) {  // a wired QP's requests have their MSNs since they were posted
        const bool rtr_send = parameters.initiator && parameters.terminate == 0 && parameters.rtr == rtr::kSend;
        const std::lock_guard hold(send_posters_);
        next_send_msn_ = rtr_send ? 2 : 1;
        allow_reads(parameters.ord != 0);
    }
    transport_ = std::move(transport);
    if (!wired && !apply(QpEvent::kConnected)) {
        transport = std::move(transport_);
        return false;
    }
    negotiated_.store(true, std::memory_order_release);
    connected_.store(true, std::memory_order_release);
    if (parameters.terminate != 0) raise(Fault::answered({2, 0, parameters.terminate}, AsyncEvent::kQpFatal));
    return true;
}

Rx::Status Qp::receive(const RxGuard& guard, Pass& pass) {
    if (!transport_) return Rx::Status::kAgain;
    try {
        return rx_.step(guard, pass);
    } catch (const std::bad_alloc&) {
        raise_no_memory();
        return Rx::Status::kBroken;  // octets may be lost
    }
}

bool Qp::settle_receives(const RxGuard&, Pass& pass) {
    if (!receive_completions_.any_waits()) [[likely]]
        return true;
    if (!receive_completions_.publish(pass)) lose_completion();
    return !receive_completions_.waits_for_passes();
}

Tx::Status Qp::transmit(const TxGuard& guard, Pass& pass, Tx::Tail tail) {
    if (!transport_) return Tx::Status::kIdle;
    try {
        return tx_.step(guard, pass, tail);
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

MemoryError Qp::check_read_source(const wire::ReadRequest& request) const {
    MemoryError error =
        memory_.look_up(init_.pd, request.source_stag, request.source_to, request.size, access::kRemoteRead, init_.qpn)
            .error;
    if (error == MemoryError::kForeign) {
        const ForeignName name{ForeignName::Kind::kTagged, request.source_stag, request.source_to};
        error = memory_.foreign()->check_source(init_.qpn, name, request.size);
    }
    if (error == MemoryError::kInvalidStag || error == MemoryError::kWrongPd) return error;
    return (access() & access::kRemoteRead) == 0 ? MemoryError::kAccess : error;
}

std::unique_ptr<Transport> Qp::end(const RxGuard&, const TxGuard&, Pass& pass, CloseReason reason) {
    if (!connected_) return nullptr;
    retire(pass);  // what is done is done
    if (!receive_completions_.end(pass)) lose_completion();
    if (is_wired() && !has_fault() && (state() == QpState::kRtr || state() == QpState::kRts))
        return leave_stream(pass, reason);
    apply(QpEvent::kEnded);
    connected_.store(false, std::memory_order_release);
    const Fault* fault = has_fault() ? fault_.get() : nullptr;
    if (fault != nullptr && fault->event) pass.outbox().events.push_back({*fault->event, init_.qpn});
    flush_queues(pass);
    // What the queue still holds belongs to its other QPs: this one takes nothing any more.
    if (init_.srq != nullptr) pass.outbox().events.push_back({AsyncEvent::kQpLastWqeReached, init_.qpn});
    const bool failed = fault != nullptr && fault->code;
    pass.outbox().closed.push_back({init_.qpn, failed ? CloseReason::kError : reason,
                                    failed ? fault->code : std::nullopt, failed && !fault->received});
    return std::move(transport_);
}

// A wired QP's peer has gone: only a request that waits for it hears of that. A stream in which nothing has come, since
// its caller went before, does not count.
std::unique_ptr<Transport> Qp::leave_stream(Pass& pass, CloseReason reason) {
    connected_.store(false, std::memory_order_release);
    if (fenced_) negotiated_.store(false, std::memory_order_release);
    pass.outbox().closed.push_back({init_.qpn, reason, std::nullopt, false});
    if (!fenced_ && send_queue_busy()) {
        fail_oldest_request();
        flush_queues(pass);
    }
    return std::move(transport_);
}

void Qp::fail_oldest_request() {
    {
        const std::lock_guard hold(fault_lock_);
        fault_ = std::make_unique<Fault>();
        fault_->send_index = sq_.head();
        fault_->send_status = WcStatus::kRetryExcErr;
        faulted_.store(true, std::memory_order_release);
    }
    apply(QpEvent::kAbort);
}

void Qp::give_up_peer(const RxGuard&, const TxGuard&, Pass& pass) {
    if (connected_ || state() == QpState::kErr || !send_queue_busy()) return;
    fail_oldest_request();
    flush_queues(pass);
}

std::unique_ptr<Transport> Qp::abandon(const RxGuard&, const TxGuard&, Pass& pass) {
    if (!connected_) return nullptr;
    receive_completions_.forget();
    connected_.store(false, std::memory_order_release);
    pass.outbox().closed.push_back({init_.qpn, CloseReason::kLost, std::nullopt, false});
    return std::move(transport_);
}

void Qp::flush(const RxGuard&, const TxGuard&, Pass& pass) {
    if (state() == QpState::kErr && !connected_) flush_queues(pass);
}

// VERBS-19, VERBS-23: the request that failed says why, all others are flushed, in order.
void Qp::flush_queues(Pass& pass) {
    Fault* fault = has_fault() ? fault_.get() : nullptr;
    const std::uint32_t vendor_err = fault != nullptr ? fault->vendor_err() : 0;
    {
        const std::lock_guard hold(retire_);
        if (sq_.head() != sq_.tail()) {
            Cq::Producer cq(*init_.send_cq, pass);
            while (sq_.head() != sq_.tail()) {
                const SendWqe& wqe = *sq_.peek(sq_.head());
                const bool failed = fault != nullptr && fault->send_index == sq_.head();
                WorkCompletion done =
                    completion(wqe.wr_id, failed ? fault->send_status : WcStatus::kWrFlushErr, wc_opcode(wqe.opcode));
                if (failed) done.vendor_err = vendor_err;
                sq_.release();
                cq.push(done, false);
            }
            sent_ = sq_.tail();
        }
    }
    if (rq_.head() == rq_.tail()) return;
    Cq::Producer cq(*init_.recv_cq, pass);
    while (rq_.head() != rq_.tail()) {
        const RecvWqe& wqe = *rq_.peek(rq_.head());
        const WcStatus status =
            fault != nullptr ? std::exchange(fault->recv_status, WcStatus::kWrFlushErr) : WcStatus::kWrFlushErr;
        WorkCompletion done = completion(wqe.wr_id, status, WcOpcode::kRecv);
        if (status != WcStatus::kWrFlushErr) done.vendor_err = vendor_err;
        rq_.release();
        cq.push(done, false);
    }
}

void Qp::reset(const RxGuard&, const TxGuard&) {
    const std::lock_guard senders(send_posters_);
    const std::lock_guard receivers(recv_posters_);
    while (sq_.head() != sq_.tail())
        sq_.release();
    while (rq_.head() != rq_.tail())
        rq_.release();
    sent_ = sq_.tail();
    reads_completed_ = reads_posted_;
    next_send_msn_ = 1;
    fault_.reset();
    faulted_ = false;
    negotiated_ = false;
    wired_ = false;
    may_read_ = false;
    fenced_ = false;
    drain_notice_ = false;
}

// Sends and Writes are done when TCP has taken their last octet (RFC 5041 5.4), Reads when their Response is delivered.
void Qp::retire(Pass& pass) {
    if (!report_done(pass)) lose_completion();
}

bool Qp::report_done(Pass& pass) {
    const std::lock_guard hold(retire_);
    const std::uint64_t sent = sent_.load(std::memory_order_acquire);
    const std::uint32_t reads = reads_completed_.load(std::memory_order_acquire);
    std::optional<Cq::Producer> cq;
    bool kept = true;
    for (std::uint64_t i = sq_.head(); i != sent; ++i) {
        const SendWqe& wqe = *sq_.peek(i);
        // Behind a Read that is not complete nothing completes (RDMAP-63).
        if (wqe.opcode == WrOpcode::kRead && static_cast<std::int32_t>(reads - wqe.reads_before) <= 0) break;
        const bool report = wqe.has(send_flag::kSignaled);
        WorkCompletion done{};
        if (report) {
            done = completion(wqe.wr_id, WcStatus::kSuccess, wc_opcode(wqe.opcode));
            done.byte_len = wqe.length;
        }
        sq_.release();  // first: who sees the completion may post at once
        if (!report) continue;
        if (!cq) cq.emplace(*init_.send_cq, pass);
        kept = cq->push(done, false) && kept;
    }
    return kept;
}

// VERBS-18. Several Writes may fit: the oldest is taken.
std::optional<std::uint64_t> Qp::sent_request(std::span<const std::byte> ddp_header) {
    const bool tagged = wire::is_tagged(std::to_integer<std::uint8_t>(ddp_header[0]));
    const auto fits = [&](const SendWqe& wqe) {
        if (tagged) {
            const auto quoted = wire::TaggedHeader::parse(ddp_header.data());
            return wqe.opcode == WrOpcode::kWrite && wqe.remote_stag == quoted.stag &&
                   quoted.to - wqe.remote_to < wqe.length;
        }
        const auto quoted = wire::UntaggedHeader::parse(ddp_header.data());
        return (wqe.opcode == WrOpcode::kSend || wqe.opcode == WrOpcode::kSendInv) && quoted.qn == wire::kSendQueue &&
               static_cast<std::uint32_t>(wqe.remote_to) == quoted.msn;
    };
    const std::lock_guard hold(retire_);
    const std::uint64_t begun = begun_.load(std::memory_order_acquire);
    for (std::uint64_t i = sq_.head(); i < begun; ++i)
        if (fits(*sq_.peek(i))) return i;
    return std::nullopt;
}

// The CQ overflowed (docs/spec/verbs.md section 6): only the streams whose completions are lost end (SEC-27).
void Qp::lose_completion() {
    raise(Fault::answered(wire::fault::kLocalFailure, AsyncEvent::kQpFatal));
}

WorkCompletion Qp::completion(std::uint64_t wr_id, WcStatus status, WcOpcode opcode) const {
    return {wr_id, status, opcode, 0, init_.qpn, 0, 0, 0, 0};
}

}  // namespace swrnic::engine
