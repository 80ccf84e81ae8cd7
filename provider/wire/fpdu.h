// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// MPA framing in Full Operation, RFC 5044 4: ULPDU_Length, ULPDU, PAD, CRC, and the markers between them.
//
// "Logical" octets are an FPDU without markers; "raw" octets are those of the stream. A stream position counts the
// octets of one direction from the first octet of Full Operation on (TCP sequence number minus SeqStart, without wrap)
// and is a multiple of 4 at every FPDU boundary.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "wire/byteorder.h"
#include "wire/crc32c.h"
#include "wire/ddp.h"

namespace swrnic::wire {

inline constexpr std::size_t kFpduHeaderLen = 2;
inline constexpr std::size_t kCrcLen = 4;
inline constexpr std::uint32_t kMaxUlpdu = 64768;  // of what we send, RFC 5044 3
inline constexpr std::uint32_t kMinMulpdu = 128;   // RFC 5044 4.5
inline constexpr std::size_t kMarkerSpacing = 512;
inline constexpr std::size_t kMarkerLen = 4;
inline constexpr std::size_t kMarkerPayload = kMarkerSpacing - kMarkerLen;  // logical octets between two markers

// RFC 5044 8, RFC 6581 8.
enum class MpaError : std::uint8_t {
    kNone = 0,
    kConnectionLost = 1,
    kCrc = 2,
    kMarker = 3,  // of FpduStream also a ULPDU_Length beyond kMaxUlpdu
    kStartupFrame = 4,
    kLocalCatastrophic = 5,
    kInsufficientIrd = 6,
    kNoMatchingRtr = 7,
};

constexpr std::size_t pad_len(std::size_t ulpdu_len) {
    return (0 - (kFpduHeaderLen + ulpdu_len)) & 3;
}

// Whole FPDU, CRC field included, without markers.
constexpr std::size_t fpdu_size(std::size_t ulpdu_len) {
    return kFpduHeaderLen + ulpdu_len + pad_len(ulpdu_len) + kCrcLen;
}

constexpr bool marker_at(std::uint64_t position) {
    return position % kMarkerSpacing == 0;
}

// Octets before ULPDU_Length: those of an opening marker, if the FPDU starts at a marker position (RFC 5044 4.3).
constexpr std::size_t opening_marker_len(std::uint64_t position) {
    return marker_at(position) ? kMarkerLen : 0;
}

// Markers of an FPDU that starts at `position`: an opening one, those inside, one between PAD and CRC. A marker
// position that coincides with the FPDU's end belongs to the next one.
constexpr std::size_t marker_count(std::uint64_t position, std::size_t logical_len) {
    const std::size_t before_first = (kMarkerSpacing - position % kMarkerSpacing) % kMarkerSpacing;
    return logical_len > before_first ? 1 + (logical_len - before_first - 1) / kMarkerPayload : 0;
}

constexpr std::size_t fpdu_size_with_markers(std::uint64_t position, std::size_t ulpdu_len) {
    return fpdu_size(ulpdu_len) + kMarkerLen * marker_count(position, fpdu_size(ulpdu_len));
}

// Most raw octets of any FPDU that we send.
inline constexpr std::size_t kMaxRawFpdu = fpdu_size_with_markers(0, kMaxUlpdu);

// Largest ULPDU for a TCP segment of emss payload octets, RFC 5044 4.5; always within kMinMulpdu..kMaxUlpdu.
constexpr std::uint32_t mulpdu(std::uint32_t emss, bool markers) {
    const std::uint64_t marker_octets =
        markers ? kMarkerLen * ((std::uint64_t{emss} + kMarkerSpacing - 1) / kMarkerSpacing) : 0;
    const std::uint64_t overhead = kFpduHeaderLen + kCrcLen + marker_octets + emss % 4;
    const std::uint64_t room = emss > overhead ? emss - overhead : 0;
    return static_cast<std::uint32_t>(std::clamp<std::uint64_t>(room, kMinMulpdu, kMaxUlpdu));
}

// ULP octets of one segment; mulpdu is at least kMinMulpdu.
constexpr std::uint32_t max_tagged_payload(std::uint32_t mulpdu_len) {
    return mulpdu_len - static_cast<std::uint32_t>(kTaggedHeaderLen);
}
constexpr std::uint32_t max_untagged_payload(std::uint32_t mulpdu_len) {
    return mulpdu_len - static_cast<std::uint32_t>(kUntaggedHeaderLen);
}

// Fills the last 4 octets of a raw FPDU: the CRC over everything before, an opening marker included (RFC 5044 4.4), or
// zeros.
inline void seal_fpdu(std::span<std::byte> raw, bool crc) {
    const std::size_t covered = raw.size() - kCrcLen;
    store_le32(raw.data() + covered, crc ? crc32c(raw.data(), covered) : 0);
}

// Whether a raw FPDU, markers and all, ends with its CRC.
inline bool fpdu_crc_ok(std::span<const std::byte> raw) {
    const std::size_t covered = raw.size() - kCrcLen;
    return load_le32(raw.data() + covered) == crc32c(raw.data(), covered);
}

// Lays out an FPDU with its markers. `logical` runs from ULPDU_Length through the last PAD octet, a multiple of 4 long.
// `out` holds at least fpdu_size_with_markers octets and does not overlap. Returns that number; the last 4 are left for
// seal_fpdu.
std::size_t insert_markers(std::uint64_t position, std::span<const std::byte> logical, std::span<std::byte> out);

// Takes the markers out of one whole raw FPDU in place. On true raw[0, logical_len) runs from ULPDU_Length through the
// CRC field. False: a marker does not point at this FPDU's start, MPA error 3 (RFC 5044 8); raw is then partly moved.
// Check the CRC first.
bool strip_markers(std::uint64_t position, std::span<std::byte> raw, std::size_t& logical_len);

// A deframer for tests: plain rather than fast. Takes the octets of one direction in any cut; how they were cut never
// changes what comes out. Stricter than our receiver: no ULPDU may be longer than kMaxUlpdu. Large (it holds a whole
// FPDU); nothing is allocated.
class FpduStream {
  public:
    struct Marker {
        std::uint64_t position;
        std::uint16_t fpduptr;  // low two bits masked, RFC 5044 4.2
        bool operator==(const Marker&) const = default;
    };
    enum class Event { kNeedMore, kUlpdu, kError };

    FpduStream(bool crc, bool markers, std::uint64_t position = 0)
        : crc_(crc), markers_(markers), position_(position) {}

    // Takes octets off the front of `input` until a ULPDU is complete, the stream fails, or the input is used up. After
    // kUlpdu call again with what is left. After kError everything is swallowed and kError is returned for ever (RFC
    // 5044 8).
    Event feed(std::span<const std::byte>& input);

    // The peer's FIN: kConnectionLost inside an FPDU, kNone at a boundary, or the error that came before.
    MpaError finish() const;

    MpaError error() const { return error_; }
    std::uint64_t position() const { return position_; }  // start of the FPDU that is being collected

    // Of the last kUlpdu, until the next feed().
    std::span<const std::byte> ulpdu() const { return {buffer_.data() + kFpduHeaderLen, ulpdu_len_}; }
    std::size_t pad() const { return pad_len(ulpdu_len_); }
    std::span<const Marker> markers() const { return {marker_list_.data(), marker_count_}; }

  private:
    std::size_t wanted();
    Event complete();
    Event fail(MpaError error);
    void note_markers();

    const bool crc_;
    const bool markers_;
    bool done_ = false;  // buffer_ holds a ULPDU that was handed out
    MpaError error_ = MpaError::kNone;
    std::uint64_t position_;
    std::size_t have_ = 0;
    std::size_t ulpdu_len_ = 0;
    std::size_t marker_count_ = 0;
    std::array<Marker, marker_count(0, fpdu_size(kMaxUlpdu))> marker_list_{};
    std::array<std::byte, kMaxRawFpdu> buffer_{};
};

}  // namespace swrnic::wire
