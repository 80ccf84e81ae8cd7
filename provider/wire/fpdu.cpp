// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "wire/fpdu.h"

#include <cstring>

namespace swrnic::wire {

namespace {

// RFC 5044 4.2: the reserved half is sent as 0 and ignored, the pointer's two low bits likewise.
constexpr std::uint16_t kFpduptrMask = 0xfffc;

void put_marker(std::byte* at, std::size_t fpduptr) {
    store_be16(at, 0);
    store_be16(at + 2, static_cast<std::uint16_t>(fpduptr));
}

std::uint16_t fpduptr_of(const std::byte* marker) {
    return load_be16(marker + 2) & kFpduptrMask;
}

// Raw octets up to the next marker position.
std::size_t until_marker(std::uint64_t position) {
    return kMarkerSpacing - position % kMarkerSpacing;
}

}  // namespace

std::size_t insert_markers(std::uint64_t position, std::span<const std::byte> logical, std::span<std::byte> out) {
    const std::size_t start = opening_marker_len(position);  // where ULPDU_Length comes to lie
    std::size_t at = 0;
    while (!logical.empty()) {
        if (marker_at(position + at)) {
            put_marker(&out[at], at < start ? 0 : at - start);
            at += kMarkerLen;
        }
        const std::size_t run = std::min(until_marker(position + at), logical.size());
        std::memcpy(&out[at], logical.data(), run);
        logical = logical.subspan(run);
        at += run;
    }
    if (marker_at(position + at)) {  // between PAD and CRC
        put_marker(&out[at], at - start);
        at += kMarkerLen;
    }
    return at + kCrcLen;
}

bool strip_markers(std::uint64_t position, std::span<std::byte> raw, std::size_t& logical_len) {
    const std::size_t start = opening_marker_len(position);
    std::size_t at = 0;
    std::size_t kept = 0;
    while (at < raw.size()) {
        if (marker_at(position + at)) {
            if (raw.size() - at < kMarkerLen) return false;
            if (fpduptr_of(&raw[at]) != (at < start ? 0 : at - start)) return false;
            at += kMarkerLen;
        }
        const std::size_t run = std::min(until_marker(position + at), raw.size() - at);
        std::memmove(raw.data() + kept, raw.data() + at, run);
        kept += run;
        at += run;
    }
    logical_len = kept;
    return true;
}

// How many raw octets the FPDU has, as far as that can be told from those collected: first up to its length field, then
// all.
std::size_t FpduStream::wanted() {
    const std::size_t length_at = markers_ ? opening_marker_len(position_) : 0;
    if (have_ < length_at + kFpduHeaderLen) return length_at + kFpduHeaderLen;
    ulpdu_len_ = load_be16(&buffer_[length_at]);
    if (ulpdu_len_ > kMaxUlpdu) return 0;
    return markers_ ? fpdu_size_with_markers(position_, ulpdu_len_) : fpdu_size(ulpdu_len_);
}

FpduStream::Event FpduStream::feed(std::span<const std::byte>& input) {
    if (error_ != MpaError::kNone) return input = {}, Event::kError;
    if (done_) {
        done_ = false;
        have_ = 0;
        marker_count_ = 0;
    }
    for (;;) {
        const std::size_t want = wanted();
        if (want == 0) return input = {}, fail(MpaError::kMarker);
        if (have_ == want) break;
        if (input.empty()) return Event::kNeedMore;
        const std::size_t take = std::min(want - have_, input.size());
        std::memcpy(&buffer_[have_], input.data(), take);
        have_ += take;
        input = input.subspan(take);
    }
    const Event event = complete();
    if (event == Event::kError) input = {};
    return event;
}

// RFC 5044 8: with CRC in use it is judged before the markers.
FpduStream::Event FpduStream::complete() {
    const std::span<std::byte> raw{buffer_.data(), have_};
    if (crc_ && !fpdu_crc_ok(raw)) return fail(MpaError::kCrc);
    if (markers_) {
        note_markers();
        std::size_t logical_len = 0;
        if (!strip_markers(position_, raw, logical_len)) return fail(MpaError::kMarker);
    }
    position_ += have_;
    done_ = true;
    return Event::kUlpdu;
}

FpduStream::Event FpduStream::fail(MpaError error) {
    error_ = error;
    marker_count_ = 0;
    return Event::kError;
}

void FpduStream::note_markers() {
    for (std::size_t at = marker_at(position_) ? 0 : until_marker(position_); at < have_; at += kMarkerSpacing)
        marker_list_[marker_count_++] = {position_ + at, fpduptr_of(&buffer_[at])};
}

MpaError FpduStream::finish() const {
    if (error_ != MpaError::kNone) return error_;
    return done_ || have_ == 0 ? MpaError::kNone : MpaError::kConnectionLost;  // RFC 5044 8
}

}  // namespace swrnic::wire
