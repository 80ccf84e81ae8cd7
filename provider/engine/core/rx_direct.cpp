// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "engine/core/rx_direct.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "engine/core/copy.h"
#include "wire/ddp.h"

namespace swrnic::engine {

void RxDirect::start() {
    accepted_ = copies_ = false;
    header_have_ = trailer_left_ = 0;
}

// The payload of the next segment, as far as its place is known before its header is there.
struct RxDirect::Predicted {
    RxSegment::Place place;
    std::uint32_t length = 0;
    std::size_t header_len = 0;  // of the segment's headers, before it
    std::span<const IoSlice> slices;
};

// Where the first segment of a message alone may be short, the one behind a segment that is not the last is the
// largest. Other peers cut as they like; but all that a Read asked for belongs to its sink, and they will cut its
// Response into equals. If the header says something else after all, the octets are taken from there again.
RxDirect::Predicted RxDirect::predict(IoSlice* out) const {
    if (segment_.is_last() || !segment_.has_place()) return {};
    Predicted next;
    next.place = segment_.place_of_next();
    next.place.offset += segment_.payload_left();
    const bool tagged = next.place.target != RxSegment::Target::kReceive;
    const bool read_sink = next.place.target == RxSegment::Target::kReadSink;
    next.header_len = tagged ? wire::kTaggedHeaderLen : wire::kUntaggedHeaderLen;
    next.length = tagged ? wire::max_tagged_payload(wire::kMaxUlpdu) : wire::max_untagged_payload(wire::kMaxUlpdu);
    if (!sizes_.short_first()) {
        if (!read_sink) return {};
        next.length = segment_.ulpdu_len() - static_cast<std::uint32_t>(next.header_len);
    }
    if (read_sink) {
        next.length = static_cast<std::uint32_t>(
            std::min<std::uint64_t>(next.length, segment_.read_length() - next.place.offset));
    }
    if (next.length < SegmentSizes::kLarge) return {};
    const SliceResult found = segment_.slices(out, next.place, next.length);
    if (found.length != next.length) return {};
    next.slices = {out, found.count};
    return next;
}

// One read brings, in this order: the rest of the payload in progress, to its place; into staging, what stands before
// the next payload; that one, if its place is predicted; into staging again, what stands behind it.
RxStatus RxDirect::step(Pass& pass) {
    const std::span<std::byte> staging = pass.rx_staging();
    std::array<IoSlice, RxSegment::kMaxSlices + 1 + RxSegment::kMaxSlices + 1> io;
    std::uint32_t count = 0;
    std::uint32_t direct = 0;
    Predicted next;
    std::size_t between = staging.size();
    if (in_payload() && !copies_ && (sizes_.is_large() || sizes_.largest_follows()) && segment_.has_place()) {
        const SliceResult target = segment_.slices(io.data(), segment_.place_of_next(), segment_.payload_left());
        if (target.error != MemoryError::kNone) {
            segment_.sink_lost();
            return RxStatus::kMoved;
        }
        count = target.count;
        direct = target.length;
        if (direct == segment_.payload_left()) next = predict(io.data() + count + 1);
    }
    if (next.length != 0) {
        between = trailer_left_ + wire::kFpduHeaderLen + next.header_len;
    } else if (direct != 0) {
        between = direct == segment_.payload_left() ? trailer_left_ + RxInput::kAhead : 0;
    } else if (sizes_.expects_large()) {
        between = (in_payload() ? segment_.payload_left() : 0) + trailer_left_ + RxInput::kAhead;
    }
    if (between != 0) io[count++] = {staging.data(), between};
    if (next.length != 0) {
        count += static_cast<std::uint32_t>(next.slices.size());
        io[count++] = {staging.data() + between, RxInput::kAhead};
    }

    const IoResult result = input_.read(io.data(), count);
    // Nothing was taken from the stream. The kernel asks no handler of the program's whether it lifts a protection; a
    // copy does, and finds out which message it is that has lost its memory.
    if (result.status == IoStatus::kFault) {
        if (!std::exchange(copies_, true)) return RxStatus::kMoved;
        segment_.sink_lost();  // staging is never at fault
    }
    if (result.status != IoStatus::kOk) return RxInput::ended(result.status, header_have_ != 0);
    const std::size_t to_place = std::min<std::size_t>(result.count, direct);
    if (to_place != 0) segment_.placed(static_cast<std::uint32_t>(to_place));
    const std::size_t staged = std::min(result.count - to_place, between);
    consume_or_carry(staging.first(staged), pass);
    if (result.count > direct + between) {
        take_predicted(next, result.count - direct - between, staging.subspan(between), pass);
    }
    return input_.moved();
}

// `size` octets behind the next header: in the slices that were predicted, as far as they reach, then in staging.
// Behind them staging has room for as many again.
void RxDirect::take_predicted(const Predicted& next, std::size_t size, std::span<std::byte> staging, Pass& pass) {
    const std::size_t ahead = std::min<std::size_t>(size, next.length);
    const std::span<std::byte> behind = staging.first(size - ahead);
    if (in_payload() && segment_.place_of_next() == next.place && segment_.payload_left() == next.length) {
        segment_.placed(static_cast<std::uint32_t>(ahead));
    } else {
        const std::span<std::byte> back = staging.subspan(behind.size(), ahead);
        std::size_t at = 0;
        for (const IoSlice& slice : next.slices) {
            const std::size_t part = std::min(slice.length, ahead - at);
            if (!copy_octets(back.data() + at, slice.base, part)) return segment_.sink_lost();
            at += part;
        }
        consume_or_carry(back, pass);
    }
    consume_or_carry(behind, pass);
}

void RxDirect::consume_or_carry(std::span<const std::byte> octets, Pass& pass) {
    const std::size_t taken = segment_.stops() ? 0 : consume(octets, pass);
    input_.carry(octets.subspan(taken));
}

std::size_t RxDirect::consume(std::span<const std::byte> octets, Pass& pass) {
    std::size_t at = 0;
    while (at < octets.size() && !segment_.stops()) {
        const auto rest = octets.subspan(at);
        if (!accepted_) {
            at += take_header(rest);
        } else if (const std::uint32_t left = segment_.payload_left(); left != 0) {
            const auto part = rest.first(std::min<std::size_t>(rest.size(), left));
            if (!segment_.place(part)) break;
            at += part.size();
        } else {
            const auto part = static_cast<std::uint32_t>(std::min<std::size_t>(rest.size(), trailer_left_));
            at += part;
            trailer_left_ -= part;
            if (trailer_left_ != 0) break;
            header_have_ = 0;
            accepted_ = false;
            segment_.end(pass);
        }
    }
    return at;
}

// Octets of header_ that are needed before anything can be said: two and the control octets first, then the whole
// header.
std::size_t RxDirect::header_want() const {
    if (header_have_ < wire::kFpduHeaderLen) return wire::kFpduHeaderLen;
    const std::size_t ulpdu_len = wire::load_be16(header_.data());
    const std::size_t controls = wire::kFpduHeaderLen + std::min(ulpdu_len, wire::kControlLen);
    if (header_have_ < controls || ulpdu_len < wire::kControlLen) return controls;
    return wire::kFpduHeaderLen + std::min(ulpdu_len, RxSegment::header_len(std::to_integer<std::uint8_t>(header_[2]),
                                                                            std::to_integer<std::uint8_t>(header_[3])));
}

std::size_t RxDirect::take_header(std::span<const std::byte> octets) {
    if (header_have_ == 0 && octets.size() >= kMaxHeader) {  // as nearly always: no need to go step by step
        std::memcpy(header_.data(), octets.data(), kMaxHeader);
        header_have_ = wire::kFpduHeaderLen + wire::kControlLen;
        header_have_ = static_cast<std::uint32_t>(header_want());
        header_complete();
        return header_have_;
    }
    std::size_t at = 0;
    for (;;) {
        const std::size_t want = header_want();
        if (header_have_ == want) {
            header_complete();
            return at;
        }
        if (at == octets.size()) return at;
        const std::size_t part = std::min(want - header_have_, octets.size() - at);
        std::memcpy(header_.data() + header_have_, octets.data() + at, part);
        header_have_ += static_cast<std::uint32_t>(part);
        at += part;
    }
}

void RxDirect::header_complete() {
    const std::uint32_t ulpdu_len = wire::load_be16(header_.data());
    trailer_left_ = static_cast<std::uint32_t>(wire::pad_len(ulpdu_len) + wire::kCrcLen);
    sizes_.note(ulpdu_len - (header_have_ - wire::kFpduHeaderLen));
    copies_ = false;
    take_up();
}

// The segment whose header is there; again, if it has waited.
void RxDirect::take_up() {
    accepted_ = segment_.begin(header(), wire::load_be16(header_.data())) == RxSegment::Verdict::kAccept;
}

void RxDirect::resume(bool again, std::span<const std::byte> octets, Pass& pass) {
    if (again) take_up();
    consume_or_carry(octets, pass);
}

}  // namespace swrnic::engine
