// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "engine/core/rx_framed.h"

#include <algorithm>
#include <array>
#include <utility>

namespace swrnic::engine {

namespace {

// Enough for the next FPDU's length and headers, Read Request included.
constexpr std::size_t kLookAhead = wire::kFpduHeaderLen + wire::kReadRequestSegmentLen;

}  // namespace

void RxFramed::start(bool crc, bool markers) {
    crc_ = crc;
    markers_ = markers;
    position_ = 0;
    frame_.clear();
}

RxStatus RxFramed::step(Pass& pass, Reach reach) {
    std::array<IoSlice, 2> io;
    std::uint32_t count = 0;
    std::size_t wanted = missing();  // of the FPDU in frame_, read to its place
    bool large = sizes_.expects_large();
    if (wanted != 0) {
        large = large || frame_.size() + wanted >= SegmentSizes::kLarge;
        if (reach == Reach::kHeader && frame_.size() < kLookAhead) wanted = std::min(wanted, RxInput::kAhead);
        io[count++] = {frame_.room(wanted), wanted};
    }
    const bool ahead = large || reach == Reach::kHeader;
    const std::span<std::byte> staging = pass.rx_staging().first(ahead ? RxInput::kAhead : PassPool::kRxStaging);
    io[count++] = {staging.data(), staging.size()};
    const IoResult result = input_.read(io.data(), count);
    if (result.status != IoStatus::kOk) return RxInput::ended(result.status, is_inside());

    const std::size_t to_frame = std::min(result.count, wanted);
    frame_.added(to_frame);
    return take(staging.first(result.count - to_frame), pass);
}

RxStatus RxFramed::take(std::span<std::byte> octets, Pass& pass) {
    const std::size_t taken = consume(octets, pass);
    input_.carry(octets.subspan(taken));
    return input_.moved();
}

void RxFramed::resume(bool again, std::span<std::byte> octets, Pass& pass) {
    if (again) {
        ByteBuffer waiting = std::exchange(frame_, ByteBuffer());
        segment_of_frame(waiting.octets(), pass);
    }
    take(octets, pass);
}

std::uint32_t RxFramed::large_left() const {
    if (segment_.lacks_receive() || segment_.has_failed()) return 0;
    const std::size_t left = missing();
    return frame_.size() + left > SegmentSizes::kLarge ? static_cast<std::uint32_t>(left) : 0;
}

// Raw octets of the FPDU that begins with these, 0 while they are too few to tell. Any length is taken (MPA-61).
std::size_t RxFramed::frame_size(std::span<const std::byte> octets) const {
    const std::size_t at = markers_ ? wire::opening_marker_len(position_) : 0;
    if (octets.size() < at + wire::kFpduHeaderLen) return 0;
    const std::size_t ulpdu_len = wire::load_be16(octets.data() + at);
    return markers_ ? wire::fpdu_size_with_markers(position_, ulpdu_len) : wire::fpdu_size(ulpdu_len);
}

std::size_t RxFramed::consume(std::span<std::byte> octets, Pass& pass) {
    std::size_t at = 0;
    for (;;) {
        if (segment_.stops()) return at;
        const auto rest = octets.subspan(at);
        if (frame_.empty()) {
            if (rest.empty()) return at;
            const std::size_t size = frame_size(rest);
            if (size == 0 || size > rest.size()) {
                frame_.reserve(size);
                frame_.append(rest);
                return octets.size();
            }
            take_frame(rest.first(size), pass);
            at += size;
            continue;
        }
        const std::size_t size = frame_size(frame_.octets());
        if (size != 0 && size == frame_.size()) {
            ByteBuffer whole = std::move(frame_);
            frame_ = ByteBuffer();
            take_frame(whole.octets(), pass);
            continue;
        }
        if (rest.empty()) return at;
        // octet by octet until the length is known
        const std::size_t part = size == 0 ? 1 : std::min(size - frame_.size(), rest.size());
        frame_.reserve(size);
        frame_.append(rest.first(part));
        at += part;
    }
}

void RxFramed::take_frame(std::span<std::byte> raw, Pass& pass) {
    const std::uint64_t position = position_;
    position_ += raw.size();
    sizes_.note(raw.size());
    if (crc_ && !wire::fpdu_crc_ok(raw)) {
        counters_.add(Count::kRxCrcErrors, 1);
        segment_.fail(wire::fault::kCrc, AsyncEvent::kQpFatal, {});
        return;
    }
    std::size_t logical = raw.size();
    if (markers_ && !wire::strip_markers(position, raw, logical)) {
        segment_.fail(wire::fault::kMarker, AsyncEvent::kQpFatal, {});
        return;
    }
    segment_of_frame(raw.first(logical), pass);
}

void RxFramed::segment_of_frame(std::span<std::byte> logical, Pass& pass) {
    const std::uint32_t ulpdu_len = wire::load_be16(logical.data());
    const RxSegment::Header ulpdu = logical.subspan(wire::kFpduHeaderLen, ulpdu_len);
    std::size_t header_len = ulpdu_len;
    if (ulpdu_len >= wire::kControlLen) {
        header_len = std::min(header_len, RxSegment::header_len(std::to_integer<std::uint8_t>(ulpdu[0]),
                                                                std::to_integer<std::uint8_t>(ulpdu[1])));
    }
    const RxSegment::Header header = ulpdu.first(header_len);
    switch (segment_.begin(header, ulpdu_len)) {
        case RxSegment::Verdict::kAccept:
            if (segment_.place_whole(ulpdu.subspan(header_len), header)) segment_.end(pass);
            break;
        case RxSegment::Verdict::kStall:
            frame_.append(logical);
            break;
        case RxSegment::Verdict::kFail:
            break;
    }
}

}  // namespace swrnic::engine
