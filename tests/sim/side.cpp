// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "sim/side.h"

namespace swrnic::engine::sim {

namespace {

constexpr std::size_t kGuard = 64;
constexpr Times kTimes{kCyclesAreNanoseconds};

WcOpcode completed_as(WrOpcode opcode) {
    switch (opcode) {
        case WrOpcode::kRead:
            return WcOpcode::kRead;
        case WrOpcode::kCmpSwap:
            return WcOpcode::kCompSwap;
        case WrOpcode::kFetchAdd:
            return WcOpcode::kFetchAdd;
        default:
            return is_write(opcode) ? WcOpcode::kWrite : WcOpcode::kSend;
    }
}

}  // namespace

Side::Side(int which, Rng& generator, std::size_t zone, const Limits& sizes)
    : number(which),
      rng(generator),
      limits(sizes),
      random(generator.next()),
      send_cq(sizes.cq, 10),
      recv_cq(sizes.cq, 11),
      clock_(static_cast<std::uint64_t>(which) + 1) {
    arena.resize(4 * zone + 5 * kGuard);
    for (std::size_t i = 0; i + 8 <= arena.size(); i += 8) {
        const std::uint64_t octets = rng.next();
        std::memcpy(arena.data() + i, &octets, 8);
    }
    initial = arena;
    std::size_t at = kGuard;
    const auto add = [&](Range& range, std::uint32_t rights, std::uint64_t pieces) {
        range = {at, static_cast<std::uint32_t>(zone)};
        std::size_t from = at;
        for (std::uint64_t i = 0; i < pieces; ++i) {
            const std::size_t length = i + 1 == pieces ? at + zone - from : zone / pieces;
            const std::uint64_t to = rng.pick<std::uint64_t>({reinterpret_cast<std::uintptr_t>(arena.data() + from), 0,
                                                              rng.next() >> 1, ~std::uint64_t{0} - length});
            const std::uint32_t stag = memory.add(kPd, arena.data() + from, length, to, rights);
            check(stag != 0, "no STag");
            regions.push_back({{from, static_cast<std::uint32_t>(length)}, to, stag, rights});
            from += length;
        }
        at += zone + kGuard;
    };
    add(source, access::kRemoteRead, rng.between(1, 3));
    add(target, access::kLocalWrite | access::kRemoteWrite | access::kRemoteRead | access::kRemoteAtomic,
        rng.between(1, 3));
    add(inbox, access::kLocalWrite, rng.between(1, 3));
    invalid = {at, static_cast<std::uint32_t>(zone)};
    target_zone = target;
    inbox_zone = inbox;
    invalid_zone = invalid;
    words_stag =
        memory.add(kPd, reinterpret_cast<std::byte*>(words.data()), sizeof words,
                   reinterpret_cast<std::uintptr_t>(words.data()), access::kLocalWrite | access::kRemoteAtomic);
    begin_words();
    qp = std::make_unique<Qp>(QpInit{0x100u + static_cast<std::uint32_t>(number), kPd, &send_cq, &recv_cq, limits.sq,
                                     limits.rq, limits.send_sge, limits.recv_sge, limits.max_inline, limits.sig_all},
                              memory, random);
    qp->set_access(access::kRemoteWrite | access::kRemoteRead | access::kRemoteAtomic);
    check(qp->apply(QpEvent::kToInit), "to INIT");
}

void Side::begin_words() {
    for (std::size_t i = 0; i < words.size(); ++i)
        word_values[i] = {words[i] = rng.next()};
}

bool Side::take(Range& zone, std::uint32_t length, Range& out) {
    for (int tries = 0; tries < 3; ++tries) {
        const std::size_t gap = rng.below(8);
        if (zone.length < gap + length) return false;
        const std::size_t offset = zone.offset + gap;
        // Not across the end of a region.
        const Region* home = nullptr;
        for (const Region& region : regions)
            if (offset >= region.at.offset && offset < region.at.offset + region.at.length) home = &region;
        const std::size_t end = home != nullptr ? home->at.offset + home->at.length : offset + length;
        const bool fits = offset + length <= end;
        const std::size_t used = (fits ? offset + length : end) - zone.offset;
        zone.offset += used;
        zone.length -= static_cast<std::uint32_t>(used);
        if (!fits) continue;
        out = {offset, length};
        return true;
    }
    return false;
}

const Region& Side::region_of(std::size_t offset) const {
    for (const Region& region : regions)
        if (offset >= region.at.offset && offset < region.at.offset + region.at.length) return region;
    throw Failure("no region there");
}

Sge Side::sge(const Range& range) const {
    if (range.length == 0) return {0xdeadbeef, 0, 0xbadbad};  // VERBS-9
    const Region& region = region_of(range.offset);
    return {region.to_of(range.offset), range.length, region.stag};
}

// ---- the stream ----

void Side::connect(const StreamParameters& parameters, std::unique_ptr<Transport> transport) {
    RxGuard rx(qp->rx_lock());
    TxGuard tx(qp->tx_lock());
    check(qp->start(rx, tx, parameters, transport), "start");
    check(qp->state() == QpState::kRts, "RTS");
    fin_sent = lost = send_failed = recv_failed = false;
    stalls = 0;
    ops.clear();
    ops_done = 0;
}

void Side::drive_rx() {
    if (!connected()) return;
    Rx::Status status;
    {
        Pass pass = passes.begin();
        RxGuard guard(qp->rx_lock());
        {
            const AllocationFailures here(failing_allocations, failing_allocations != 0 ? rng.next() : 0);
            status = qp->receive(guard, pass);
        }
        collect(pass);
    }
    switch (status) {
        case Rx::Status::kStalled:
            ++stalls;
            break;
        case Rx::Status::kEof:
            qp->apply(QpEvent::kPeerFin);
            finish(CloseReason::kGraceful);
            break;
        case Rx::Status::kBroken:
            if (qp->state() == QpState::kRts) {
                Fault fault;
                fault.event = AsyncEvent::kQpFatal;
                qp->raise(fault);
            }
            finish(CloseReason::kLost);
            break;
        case Rx::Status::kAgain:
            note_turn();
            stalls = 0;
            break;
        default:
            stalls = 0;
            break;
    }
}

void Side::note_turn() {
    const std::uint64_t octets = qp->counters().get(Count::kRxBytes), fpdus = qp->counters().get(Count::kRxFpdus);
    const PollGate::Turn turn{octets - octets_seen_, fpdus - fpdus_seen_, qp->rx().large_left()};
    octets_seen_ = octets;
    fpdus_seen_ = fpdus;
    if (!polls_.is_open_after(turn, sends_.state() != SendGate::State::kFirst)) polls_.on_turn(kTimes, turn, now_);
}

// Mostly some microseconds, now and then milliseconds.
void Side::let_time_pass() {
    now_ = now_ + Cycles(static_cast<std::int64_t>(clock_.between(1, std::uint64_t{1} << clock_.below(23))));
}

void Side::doorbell() {
    if (!connected()) return;
    const SendGate::Decision decision =
        sends_.on_post(kTimes, now_, qp->posted_octets(), callers_.polls + callers_.arms);
    if (decision == SendGate::Decision::kGather) {
        callers_.deferred_at = now_;
        return;
    }
    drive_tx(decision == SendGate::Decision::kCork ? Tx::Tail::kCork : Tx::Tail::kSend);
    sends_.on_flushed(now_);
}

void Side::drive_from_poll() {
    ++callers_.polls;
    ++callers_.polls_done;
    const std::uint64_t posted = qp->posted_octets();
    const bool gathered = sends_.take_gathered(posted);
    if (now_ >= polls_.next_look(kTimes, gathered, sends_.waits_for_peer(kTimes, now_))) drive_rx();
    const bool corks = gathered && sends_.state() == SendGate::State::kLong;
    drive_tx(corks ? Tx::Tail::kCork : Tx::Tail::kSend);
    if (gathered) sends_.on_flushed(now_);
}

void Side::drive_from_thread() {
    if (now_ < yields_until_) return;
    const bool yielded = std::exchange(yields_until_, Cycles()) != Cycles();
    if (!yielded || !thread_.is_driven_by(kTimes, callers_, now_, false)) {
        drive_rx();
        if (sends_.take_gathered(qp->posted_octets())) sends_.on_flushed(now_);
        drive_tx();
    }
    if (thread_.look(kTimes, callers_, now_) == ThreadGate::State::kYield)
        yields_until_ = now_ + kCyclesAreNanoseconds.cycles_in(thread_.yields_for());
}

void Side::drive_tx(Tx::Tail tail) {
    if (!connected()) return;
    Tx::Status status;
    {
        Pass pass = passes.begin();
        TxGuard guard(qp->tx_lock());
        {
            const AllocationFailures here(failing_allocations, failing_allocations != 0 ? rng.next() : 0);
            status = qp->transmit(guard, pass, tail);
        }
        collect(pass);
        if (status == Tx::Status::kLast ||
            (status == Tx::Status::kIdle && qp->state() == QpState::kSqd && qp->tx().is_done(guard))) {
            if (!std::exchange(fin_sent, true)) qp->transport(guard)->finish_sending();
        }
    }
    if (status == Tx::Status::kLast) finish(CloseReason::kError);
    if (status == Tx::Status::kBroken) {
        drive_rx();
        finish(CloseReason::kLost);
    }
}

void Side::disconnect() {
    qp->apply(QpEvent::kDisconnect);
}

void Side::abort() {
    if (qp->apply(QpEvent::kAbort)) finish(CloseReason::kError);
}

void Side::finish(CloseReason reason) {
    std::unique_ptr<Transport> transport;
    {
        Pass pass = passes.begin();
        RxGuard rx(qp->rx_lock());
        TxGuard tx(qp->tx_lock());
        if (!qp->connected()) return;
        transport = qp->end(rx, tx, pass, reason);
        collect(pass);
    }
    check(qp->state() == QpState::kErr, "ERR at the end");
    check(transport != nullptr, "the transport comes back");
    if (reason == CloseReason::kLost) lost = true;
}

void Side::give_up_waiting() {
    RxGuard guard(qp->rx_lock());
    qp->rx().give_up_waiting(guard);
}

void Side::flush() {
    Pass pass = passes.begin();
    RxGuard rx(qp->rx_lock());
    TxGuard tx(qp->tx_lock());
    qp->flush(rx, tx, pass);
    collect(pass);
}

void Side::collect(Pass& pass) {
    Outbox& from = pass.outbox();
    outbox.notify.insert(outbox.notify.end(), from.notify.begin(), from.notify.end());
    outbox.events.insert(outbox.events.end(), from.events.begin(), from.events.end());
    outbox.ready.insert(outbox.ready.end(), from.ready.begin(), from.ready.end());
    outbox.closed.insert(outbox.closed.end(), from.closed.begin(), from.closed.end());
    from = Outbox{};
}

// ---- completions ----

void Side::poll() {
    const int most = static_cast<int>(rng.between(1, 8));
    send_cq.poll(most, [&](const WorkCompletion& completion) { send_completed(completion); });
    recv_cq.poll(most, [&](const WorkCompletion& completion) { receive_completed(completion); });
}

void Side::send_completed(const WorkCompletion& completion) {
    const bool good = completion.status == WcStatus::kSuccess;
    check(completion.qpn == qp->init().qpn, "QPN of a completion");
    check(!good || !send_failed, "a success behind a failure");
    // In order; only what is unsignalled and done is passed over (VERBS-4, VERBS-10).
    while (ops_done < ops.size() && ops[ops_done].wr_id != completion.wr_id) {
        check(!ops[ops_done].signaled, "a signalled request without its completion");
        check(!send_failed, "a request that was not flushed");
        ++ops_done;
    }
    check(ops_done < ops.size(), "a completion that nobody waits for", completion.wr_id);
    Op& op = ops[ops_done++];
    if (!good) {
        send_failed = true;
        check(!only_flush || completion.status == WcStatus::kWrFlushErr, "a failure of its own");
        return;
    }
    check(op.signaled, "an unsignalled request completed");
    check(completion.opcode == completed_as(op.opcode) && completion.byte_len == op.payload.size(),
          "shape of a completion");
    if (!strict) return;
    // All Reads up to here are in.
    for (std::size_t i = 0; i < ops_done; ++i) {
        if (!awaits_response(ops[i].opcode) || ops[i].certain) continue;
        ops[i].certain = true;
        expect_placed(ops[i].payload, ops[i].sink, arena, "a Read that completed is not in memory");
    }
}

void Side::receive_completed(const WorkCompletion& completion) {
    const bool good = completion.status == WcStatus::kSuccess;
    check(!good || !recv_failed, "a receive behind a failure");
    check(receives_done < receives.size(), "a receive that nobody posted");
    Receive& receive = receives[receives_done];
    check(receive.wr_id == completion.wr_id, "receives out of order", completion.wr_id, receive.wr_id);
    const bool received =
        completion.opcode == WcOpcode::kRecv || (good && completion.opcode == WcOpcode::kRecvRdmaWithImm);
    check(received && completion.qpn == qp->init().qpn, "shape of a receive");
    ++receives_done;
    if (!good) {
        recv_failed = true;
        check(!only_flush || completion.status == WcStatus::kWrFlushErr, "a receive that failed");
        return;
    }
    if (!strict) {
        check(completion.opcode == WcOpcode::kRecvRdmaWithImm || completion.byte_len <= receive.capacity,
              "more octets than room");
        return;
    }
    // The n-th receive takes the n-th Send or Immediate Data, and everything before that is placed (RDMAP-58).
    std::size_t sends = 0;
    for (Op& op : peer->ops) {
        if (awaits_response(op.opcode)) continue;
        if (is_write(op.opcode)) {
            if (!op.certain) expect_placed(op.payload, op.sink, arena, "a Write before a Send is not in memory");
            op.certain = true;
        }
        if (!op.takes_receive()) continue;
        if (sends++ + 1 != receives_done) continue;
        const bool of_write = op.opcode == WrOpcode::kWriteImm;
        check((completion.opcode == WcOpcode::kRecvRdmaWithImm) == of_write, "opcode of a receive");
        check(completion.byte_len == op.payload.size(), "octets of a receive", completion.byte_len, op.payload.size());
        const bool invalidates = op.opcode == WrOpcode::kSendInv;
        check(completion.wc_flags == (invalidates                ? wc_flag::kWithInv
                                      : has_immediate(op.opcode) ? wc_flag::kWithImm
                                                                 : 0),
              "flags of a receive");
        if (has_immediate(op.opcode)) check(completion.imm_data == op.imm_data, "Immediate Data of a receive");
        if (invalidates) {
            check(completion.invalidated_stag == op.invalidated, "invalidated STag");
            check(memory.invalidate_remote(kPd, op.invalidated) == MemoryError::kInvalidStag, "STag still valid");
        }
        if (!of_write) expect_placed(op.payload, receive.sink, arena, "a Send that was delivered is not in memory");
        op.certain = receive.certain = true;
        return;
    }
    throw Failure("a receive without a Send");
}

void Side::expect_placed(const Bytes& payload, const std::vector<Range>& sink, const Bytes& in, const char* what) {
    std::size_t at = 0;
    for (const Range& range : sink) {
        const std::size_t part = std::min<std::size_t>(range.length, payload.size() - at);
        check(std::equal(payload.begin() + static_cast<std::ptrdiff_t>(at),
                         payload.begin() + static_cast<std::ptrdiff_t>(at + part),
                         in.begin() + static_cast<std::ptrdiff_t>(range.offset)),
              what, range.offset, part);
        at += part;
    }
    check(at == payload.size(), "the sink is too small");
}

// The stream is over: each request has had its completion, but for those that succeeded unsignalled.
void Side::expect_all_completed() {
    for (int i = 0; i < 100000 && (ops_done < ops.size() || receives_done < receives.size()); ++i) {
        const std::size_t before = ops_done + receives_done;
        poll();
        if (before == ops_done + receives_done) break;
    }
    poll();
    check(receives_done == receives.size(), "a receive was not completed", receives_done, receives.size());
    for (std::size_t i = ops_done; i < ops.size(); ++i)
        check(!ops[i].signaled && !send_failed, "a request was not completed", ops[i].wr_id);
    int more = 0;
    send_cq.poll(1, [&](const WorkCompletion&) { ++more; });
    recv_cq.poll(1, [&](const WorkCompletion&) { ++more; });
    check(more == 0, "completions behind the end");
}

}  // namespace swrnic::engine::sim
