// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// A queue pair: its rings, its state, and the two machines that move it, Rx and Tx. No syscall, no clock, no thread of
// its own: whoever holds the RX or the TX lock drives it.
//
// Life of a WRITE: post_send() puts a WQE into the send queue; Tx::step() cuts it into FPDUs, hands them to the
// transport and tells the queue what is sent, which turns it into completions. Rx::step() at the peer checks each
// segment and places it.
#pragma once

#include <atomic>
#include <memory>
#include <span>

#include "engine/core/counters.h"
#include "engine/core/cq.h"
#include "engine/core/fault.h"
#include "engine/core/lock.h"
#include "engine/core/memory.h"
#include "engine/core/qp_status.h"
#include "engine/core/reads.h"
#include "engine/core/receive_completions.h"
#include "engine/core/receive_queue.h"
#include "engine/core/rx.h"
#include "engine/core/send_queue.h"
#include "engine/core/srq.h"
#include "engine/core/stream.h"
#include "engine/core/transport.h"
#include "engine/core/tx.h"

namespace swrnic::engine {

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
    QpState state() const { return status_.state(); }
    // False: refused.
    bool apply(QpEvent event) { return status_.apply(event); }
    // The first fault wins and moves RTS or SQD to SQE. False: not the first.
    bool raise(const Fault& fault) { return status_.raise(fault); }
    bool has_fault() const { return status_.has_fault(); }
    // confirms: as in QpInit, until RESET.
    void wire(bool confirms) {
        confirms_.store(confirms, std::memory_order_relaxed);
        status_.wire();
    }
    bool is_wired() const { return status_.is_wired(); }
    // Of a wired QP: Reads may be posted. The others learn it from their stream.
    void allow_reads(bool allowed) { may_read_.store(allowed, std::memory_order_relaxed); }
    std::uint32_t access() const { return status_.access(); }
    void set_access(std::uint32_t flags) { status_.set_access(flags); }

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
    bool take_wake(const RxGuard& guard) { return rx_.take_wake(guard); }
    Tx::Status transmit(const TxGuard& guard, Pass& pass, Tx::Tail tail = Tx::Tail::kSend);
    // The stream is over: ERROR, everything outstanding is completed, the transport is handed back for its own end.
    std::unique_ptr<Transport> end(const RxGuard& rx, const TxGuard& tx, Pass& pass, CloseReason reason);
    // RESET of a wired QP: the stream goes, and what was posted is forgotten with it. Null: there was none.
    std::unique_ptr<Transport> abandon(const RxGuard& rx, const TxGuard& tx, Pass& pass);
    // ERROR of a QP with a shared receive queue: what that still holds belongs to its other QPs, and this one takes
    // nothing any more.
    void tell_last_wqe(Pass& pass) const {
        if (init_.srq != nullptr) pass.outbox().events.push_back({AsyncEvent::kQpLastWqeReached, init_.qpn});
    }
    // A wired QP without a stream: the oldest request ends with RETRY_EXC_ERR, the QP in ERROR. An unreliable one's
    // requests are complete.
    void give_up_peer(const RxGuard& rx, const TxGuard& tx, Pass& pass);
    // ERROR: completes what was posted since.
    void flush(const RxGuard& rx, const TxGuard& tx, Pass& pass);
    // RESET of a QP without a stream: empty queues, no completions.
    void reset(const RxGuard& rx, const TxGuard& tx);
    // There has been a stream since RESET; its parameters stand.
    bool negotiated() const { return negotiated_.load(std::memory_order_acquire); }
    bool connected() const { return connected_.load(std::memory_order_acquire); }
    // SQD of a wired QP: what was posted drains, what is posted from now on waits for RTS. False: no such transition.
    bool drain(const RxGuard& rx, const TxGuard& tx, Pass& pass);
    // RTS of a wired QP. False: no such transition.
    bool send_again();
    // SQ_DRAINED is wanted; it is told once.
    void set_drain_notice(bool wanted) { drain_notice_.store(wanted, std::memory_order_relaxed); }
    bool take_drain_notice() { return drain_notice_.exchange(false, std::memory_order_relaxed); }
    // A receive is posted.
    bool has_receives() const { return rq_.has_any(); }
    // Requests that are not complete.
    bool send_queue_busy() const { return !sq_.is_empty(); }
    // Payload posted to the send queue since the QP was made.
    std::uint64_t posted_octets() const { return sq_.posted_octets(); }
    Transport* transport(const RxGuard&) { return stream_.transport.get(); }
    // Some window may be bound to it.
    bool binds() const { return tx_.binds(); }
    // The transport, for its end; under the TX lock.
    Transport* transport(const TxGuard&) { return stream_.transport.get(); }

    const QpInit& init() const { return init_; }
    Counters& counters() { return counters_; }
    const StreamParameters& parameters() const { return stream_.parameters; }
    Tx& tx() { return tx_; }
    const Tx& tx() const { return tx_; }
    Rx& rx() { return rx_; }
    const Rx& rx() const { return rx_; }
    const ReadState& reads() const { return reads_; }

  private:
    PostResult check(const SendWr& wr) const;
    PostResult check_other(const SendWr& wr) const;  // than is_plain()
    std::unique_ptr<Transport> leave_stream(Pass& pass, CloseReason reason);
    void flush_queues(Pass& pass);
    void tell_if_drained(Pass& pass);
    void raise_no_memory();

    const QpInit init_;
    const std::unique_ptr<Counters> own_counters_;
    Counters& counters_;
    std::atomic<bool> connected_{false};
    std::atomic<bool> negotiated_{false};
    std::atomic<bool> may_read_{false};
    std::atomic<bool> confirms_;
    std::atomic<bool> drain_notice_{false};
    QpStatus status_;
    Stream stream_;

    // Who sends and who receives are often on different processors: neither writes to the other's cache lines.
    alignas(kCacheLine) SendQueue sq_;
    TxLock tx_lock_;
    ReceiveCompletions receive_completions_;
    Tx tx_;

    alignas(kCacheLine) ReceiveQueue rq_;
    RxLock rx_lock_;
    ReadState reads_;
    Rx rx_;
};

}  // namespace swrnic::engine
