// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// The parser of a stream that foreign memory may read from by itself.
//
// As soon as the header of a longer FPDU is there, and says nothing out of the ordinary, the memory's owner may
// collect, check and place the rest past the transport. What it does not place comes the usual way, as whole FPDUs, and
// what is wrong with it is found out there.
#pragma once

#include <cstddef>
#include <cstdint>

#include "engine/core/memory.h"
#include "engine/core/pass.h"
#include "engine/core/rx_framed.h"
#include "engine/core/rx_input.h"
#include "engine/core/rx_segment.h"
#include "engine/core/rx_sizes.h"
#include "engine/core/stream.h"

namespace swrnic::engine {

class RxForeign {
  public:
    RxForeign(std::uint32_t qpn, RxFramed& framed, RxSegment& segment, SegmentSizes& sizes, Stream& stream,
              MemoryTable& memory, Counters& counters)
        : qpn_(qpn),
          framed_(framed),
          segment_(segment),
          sizes_(sizes),
          stream_(stream),
          memory_(memory),
          counters_(counters) {}
    void start() {
        refused_ = kNone;
        reach_ = kLongestReach;
        run_ = 0;
    }

    // One read of the stream at most.
    RxStatus step(Pass& pass);

  private:
    // Payloads that are worth a call of their own.
    static constexpr std::uint32_t kUnread = 512;
    static constexpr std::uint64_t kNone = ~std::uint64_t{0};

    // KiB. Below the shortest, looking at octets that stay in the stream costs less than the call.
    static constexpr std::uint16_t kShortestReach = 16, kLongestReach = ForeignMemory::kMostOctets / 1024;

    bool can_go_unread();
    std::size_t reach(std::size_t fpdu) const;
    void note_reach(const ForeignMemory::Arrival& arrival);
    RxStatus step_unread(Pass& pass);

    const std::uint32_t qpn_;
    // How far a call looks, since what it leaves in the stream it has looked at in vain, and what was placed since an
    // FPDU has ended with a message. In KiB, which takes no room: every QP has them, and an idle one is to be small.
    std::uint16_t reach_ = kLongestReach;
    std::uint16_t run_ = 0;
    RxFramed& framed_;
    RxSegment& segment_;
    SegmentSizes& sizes_;
    Stream& stream_;
    MemoryTable& memory_;
    Counters& counters_;
    std::uint64_t refused_ = kNone;  // the position of the FPDU that could not be placed unread
};

}  // namespace swrnic::engine
