// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// What the next FPDU is, and how it is laid out.
#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "engine/core/atomics.h"
#include "engine/core/copy.h"
#include "engine/core/memory_codes.h"
#include "engine/core/qp_status.h"
#include "engine/core/reads.h"
#include "engine/core/scatter.h"
#include "engine/core/send_queue.h"
#include "engine/core/tx.h"
#include "engine/core/tx_layout.h"
#include "wire/fpdu.h"

namespace swrnic::engine {

namespace {

using wire::Opcode;

// A non-zero STag for messages in which it means nothing: some adapters dislike 0 (MPA-51).
constexpr std::uint32_t kAnyStag = 1;

// Octets after which a stream of requests is asked about, though it goes on; each message counts as so many more.
constexpr std::uint32_t kAskAfter = 256 * 1024, kChargeOfMessage = 4096;

Opcode send_opcode(const SendWqe& wqe) {
    const bool invalidates = wqe.opcode == WrOpcode::kSendInv;
    if (wqe.has(send_flag::kSolicited)) return invalidates ? Opcode::kSendSolicitedInvalidate : Opcode::kSendSolicited;
    return invalidates ? Opcode::kSendInvalidate : Opcode::kSend;
}

// Which of the two messages of a request that has_immediate() is the Immediate Data.
bool is_immediate(const SendWqe& wqe, bool second) {
    return wqe.opcode == (second ? WrOpcode::kWriteImm : WrOpcode::kSendImm);
}

}  // namespace

// ---- planning ----

bool Tx::plan(const Cursor& at, Plan& out) {
    if (at.terminated) return false;
    const bool faulted = status_.has_fault();
    if (faulted && status_.fault().terminate_len == 0) return false;  // a Terminate came in, or none may go out
    // Between messages only (RFC 5040 7.1), unless the message in progress is what failed.
    if (faulted && (message_failed_ || (at.offset == 0 && at.inside != Inside::kResponse))) {
        out = {Kind::kTerminate, 0};
        return true;
    }
    if (at.rtr != 0 && at.is_between_messages() && !stream_.fenced) {
        out = {Kind::kRtr, 0};
        return true;
    }
    if (confirms_ && must_ask(at)) {
        out = {Kind::kQuestion, 0};
        return true;
    }
    if (plan_message(at, out)) return true;
    if (confirms_ && may_ask(at)) {
        out = {Kind::kQuestion, 0};
        return true;
    }
    // Planning itself may have raised the fault.
    return !faulted && status_.has_fault() && plan(at, out);
}

bool Tx::plan_message(const Cursor& at, Plan& out) {
    if (stream_.fenced) return false;  // RFC 5044 7.1.2 (4)
    bool response = false;
    if (!at.is_between_messages()) {
        response = at.inside == Inside::kResponse;
    } else {
        // Messages are not interleaved; between them Responses and requests take turns (DDP-36).
        const bool waiting = at.responses - cursor_.responses < reads_.irq.size();
        response = waiting && at.response_turn;
        if (!response && !request_may_start(at)) {
            if (!waiting || status_.has_fault()) return false;  // nothing starts after a fault
            response = true;
        }
        if (response && !response_may_start(at)) return false;
    }
    if (response) {
        const wire::ReadRequest& request = reads_.irq.peek(at.responses - cursor_.responses).request;
        out = {Kind::kResponse, cut(request.size - at.response_offset, wire::max_tagged_payload(mulpdu_))};
        return true;
    }
    const SendWqe& wqe = *sq_.peek(at.request);
    bool tagged = wqe.opcode == WrOpcode::kWrite;
    if (!is_plain(wqe.opcode)) {
        if (!carries_payload(at, wqe)) {
            out = {Kind::kRequest, 0};
            return true;
        }
        tagged = wqe.opcode == WrOpcode::kWriteImm;
    }
    const std::uint32_t room = tagged ? wire::max_tagged_payload(mulpdu_) : wire::max_untagged_payload(mulpdu_);
    out = {Kind::kRequest, cut(wqe.length - at.offset, room)};
    return true;
}

// Not so a Request, and Immediate Data.
bool Tx::carries_payload(const Cursor& at, const SendWqe& wqe) {
    return !awaits_response(wqe.opcode) && !is_immediate(wqe, at.inside == Inside::kRequest);
}

// A question is for all that was sent before it. While one is under way the next batch may be asked about.
bool Tx::may_ask(const Cursor& at) const {
    return at.is_between_messages() && at.unasked != 0 && at.questions == questions_noted_ &&
           at.questions - reads_.answered.load(std::memory_order_acquire) < kMostQuestions &&
           reads_.orq.size() < stream_.parameters.ord && !status_.has_fault();
}

// A stream that never pauses would else be asked about never. And one that was noted among the Reads, but not sent, has
// its place in the stream.
bool Tx::must_ask(const Cursor& at) const {
    if (at.questions != questions_noted_) return at.request == question_at_ && at.is_between_messages();
    return at.unasked >= kAskAfter && may_ask(at);
}

// Payload of the next segment, of `left` octets of the message. Short first: then the receiver can predict all others.
std::uint32_t Tx::cut(std::uint32_t left, std::uint32_t room) const {
    if (left <= room) return left;
    const std::uint32_t over = short_first_ ? left % room : 0;
    return over != 0 ? over : room;
}

bool Tx::request_may_start(const Cursor& at) {
    if (status_.has_fault() || at.request == sq_.tail()) return false;
    const SendWqe& wqe = *sq_.peek(at.request);
    bool read = false;
    if (!is_plain(wqe.opcode)) {
        if (is_local(wqe.opcode)) return false;  // in its turn, when all before it is out (step_local)
        if (needs_rfc7306(wqe.opcode) && !stream_.parameters.rfc7306) {
            // It was posted before anybody knew the peer (Qp::check).
            if (at == cursor_) raise_local_failure(at.request, WcStatus::kLocQpOpErr);
            return false;
        }
        read = awaits_response(wqe.opcode);
        if (read && at.request >= reads_noted_ && reads_.orq.size() >= stream_.parameters.ord)
            return false;  // RFC 5040 6.1
    }
    if (is_fenced(wqe)) return false;
    // Memory is looked at once before the message starts, so that a bad request does not cut a message off. One that
    // fits an FPDU is laid out whole or not at all.
    if (!read && wqe.length <= wire::max_untagged_payload(mulpdu_)) return true;
    IoSlice unused[64];
    const std::uint32_t needed = read ? access::kLocalWrite : 0;
    const SliceResult all = slice_sges(memory_, pd_, wqe.sges(), wqe.sge_count, 0, wqe.length, needed, unused, 64);
    if (all.error == MemoryError::kNone) return true;
    if (all.error == MemoryError::kForeign) return true;  // found out when it is copied
    request_failed(at);
    return false;
}

bool Tx::response_may_start(const Cursor& at) {
    const InboundRead& read = reads_.irq.peek(at.responses - cursor_.responses);
    if (read.is_atomic()) [[unlikely]]
        return read.state == InboundRead::State::kExecuted || execute_atomic(at);
    if (read.request.size == 0) return true;
    const MemoryError error = reads_.check_source(read.request);
    if (error == MemoryError::kNone) return true;
    source_failed(at, error);
    return false;
}

// Once, and when its turn has come: the Reads before it have their octets. They are with the transport, or it follows
// an atomic of which that was true.
bool Tx::execute_atomic(const Cursor& at) {
    const std::uint32_t index = at.responses - cursor_.responses;
    if (index != 0 && !reads_.irq.peek(index - 1).is_atomic()) return false;
    InboundRead& read = reads_.irq.take_up(index);
    const MemoryView target = reads_.find_target(read.atomic);
    MemoryError error = target.error;
    if (error == MemoryError::kNone && !change_atomically(target.data, read.atomic, read.original))
        error = MemoryError::kInvalidStag;  // the program has taken the memory away
    if (error != MemoryError::kNone) {
        target_failed(at, error);
        return false;
    }
    read.response_msn = atomic_msn_++;
    read.state = InboundRead::State::kExecuted;
    return true;
}

void Tx::payload_failed(const Cursor& at, Kind kind, MemoryError error) {
    if (kind == Kind::kResponse) {
        source_failed(at, error);
    } else {
        request_failed(at);
    }
}

void Tx::request_failed(const Cursor& at) {
    if (at != cursor_) return;
    message_failed_ = at.offset != 0;
    raise_local_failure(at.request, WcStatus::kLocProtErr);
}

void Tx::raise_local_failure(std::optional<std::uint64_t> index, WcStatus status) {
    Fault fault = Fault::answered(wire::fault::kLocalFailure, AsyncEvent::kQpFatal);
    fault.send_index = index;
    fault.send_status = status;
    status_.raise(fault);
}

// The region of an accepted Read Request has gone since; the Terminate quotes what was not answered yet (RFC 5040 4.8).
void Tx::source_failed(const Cursor& at, MemoryError error) {
    if (at != cursor_) return;
    const InboundRead& read = reads_.irq.peek(at.responses - cursor_.responses);
    wire::ReadRequest rest = read.request;
    rest.sink_to += at.response_offset;
    rest.source_to += at.response_offset;
    rest.size -= at.response_offset;
    std::array<std::byte, wire::kReadRequestSegmentLen> segment;
    wire::emit_read_request_segment(rest, read.msn, segment.data());
    message_failed_ = at.response_offset != 0;
    status_.raise(Fault::answered(read_code(error), AsyncEvent::kQpAccessErr, segment, segment.size()));
}

// The same of an Atomic Request, which has no RDMA header to quote (RFC 7306 8.1).
void Tx::target_failed(const Cursor& at, MemoryError error) {
    if (at != cursor_) return;
    const InboundRead& read = reads_.irq.peek();
    std::array<std::byte, wire::kAtomicRequestSegmentLen> segment;
    wire::emit_atomic_request_segment(read.atomic, read.msn, segment.data());
    status_.raise(Fault::answered(atomic_code(error), atomic_event(error), segment, segment.size()));
}

// ---- layout ----

bool Tx::is_copied(const Layout& layout, std::uint32_t payload, std::uint32_t slices) const {
    return copies_ || (payload <= kCopy && (payload <= slices * kLeastSlice || layout.octets < kCopy));
}

// Inline: small messages would pay for the call.
[[gnu::always_inline]] inline bool Tx::copy_slices(const Cursor& at, const Plan& plan, std::span<const IoSlice> slices,
                                                   std::byte* to) {
    for (const IoSlice& slice : slices) {
        if (!copy_octets(to, slice.base, slice.length)) [[unlikely]] {
            payload_failed(at, plan.kind, MemoryError::kInvalidStag);
            return false;
        }
        to += slice.length;
    }
    return true;
}

bool Tx::lay_out(Layout& layout, const Cursor& at, const Plan& plan, Cursor& after) {
    IoSlice payload[64];
    std::uint32_t slices = 0;
    if (plan.payload != 0 && !payload_slices(at, plan, payload, slices)) return false;
    std::byte* const start = layout.staged_room();
    std::byte* const logical = markers_ ? start + wire::fpdu_size_with_markers(0, mulpdu_) : start;
    std::byte* const ulpdu = logical + wire::kFpduHeaderLen;
    const std::size_t headers = emit_headers(at, plan, ulpdu);
    const std::size_t ulpdu_len = headers + plan.payload;
    const std::size_t pad = wire::pad_len(ulpdu_len);
    wire::store_be16(logical, static_cast<std::uint16_t>(ulpdu_len));

    std::byte* write = ulpdu + headers;
    if (staged_) {
        if (bypass_) {
            after = at;
            advance(after, plan);
            name_payload(layout, at, plan, ends_request(at, after), {logical, write});
            return true;
        }
        if (!copy_payload(at, plan, {payload, slices}, write)) return false;
        write += plan.payload;
    } else if (plan.payload <= kLeastSlice || is_copied(layout, plan.payload, slices)) {
        if (!copy_slices(at, plan, {payload, slices}, write)) return false;
        write += plan.payload;
    } else {
        layout.wrote(static_cast<std::size_t>(write - start));
        for (std::uint32_t i = 0; i < slices; ++i)
            layout.add_slice(payload[i]);
        write = layout.staged_room();
    }
    std::memset(write, 0, pad + wire::kCrcLen);
    write += pad + wire::kCrcLen;
    std::size_t raw_len = static_cast<std::size_t>(write - logical);
    if (markers_) {
        const std::span<const std::byte> unmarked(logical, raw_len - wire::kCrcLen);
        raw_len = wire::fpdu_size_with_markers(at.position, ulpdu_len);
        wire::insert_markers(at.position, unmarked, {start, raw_len});
        write = start + raw_len;
    }
    if (staged_) wire::seal_fpdu({start, raw_len}, crc_);
    layout.wrote(static_cast<std::size_t>(write - layout.staged_room()));
    after = at;
    advance(after, plan);
    after.position += raw_len;
    return true;
}

// Of those that are complete when they are sent.
bool Tx::ends_request(const Cursor& at, const Cursor& after) {
    return after.request != at.request && !confirms_ && !awaits_response(sq_.peek(at.request)->opcode);
}

void Tx::name_payload(Layout& layout, const Cursor& at, const Plan& plan, bool ends,
                      std::span<const std::byte> header) {
    ForeignMemory::Outgoing& fpdu = layout.add_named();
    std::memcpy(fpdu.header.data(), header.data(), header.size());
    fpdu.header_len = static_cast<std::uint32_t>(header.size());
    fpdu.payload = plan.payload;
    fpdu.ends = ends;
    fpdu.name = plan.payload != 0 || ends ? source_name(at, plan) : ForeignName{ForeignName::Kind::kSend, 0, 0, 0};
    layout.octets += wire::fpdu_size(header.size() - wire::kFpduHeaderLen + plan.payload);
}

// No slices where there should be some: the memory is foreign.
bool Tx::payload_slices(const Cursor& at, const Plan& plan, IoSlice* out, std::uint32_t& count) {
    if (plan.kind == Kind::kResponse) {
        const wire::ReadRequest& request = reads_.irq.peek(at.responses - cursor_.responses).request;
        const MemoryView view = memory_.look_up(pd_, request.source_stag, request.source_to + at.response_offset,
                                                plan.payload, access::kRemoteRead, qpn_);
        if (view.error == MemoryError::kForeign) return true;
        if (view.error != MemoryError::kNone) {
            source_failed(at, view.error);
            return false;
        }
        out[0] = {view.data, plan.payload};
        count = 1;
        return true;
    }
    SendWqe& wqe = *sq_.peek(at.request);
    if (wqe.has(send_flag::kInline)) {
        out[0] = {wqe.inline_data() + at.offset, plan.payload};
        count = 1;
        return true;
    }
    const SliceResult result = slice_sges(memory_, pd_, wqe.sges(), wqe.sge_count, at.offset, plan.payload, 0, out, 64);
    if (result.error != MemoryError::kNone || result.length != plan.payload) {
        if (result.error == MemoryError::kForeign) return true;
        request_failed(at);
        return false;
    }
    count = result.count;
    return true;
}

bool Tx::copy_payload(const Cursor& at, const Plan& plan, std::span<const IoSlice> slices, std::byte* to) {
    if (!slices.empty() || plan.payload == 0) return copy_slices(at, plan, slices, to);
    return copy_foreign(at, plan, to);
}

ForeignName Tx::source_name(const Cursor& at, const Plan& plan) const {
    if (plan.kind != Kind::kResponse) return {ForeignName::Kind::kSend, sq_.peek(at.request)->wr_id, at.offset};
    const wire::ReadRequest& request = reads_.irq.peek(at.responses - cursor_.responses).request;
    return {ForeignName::Kind::kTagged, request.source_stag, request.source_to + at.response_offset,
            at.response_offset == 0 ? request.size : 0};
}

bool Tx::copy_foreign(const Cursor& at, const Plan& plan, std::byte* to) {
    const MemoryError error = memory_.foreign()->copy_in(qpn_, source_name(at, plan), {to, plan.payload});
    if (error != MemoryError::kNone) payload_failed(at, plan.kind, error);
    return error == MemoryError::kNone;
}

std::size_t Tx::emit_headers(const Cursor& at, const Plan& plan, std::byte* out) {
    switch (plan.kind) {
        case Kind::kRequest:
            return emit_request(at, plan, out);
        case Kind::kResponse:
            return emit_response(at, plan, out);
        case Kind::kRtr:
            return emit_rtr(at, out);
        case Kind::kQuestion:
            return emit_question(at, out);
        case Kind::kTerminate:
            break;
    }
    std::memcpy(out, status_.fault().terminate.data(), status_.fault().terminate_len);
    return status_.fault().terminate_len;
}

std::size_t Tx::emit_response(const Cursor& at, const Plan& plan, std::byte* out) const {
    const InboundRead& read = reads_.irq.peek(at.responses - cursor_.responses);
    if (read.is_atomic()) {
        wire::UntaggedHeader{
            true, wire::rdmap_control(Opcode::kAtomicResponse), 0, wire::kAtomicResponseQueue, read.response_msn, 0}
            .emit(out);
        wire::AtomicResponse{read.atomic.id, read.original}.emit(out + wire::kUntaggedHeaderLen);
        return wire::kAtomicResponseSegmentLen;
    }
    const wire::ReadRequest& request = read.request;
    const bool last = at.response_offset + plan.payload == request.size;
    wire::TaggedHeader{last, wire::rdmap_control(Opcode::kReadResponse), request.sink_stag,
                       request.sink_to + at.response_offset}
        .emit(out);
    return wire::kTaggedHeaderLen;
}

std::size_t Tx::emit_immediate(const Cursor& at, const SendWqe& wqe, std::byte* out) const {
    const bool by_itself = wqe.opcode == WrOpcode::kWriteImm;
    const bool solicited = by_itself && wqe.has(send_flag::kSolicited);  // else the Send's
    wire::UntaggedHeader{true,        wire::rdmap_control(solicited ? Opcode::kImmediateSolicited : Opcode::kImmediate),
                         0,           wire::kSendQueue,
                         at.send_msn, 0}
        .emit(out);
    wire::Immediate{wqe.imm_data, by_itself ? wire::Immediate::kByItself : wire::Immediate::kOfNextSend}.emit(
        out + wire::kUntaggedHeaderLen);
    return wire::kImmediateSegmentLen;
}

std::size_t Tx::emit_atomic(const Cursor& at, std::byte* out) {
    const std::uint32_t id = note_read(at.request, at.read_msn);
    SendWqe& wqe = *sq_.peek(at.request);
    const AtomicWr& operands = wqe.atomic();
    constexpr std::uint64_t kAll = ~std::uint64_t{0};
    const wire::AtomicRequest request =
        wqe.opcode == WrOpcode::kCmpSwap
            ? wire::AtomicRequest{wire::AtomicOpcode::kCmpSwap,
                                  id,
                                  wqe.remote_stag,
                                  wqe.remote_to,
                                  operands.swap,
                                  kAll,
                                  operands.compare_add,
                                  kAll}
            : wire::AtomicRequest{
                  wire::AtomicOpcode::kFetchAdd, id, wqe.remote_stag, wqe.remote_to, operands.compare_add, 0, 0, kAll};
    wire::emit_atomic_request_segment(request, at.read_msn, out);
    return wire::kAtomicRequestSegmentLen;
}

std::size_t Tx::emit_other(const Cursor& at, const SendWqe& wqe, std::byte* out) {
    if (has_immediate(wqe.opcode)) return emit_immediate(at, wqe, out);
    if (is_atomic(wqe.opcode)) return emit_atomic(at, out);
    const std::uint32_t sink = note_read(at.request, at.read_msn);
    wire::emit_read_request_segment({sink, 0, wqe.length, wqe.remote_stag, wqe.remote_to}, at.read_msn, out);
    return wire::kReadRequestSegmentLen;
}

std::size_t Tx::emit_request(const Cursor& at, const Plan& plan, std::byte* out) {
    const SendWqe& wqe = *sq_.peek(at.request);
    bool tagged = wqe.opcode == WrOpcode::kWrite;
    if (!is_plain(wqe.opcode)) {
        if (!carries_payload(at, wqe)) return emit_other(at, wqe, out);
        tagged = wqe.opcode == WrOpcode::kWriteImm;
    }
    const bool last = at.offset + plan.payload == wqe.length;
    if (tagged) {
        wire::TaggedHeader{last, wire::rdmap_control(Opcode::kWrite), wqe.remote_stag != 0 ? wqe.remote_stag : kAnyStag,
                           wqe.remote_to + at.offset}
            .emit(out);
        return wire::kTaggedHeaderLen;
    }
    const std::uint32_t invalidate = wqe.opcode == WrOpcode::kSendInv ? wqe.remote_stag : 0;
    wire::UntaggedHeader{last,     wire::rdmap_control(send_opcode(wqe)), invalidate, wire::kSendQueue, at.send_msn,
                         at.offset}
        .emit(out);
    return wire::kUntaggedHeaderLen;
}

// RFC 6581 9.2: an empty message of the kind that both sides set. Behind it what a wired QP says of itself.
std::size_t Tx::emit_rtr(const Cursor& at, std::byte* out) {
    switch (at.rtr & ~kNotice) {
        case 0:
            wire::TaggedHeader{true, wire::rdmap_control(Opcode::kWrite), rnr_notice::kStag, rnr_retry_}.emit(out);
            return wire::kTaggedHeaderLen;
        case rtr::kRead:
            if (!std::exchange(rtr_noted_, true)) reads_.orq.publish({OutboundRead::kNoWqe, kAnyStag, 0, at.read_msn});
            wire::emit_read_request_segment({kAnyStag, 0, 0, kAnyStag, 0}, at.read_msn, out);
            return wire::kReadRequestSegmentLen;
        case rtr::kSend:
            wire::UntaggedHeader{true, wire::rdmap_control(Opcode::kSend), 0, wire::kSendQueue, at.send_msn, 0}.emit(
                out);
            return wire::kUntaggedHeaderLen;
        default:
            wire::TaggedHeader{true, wire::rdmap_control(Opcode::kWrite), kAnyStag, 0}.emit(out);
            return wire::kTaggedHeaderLen;
    }
}

std::size_t Tx::emit_question(const Cursor& at, std::byte* out) {
    if (questions_noted_ == at.questions) {
        reads_.orq.publish({OutboundRead::kNoWqe, kAnyStag, 0, at.read_msn, at.request});
        ++questions_noted_;
        question_at_ = at.request;
    }
    wire::emit_read_request_segment({kAnyStag, 0, 0, kAnyStag, 0}, at.read_msn, out);
    return wire::kReadRequestSegmentLen;
}

// Gives a Read or an atomic its place among the outstanding ones, once, before its Request can leave. Returns its sink
// STag, or identifier. A Request may be laid out again when its place is gone already: a peer can answer what it has
// not been asked in full.
std::uint32_t Tx::note_read(std::uint64_t index, std::uint32_t msn) {
    SendWqe& wqe = *sq_.peek(index);
    if (index < reads_noted_) return wqe.sink_stag;
    wqe.sink_stag = 0;
    while (wqe.sink_stag == 0)
        wqe.sink_stag = random_.next32();
    reads_.orq.publish({index, wqe.sink_stag, wqe.length, msn, index});
    reads_noted_ = index + 1;
    return wqe.sink_stag;
}

// Requests that are not plain. False: there is more of it.
bool Tx::advance_other(Cursor& at, const SendWqe& wqe) {
    if (awaits_response(wqe.opcode)) {
        ++at.read_msn;
        return true;
    }
    const bool second = at.inside == Inside::kRequest;
    if (!is_immediate(wqe, second) && at.offset != wqe.length) return false;
    if (is_immediate(wqe, second) || wqe.opcode == WrOpcode::kSendImm) ++at.send_msn;
    at.offset = 0;
    at.inside = second ? Inside::kNothing : Inside::kRequest;
    return second;
}

// Inline wherever it is called: small messages would pay for the call.
[[gnu::always_inline]] inline void Tx::advance(Cursor& at, const Plan& plan) {
    switch (plan.kind) {
        case Kind::kTerminate:
            at.terminated = true;
            break;
        case Kind::kRtr:
            if ((at.rtr & rtr::kSend) != 0) ++at.send_msn;
            if ((at.rtr & rtr::kRead) != 0) ++at.read_msn;
            at.rtr = (at.rtr & ~kNotice) != 0 ? at.rtr & kNotice : 0;
            break;
        case Kind::kQuestion:
            ++at.read_msn;
            ++at.questions;
            at.unasked = 0;
            break;
        case Kind::kResponse:
            at.response_offset += plan.payload;
            at.inside = Inside::kResponse;
            if (at.response_offset != reads_.irq.peek(at.responses - cursor_.responses).request.size) break;
            at.inside = Inside::kNothing;
            at.response_offset = 0;
            ++at.responses;
            at.response_turn = false;
            break;
        case Kind::kRequest: {
            const SendWqe& wqe = *sq_.peek(at.request);
            at.offset += plan.payload;
            if (!is_plain(wqe.opcode)) {
                if (!advance_other(at, wqe)) break;
            } else if (at.offset != wqe.length) {
                break;
            } else if (wqe.opcode != WrOpcode::kWrite) {
                ++at.send_msn;
            }
            if (confirms_)
                at.unasked =
                    awaits_response(wqe.opcode) ? 0 : at.unasked + kChargeOfMessage + std::min(wqe.length, kAskAfter);
            at.offset = 0;
            ++at.request;
            at.response_turn = true;
            break;
        }
    }
}

}  // namespace swrnic::engine
