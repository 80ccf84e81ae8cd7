// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// One DDP segment: checks (in the order of DDP-31), placement, delivery. RFC 5041 5 and 7, RFC 5040 5 and 7.
#include "engine/core/rx_segment.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "engine/core/copy.h"
#include "engine/core/counters.h"
#include "engine/core/memory_codes.h"
#include "engine/core/probes.h"
#include "engine/core/qp_status.h"
#include "engine/core/reads.h"
#include "engine/core/receive_completions.h"
#include "engine/core/receive_queue.h"
#include "engine/core/send_queue.h"
#include "engine/core/stream.h"

namespace swrnic::engine {

namespace {

using wire::Opcode;

constexpr bool is_rfc7306(std::uint8_t opcode) {
    return opcode >= static_cast<std::uint8_t>(Opcode::kImmediate);
}

constexpr std::uint8_t octet(std::byte b) {
    return std::to_integer<std::uint8_t>(b);
}

// VERBS-18: what a Read of ours failed of at the peer.
constexpr WcStatus read_status(wire::TerminateCode code) {
    if (code.layer == 0 && code.type == 1) return WcStatus::kRemAccessErr;
    if (code == wire::fault::kIrdExceeded || code == wire::fault::kInvalidMsn) return WcStatus::kRemInvRdReqErr;
    if (code.layer == 0 && code.type == 2) return WcStatus::kRemInvReqErr;
    return WcStatus::kRemOpErr;
}

// Of a Send or a Write, usually complete by then: nothing but these codes says what was wrong with it.
constexpr WcStatus request_status(wire::TerminateCode code, bool tagged) {
    if (tagged) {
        const bool protection = code.type == 1 && (code.layer == 0 || code.layer == 1);
        return protection && code != wire::fault::kTaggedDdpVersion ? WcStatus::kRemAccessErr : WcStatus::kWrFlushErr;
    }
    if (code == wire::fault::kMessageTooLong) return WcStatus::kRemInvReqErr;
    return code == wire::fault::kNoBuffer ? WcStatus::kRemOpErr : WcStatus::kWrFlushErr;
}

// Of a wired QP's request, in InfiniBand's words.
constexpr WcStatus wired_status(wire::TerminateCode code) {
    if (code.layer != 2 && code.type == 1) return WcStatus::kRemAccessErr;
    if (code == wire::fault::kNoBuffer) return WcStatus::kRnrRetryExcErr;
    if (code == wire::fault::kMessageTooLong || (code.layer == 0 && code.type == 2)) return WcStatus::kRemInvReqErr;
    return WcStatus::kRemOpErr;
}

// The peer has failed of something that is not of our making: it has gone.
constexpr bool is_end_of_peer(wire::TerminateCode code) {
    return code == wire::fault::kLocalFailure || code.layer == 2;
}

constexpr bool is_write(WrOpcode opcode) {
    return opcode == WrOpcode::kWrite || opcode == WrOpcode::kWriteImm;
}

// Which requests a Terminate can be about that does not say.
bool (*can_be_meant(wire::TerminateCode code))(WrOpcode) {
    if (code.layer == 1 && code.type == 1) return is_write;
    if (code.layer == 0 && code.type == 1) return awaits_response;
    if (code.layer == 1) {
        return
            [](WrOpcode opcode) { return !is_local(opcode) && opcode != WrOpcode::kWrite && !awaits_response(opcode); };
    }
    return [](WrOpcode opcode) { return !is_local(opcode); };
}

}  // namespace

std::size_t RxSegment::header_len(std::uint8_t ddp_control, std::uint8_t rdmap_control) {
    if (wire::is_tagged(ddp_control)) return wire::kTaggedHeaderLen;
    switch (wire::opcode_of(rdmap_control)) {
        case Opcode::kReadRequest:
            return wire::kReadRequestSegmentLen;
        case Opcode::kTerminate:
            return wire::kMaxTerminateUlpdu;
        case Opcode::kImmediate:
        case Opcode::kImmediateSolicited:
            return wire::kImmediateSegmentLen;
        case Opcode::kAtomicRequest:
            return wire::kAtomicRequestSegmentLen;
        case Opcode::kAtomicResponse:
            return wire::kAtomicResponseSegmentLen;
        default:
            return wire::kUntaggedHeaderLen;
    }
}

void RxSegment::start(bool rtr_send) {
    rtr_send_ = rtr_send;
    first_ = last_ = true;
    lost_ = write_lost_ = false;
    stop_ = Stop::kNone;
    msn_ = {1, 1, 1, 1};
    send_mo_ = read_offset_ = writing_ = written_ = 0;
    immediate_ = {};
    peer_rnr_retry_ = rnr_notice::kForEver;
}

RxSegment::Verdict RxSegment::fail(Fault fault) {
    if (dry_run_) return Verdict::kFail;
    if (stream_.fenced && fault.code && fault.code->layer == 2)
        fault.terminate_len = 0;  // nothing may be sent before the first valid FPDU, not even this (MPA-94)
    status_.raise(fault);
    stop_ = Stop::kFailed;
    return Verdict::kFail;
}

RxSegment::Verdict RxSegment::fail(wire::TerminateCode code, AsyncEvent event, Header header) {
    return fail(Fault::answered(code, event, header, ulpdu_len_));
}

// ---- checks
// --------------------------------------------------------------------------------------------------------------

bool RxSegment::begins_well(Header header, std::uint32_t ulpdu_len) {
    dry_run_ = true;
    const Verdict verdict = begin(header, ulpdu_len);
    dry_run_ = false;
    return verdict == Verdict::kAccept;
}

RxSegment::Verdict RxSegment::begin(Header header, std::uint32_t ulpdu_len) {
    ulpdu_len_ = ulpdu_len;
    payload_left_ = ulpdu_len - static_cast<std::uint32_t>(header.size());
    place_.target = Target::kNothing;
    fresh_ = {};
    if (header.size() < wire::kControlLen) return fail(wire::fault::kShortSegment, AsyncEvent::kQpReqErr, {});
    const std::uint8_t ddp = octet(header[0]);
    const std::uint8_t rdmap = octet(header[1]);
    const bool tagged = wire::is_tagged(ddp);
    if (wire::ddp_version(ddp) != wire::kDdpVersion) {
        return fail(tagged ? wire::fault::kTaggedDdpVersion : wire::fault::kUntaggedDdpVersion, AsyncEvent::kQpReqErr,
                    header);
    }
    if (header.size() < wire::ddp_header_len(ddp)) return fail(wire::fault::kShortSegment, AsyncEvent::kQpReqErr, {});
    if (!wire::rdmap_version_ok(rdmap)) return fail(wire::fault::kRdmapVersion, AsyncEvent::kQpReqErr, header);
    const wire::OpcodeTraits& traits = wire::traits_of(rdmap);
    if (!traits.assigned || traits.tagged != tagged) {
        return fail(wire::fault::kUnexpectedOpcode, AsyncEvent::kQpReqErr, header);
    }
    opcode_ = rdmap & wire::kOpcodeMask;
    last_ = wire::is_last(ddp);
    if (!tagged) return begin_untagged(wire::UntaggedHeader::parse(header.data()), header);
    const auto fields = wire::TaggedHeader::parse(header.data());
    return Opcode(opcode_) == Opcode::kWrite ? begin_write(fields, header) : begin_read_response(fields, header);
}

// Of an unreliable QP: the segment is read and placed nowhere. A dry run asks what may be placed.
RxSegment::Verdict RxSegment::lose() {
    if (dry_run_) return Verdict::kStall;
    lost_ = true;
    if (last_) counters_.add(Count::kRxDrops, 1);
    return Verdict::kAccept;
}

RxSegment::Verdict RxSegment::begin_write(const wire::TaggedHeader& tagged, Header header) {
    if (payload_left_ == 0) {  // RFC 5041 5.2: nothing is checked
        if (tagged.stag == rnr_notice::kStag && tagged.to <= rnr_notice::kForEver && !dry_run_)
            peer_rnr_retry_ = static_cast<std::uint8_t>(tagged.to);
        return Verdict::kAccept;
    }
    MemoryView view = memory_.look_up(pd_, tagged.stag, tagged.to, payload_left_, access::kRemoteWrite, qpn_);
    // The QP's own grant is an access right too; it matters after STag and association.
    const bool refused_by_qp = (status_.access() & access::kRemoteWrite) == 0;
    if (view.error == MemoryError::kForeign) [[unlikely]] {
        view = {MemoryError::kNone, nullptr};  // found out when it is placed, the QP's grant too
    } else if (refused_by_qp && view.error != MemoryError::kInvalidStag && view.error != MemoryError::kWrongPd) {
        view.error = MemoryError::kAccess;
    }
    if (view.error != MemoryError::kNone && stream_.unreliable) return lose();
    if (view.error != MemoryError::kNone) return fail(write_code(view.error), AsyncEvent::kQpAccessErr, header);
    place_.target = Target::kRegion;
    place_.stag = tagged.stag;
    place_.offset = tagged.to;
    if (view.data != nullptr) fresh_ = {view.data, payload_left_};
    return Verdict::kAccept;
}

RxSegment::Verdict RxSegment::begin_read_response(const wire::TaggedHeader& tagged, Header header) {
    if (reads_.orq.empty()) return fail(wire::fault::kUnexpectedReadResponse, AsyncEvent::kQpReqErr, header);
    if (atomic_is_oldest()) return mismatch(wire::fault::kUnexpectedReadResponse, header);
    const OutboundRead& read = reads_.orq.peek();
    // RDMAP-17. An empty Response is compared by length alone: STag and TO mean nothing in it (RFC 5041 5.2).
    if (payload_left_ != 0) {
        if (tagged.stag != read.sink_stag) return mismatch(wire::fault::kTaggedInvalidStag, header);
        if (tagged.to + payload_left_ < tagged.to) return mismatch(wire::fault::kTaggedWrap, header);
        if (tagged.to != read_offset_ || payload_left_ > read.length - read_offset_) {
            return mismatch(wire::fault::kTaggedBounds, header);
        }
    }
    if (last_ && read_offset_ + payload_left_ != read.length) return mismatch(wire::fault::kTaggedBounds, header);
    if (payload_left_ == 0) return Verdict::kAccept;
    place_.target = Target::kReadSink;
    place_.offset = tagged.to;
    return find_target();
}

// Of a Response with what the oldest request asked for.
RxSegment::Verdict RxSegment::mismatch(wire::TerminateCode code, Header header) {
    const OutboundRead& read = reads_.orq.peek();
    Fault fault = Fault::answered(code, AsyncEvent::kQpFatal, header, ulpdu_len_);
    if (read.send_index != OutboundRead::kNoWqe) fault.send_index = read.send_index;
    fault.send_status = WcStatus::kBadRespErr;
    return fail(fault);
}

// Of the outbound ones, of which there are some.
bool RxSegment::atomic_is_oldest() const {
    const std::uint64_t index = reads_.orq.peek().send_index;
    return index != OutboundRead::kNoWqe && is_atomic(sq_.peek(index)->opcode);
}

RxSegment::Verdict RxSegment::begin_untagged(const wire::UntaggedHeader& untagged, Header header) {
    if (untagged.qn > wire::kAtomicResponseQueue) return fail(wire::fault::kInvalidQn, AsyncEvent::kQpReqErr, header);
    if (untagged.qn != wire::traits_of(opcode_).qn) {
        return fail(wire::fault::kUnexpectedOpcode, AsyncEvent::kQpReqErr, header);
    }
    if (is_rfc7306(opcode_)) [[unlikely]]
        return begin_rfc7306(untagged, header);
    switch (untagged.qn) {
        case wire::kSendQueue:
            return begin_send(untagged, header);
        case wire::kReadRequestQueue:
            return begin_read_request(untagged, header);
        default:
            terminated_ = terminate_meaning(header);
            return Verdict::kAccept;
    }
}

RxSegment::Verdict RxSegment::begin_rfc7306(const wire::UntaggedHeader& untagged, Header header) {
    if (memory_.foreign() != nullptr) return fail(wire::fault::kUnexpectedOpcode, AsyncEvent::kQpReqErr, header);
    switch (untagged.qn) {
        case wire::kSendQueue:
            return begin_immediate(untagged, header);
        case wire::kReadRequestQueue:
            return begin_atomic_request(untagged, header);
        default:
            return begin_atomic_response(untagged, header);
    }
}

RxSegment::Verdict RxSegment::begin_send(const wire::UntaggedHeader& untagged, Header header) {
    if (untagged.msn != msn_[wire::kSendQueue]) return fail(wire::fault::kInvalidMsn, AsyncEvent::kQpReqErr, header);
    invalidate_stag_ = untagged.invalidate_stag;
    rtr_ = first_ && rtr_send_ && Opcode(opcode_) == Opcode::kSend && payload_left_ == 0 && last_ && untagged.mo == 0;
    if (rtr_) return Verdict::kAccept;  // RFC 6581 9.2
    if (lost_) return lose();
    if (!rq_.take()) return stall();
    const RecvWqe& wqe = rq_.oldest();
    if (untagged.mo != send_mo_) return fail(wire::fault::kInvalidMo, AsyncEvent::kQpReqErr, header);
    if (std::uint64_t{send_mo_} + payload_left_ > wqe.length) {
        if (stream_.unreliable) return lose();
        Fault fault = Fault::answered(wire::fault::kMessageTooLong, AsyncEvent::kQpFatal, header, ulpdu_len_);
        fault.recv_status = WcStatus::kLocLenErr;
        return fail(fault);
    }
    place_.target = Target::kReceive;
    place_.offset = send_mo_;
    return find_target();
}

RxSegment::Verdict RxSegment::stall() {
    if (stream_.unreliable) return lose();
    if (dry_run_) return Verdict::kStall;
    counters_.add(Count::kRxStalls, 1);
    ++stalls_;
    stop_ = Stop::kNoReceive;
    return Verdict::kStall;
}

RxSegment::Verdict RxSegment::check_single(const wire::UntaggedHeader& untagged, Header header, std::size_t length,
                                           wire::TerminateCode too_short, wire::TerminateCode too_long) {
    if (untagged.mo != 0) return fail(wire::fault::kInvalidMo, AsyncEvent::kQpReqErr, header);
    if (ulpdu_len_ > length) return fail(too_long, AsyncEvent::kQpReqErr, header);
    if (ulpdu_len_ < length) return fail(too_short, AsyncEvent::kQpReqErr, header);
    if (!last_) return fail(wire::fault::kShortSegment, AsyncEvent::kQpReqErr, header);
    return Verdict::kAccept;
}

// RFC 7306 6.3.
RxSegment::Verdict RxSegment::begin_immediate(const wire::UntaggedHeader& untagged, Header header) {
    if (untagged.msn != msn_[wire::kSendQueue]) return fail(wire::fault::kInvalidMsn, AsyncEvent::kQpReqErr, header);
    if (send_mo_ != 0) return fail(wire::fault::kInvalidMo, AsyncEvent::kQpReqErr, header);  // inside a Send
    const Verdict single = check_single(untagged, header, wire::kImmediateSegmentLen, wire::fault::kImmediateLength,
                                        wire::fault::kImmediateLength);
    if (single != Verdict::kAccept) return single;
    if (immediate_.use == wire::Immediate::kOfNextSend)
        return fail(wire::fault::kImmediateWithoutSend, AsyncEvent::kQpReqErr, header);
    wire::Immediate immediate = wire::Immediate::parse(header.data() + wire::kUntaggedHeaderLen);
    // A peer that knows the RFC alone may have any 64 bits in there.
    if (!stream_.parameters.rfc7306) immediate.use = wire::Immediate::kByItself;
    if (immediate.use != wire::Immediate::kOfNextSend) {
        if (write_lost_) return lose();
        if (!rq_.take()) return stall();
    }
    announced_ = immediate;
    return Verdict::kAccept;
}

RxSegment::Verdict RxSegment::begin_read_request(const wire::UntaggedHeader& untagged, Header header) {
    if (untagged.msn != msn_[wire::kReadRequestQueue]) {
        return fail(wire::fault::kInvalidMsn, AsyncEvent::kQpReqErr, header);
    }
    if (!reads_.takes_request()) return fail(wire::fault::kIrdExceeded, AsyncEvent::kQpReqErr, header);
    const Verdict single = check_single(untagged, header, wire::kReadRequestSegmentLen,
                                        wire::fault::kReadRequestTooShort, wire::fault::kReadRequestTooLong);
    if (single != Verdict::kAccept) return single;
    read_request_ = wire::ReadRequest::parse(header.data() + wire::kUntaggedHeaderLen);
    return check_read_source(header);
}

RxSegment::Verdict RxSegment::check_read_source(Header header) {
    if (read_request_.size == 0) return Verdict::kAccept;  // RFC 5040 5.2.1
    const MemoryError error = reads_.check_source(read_request_);
    if (error == MemoryError::kNone) return Verdict::kAccept;
    return fail(read_code(error), AsyncEvent::kQpAccessErr, header);
}

// RFC 7306 5.2.1, 8.2.
RxSegment::Verdict RxSegment::begin_atomic_request(const wire::UntaggedHeader& untagged, Header header) {
    if (untagged.msn != msn_[wire::kReadRequestQueue])
        return fail(wire::fault::kInvalidMsn, AsyncEvent::kQpReqErr, header);
    if (!reads_.takes_request()) return fail(wire::fault::kIrdExceeded, AsyncEvent::kQpReqErr, header);
    const Verdict single = check_single(untagged, header, wire::kAtomicRequestSegmentLen, wire::fault::kAtomicLength,
                                        wire::fault::kAtomicLength);
    if (single != Verdict::kAccept) return single;
    atomic_request_ = wire::AtomicRequest::parse(header.data() + wire::kUntaggedHeaderLen);
    if (!atomic_request_.is_known()) return fail(wire::fault::kAtomicOpcode, AsyncEvent::kQpReqErr, header);
    if (atomic_request_.to % sizeof(std::uint64_t) != 0)
        return fail(wire::fault::kAtomicMisaligned, AsyncEvent::kQpReqErr, header);
    const MemoryError error = reads_.find_target(atomic_request_).error;
    if (error == MemoryError::kNone) return Verdict::kAccept;
    return fail(atomic_code(error), atomic_event(error), header);
}

// RFC 7306 5.2.2. The SGE is looked at when the Response is delivered.
RxSegment::Verdict RxSegment::begin_atomic_response(const wire::UntaggedHeader& untagged, Header header) {
    if (reads_.orq.empty()) return fail(wire::fault::kUnexpectedAtomicResponse, AsyncEvent::kQpReqErr, header);
    if (!atomic_is_oldest()) return mismatch(wire::fault::kUnexpectedAtomicResponse, header);
    if (untagged.msn != msn_[wire::kAtomicResponseQueue])
        return fail(wire::fault::kInvalidMsn, AsyncEvent::kQpReqErr, header);
    const Verdict single = check_single(untagged, header, wire::kAtomicResponseSegmentLen, wire::fault::kAtomicLength,
                                        wire::fault::kAtomicLength);
    if (single != Verdict::kAccept) return single;
    const auto response = wire::AtomicResponse::parse(header.data() + wire::kUntaggedHeaderLen);
    if (response.id != reads_.orq.peek().sink_stag) return mismatch(wire::fault::kUnknownAtomicId, header);
    atomic_original_ = response.original;
    return Verdict::kAccept;
}

// ---- placement
// -----------------------------------------------------------------------------------------------------------

SliceResult RxSegment::slices(IoSlice* out, const Place& place, std::uint32_t length) const {
    const std::uint32_t pd = pd_;
    switch (place.target) {
        case Target::kRegion: {
            const MemoryView view = memory_.look_up(pd, place.stag, place.offset, length, access::kRemoteWrite, qpn_);
            if (view.error != MemoryError::kNone) return {view.error, 0, 0};
            out[0] = {view.data, length};
            return {MemoryError::kNone, 1, length};
        }
        case Target::kReceive: {
            const RecvWqe& wqe = rq_.oldest();
            return slice_sges(memory_, rq_.pd(), wqe.sges(), wqe.sge_count, place.offset, length, access::kLocalWrite,
                              out, kMaxSlices);
        }
        case Target::kReadSink: {
            const SendWqe& wqe = *sq_.peek(reads_.orq.peek().send_index);
            return slice_sges(memory_, pd, wqe.sges(), wqe.sge_count, place.offset, length, access::kLocalWrite, out,
                              kMaxSlices);
        }
        case Target::kNothing:
            break;
    }
    return {MemoryError::kNone, 0, 0};
}

// The whole rest of the payload has its place, or the segment is refused.
RxSegment::Verdict RxSegment::find_target() {
    std::array<IoSlice, kMaxSlices> io;
    const SliceResult where = slices(io.data(), place_, payload_left_);
    if (where.error == MemoryError::kForeign) return Verdict::kAccept;  // found out when it is placed
    if (where.error != MemoryError::kNone) {
        sink_lost();
        return Verdict::kFail;
    }
    if (where.count != 0) fresh_ = io[0];
    return Verdict::kAccept;
}

bool RxSegment::place_anew(std::span<const std::byte> payload) {
    fresh_ = {};
    if (place_.target == Target::kNothing) {
        payload_left_ -= static_cast<std::uint32_t>(payload.size());
        return true;
    }
    while (!payload.empty()) {
        std::array<IoSlice, kMaxSlices> io;
        const SliceResult where = slices(io.data(), place_, payload_left_);
        if (where.error != MemoryError::kNone || where.count == 0) {
            sink_lost();
            return false;
        }
        for (std::uint32_t i = 0; i < where.count && !payload.empty(); ++i) {
            const std::size_t part = std::min(io[i].length, payload.size());
            if (!copy_octets(io[i].base, payload.data(), part)) {
                sink_lost();
                return false;
            }
            payload = payload.subspan(part);
            placed(static_cast<std::uint32_t>(part));
        }
    }
    return true;
}

// Of the segment in progress, in foreign memory.
ForeignName RxSegment::target_name() const {
    if (place_.target == Target::kReceive) return {ForeignName::Kind::kRecv, rq_.oldest().wr_id, place_.offset};
    if (place_.target == Target::kReadSink)
        return {ForeignName::Kind::kSend, sq_.peek(reads_.orq.peek().send_index)->wr_id, place_.offset};
    return {ForeignName::Kind::kTagged, place_.stag, place_.offset};
}

std::uint32_t RxSegment::read_length() const {
    return reads_.orq.peek().length;
}

bool RxSegment::place_whole(std::span<const std::byte> payload, Header header) {
    ForeignMemory* const foreign = memory_.foreign();
    if (foreign != nullptr && has_place() && !payload.empty()) return place_foreign(*foreign, payload, header);
    return place(payload);
}

bool RxSegment::place_foreign(ForeignMemory& memory, std::span<const std::byte> payload, Header header) {
    const MemoryError error = memory.copy_out(qpn_, target_name(), payload);
    if (error == MemoryError::kNone) {
        placed(static_cast<std::uint32_t>(payload.size()));
        return true;
    }
    if (place_.target == Target::kRegion) {
        fail(write_code(error), AsyncEvent::kQpAccessErr, header);
    } else {
        sink_lost();
    }
    return false;
}

void RxSegment::placed_unread(std::uint32_t segments, std::uint32_t octets) {
    counters_.add(Count::kRxFpdus, segments - 1);
    counters_.add(Count::kRxBytes, octets - payload_left_);
    payload_left_ = octets;
    placed(octets);
}

void RxSegment::sink_lost() {
    if (place_.target == Target::kRegion) {
        fail(wire::fault::kTaggedInvalidStag, AsyncEvent::kQpAccessErr, {});
        return;
    }
    const bool receive = place_.target == Target::kReceive;
    Fault fault = Fault::answered(receive ? wire::fault::kDdpLocalCatastrophic : wire::fault::kLocalFailure,
                                  AsyncEvent::kQpFatal);
    if (receive) {
        fault.recv_status = WcStatus::kLocProtErr;
    } else {
        fault.send_index = reads_.orq.peek().send_index;
        fault.send_status = WcStatus::kLocProtErr;
    }
    fail(fault);
}

// ---- delivery
// ------------------------------------------------------------------------------------------------------------

void RxSegment::count_payload(std::size_t header_len) {
    counters_.add(Count::kRxBytes, ulpdu_len_ - header_len);
}

void RxSegment::end(Pass& pass) {
    SWRNIC_PROBE(fpdu_in, qpn_, opcode_, ulpdu_len_);
    counters_.add(Count::kRxFpdus, 1);
    if (first_) release_fence(pass);
    switch (Opcode(opcode_)) {
        case Opcode::kWrite:
            count_payload(wire::kTaggedHeaderLen);
            writing_ += ulpdu_len_ - static_cast<std::uint32_t>(wire::kTaggedHeaderLen);
            if (!last_) break;
            counters_.add(Count::kRxWrites, 1);
            write_lost_ = std::exchange(lost_, false);
            written_ = std::exchange(writing_, 0);
            break;
        case Opcode::kReadRequest:
            counters_.add(Count::kRxReadRequests, 1);
            reads_.irq.publish({read_request_, msn_[wire::kReadRequestQueue]++});
            wakes_sender_ = true;
            break;
        case Opcode::kReadResponse:
            count_payload(wire::kTaggedHeaderLen);
            if (!last_) break;
            counters_.add(Count::kRxReadResponses, 1);
            deliver_read(pass);
            break;
        case Opcode::kTerminate:
            SWRNIC_PROBE(terminate_in, qpn_, terminated_.vendor_err());
            counters_.add(Count::kRxTerminates, 1);
            counters_.add_terminate(Count::kRxTerminated, terminated_.vendor_err());
            if (status_.is_wired() && terminated_.code && is_end_of_peer(*terminated_.code)) {
                discard();  // it closes the stream now
                break;
            }
            // The peer has taken everything that comes before what it refuses.
            if (sq_.confirms() && terminated_.send_index) sq_.set_placed(*terminated_.send_index, pass);
            fail(terminated_);
            break;
        case Opcode::kImmediate:
        case Opcode::kImmediateSolicited:
            ++msn_[wire::kSendQueue];
            write_lost_ = false;
            if (std::exchange(lost_, false)) break;
            immediate_ = announced_;
            if (immediate_.use == wire::Immediate::kOfNextSend) break;  // counted and delivered with it
            counters_.add(Count::kRxSends, 1);
            deliver_immediate(pass);
            break;
        case Opcode::kAtomicRequest:
            counters_.add(Count::kRxReadRequests, 1);
            publish_atomic();
            break;
        case Opcode::kAtomicResponse:
            counters_.add(Count::kRxReadResponses, 1);
            ++msn_[wire::kAtomicResponseQueue];
            deliver_atomic(pass);
            break;
        default:
            count_payload(wire::kUntaggedHeaderLen);
            if (!last_) break;
            counters_.add(Count::kRxSends, 1);
            ++msn_[wire::kSendQueue];
            write_lost_ = false;
            if (std::exchange(lost_, false)) {
                send_mo_ = 0;
                immediate_ = {};
            } else if (!rtr_) {
                deliver_send(pass);
            }
            break;
    }
}

void RxSegment::publish_atomic() {
    InboundRead request{{}, msn_[wire::kReadRequestQueue]++, InboundRead::State::kAtomic};
    request.atomic = atomic_request_;
    reads_.irq.publish(request);
    wakes_sender_ = true;
}

void RxSegment::release_fence(Pass& pass) {
    first_ = false;
    if (!stream_.fenced.exchange(false)) return;
    wakes_sender_ = true;
    if (stream_.parameters.p2p) pass.outbox().ready.push_back(qpn_);
}

// Complete means that nobody reads or writes through the STag any more (SEC-6, SEC-10).
bool RxSegment::complete_invalidation(const WorkCompletion& done, bool solicited, Pass& pass) {
    const bool kept = receive_completions_.push_behind(memory_.grace(pass), done, solicited, rq_.ring(), pass);
    if (receive_completions_.any_waits()) stop_ = Stop::kCompletionWaits;
    return kept;
}

void RxSegment::deliver_send(Pass& pass) {
    const wire::OpcodeTraits& traits = wire::traits_of(opcode_);
    const std::uint32_t length = std::exchange(send_mo_, 0);
    if (traits.invalidates) {
        if (immediate_.use == wire::Immediate::kOfNextSend) {
            fail(wire::fault::kImmediateWithoutSend, AsyncEvent::kQpReqErr, {});
            return;
        }
        const MemoryError error = memory_.invalidate_remote(pd_, invalidate_stag_, qpn_);
        if (error != MemoryError::kNone) {
            std::array<std::byte, wire::kUntaggedHeaderLen> header;
            wire::UntaggedHeader{true,
                                 wire::rdmap_control(Opcode(opcode_)),
                                 invalidate_stag_,
                                 wire::kSendQueue,
                                 msn_[wire::kSendQueue] - 1,
                                 static_cast<std::uint32_t>(length - (ulpdu_len_ - wire::kUntaggedHeaderLen))}
                .emit(header.data());
            Fault fault = Fault::answered(
                error == MemoryError::kWrongPd ? wire::fault::kInvalidateForeign : wire::fault::kInvalidateImpossible,
                AsyncEvent::kQpAccessErr, header, ulpdu_len_);
            fault.recv_status = WcStatus::kRemInvReqErr;
            fail(fault);
            return;
        }
    }
    const RecvWqe& wqe = rq_.oldest();
    WorkCompletion done = make_completion(qpn_, wqe.wr_id, WcStatus::kSuccess, WcOpcode::kRecv);
    done.byte_len = length;
    if (traits.solicited && memory_.foreign() != nullptr) done.wc_flags |= wc_flag::kSolicited;
    if (std::exchange(immediate_.use, wire::Immediate::kByItself) == wire::Immediate::kOfNextSend) [[unlikely]] {
        done.wc_flags |= wc_flag::kWithImm;
        done.imm_data = immediate_.data;
    }
    if (traits.invalidates) [[unlikely]] {
        done.wc_flags |= wc_flag::kWithInv;
        done.invalidated_stag = invalidate_stag_;
    }
    const bool kept = traits.invalidates ? complete_invalidation(done, traits.solicited, pass)
                                         : receive_completions_.push(done, traits.solicited, rq_.ring(), pass);
    if (!kept) status_.lose_completion();
}

// "Write with immediate": the Write before it is placed, and is what its completion is about.
void RxSegment::deliver_immediate(Pass& pass) {
    WorkCompletion done = make_completion(qpn_, rq_.oldest().wr_id, WcStatus::kSuccess, WcOpcode::kRecvRdmaWithImm);
    done.byte_len = std::exchange(written_, 0);
    done.wc_flags = wc_flag::kWithImm;
    done.imm_data = immediate_.data;
    if (!receive_completions_.push(done, wire::traits_of(opcode_).solicited, rq_.ring(), pass))
        status_.lose_completion();
}

void RxSegment::deliver_atomic(Pass& pass) {
    place_ = {.target = Target::kReadSink, .stag = 0, .offset = 0};
    std::array<IoSlice, kMaxSlices> io;
    const SliceResult where = slices(io.data(), place_, sizeof atomic_original_);
    if (where.count == 0 ||
        !copy_octets(io[0].base, reinterpret_cast<const std::byte*>(&atomic_original_), sizeof atomic_original_)) {
        sink_lost();
        return;
    }
    deliver_read(pass);
}

void RxSegment::deliver_read(Pass& pass) {
    const OutboundRead read = reads_.orq.peek();
    read_offset_ = 0;
    reads_.orq.release();
    wakes_sender_ = true;
    if (read.send_index != OutboundRead::kNoWqe) {
        reads_.completed.fetch_add(1, std::memory_order_release);
    } else if (read.confirms != 0) {
        reads_.answered.fetch_add(1, std::memory_order_release);
    } else {
        return;  // an RTR
    }
    sq_.set_placed(read.confirms, pass);
}

// A received Terminate is never answered; whatever it says, the stream ends (RFC 5040 5.4, VERBS-18).
Fault RxSegment::terminate_meaning(Header header) {
    Fault fault;
    fault.received = true;
    fault.event = AsyncEvent::kQpFatal;
    const wire::Terminate terminate = wire::parse_terminate(header);
    if (!terminate.ok()) return fault;
    fault.code = terminate.code;
    if (!terminate.ddp_header.empty()) find_quoted(fault, terminate.ddp_header);
    if (status_.is_wired()) say_as_infiniband(fault);
    return fault;
}

void RxSegment::find_quoted(Fault& fault, Header ddp_header) {
    const bool tagged = ddp_header.size() == wire::kTaggedHeaderLen;
    const auto quoted = tagged ? wire::UntaggedHeader{} : wire::UntaggedHeader::parse(ddp_header.data());
    if (tagged || quoted.qn != wire::kReadRequestQueue) {
        const bool wired = status_.is_wired();
        fault.send_status = wired ? wired_status(*fault.code) : request_status(*fault.code, tagged);
        if (fault.send_status != WcStatus::kWrFlushErr) fault.send_index = sq_.find_begun(ddp_header);
        return;
    }
    const std::uint32_t outstanding = reads_.orq.size();
    for (std::uint32_t i = 0; i < outstanding; ++i) {
        const OutboundRead& read = reads_.orq.peek(i);
        if (read.msn != quoted.msn || read.send_index == OutboundRead::kNoWqe) continue;
        fault.send_index = read.send_index;
        fault.send_status = read_status(*fault.code);
    }
}

// On InfiniBand a refusal has its request, which says all there is to say. Without a quote, or with one that is not
// known here, that is the oldest which can be meant and is not confirmed.
void RxSegment::say_as_infiniband(Fault& fault) {
    fault.event.reset();
    if (fault.send_index) return;
    fault.send_status = wired_status(*fault.code);
    fault.send_index = sq_.find_unplaced(can_be_meant(*fault.code));
}

}  // namespace swrnic::engine
