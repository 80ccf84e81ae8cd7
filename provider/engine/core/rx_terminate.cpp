// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// What a received Terminate means: which request it is about, and its status.
#include "engine/core/counters.h"
#include "engine/core/probes.h"
#include "engine/core/qp_status.h"
#include "engine/core/reads.h"
#include "engine/core/rx_segment.h"
#include "engine/core/send_queue.h"
#include "wire/terminate.h"

namespace swrnic::engine {

namespace {

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

// The same in InfiniBand's words.
constexpr WcStatus infiniband_status(wire::TerminateCode code) {
    if (code.layer != 2 && code.type == 1) return WcStatus::kRemAccessErr;
    if (code == wire::fault::kNoBuffer) return WcStatus::kRnrRetryExcErr;
    if (code == wire::fault::kMessageTooLong || (code.layer == 0 && code.type == 2)) return WcStatus::kRemInvReqErr;
    return WcStatus::kRemOpErr;
}

// The peer has failed of something that is not of our making: it has gone.
constexpr bool is_end_of_peer(wire::TerminateCode code) {
    return code == wire::fault::kLocalFailure || code.layer == 2;
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

// A received Terminate is never answered; whatever it says, the stream ends (RFC 5040 5.4, VERBS-18).
Fault RxSegment::terminate_meaning(Header header) {
    Fault fault;
    fault.received = true;
    fault.event = AsyncEvent::kQpFatal;
    const wire::Terminate terminate = wire::parse_terminate(header);
    if (!terminate.ok()) return fault;
    fault.code = terminate.code;
    if (!terminate.ddp_header.empty()) find_quoted(fault, terminate.ddp_header);
    if (status_.is_infiniband()) say_as_infiniband(fault);
    return fault;
}

void RxSegment::find_quoted(Fault& fault, Header ddp_header) {
    const bool tagged = ddp_header.size() == wire::kTaggedHeaderLen;
    const auto quoted = tagged ? wire::UntaggedHeader{} : wire::UntaggedHeader::parse(ddp_header.data());
    if (tagged || quoted.qn != wire::kReadRequestQueue) {
        fault.send_status =
            status_.is_infiniband() ? infiniband_status(*fault.code) : request_status(*fault.code, tagged);
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
    fault.send_status = infiniband_status(*fault.code);
    fault.send_index = sq_.find_unplaced(can_be_meant(*fault.code));
}

void RxSegment::deliver_terminate(Pass& pass) {
    SWRNIC_PROBE(terminate_in, qpn_, terminated_.vendor_err());
    counters_.add(Count::kRxTerminates, 1);
    counters_.add_terminate(Count::kRxTerminated, terminated_.vendor_err());
    if (status_.is_wired() && terminated_.code && is_end_of_peer(*terminated_.code)) {
        discard();  // it closes the stream now
        return;
    }
    // The peer has taken everything that comes before what it refuses.
    if (sq_.confirms() && terminated_.send_index) sq_.set_placed(*terminated_.send_index, pass);
    fail(terminated_);
}

void RxSegment::hear_own_fault(Fault& fault, Pass& pass) {
    if (fault.received || fault.send_index || fault.terminate_len == 0 || is_end_of_peer(*fault.code)) return;
    const Fault heard = terminate_meaning(Header(fault.terminate).first(fault.terminate_len));
    if (!heard.send_index) return;
    fault.send_index = heard.send_index;
    fault.send_status = heard.send_status;
    if (sq_.confirms()) sq_.set_placed(*heard.send_index, pass);
}

}  // namespace swrnic::engine
