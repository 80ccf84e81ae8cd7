// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// A queue pair: its rings, its state, and the two machines that move it, Rx and Tx. No syscall, no clock, no thread of
// its own: whoever holds the RX or the TX lock drives it.
//
// Life of a WRITE: post_send() puts a WQE into the ring; Tx::step() cuts it into FPDUs, hands them to the transport and
// moves sent_; retire() turns what is sent into completions. Rx::step() at the peer checks each segment and places it.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>

#include "engine/core/counters.h"
#include "engine/core/cq.h"
#include "engine/core/fault.h"
#include "engine/core/lock.h"
#include "engine/core/memory.h"
#include "engine/core/qp_state.h"
#include "engine/core/queues.h"
#include "engine/core/receive_completions.h"
#include "engine/core/rx.h"
#include "engine/core/srq.h"
#include "engine/core/transport.h"
#include "engine/core/tx.h"
#include "wire/rdmap.h"

namespace swrnic::engine {

namespace rtr {  // SWRNIC_RTR_*
inline constexpr std::uint8_t kSend = 1, kWrite = 2, kRead = 4;
}

// An inbound Read Request that waits for its Response: RX publishes, TX releases (RFC 5040 5.2).
struct InboundRead {
    wire::ReadRequest request;
    std::uint32_t msn;  // quoted when the source turns out to be gone
};

// An outbound Read whose Response is due: TX publishes before the request can leave, RX releases.
struct OutboundRead {
    std::uint64_t send_index;  // kNoWqe for an RTR
    std::uint32_t sink_stag;   // ephemeral: names the WQE's scatter list; TO counts from 0
    std::uint32_t length;
    std::uint32_t msn;
    static constexpr std::uint64_t kNoWqe = ~std::uint64_t{0};
};

class Qp {
  public:
    // memory and random outlive the QP. Throws std::bad_alloc.
    Qp(const QpInit& init, MemoryTable& memory, RandomSource& random);
    Qp(const Qp&) = delete;
    Qp& operator=(const Qp&) = delete;

    // ---- posting: any thread; leaf locks only
    PostResult post_send(const SendWr& wr);
    // All of them or none.
    PostResult post_sends(std::span<const SendWr> wrs);
    PostResult post_recv(const RecvWr& wr);

    // ---- state
    QpState state() const { return state_.load(std::memory_order_acquire); }
    // False: refused.
    bool apply(QpEvent event);
    // The first fault wins and moves RTS or SQD to SQE. False: not the first.
    bool raise(const Fault& fault);
    bool has_fault() const { return faulted_.load(std::memory_order_acquire); }
    // The program connects it by hand (modify_qp) instead of by rdma_cm: it goes to RTR and RTS whether there is a
    // stream or not, has one at most between two RESETs, and hears of its end by its requests alone. INIT; until RESET.
    void wire() { wired_.store(true, std::memory_order_release); }
    bool is_wired() const { return wired_.load(std::memory_order_acquire); }
    // Of a wired QP: Reads may be posted. The others learn it from their stream.
    void allow_reads(bool allowed) { may_read_.store(allowed, std::memory_order_relaxed); }
    std::uint32_t access() const { return access_.load(std::memory_order_relaxed); }
    void set_access(std::uint32_t flags) { access_.store(flags, std::memory_order_relaxed); }

    // ---- driving
    RxLock& rx_lock() { return rx_lock_; }
    TxLock& tx_lock() { return tx_lock_; }
    // INIT or RTR to RTS. False: the QP cannot take a stream (the caller closes it).
    bool start(const RxGuard& rx, const TxGuard& tx, const StreamParameters& parameters,
               std::unique_ptr<Transport>& transport);
    Rx::Status receive(const RxGuard& guard, Pass& pass);
    // False: a completion of a receive waits for passes of others. Nothing is to be received before.
    bool settle_receives(const RxGuard& guard, Pass& pass);
    // What was received since the last time gives the sender something to do.
    bool take_wake(const RxGuard&) { return std::exchange(wakes_sender_, false); }
    Tx::Status transmit(const TxGuard& guard, Pass& pass, Tx::Tail tail = Tx::Tail::kSend);
    // The stream is over: ERROR, everything outstanding is completed, the transport is handed back for its own end.
    std::unique_ptr<Transport> end(const RxGuard& rx, const TxGuard& tx, Pass& pass, CloseReason reason);
    // RESET of a wired QP: the stream goes, and what was posted is forgotten with it. Null: there was none.
    std::unique_ptr<Transport> abandon(const RxGuard& rx, const TxGuard& tx, Pass& pass);
    // A wired QP without a stream: the oldest request ends with RETRY_EXC_ERR, the QP in ERROR.
    void give_up_peer(const RxGuard& rx, const TxGuard& tx, Pass& pass);
    // ERROR: completes what was posted since.
    void flush(const RxGuard& rx, const TxGuard& tx, Pass& pass);
    // RESET of a QP without a stream: empty queues, no completions.
    void reset(const RxGuard& rx, const TxGuard& tx);
    // There has been a stream since RESET; its parameters stand.
    bool negotiated() const { return negotiated_.load(std::memory_order_acquire); }
    bool connected() const { return connected_.load(std::memory_order_acquire); }
    // SQ_DRAINED is wanted; it is told once.
    void set_drain_notice(bool wanted) { drain_notice_.store(wanted, std::memory_order_relaxed); }
    bool take_drain_notice() { return drain_notice_.exchange(false, std::memory_order_relaxed); }
    // A receive is posted.
    bool has_receives() const;
    // Requests that are not complete.
    bool send_queue_busy() const { return sq_.head() != sq_.tail(); }
    // Payload posted to the send queue since the QP was made.
    std::uint64_t posted_octets() const { return posted_octets_.load(std::memory_order_relaxed); }
    Transport* transport(const RxGuard&) { return transport_.get(); }
    // Some window may be bound to it.
    bool binds() const { return binds_.load(std::memory_order_relaxed); }
    // The transport, for its end; under the TX lock.
    Transport* transport(const TxGuard&) { return transport_.get(); }

    const QpInit& init() const { return init_; }
    Counters& counters() { return counters_; }
    const StreamParameters& parameters() const { return parameters_; }
    Tx& tx() { return tx_; }
    const Tx& tx() const { return tx_; }
    Rx& rx() { return rx_; }

  private:
    friend class Rx;
    friend class Tx;
    friend struct CoreTestAccess;

    PostResult check(const SendWr& wr) const;
    PostResult write(const SendWr& wr);
    // Whether the source of an inbound Read may be read as a whole. Its size is not 0. RFC 5040 5.2.1.
    MemoryError check_read_source(const wire::ReadRequest& request) const;
    // Under the RX lock: whether there is a receive for the Send in progress; takes it out of the shared queue, ours or
    // a foreign one, if need be.
    bool receive_at_hand() { return rq_.head() != rq_.tail() || take_shared_receive(); }
    bool take_shared_receive();
    // Whose regions receives may name.
    std::uint32_t receive_pd() const { return init_.srq == nullptr ? init_.pd : init_.srq->pd(); }
    std::unique_ptr<Transport> leave_stream(Pass& pass, CloseReason reason);
    void fail_oldest_request();
    void flush_queues(Pass& pass);
    // Completes the requests at the head of the send queue that are done, in order (VERBS-10).
    void retire(Pass& pass);
    bool report_done(Pass& pass);
    void lose_completion();
    void raise_no_memory();
    // The request, of those that have begun and are not complete, that the peer quotes in a Terminate.
    std::optional<std::uint64_t> sent_request(std::span<const std::byte> ddp_header);
    WorkCompletion completion(std::uint64_t wr_id, WcStatus status, WcOpcode opcode) const;

    const QpInit init_;
    const std::unique_ptr<Counters> own_counters_;
    Counters& counters_;
    MemoryTable& memory_;
    RandomSource& random_;

    std::atomic<QpState> state_{QpState::kReset};
    std::atomic<std::uint32_t> access_{0};
    std::atomic<bool> connected_{false};
    std::atomic<bool> binds_{false};
    std::atomic<bool> negotiated_{false};
    std::atomic<bool> wired_{false};
    std::atomic<bool> may_read_{false};
    std::atomic<bool> drain_notice_{false};

    StreamParameters parameters_{};
    std::unique_ptr<Transport> transport_;
    std::atomic<bool> fenced_{false};   // Responder before the first valid FPDU (MPA-25)
    std::atomic<bool> faulted_{false};  // fault_ is written, once, before this
    std::unique_ptr<Fault> fault_;
    std::mutex fault_lock_;  // leaf: the first fault wins

    // Who sends and who receives are often on different processors: neither writes to the other's cache lines.
    alignas(kCacheLine) Mutex send_posters_;  // leaf: held while a WQE is written
    WqeRing<SendWqe> sq_;
    std::uint32_t reads_posted_ = 0;   // under send_posters_
    std::uint32_t next_send_msn_ = 1;  // the same
    std::atomic<std::uint64_t> posted_octets_{0};
    TxLock tx_lock_;
    std::atomic<std::uint64_t> sent_{0};   // TX: requests before this index are with TCP as a whole
    std::atomic<std::uint64_t> begun_{0};  // TX: and before this one in part
    ReceiveCompletions receive_completions_;
    Mutex retire_;  // leaf: held while completions are made
    Tx tx_;

    alignas(kCacheLine) Mutex recv_posters_;  // leaf: held while a WQE is written
    WqeRing<RecvWqe> rq_;
    RxLock rx_lock_;
    std::atomic<std::uint32_t> reads_completed_{0};  // RX: Responses delivered
    // Twice IRD: a slot is free again when its Response is handed to TCP (RFC 5040 6.1), and the peer's next Request
    // may be here before TX has come back from that call and released the entry.
    SpscRing<InboundRead> irq_;
    std::uint32_t inbound_reads_ = 0;                // IRD
    std::atomic<std::uint32_t> responses_given_{0};  // TX: Responses in or before the send that is under way
    SpscRing<OutboundRead> orq_;
    // RX: there is an inbound Read to answer, or requests may go on that waited for a Read or for the fence.
    bool wakes_sender_ = false;
    Rx rx_;
};

}  // namespace swrnic::engine
