// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Segments of RFC 7306: Immediate Data, Atomic Requests and Responses.
#include <array>
#include <utility>

#include "engine/core/memory_codes.h"
#include "engine/core/qp_status.h"
#include "engine/core/reads.h"
#include "engine/core/receive_completions.h"
#include "engine/core/receive_queue.h"
#include "engine/core/rx_segment.h"
#include "engine/core/send_queue.h"

namespace swrnic::engine {

// ---- from the header ----

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

// Of the outbound ones, of which there are some.
bool RxSegment::atomic_is_oldest() const {
    const std::uint64_t index = reads_.orq.peek().send_index;
    return index != OutboundRead::kNoWqe && is_atomic(sq_.peek(index)->opcode);
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

// ---- delivery ----

void RxSegment::publish_atomic() {
    InboundRead request{{}, msn_[wire::kReadRequestQueue]++, InboundRead::State::kAtomic};
    request.atomic = atomic_request_;
    reads_.irq.publish(request);
    wakes_sender_ = true;
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

}  // namespace swrnic::engine
