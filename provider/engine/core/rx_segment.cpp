// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// One DDP segment: checks (in the order of DDP-31), placement, delivery. RFC 5041 5 and 7, RFC 5040 5 and 7.
#include "engine/core/rx_segment.h"

#include <algorithm>
#include <array>
#include <atomic>
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

namespace swrnic::engine {

namespace {

using wire::Opcode;

constexpr bool is_rfc7306(std::uint8_t opcode) {
    return opcode >= static_cast<std::uint8_t>(Opcode::kImmediate);
}

constexpr std::uint8_t octet(std::byte b) {
    return std::to_integer<std::uint8_t>(b);
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

void RxSegment::fail_of_receive(Header header) {
    Fault fault = Fault::answered(wire::fault::kNoBuffer, AsyncEvent::kQpFatal, header, ulpdu_len_);  // RFC 5041 7.2
    fault.spares_qp = status_.is_wired() && !stream_.parameters.to_itself;
    if (fault.spares_qp) fault.event.reset();
    fail(fault);
}

// ---- checks ----

bool RxSegment::begins_well(Header header, std::uint32_t ulpdu_len) {
    dry_run_ = true;
    const Verdict verdict = begin(header, ulpdu_len);
    dry_run_ = false;
    return verdict == Verdict::kAccept;
}

RxSegment::Verdict RxSegment::begin(Header header, std::uint32_t ulpdu_len) {
    // Programs poll their memory for a flag that is written behind the data, by a message of its own.
    if (last_) std::atomic_thread_fence(std::memory_order_release);
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

RxSegment::Verdict RxSegment::begin_send(const wire::UntaggedHeader& untagged, Header header) {
    if (untagged.msn != msn_[wire::kSendQueue]) return fail(wire::fault::kInvalidMsn, AsyncEvent::kQpReqErr, header);
    invalidate_stag_ = untagged.invalidate_stag;
    untold_ =
        first_ && rtr_send_ && Opcode(opcode_) == Opcode::kSend && payload_left_ == 0 && last_ && untagged.mo == 0;
    if (untold_) return Verdict::kAccept;  // the RTR: RFC 6581 9.2
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

// ---- placement ----

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

std::optional<ForeignMemory::Ending> RxSegment::ending() const {
    if (place_.target == Target::kReadSink) return ForeignMemory::Ending{.solicited = false, .invalidated = {}};
    if (place_.target != Target::kReceive) return std::nullopt;
    const wire::OpcodeTraits& traits = wire::traits_of(opcode_);
    ForeignMemory::Ending ending{.solicited = traits.solicited, .invalidated = {}};
    if (traits.invalidates) ending.invalidated = invalidate_stag_;
    return ending;
}

bool RxSegment::place_foreign(ForeignMemory& memory, std::span<const std::byte> payload, Header header) {
    std::optional<ForeignMemory::Ending> ending = last_ ? this->ending() : std::nullopt;
    const MemoryError error = memory.copy_out(qpn_, target_name(), payload, ending ? &*ending : nullptr);
    if (error == MemoryError::kNone) {
        if (ending && ending->done) set_completed();
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

void RxSegment::placed_unread(const ForeignMemory::Arrival& arrival) {
    counters_.add(Count::kRxFpdus, arrival.placed - 1);
    counters_.add(Count::kRxBytes, arrival.octets - arrival.last);
    if (const std::uint32_t before = arrival.ended - (arrival.whole ? 1 : 0); before != 0)
        counters_.add(Count::kRxWrites, before);
    ulpdu_len_ = ulpdu_len_ - payload_left_ + arrival.last;
    last_ = arrival.whole;
    payload_left_ = arrival.octets;
    placed(arrival.octets);
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

// ---- delivery ----

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
            deliver_terminate(pass);
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
            } else if (!untold_) {
                deliver_send(pass);
            } else if (std::exchange(completed_, false)) {
                send_mo_ = 0;
                rq_.ring().release();
            }
            break;
    }
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

void RxSegment::deliver_read(Pass& pass) {
    const OutboundRead read = reads_.orq.peek();
    if (completed_) [[unlikely]] {
        completed_ = false;
        sq_.leave_unreported(read.send_index);
    }
    read_offset_ = 0;
    reads_.orq.release();
    wakes_sender_ = true;
    if (read.send_index != OutboundRead::kNoWqe) {
        reads_.completed.fetch_add(1, std::memory_order_release);
    } else if (read.confirms != 0) {
        reads_.answered.fetch_add(1);  // seq_cst: see Tx::has_work()
    } else {
        return;  // an RTR
    }
    sq_.set_placed(read.confirms, pass);
}

}  // namespace swrnic::engine
