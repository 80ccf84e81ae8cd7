// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "sim/observer.h"

#include "engine/core/qp.h"

namespace swrnic::engine::sim {

using wire::Opcode;

void Observer::sent(std::span<const std::byte> octets) {
    check(!terminated_, "octets behind the Terminate");
    own_.started = true;
    while (!octets.empty()) {
        switch (deframer_->feed(octets)) {
            case wire::FpduStream::Event::kUlpdu:
                check(!terminated_, "an FPDU behind the Terminate");
                ulpdu(deframer_->ulpdu());
                break;
            case wire::FpduStream::Event::kError:
                throw Failure("sent an FPDU that no deframer takes");
            case wire::FpduStream::Event::kNeedMore:
                check(!terminated_, "octets behind the Terminate");
                return;
        }
    }
}

void Observer::ulpdu(std::span<const std::byte> octets) {
    check(octets.size() <= rules_.largest_ulpdu, "ULPDU beyond the MULPDU", octets.size(), rules_.largest_ulpdu);
    const auto segment = wire::SegmentView::check(octets);
    check(segment.has_value(), "a segment without its header");
    check((segment->ddp_control() & wire::kDdpReservedMask) == 0 && segment->version() == wire::kDdpVersion,
          "DDP octet");
    check(
        (segment->rdmap_control() & wire::kRdmapReservedMask) == 0 && wire::rdmap_version_ok(segment->rdmap_control()),
        "RDMAP octet");
    // RFC 5044 7.1.2: the Initiator speaks first. A Terminate needs no more than the headers of its FPDU (MPA-94).
    const bool terminate = !segment->tagged() && wire::opcode_of(segment->rdmap_control()) == Opcode::kTerminate;
    const bool heard = terminate ? peer_.started : peer_.begun;
    check(rules_.initiator || heard || !rules_.paired, "the Responder spoke first");
    own_.begun = true;
    if (rtr_due_ != 0 && take_rtr(*segment)) return;
    segment->tagged() ? tagged(*segment) : untagged(*segment);
}

bool Observer::take_rtr(const wire::SegmentView& segment) {
    const Opcode opcode = wire::opcode_of(segment.rdmap_control());
    if (opcode == Opcode::kTerminate) return false;
    check(segment.last(), "an RTR in parts");
    if (rtr_due_ == rtr::kRead) {
        check(opcode == Opcode::kReadRequest, "no RTR by Read");
        const auto request = wire::ReadRequest::parse(segment.payload().data());
        check(request.size == 0 && segment.untagged_header().msn == msn_[1]++, "RTR by Read");
        own_.reads.push_back({request, false});
        own_.rtr_read = true;
    } else if (rtr_due_ == rtr::kSend) {
        check(opcode == Opcode::kSend && segment.payload().empty() && segment.untagged_header().msn == msn_[0]++,
              "RTR by Send");
    } else {
        check(opcode == Opcode::kWrite && segment.payload().empty(), "RTR by Write");
    }
    rtr_due_ = 0;
    return true;
}

const Announced& Observer::begin(WrOpcode opcode) {
    check(!own_.announced.empty(), "a message that nobody posted");
    const Announced& request = own_.announced.front();
    check(request.opcode == opcode, "messages out of order");
    if (done_ == 0 && request.fenced && rules_.paired)
        check(own_.reads.size() == (own_.rtr_read ? 1 : 0), "a fence was passed");
    return request;
}

void Observer::end_request() {
    own_.announced.pop_front();
    open_ = Open::kNothing;
    done_ = 0;
}

void Observer::tagged(const wire::SegmentView& segment) {
    const auto header = segment.tagged_header();
    const auto length = static_cast<std::uint32_t>(segment.payload().size());
    if (wire::opcode_of(header.rdmap_control) == Opcode::kWrite) {
        check(open_ == Open::kNothing || open_ == Open::kWrite, "a Write inside another message");
        open_ = Open::kWrite;
        const Announced& request = begin(WrOpcode::kWrite);
        check(header.stag == request.stag || (request.stag == 0 && header.stag != 0), "STag of a Write");
        check(header.to == request.to + done_, "TO of a Write");
        check(length != 0 || request.size == 0, "an empty segment");
        done_ += length;
        check(header.last == (done_ == request.size) && done_ <= request.size, "L of a Write");
        if (header.last) end_request();
        return;
    }
    check(wire::opcode_of(header.rdmap_control) == Opcode::kReadResponse, "tagged opcode");
    check(open_ == Open::kNothing || open_ == Open::kResponse, "a Response inside another message");
    open_ = Open::kResponse;
    if (rules_.paired) {
        check(!peer_.reads.empty(), "a Response that nobody asked for");
        check(!peer_.reads.front().atomic, "a Response passes an atomic's");
        const wire::ReadRequest& request = peer_.reads.front().read;
        check(header.stag == request.sink_stag && header.to == request.sink_to + done_, "sink of a Response");
        done_ += length;
        check(header.last == (done_ == request.size) && done_ <= request.size, "L of a Response");
    }
    if (!header.last) return;
    if (!peer_.reads.empty()) peer_.reads.pop_front();
    peer_.rtr_read = false;
    open_ = Open::kNothing;
    done_ = 0;
}

void Observer::untagged(const wire::SegmentView& segment) {
    const auto header = segment.untagged_header();
    const Opcode opcode = wire::opcode_of(header.rdmap_control);
    const auto length = static_cast<std::uint32_t>(segment.payload().size());
    check(header.qn == wire::traits_of(header.rdmap_control).qn, "QN");
    check(header.msn == msn_[header.qn], "MSN", header.msn, msn_[header.qn]);
    switch (opcode) {
        case Opcode::kTerminate: {
            check(open_ == Open::kNothing || rules_.may_cut_off, "a Terminate inside a message");
            check(header.last && header.mo == 0, "shape of the Terminate");
            terminated_ = true;
            return;
        }
        case Opcode::kReadRequest: {
            check(open_ == Open::kNothing, "a Read Request inside another message");
            const Announced request = begin(WrOpcode::kRead);
            end_request();
            const auto read = wire::ReadRequest::parse(segment.payload().data());
            check(header.last && header.mo == 0 && length == wire::kReadRequestLen, "shape of a Read Request");
            check(read.size == request.size && read.source_stag == request.stag && read.source_to == request.to,
                  "Read Request");
            check(read.sink_stag != 0, "sink STag");
            requested({read, false});
            return;
        }
        case Opcode::kImmediate:
        case Opcode::kImmediateSolicited:
            immediate(segment);
            return;
        case Opcode::kAtomicRequest:
            atomic_request(segment);
            return;
        case Opcode::kAtomicResponse:
            atomic_response(segment);
            return;
        default:
            break;
    }
    check(open_ == Open::kNothing || open_ == Open::kSend, "a Send inside another message");
    open_ = Open::kSend;
    const bool invalidates = wire::traits_of(header.rdmap_control).invalidates;
    const Announced& request = begin(invalidates ? WrOpcode::kSendInv : WrOpcode::kSend);
    check(request.solicited == wire::traits_of(header.rdmap_control).solicited, "solicited");
    check(header.invalidate_stag == (invalidates ? request.stag : 0), "STag to invalidate");
    check(header.mo == done_, "MO");
    check(length != 0 || request.size == 0, "an empty segment");
    done_ += length;
    check(header.last == (done_ == request.size) && done_ <= request.size, "L of a Send");
    if (!header.last) return;
    ++msn_[0];
    end_request();
}

void Observer::immediate(const wire::SegmentView& segment) {
    check(open_ == Open::kNothing, "Immediate Data inside another message");
    check(segment.last() && segment.payload().size() == wire::kImmediateLen, "shape of Immediate Data");
    const auto data = wire::Immediate::parse(segment.payload().data());
    const bool of_send = data.use == wire::Immediate::kOfNextSend;
    const Announced request = begin(of_send ? WrOpcode::kSendImm : WrOpcode::kWriteImm);
    check(data.data == request.imm_data, "Immediate Data");
    check(request.solicited == wire::traits_of(segment.rdmap_control()).solicited, "solicited");
    end_request();
    ++msn_[0];
}

void Observer::atomic_request(const wire::SegmentView& segment) {
    check(open_ == Open::kNothing, "an Atomic Request inside another message");
    check(segment.last() && segment.payload().size() == wire::kAtomicRequestLen, "shape of an Atomic Request");
    const auto atomic = wire::AtomicRequest::parse(segment.payload().data());
    const bool swaps = atomic.opcode == wire::AtomicOpcode::kCmpSwap;
    const Announced request = begin(swaps ? WrOpcode::kCmpSwap : WrOpcode::kFetchAdd);
    end_request();
    check(atomic.stag == request.stag && atomic.to == request.to, "where an atomic is");
    check(atomic.data == (swaps ? request.atomic.swap : request.atomic.compare_add), "operand of an atomic");
    check(!swaps || atomic.compare == request.atomic.compare_add, "what an atomic compares");
    wire::ReadRequest read{};
    read.sink_stag = atomic.id;
    requested({read, true});
}

void Observer::requested(const Requested& request) {
    own_.reads.push_back(request);
    if (rules_.paired)
        check(own_.reads.size() <= std::max(own_.ord, 1u), "more Reads than ORD", own_.reads.size(), own_.ord);
    ++msn_[1];
}

void Observer::atomic_response(const wire::SegmentView& segment) {
    check(open_ == Open::kNothing, "an Atomic Response inside another message");
    check(segment.last() && segment.payload().size() == wire::kAtomicResponseLen, "shape of an Atomic Response");
    if (rules_.paired) {
        check(!peer_.reads.empty() && peer_.reads.front().atomic, "an Atomic Response that nobody asked for");
        const auto response = wire::AtomicResponse::parse(segment.payload().data());
        check(response.id == peer_.reads.front().read.sink_stag, "Request Identifier");
    }
    if (!peer_.reads.empty()) peer_.reads.pop_front();
    peer_.rtr_read = false;
    ++msn_[wire::kAtomicResponseQueue];
}

}  // namespace swrnic::engine::sim
