// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// The parser of a stream with CRC or markers, or into foreign memory: a whole FPDU is collected and checked before its
// segment begins (RFC 5044 4.4).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "engine/core/byte_buffer.h"
#include "engine/core/pass.h"
#include "engine/core/rx_input.h"
#include "engine/core/rx_segment.h"
#include "engine/core/rx_sizes.h"
#include "wire/fpdu.h"

namespace swrnic::engine {

class RxFramed {
  public:
    // How far a read goes. kHeader: no farther than the header of a payload that may be left unread.
    enum class Reach : std::uint8_t { kFar, kHeader };

    RxFramed(RxSegment& segment, SegmentSizes& sizes, RxInput& input, Counters& counters)
        : segment_(segment), sizes_(sizes), input_(input), counters_(counters) {}
    void start(bool crc, bool markers);

    // One read of the stream at most.
    RxStatus step(Pass& pass, Reach reach);
    // Takes up what was read already; `again`: the segment of the FPDU that is there begins once more.
    void resume(bool again, std::span<std::byte> octets, Pass& pass);
    // What has been read of the stream.
    RxStatus take(std::span<std::byte> octets, Pass& pass);

    // ---- the FPDU that has begun to come
    std::span<const std::byte> begun() const { return frame_.octets(); }
    bool is_inside() const { return !frame_.empty(); }
    // Octets of it that are still to come, as far as that is known.
    std::size_t missing() const {
        const std::size_t size = is_inside() ? frame_size(begun()) : 0;
        return size > frame_.size() ? size - frame_.size() : 0;
    }
    std::uint64_t position() const { return position_; }
    // Others have taken it, or nobody wants it any more.
    void drop() { frame_.clear(); }
    // Of the FPDU whose segment waits.
    RxSegment::Header waiting_ulpdu() const { return begun().subspan(wire::kFpduHeaderLen); }
    // Octets of the large FPDU in progress that are still to come.
    std::uint32_t large_left() const;

  private:
    std::size_t consume(std::span<std::byte> octets, Pass& pass);
    std::size_t frame_size(std::span<const std::byte> octets) const;
    void take_frame(std::span<std::byte> raw, Pass& pass);
    void segment_of_frame(std::span<std::byte> logical, Pass& pass);

    RxSegment& segment_;
    SegmentSizes& sizes_;
    RxInput& input_;
    Counters& counters_;
    bool crc_ = false, markers_ = false;
    std::uint64_t position_ = 0;  // of the current FPDU's first octet in the stream
    ByteBuffer frame_;            // the FPDU in progress; while its segment waits checked and without markers
};

}  // namespace swrnic::engine
