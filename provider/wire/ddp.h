// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// DDP segment headers, RFC 5041 4. A segment is one ULPDU: header, then payload; its length comes from MPA.
//
// Two ways in: the value structs (parse/emit; the caller has made sure that the header's octets are there) and
// SegmentView, whose check() looks at the length once so that no accessor can fail afterwards.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "wire/byteorder.h"

namespace swrnic::wire {

// Octet 0, RFC 5041 4.1.
inline constexpr std::uint8_t kTagged = 0x80;
inline constexpr std::uint8_t kLast = 0x40;
inline constexpr std::uint8_t kDdpReservedMask = 0x3c;  // sent as 0, not examined
inline constexpr std::uint8_t kVersionMask = 0x03;
inline constexpr std::uint8_t kDdpVersion = 1;

inline constexpr std::size_t kControlLen = 2;  // DDP octet and RDMAP octet: what must be there to judge a segment
inline constexpr std::size_t kTaggedHeaderLen = 14;
inline constexpr std::size_t kUntaggedHeaderLen = 18;
inline constexpr std::size_t kMaxDdpHeaderLen = kUntaggedHeaderLen;

// RFC 5040 3.1, RFC 7306 10.2.
enum QueueNumber : std::uint32_t {
    kSendQueue = 0,
    kReadRequestQueue = 1,
    kTerminateQueue = 2,
    kAtomicResponseQueue = 3,
};

inline constexpr std::uint32_t kFirstMsn = 1;  // RFC 5041 4.3; after 0xffffffff comes 0

constexpr bool is_tagged(std::uint8_t ddp_control) {
    return (ddp_control & kTagged) != 0;
}
constexpr bool is_last(std::uint8_t ddp_control) {
    return (ddp_control & kLast) != 0;
}
constexpr std::uint8_t ddp_version(std::uint8_t ddp_control) {
    return ddp_control & kVersionMask;
}
constexpr std::size_t ddp_header_len(std::uint8_t ddp_control) {
    return is_tagged(ddp_control) ? kTaggedHeaderLen : kUntaggedHeaderLen;
}

struct TaggedHeader {  // RFC 5041 4.2
    bool last;
    std::uint8_t rdmap_control;
    std::uint32_t stag;
    std::uint64_t to;

    // Neither version nor T is looked at.
    static TaggedHeader parse(const std::byte* at) {
        return {is_last(std::to_integer<std::uint8_t>(at[0])), std::to_integer<std::uint8_t>(at[1]), load_be32(at + 2),
                load_be64(at + 6)};
    }
    void emit(std::byte* at) const {
        at[0] = std::byte(kTagged | (last ? kLast : 0) | kDdpVersion);
        at[1] = std::byte(rdmap_control);
        store_be32(at + 2, stag);
        store_be64(at + 6, to);
    }
    bool operator==(const TaggedHeader&) const = default;
};

struct UntaggedHeader {  // RFC 5041 4.3
    bool last;
    std::uint8_t rdmap_control;
    std::uint32_t invalidate_stag;  // RsvdULP[8:39]; 0 where the opcode does not invalidate (RFC 5040 4.1)
    std::uint32_t qn;
    std::uint32_t msn;
    std::uint32_t mo;

    // Neither version nor T is looked at.
    static UntaggedHeader parse(const std::byte* at) {
        return {is_last(std::to_integer<std::uint8_t>(at[0])),
                std::to_integer<std::uint8_t>(at[1]),
                load_be32(at + 2),
                load_be32(at + 6),
                load_be32(at + 10),
                load_be32(at + 14)};
    }
    void emit(std::byte* at) const {
        at[0] = std::byte((last ? kLast : 0) | kDdpVersion);
        at[1] = std::byte(rdmap_control);
        store_be32(at + 2, invalidate_stag);
        store_be32(at + 6, qn);
        store_be32(at + 10, msn);
        store_be32(at + 14, mo);
    }
    bool operator==(const UntaggedHeader&) const = default;
};

// A segment whose header is known to be complete. Borrows the octets.
class SegmentView {
  public:
    // Nothing if the octets are too few for the header that the T bit announces. Versions and opcode are the caller's
    // to judge.
    static std::optional<SegmentView> check(std::span<const std::byte> segment) {
        if (segment.size() < kControlLen) return std::nullopt;
        if (segment.size() < ddp_header_len(std::to_integer<std::uint8_t>(segment[0]))) return std::nullopt;
        return SegmentView(segment);
    }

    std::uint8_t ddp_control() const { return std::to_integer<std::uint8_t>(segment_[0]); }
    std::uint8_t rdmap_control() const { return std::to_integer<std::uint8_t>(segment_[1]); }
    bool tagged() const { return is_tagged(ddp_control()); }
    bool last() const { return is_last(ddp_control()); }
    std::uint8_t version() const { return ddp_version(ddp_control()); }
    std::size_t header_len() const { return ddp_header_len(ddp_control()); }
    std::span<const std::byte> header() const { return segment_.first(header_len()); }
    std::span<const std::byte> payload() const { return segment_.subspan(header_len()); }
    TaggedHeader tagged_header() const { return TaggedHeader::parse(segment_.data()); }        // tagged()
    UntaggedHeader untagged_header() const { return UntaggedHeader::parse(segment_.data()); }  // !tagged()

  private:
    explicit SegmentView(std::span<const std::byte> segment) : segment_(segment) {}
    std::span<const std::byte> segment_;
};

}  // namespace swrnic::wire
