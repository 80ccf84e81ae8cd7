// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// One step of sending: fill a layout with planned FPDUs, send it, commit what was taken. What goes into an FPDU is in
// tx_plan.cpp.
#include "engine/core/tx.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "engine/core/counters.h"
#include "engine/core/probes.h"
#include "engine/core/qp_status.h"
#include "engine/core/reads.h"
#include "engine/core/receive_completions.h"
#include "engine/core/send_queue.h"
#include "engine/core/tx_layout.h"
#include "wire/fpdu.h"

namespace swrnic::engine {

namespace {

// Octets that the kernel sends at once: whole segments, as many as 64 KiB hold besides headers.
std::size_t packet_size(std::uint32_t emss) {
    constexpr std::uint32_t kLargest = 65536 - 320;
    return emss >= kLargest ? emss : kLargest / emss * emss;
}

}  // namespace

void Tx::start(bool crc, bool markers, bool large_fpdu, bool short_first, std::uint8_t rtr, bool bypass) {
    staged_ = crc || markers || memory_.foreign() != nullptr;
    bypass_ = bypass && !markers && memory_.foreign() != nullptr;
    crc_ = crc;
    markers_ = markers;
    large_ = large_fpdu;
    short_first_ = short_first;
    staging_ = PassPool::kLeastTxStaging;
    cursor_ = Cursor{};
    cursor_.rtr = rnr_retry_ == rnr_notice::kForEver ? rtr : rtr | kNotice;
    rtr_due_ = cursor_.rtr != 0;
    cursor_.request = sq_.head();
    reads_noted_ = cursor_.request;
    partial_sent_ = 0;
    residue_.clear();
    message_failed_ = rtr_noted_ = copies_ = false;
    confirms_ = sq_.confirms();
    questions_noted_ = 0;
    atomic_msn_ = 1;
    questions_ = 0;
    unasked_ = false;
    if (local_ != nullptr && local_->replaced != nullptr) memory_.bury(std::move(local_->replaced));
    local_.reset();
}

void Tx::set_rnr_retry(const TxGuard&, std::uint8_t retries) {
    if (std::exchange(rnr_retry_, retries) == retries) return;
    cursor_.rtr |= kNotice;
    rtr_due_ = true;
}

bool Tx::has_work() const {
    if (status_.has_fault() || rtr_due_.load(std::memory_order_relaxed)) return true;
    if (stream_.fenced.load(std::memory_order_relaxed)) return false;
    if (!reads_.irq.empty() || sq_.sent() != sq_.tail()) return true;
    // seq_cst: who has taken in an answer sees what is unasked, or the sender, who looks for answers once it has noted
    // that and send_ended(), sees the answer.
    return unasked_.load() &&
           questions_.load(std::memory_order_relaxed) - reads_.answered.load(std::memory_order_relaxed) <
               kMostQuestions;
}

bool Tx::owes_responses_alone() const {
    return !reads_.irq.empty() && sq_.sent() == sq_.tail() && !status_.has_fault();
}

bool Tx::is_done(const TxGuard&) const {
    const bool confirmed = !confirms_ || sq_.is_empty();  // behind FIN no question is answered
    return partial_sent_ == 0 && cursor_.rtr == 0 && cursor_.request == sq_.tail() && reads_.irq.empty() && confirmed;
}

// Reads before it are not complete (VERBS-5).
bool Tx::is_fenced(const SendWqe& wqe) const {
    return wqe.has(send_flag::kFence) && reads_.completed.load(std::memory_order_acquire) != wqe.reads_before;
}

// A request that is done here is executed when all before it is with the transport, and a fence with Reads (VERBS-5).
bool Tx::local_is_next() const {
    if (status_.has_fault() || stream_.fenced || cursor_.rtr != 0 || partial_sent_ != 0 || cursor_.offset != 0)
        return false;
    if (cursor_.request == sq_.tail()) return false;
    const SendWqe& wqe = *sq_.peek(cursor_.request);
    return is_local(wqe.opcode) && !is_fenced(wqe);
}

bool Tx::execute_local(WindowBindingPtr& replaced) {
    SendWqe& wqe = *sq_.peek(cursor_.request);
    const std::uint32_t pd = pd_, qpn = qpn_;
    if (ForeignMemory* foreign = memory_.foreign(); foreign != nullptr) return foreign->execute(qpn, wqe.wr_id);
    if (wqe.opcode == WrOpcode::kLocalInv) return memory_.invalidate_local(pd, wqe.remote_stag, qpn);
    binds_ = true;
    return memory_.bind(pd, qpn, wqe.remote_stag, wqe.remote_to, wqe.bind(), replaced);
}

// Complete means that nobody reads or writes through the old STag any more (SEC-6), whichever thread it was that did.
Tx::Status Tx::step_local(Pass& pass) {
    if (local_ == nullptr) {
        WindowBindingPtr replaced;
        if (!execute_local(replaced)) {
            raise_local_failure(cursor_.request, WcStatus::kMwBindErr);
            return Status::kMoved;
        }
        local_.reset(new Local{std::move(replaced), memory_.grace(pass)});
    }
    if (!local_->grace.over()) return Status::kWaiting;
    local_.reset();
    ++cursor_.request;
    cursor_.response_turn = true;
    sq_.set_sent(cursor_.request, pass);
    return Status::kMoved;
}

Tx::Status Tx::step(const TxGuard&, Pass& pass, Tail tail) {
    if (local_is_next()) return step_local(pass);
    Layout layout(pass.tx_staging().first(staging_), pass.tx_scratch());
    mulpdu_ = large_ ? wire::kMaxUlpdu : wire::mulpdu(stream_.transport->emss(), markers_);
    fill(layout, tail);
    if (layout.octets == 0) {
        if (partial_sent_ != 0) return Status::kBroken;  // an FPDU stays cut off: its memory is gone
        const bool nothing_more = status_.has_fault() && (cursor_.terminated || status_.fault().terminate_len == 0);
        return nothing_more ? Status::kLast : Status::kIdle;
    }
    layout.close_run();
    const Cursor& last = layout.records[layout.record_count - 1].after;
    reads_.responses_given.store(last.responses, std::memory_order_release);
    sq_.set_begun(last.request + (last.offset != 0 || last.inside == Inside::kRequest ? 1 : 0));
    receive_completions_.send_begins();
    const Status status = send(layout, pass);
    if (!receive_completions_.send_ended(pass)) status_.lose_completion();
    return status;
}

Tx::Status Tx::send(Layout& layout, Pass& pass) {
    const IoResult result =
        layout.named_count != 0 ? send_named(layout) : stream_.transport->send(layout.slices, layout.slice_count);
    counters_.add(Count::kTxCalls, 1);
    // The kernel copies faster in few large sends than in many small ones; but what it leaves is staged once more.
    staging_ = result.count == layout.octets ? std::min(staging_ * 2, PassPool::kTxStaging) : PassPool::kLeastTxStaging;
    switch (result.status) {
        case IoStatus::kOk:
            if (layout.record_count == 0) return Status::kMoved;  // the first of them failed
            copies_ = false;
            commit(layout, result.count, pass);
            if (cursor_.terminated) return Status::kLast;
            if (result.count != layout.octets) return Status::kBlocked;
            return layout.corked ? Status::kCorked : Status::kMoved;
        case IoStatus::kAgain:
            return Status::kBlocked;
        case IoStatus::kFault:
            // Nothing was sent. A copy asks the program's handler whether it lifts a protection, and finds out which
            // message it is whose memory has gone.
            if (!std::exchange(copies_, true)) return Status::kMoved;
            raise_local_failure(
                layout.records[0].plan.kind == Kind::kRequest ? std::optional(cursor_.request) : std::nullopt,
                WcStatus::kLocProtErr);
            return Status::kBroken;  // staging is never at fault
        default:
            return Status::kBroken;
    }
}

// Leaves in the layout what was laid out before a name that is not good.
IoResult Tx::send_named(Layout& layout) {
    const ForeignMemory::Departure departure =
        memory_.foreign()->transmit(qpn_, {layout.named, layout.named_count}, layout.rest_room());
    if (departure.status != IoStatus::kOk) return {departure.status, 0};
    if (departure.laid_out == 0) payload_failed(cursor_, layout.records[0].plan.kind, departure.error);
    layout.record_count = departure.laid_out;
    layout.octets = departure.laid_out != 0 ? layout.records[departure.laid_out - 1].end : 0;
    layout.rest = layout.rest_room().first(departure.left);
    for (std::uint32_t i = 0, left = departure.done; left != 0; ++i) {
        if (!layout.named[i].ends) continue;
        sq_.leave_unreported(i == 0 ? cursor_.request : layout.records[i - 1].after.request);
        --left;
    }
    return {departure.sent != 0 || departure.laid_out == 0 ? IoStatus::kOk : IoStatus::kAgain, departure.sent};
}

// Whether the next FPDU belongs into this send: not with a small message that would begin another packet when those
// posted behind it, if they are like it, do not fill that. Moves packet_end, in octets of the send, behind it.
bool Tx::fills_packet(const Layout& layout, const Cursor& at, const Plan& next, std::size_t& packet_end) const {
    if (next.kind != Kind::kRequest || !at.is_between_messages()) return true;
    const SendWqe& wqe = *sq_.peek(at.request);
    const std::size_t length = awaits_response(wqe.opcode) ? 0 : wqe.length;
    if (length > kCopy) return true;
    const std::size_t fpdus = next.payload == length ? 1 : (length + next.payload - 1) / next.payload;
    const std::size_t size = length + fpdus * (wire::kFpduHeaderLen + wire::kUntaggedHeaderLen + wire::kCrcLen);
    const std::size_t end = layout.octets + size;
    if (end <= packet_end) return true;
    const std::size_t packet = packet_size(stream_.transport->emss());
    while (packet_end < end)
        packet_end += packet;
    return (sq_.tail() - at.request) * size >= packet;
}

void Tx::fill(Layout& layout, Tail tail) {
    const Cursor* at = &cursor_;
    const auto record = [&](const Plan& planned) {  // what stands in the next record already
        Record& next = layout.records[layout.record_count++];
        next.end = layout.octets;
        next.plan = planned;
        at = &next.after;
    };
    if (!residue_.empty()) {
        layout.add_slice({residue_.octets().data(), residue_.size()});
        layout.records[0].after = residue_after_;
        record(partial_plan_);
        if (bypass_) return;  // what follows goes another way
    } else if (partial_sent_ != 0) {
        if (!lay_out(layout, *at, partial_plan_, layout.records[0].after)) return;
        layout.drop_front(partial_sent_);
        record(partial_plan_);
    }
    const std::size_t largest =
        staged_ || copies_ ? wire::fpdu_size_with_markers(0, mulpdu_) : kCopy + wire::kMaxTerminateUlpdu + 16;
    const std::size_t room = markers_ ? largest * 2 : largest;  // markers: once without, once with them
    const std::size_t most = bypass_ ? ForeignMemory::kMostOctets - largest + 1 : kMaxOctets;
    std::size_t packet_end = tail == Tail::kCork ? packet_size(stream_.transport->emss()) : 0;
    Plan next;
    while (layout.has_room(room) && layout.record_count < kMaxRecords && layout.octets < most && plan(*at, next)) {
        if (tail == Tail::kCork && !fills_packet(layout, *at, next, packet_end)) {
            layout.corked = true;
            return;
        }
        if (lay_out(layout, *at, next, layout.records[layout.record_count].after)) {
            record(next);
        } else if (layout.record_count != 0 || !status_.has_fault()) {
            return;  // found out ahead of its turn, or the QP is being aborted
        }
    }
}

// The first `whole` FPDUs of the step are with the transport; cursor_ still stands before them.
void Tx::count(const Layout& layout, std::uint32_t whole) {
    std::uint64_t bytes = 0;
    const Cursor* before = &cursor_;
    for (std::uint32_t i = 0; i < whole; ++i) {
        const Cursor& after = layout.records[i].after;
        bytes += layout.records[i].plan.payload;
        SWRNIC_PROBE(fpdu_out, qpn_, static_cast<int>(layout.records[i].plan.kind), layout.records[i].plan.payload);
        switch (layout.records[i].plan.kind) {
            case Kind::kRequest: {
                if (after.request == before->request) break;
                const WrOpcode opcode = sq_.peek(before->request)->opcode;
                const bool write = opcode == WrOpcode::kWrite, plain = is_plain(opcode);
                if (opcode == WrOpcode::kWriteImm)
                    counters_.add(Count::kTxWrites, 1);  // its other message is as a Send
                counters_.add(write                               ? Count::kTxWrites
                              : plain || !awaits_response(opcode) ? Count::kTxSends
                                                                  : Count::kTxReadRequests,
                              1);
                break;
            }
            case Kind::kResponse:
                if (after.responses != before->responses) counters_.add(Count::kTxReadResponses, 1);
                break;
            case Kind::kRtr:
                counters_.add((before->rtr & rtr::kSend) != 0   ? Count::kTxSends
                              : (before->rtr & rtr::kRead) != 0 ? Count::kTxReadRequests
                                                                : Count::kTxWrites,
                              1);
                break;
            case Kind::kQuestion:
                counters_.add(Count::kTxReadRequests, 1);
                break;
            case Kind::kTerminate:
                SWRNIC_PROBE(terminate_out, qpn_, status_.fault().vendor_err());
                counters_.add(Count::kTxTerminates, 1);
                counters_.add_terminate(Count::kTxTerminated, status_.fault().vendor_err());
                break;
        }
        before = &after;
    }
    counters_.add(Count::kTxBytes, bytes);
    counters_.add(Count::kTxFpdus, whole);
}

void Tx::commit(const Layout& layout, std::size_t sent, Pass& pass) {
    const std::uint32_t responses_before = cursor_.responses;
    std::uint32_t whole = 0;
    while (whole < layout.record_count && layout.records[whole].end <= sent)
        ++whole;
    const std::size_t start =
        whole != 0 ? layout.records[whole - 1].end : 0;         // of the FPDU that went out in part, if any
    const std::size_t before = whole != 0 ? 0 : partial_sent_;  // what of it was out already
    if (whole != 0) {
        count(layout, whole);
        cursor_ = layout.records[whole - 1].after;
        residue_.clear();
        rtr_due_.store(cursor_.rtr != 0, std::memory_order_relaxed);
        if (confirms_) {
            questions_.store(cursor_.questions, std::memory_order_relaxed);
            unasked_.store(cursor_.unasked != 0, std::memory_order_relaxed);
        }
    }
    partial_sent_ = sent > start || whole == 0 ? before + (sent - start) : 0;
    if (partial_sent_ != 0) {
        const Record& cut = layout.records[whole];
        partial_plan_ = cut.plan;
        if (staged_) {
            ByteBuffer rest;
            rest.append(layout.named_count != 0 ? layout.rest : layout.staged(sent, cut.end));
            residue_ = std::move(rest);
            residue_after_ = cut.after;
        }
    }
    for (std::uint32_t i = responses_before; i != cursor_.responses; ++i)
        reads_.irq.release();
    if (sq_.sent() != cursor_.request) sq_.set_sent(cursor_.request, pass);
}

}  // namespace swrnic::engine
