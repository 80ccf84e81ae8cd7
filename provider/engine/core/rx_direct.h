// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// The parser of a stream with neither CRC nor markers.
//
// Octets that arrive in staging are pushed through it, and a large payload is read straight to where it belongs, after
// which the parser stands exactly where it would have stood; so is the next one, if its place is predicted, and taken
// from there again if its header says something else.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "engine/core/pass.h"
#include "engine/core/rx_input.h"
#include "engine/core/rx_segment.h"
#include "engine/core/rx_sizes.h"
#include "engine/core/transport.h"
#include "wire/fpdu.h"

namespace swrnic::engine {

class RxDirect {
  public:
    RxDirect(RxSegment& segment, SegmentSizes& sizes, RxInput& input)
        : segment_(segment), sizes_(sizes), input_(input) {}
    void start();

    // One read of the stream at most.
    RxStatus step(Pass& pass);
    // Takes up what was read already; `again`: the segment whose header is there begins once more.
    void resume(bool again, std::span<const std::byte> octets, Pass& pass);
    // Of the segment that waits.
    RxSegment::Header header() const {
        return RxSegment::Header(header_).subspan(wire::kFpduHeaderLen, header_have_ - wire::kFpduHeaderLen);
    }
    // Octets of the large payload in progress that are still to come.
    std::uint32_t large_left() const { return in_payload() && sizes_.is_large() ? segment_.payload_left() : 0; }

  private:
    static constexpr std::size_t kMaxHeader = wire::kFpduHeaderLen + wire::kMaxTerminateUlpdu;

    struct Predicted;
    Predicted predict(IoSlice* out) const;
    void take_predicted(const Predicted& next, std::size_t size, std::span<std::byte> staging, Pass& pass);
    void consume_or_carry(std::span<const std::byte> octets, Pass& pass);
    // Returns how many octets it took: all, unless it has to stop.
    std::size_t consume(std::span<const std::byte> octets, Pass& pass);
    std::size_t take_header(std::span<const std::byte> octets);
    std::size_t header_want() const;
    void header_complete();
    void take_up();
    bool in_payload() const { return accepted_ && !segment_.has_failed() && segment_.payload_left() != 0; }

    RxSegment& segment_;
    SegmentSizes& sizes_;
    RxInput& input_;
    bool accepted_ = false;  // the segment in progress: payload comes, then the trailer
    bool copies_ = false;    // its payload comes by staging: the kernel has met a fault at its place, or behind it
    std::uint32_t header_have_ = 0;
    std::array<std::byte, kMaxHeader> header_{};  // ULPDU_Length, then the ULPDU's headers
    std::uint32_t trailer_left_ = 0;
};

}  // namespace swrnic::engine
