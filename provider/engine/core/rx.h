// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// The receiving machine of a QP: takes the stream as it comes, finds the FPDUs, checks each DDP segment and places it.
// How the stream was cut never changes the result.
//
// Startup decides which of three parsers finds the segments: one that reads payload to its place (rx_direct.h), one
// that collects whole FPDUs (rx_framed.h), and one that leaves payload unread for the owner of foreign memory
// (rx_foreign.h). What a segment means is the same for all of them (rx_segment.h).
#pragma once

#include <cstdint>

#include "engine/core/lock.h"
#include "engine/core/memory.h"
#include "engine/core/pass.h"
#include "engine/core/rx_direct.h"
#include "engine/core/rx_foreign.h"
#include "engine/core/rx_framed.h"
#include "engine/core/rx_input.h"
#include "engine/core/rx_segment.h"
#include "engine/core/rx_sizes.h"

namespace swrnic::engine {

class Rx {
  public:
    using Status = RxStatus;

    // All of them outlive it, and are not looked at before start().
    Rx(std::uint32_t pd, std::uint32_t qpn, MemoryTable& memory, Counters& counters, QpStatus& status, Stream& stream,
       SendQueue& sq, ReceiveQueue& rq, ReadState& reads, ReceiveCompletions& receive_completions)
        : memory_(memory),
          status_(status),
          rq_(rq),
          segment_(pd, qpn, memory, counters, status, stream, sq, rq, reads, receive_completions),
          sizes_(segment_),
          input_(stream, counters, segment_),
          direct_(segment_, sizes_, input_),
          framed_(segment_, sizes_, input_, counters),
          foreign_(qpn, framed_, segment_, sizes_, stream, memory, counters) {}
    // rtr_send: the first FPDU may be an RTR by Send, which consumes no receive. bypass: the transport allows it.
    void start(bool crc, bool markers, bool short_first, bool rtr_send, bool bypass);

    // One read of the stream at most.
    Status step(const RxGuard& guard, Pass& pass);
    // The receive queue has stayed empty for too long: Terminate 1/2/2.
    void give_up_waiting(const RxGuard& guard);
    // See RxSegment.
    void hear_own_fault(const RxGuard&, Fault& fault, Pass& pass) { segment_.hear_own_fault(fault, pass); }
    // Octets of the large FPDU in progress that are still to come, 0 if it is not large. Under the RX lock.
    std::uint32_t large_left() const;
    // What was received since the last time gives the sender something to do.
    bool take_wake(const RxGuard&) { return segment_.take_wake(); }
    std::uint64_t stalls() const { return segment_.stalls(); }  // how many Sends have found no receive
    std::uint8_t peer_rnr_retry() const { return segment_.peer_rnr_retry(); }

  private:
    friend struct CoreTestAccess;

    enum class Parser : std::uint8_t { kDirect, kFramed, kForeign };

    Status parse(Pass& pass);
    Status resume(Pass& pass);
    Status discard(Pass& pass);

    MemoryTable& memory_;
    QpStatus& status_;
    ReceiveQueue& rq_;
    Parser parser_ = Parser::kDirect;
    RxSegment segment_;
    SegmentSizes sizes_;
    RxInput input_;
    RxDirect direct_;
    RxFramed framed_;
    RxForeign foreign_;
};

}  // namespace swrnic::engine
