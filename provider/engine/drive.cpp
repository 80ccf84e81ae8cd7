// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Moving one QP: receive, transmit, and the ends of a stream.
#include "engine/engine_impl.h"

namespace swrnic::engine {

using namespace tuning;

namespace {

void count_stall(DrivenQp& qp, std::int64_t waited) {
    const std::chrono::nanoseconds time = Clock::duration(waited);
    qp.counters().add(Count::kRxStallNs, static_cast<std::uint64_t>(time.count()));
}

}  // namespace

void Engine::Impl::drive(DrivenQp& qp, Pass& pass) {
    drive_rx(qp, pass);
    if (may_transmit(qp)) drive_tx(qp, pass, Tx::Tail::kSend);
}

bool Engine::Impl::may_transmit(const DrivenQp& qp) {
    // A full socket is left alone until EPOLLOUT says that a good part of it is free.
    if (qp.tx_blocked && !qp.tx_due && !qp.has_fault()) return false;
    return qp.tx().has_work() || qp.state() == QpState::kSqd;
}

// Every Send that finds no receive may wait for the whole time, though the one before it in the same turn did wait too.
void Engine::Impl::note_stall(DrivenQp& qp, const RxGuard&, bool stalled) {
    const std::uint64_t stalls = qp.rx().stalls();
    const bool another = stalled && stalls != qp.stalls_seen;
    if (stalled && !another) return;
    qp.stalls_seen = stalls;
    const std::int64_t since = qp.stalled_since;
    if (since == 0 && !another) return;
    const std::int64_t now = ticks(Clock::now());
    qp.stalled_since = another ? now : 0;
    if (since != 0) count_stall(qp, now - since);
}

void Engine::Impl::note_backoff(DrivenQp& qp, const RxGuard&, std::size_t octets, std::uint64_t fpdus) {
    const PollGate::Turn turn{octets, fpdus, qp.rx().large_left()};
    if (qp.polls.is_open_after(turn, qp.sends.state() != SendGate::State::kFirst)) return;
    qp.polls.on_turn(times_, turn, counter_.now());
}

bool Engine::Impl::drive_rx(DrivenQp& qp, Pass& pass) {
    bool wakes = false;
    do {
        RxGuard guard = qp.rx_lock().take_or_flag(qp.rx_due);
        if (!guard.owns()) return wakes;
        auto* transport = static_cast<TcpTransport*>(qp.transport(guard));
        if (transport == nullptr) return wakes;
        transport->begin_turn();
        const std::uint64_t fpdus = qp.counters().get(Count::kRxFpdus);
        Rx::Status status = Rx::Status::kMoved;
        int steps = 0;
        for (; steps < kTurnSteps && status == Rx::Status::kMoved && qp.settle_receives(guard, pass); ++steps)
            status = qp.receive(guard, pass);
        if (status == Rx::Status::kStalled && !qp.settle_receives(guard, pass)) status = Rx::Status::kMoved;
        // Under the RX lock: the stream cannot end, and unwatch() not run, before the flag is there to be cleared.
        if (steps > 1 && hot_.load(std::memory_order_relaxed) != &qp) hot_.store(&qp, std::memory_order_release);
        // The flag stays: more data may stand before the end than this turn reads, and no edge will tell of the end
        // again.
        if (status == Rx::Status::kAgain && qp.hung_up) qp.rx_due = true;
        note_stall(qp, guard, status == Rx::Status::kStalled);
        if (status == Rx::Status::kAgain)
            note_backoff(qp, guard, transport->turn_octets(), qp.counters().get(Count::kRxFpdus) - fpdus);
        if (status == Rx::Status::kStalled) {
            if (qp.init().srq != nullptr) qp.init().srq->wait(qp);
            // The flag first, then the look: a receive posted meanwhile either is seen here or sees the flag.
            std::atomic_thread_fence(std::memory_order_seq_cst);
            if (qp.has_receives()) qp.rx_due = true;
        }
        wakes = qp.take_wake(guard) || wakes;
        guard.unlock();
        if (qp.sending_broke && (status == Rx::Status::kAgain || status == Rx::Status::kStalled)) {
            finish(qp, pass, CloseReason::kLost, Ending::kClose);
            return wakes;
        }
        switch (status) {
            case Rx::Status::kMoved:  // more to come, after the others
                qp.rx_due = true;
                schedule(qp, kToReceive);
                return wakes;
            case Rx::Status::kStalled:
                if (const auto patience = rnr_patience(qp)) arm_timer(qp, qp.stalled_since + *patience);
                break;
            case Rx::Status::kAgain:
                break;
            case Rx::Status::kEof:
            case Rx::Status::kBroken:
                rx_ended(qp, pass, status);
                return wakes;
        }
    } while (qp.rx_due);  // not taken: if the lock is taken meanwhile, the holder must see it
    return wakes;
}

void Engine::Impl::drive_tx(DrivenQp& qp, Pass& pass, Tx::Tail tail) {
    do {
        TxGuard guard = qp.tx_lock().take_or_flag(qp.tx_due);
        if (!guard.owns()) return;
        if (qp.fin_sent) {  // nothing can follow our FIN: not a Response, nor a Terminate
            guard.unlock();
            if (qp.has_fault()) finish(qp, pass, CloseReason::kError, Ending::kDrain);
            return;
        }
        Tx::Status status = Tx::Status::kMoved;
        for (int i = 0; i < kTurnSteps && status == Tx::Status::kMoved; ++i)
            status = qp.transmit(guard, pass, tail);
        if (status == Tx::Status::kBlocked && static_cast<TcpTransport*>(qp.transport(guard))->note_blocked()) {
            ask_for_room(qp);
            status = Tx::Status::kMoved;
        }
        if (status == Tx::Status::kLast ||
            (status == Tx::Status::kIdle && qp.state() == QpState::kSqd && !qp.is_wired() && qp.tx().is_done(guard))) {
            if (Transport* transport = qp.transport(guard); transport != nullptr && !qp.fin_sent.exchange(true)) {
                transport->finish_sending();
                if (status != Tx::Status::kLast) {
                    if (qp.take_drain_notice()) pass.outbox().events.push_back({AsyncEvent::kSqDrained, qp.init().qpn});
                    qp.must_end_by = ticks(Clock::now() + kLinger);
                    arm_timer(qp, qp.must_end_by);
                }
            }
        }
        if (status == Tx::Status::kBlocked) {
            qp.tx_blocked = true;
        } else if (qp.tx_blocked && qp.tx_blocked.exchange(false) && qp.tx().has_work()) {
            qp.tx_due = true;  // posted while the flag was up: its doorbell counted on us
        }
        guard.unlock();
        switch (status) {
            case Tx::Status::kMoved:
            case Tx::Status::kWaiting:
                qp.tx_due = true;
                schedule(qp, kToSend);
                return;
            case Tx::Status::kBlocked:
                if (qp.has_fault() && qp.must_end_by == 0) {
                    qp.must_end_by = ticks(Clock::now() + kLinger);
                    arm_timer(qp, qp.must_end_by);
                }
                break;
            case Tx::Status::kCorked:  // by who comes next: behind more of its kind, or alone
                schedule(qp, kToSend);
                break;
            case Tx::Status::kIdle:
                break;
            case Tx::Status::kLast:
                finish(qp, pass, CloseReason::kError, Ending::kDrain);
                return;
            case Tx::Status::kBroken:
                // What the peer sent before, its Terminate above all, may still be there to be read, and be more than
                // one turn receives.
                if (!qp.sending_broke.exchange(true) && qp.must_end_by == 0) {
                    qp.must_end_by = ticks(Clock::now() + kLinger);
                    arm_timer(qp, qp.must_end_by);
                }
                drive_rx(qp, pass);
                return;
        }
    } while (qp.tx_due);
}

void Engine::Impl::rx_ended(DrivenQp& qp, Pass& pass, Rx::Status how) {
    if (how == Rx::Status::kEof) {
        // Verbs know no half close: the peer's FIN ends the stream (docs/spec/verbs.md section 6).
        if (!qp.is_wired()) qp.apply(QpEvent::kPeerFin);
        finish(qp, pass, CloseReason::kGraceful, Ending::kClose);
        return;
    }
    if (qp.state() == QpState::kRts && !qp.is_wired()) {
        Fault lost;
        lost.event = AsyncEvent::kQpFatal;
        qp.raise(lost);
    }
    finish(qp, pass, CloseReason::kLost, Ending::kClose);
}

void Engine::Impl::finish(DrivenQp& qp, Pass& pass, CloseReason reason, Ending ending) {
    std::unique_ptr<Transport> transport;
    {
        RxGuard rx(qp.rx_lock());
        TxGuard tx(qp.tx_lock());
        if (!qp.connected()) return;
        const bool says_fin = reason == CloseReason::kGraceful || ending == Ending::kDrain;
        if (says_fin && !qp.fin_sent.exchange(true)) qp.transport(tx)->finish_sending();
        transport = qp.end(rx, tx, pass, reason);
    }
    put_away(qp, std::move(transport), ending);
    if (!qp.is_wired() || qp.state() == QpState::kErr) return;
    // A request that was posted while the stream was being taken over may have left a deadline of the time before it.
    qp.peer_must_come_by = 0;
    await_peer(qp, pass);
}

void Engine::Impl::put_away(DrivenQp& qp, std::unique_ptr<Transport> transport, Ending ending) {
    qp.must_end_by = 0;
    qp.stalled_since = 0;
    std::unique_ptr<TcpTransport> socket(static_cast<TcpTransport*>(transport.release()));
    unwatch(qp, *socket);
    qp.earlier_retransmits = note_tcp(qp);
    qp.fd = -1;
    if (ending == Ending::kReset) socket->make_abortive();
    // Closing with octets unread would send RST, and take with it what TCP has not delivered yet.
    if (ending == Ending::kDrain) linger(std::move(socket));
}

void Engine::Impl::start_disconnect(DrivenQp& qp, Pass& pass) {
    if (qp.state() != QpState::kRts || !qp.apply(QpEvent::kDisconnect)) return;
    qp.must_end_by = ticks(Clock::now() + options.user_timeout);
    arm_timer(qp, qp.must_end_by);
    // A question of the peer's may stand behind the message at which the program ends: nothing can be answered behind
    // FIN.
    drive_rx(qp, pass);
    drive_tx(qp, pass, Tx::Tail::kSend);
}

void Engine::Impl::flush(DrivenQp& qp, Pass& pass) {
    RxGuard rx(qp.rx_lock());
    TxGuard tx(qp.tx_lock());
    qp.flush(rx, tx, pass);
}

// How long a Send may find no receive; none: for ever.
std::optional<std::int64_t> Engine::Impl::rnr_patience(const DrivenQp& qp) const {
    const int retries = qp.is_wired() ? qp.rx().peer_rnr_retry() : qp.rnr_retry.load(std::memory_order_relaxed);
    if (retries < 0) return Clock::duration(options.rnr_timeout).count();
    if (retries == rnr_notice::kForEver) return std::nullopt;
    return retries * qp.rnr_timer;
}

void Engine::Impl::check_deadlines(DrivenQp& qp, Pass& pass, Time now) {
    const std::optional<std::int64_t> patience = rnr_patience(qp);
    const std::int64_t stalled = patience ? qp.stalled_since.load() : 0;
    const std::int64_t late = ticks(now) - (stalled + patience.value_or(0));
    if (stalled != 0 && late >= 0) {
        {
            RxGuard guard(qp.rx_lock());
            if (qp.stalled_since == stalled) {
                if (late < Clock::duration(kStopped).count()) {
                    qp.rx().give_up_waiting(guard);
                } else {
                    count_stall(qp, ticks(now) - stalled);
                    qp.stalled_since = ticks(now);
                }
            }
        }
        drive(qp, pass);
    }
    if (const std::int64_t end = qp.must_end_by; end != 0 && ticks(now) >= end) {
        finish(qp, pass, qp.sending_broke ? CloseReason::kLost : CloseReason::kGraceful, Ending::kDrain);
    }
    if (const std::int64_t by = qp.peer_must_come_by; by != 0 && ticks(now) >= by) give_up_peer(qp, pass);
    if (const std::int64_t by = qp.peer_must_come_by; by != 0) arm_timer(qp, by);
    if (const std::int64_t since = qp.stalled_since; since != 0 && patience) arm_timer(qp, since + *patience);
    if (const std::int64_t end = qp.must_end_by; end != 0) arm_timer(qp, end);
}

void Engine::Impl::deliver(Pass& pass) {
    Outbox& outbox = pass.outbox();
    if (outbox.empty()) return;
    // First: what comes with the first message is of an established connection.
    for (const std::uint32_t qpn : outbox.ready)
        host.qp_ready(qpn);
    for (const std::uint32_t cq : outbox.notify)
        host.comp_posted(cq);
    for (const Outbox::Event& event : outbox.events)
        host.async_event(event.event, event.id);
    for (const Outbox::Closed& closed : outbox.closed) {
        if (closed.terminate) host.terminated(closed.qpn, wire::terminate_name(*closed.terminate), closed.sent);
        host.qp_closed(closed.qpn, closed.reason);
    }
    outbox.notify.clear();
    outbox.ready.clear();
    outbox.events.clear();
    outbox.closed.clear();
}

}  // namespace swrnic::engine
