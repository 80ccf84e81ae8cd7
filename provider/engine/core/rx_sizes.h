// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Which segments are so large that their payload is read to its place, and whether the next one will be.
#pragma once

#include <cstddef>
#include <cstdint>

#include "engine/core/rx_segment.h"

namespace swrnic::engine {

class SegmentSizes {
  public:
    // From here on; below, a copy out of a full staging area is cheaper than a read of its own.
    static constexpr std::uint32_t kLarge = 16 * 1024;

    explicit SegmentSizes(const RxSegment& segment) : segment_(segment) {}
    // short_first: all segments of a message but the first have the largest ULPDU.
    void start(bool short_first) {
        short_first_ = short_first;
        large_ = false;
        recent_large_ = 0;
    }

    // Before the header of a segment is looked at, whose payload or FPDU has so many octets.
    void note(std::size_t octets) {
        large_ = octets >= kLarge;
        recent_large_ =
            ((segment_.is_last() ? recent_large_ << 1 : recent_large_) | static_cast<unsigned>(large_)) & kRecent;
    }
    // The segment in progress, or the last one.
    bool is_large() const { return large_; }
    bool short_first() const { return short_first_; }
    // Behind the segment in progress.
    bool largest_follows() const { return short_first_ && !segment_.is_last(); }
    // Of the next segment. One of a message's ends says little: of 64 KiB one segment is small.
    bool expects_large() const { return segment_.is_last() ? recent_large_ != 0 : large_ || largest_follows(); }
    // Whether the last messages had large segments: the last one in bit 0.
    unsigned recent_large() const { return recent_large_; }

  private:
    static constexpr unsigned kRecent = 3;  // two messages, a bit each

    const RxSegment& segment_;
    bool short_first_ = false;
    bool large_ = false;
    unsigned recent_large_ = 0;
};

}  // namespace swrnic::engine
