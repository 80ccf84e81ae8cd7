// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// The stream as the parsers read it: from the transport, or what was read before and could not be parsed yet.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>

#include "engine/core/byte_buffer.h"
#include "engine/core/counters.h"
#include "engine/core/rx_segment.h"
#include "engine/core/stream.h"
#include "engine/core/transport.h"

namespace swrnic::engine {

// Of one step of receiving.
enum class RxStatus : std::uint8_t {
    kMoved,    // something was read; there may be more
    kAgain,    // the stream is empty
    kStalled,  // a Send waits for a receive to be posted: the stream is left unread
    kEof,      // FIN at an FPDU boundary
    kBroken,   // reset, or FIN inside an FPDU
};

class RxInput {
  public:
    // What is read before the header of a payload that shall be read to its place: the header, and what may stand
    // before it of small FPDUs.
    static constexpr std::size_t kAhead = 1024;

    RxInput(Stream& stream, Counters& counters, const RxSegment& segment)
        : stream_(stream), counters_(counters), segment_(segment) {}

    IoResult read(const IoSlice* slices, std::size_t count) {
        const IoResult result = stream_.transport->receive(slices, count);
        if (result.status != IoStatus::kEmpty) counters_.add(Count::kRxCalls, 1);
        return result;
    }
    // What a step says that has read something, and one that has not.
    RxStatus moved() const { return segment_.lacks_receive() ? RxStatus::kStalled : RxStatus::kMoved; }
    static RxStatus ended(IoStatus status, bool inside_fpdu) {
        if (status == IoStatus::kAgain || status == IoStatus::kEmpty) return RxStatus::kAgain;
        if (status == IoStatus::kEof && !inside_fpdu) return RxStatus::kEof;
        return RxStatus::kBroken;  // a FIN inside an FPDU is MPA error 1 (RFC 5044 8)
    }

    // Octets that were read, and not parsed: they are carried over if parsing will go on.
    void carry(std::span<const std::byte> octets) {
        if (segment_.waits()) carry_.append(octets);
    }
    ByteBuffer take_carried() { return std::exchange(carry_, ByteBuffer()); }
    void clear() { carry_.clear(); }

  private:
    Stream& stream_;
    Counters& counters_;
    const RxSegment& segment_;
    ByteBuffer carry_;
};

}  // namespace swrnic::engine
