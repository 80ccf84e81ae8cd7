// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// From octets to segments. What a segment means is in rx_segment.cpp.
#include "engine/core/rx.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "engine/core/copy.h"
#include "engine/core/counters.h"
#include "engine/core/qp_status.h"
#include "engine/core/reads.h"
#include "engine/core/receive_queue.h"
#include "engine/core/send_queue.h"
#include "engine/core/stream.h"

namespace swrnic::engine {

namespace {

// Enough for the next FPDU's length and headers, Read Request included.
constexpr std::size_t kLookAhead = wire::kFpduHeaderLen + wire::kReadRequestSegmentLen;

constexpr std::uint8_t octet(std::byte b) {
    return std::to_integer<std::uint8_t>(b);
}

}  // namespace

void Rx::start(bool crc, bool markers, bool short_first, bool rtr_send, bool bypass) {
    framed_ = crc || markers || memory_.foreign() != nullptr;
    crc_ = crc;
    markers_ = markers;
    short_first_ = short_first;
    bypass_ = bypass && !markers && memory_.foreign() != nullptr;
    rtr_send_ = rtr_send;
    first_ = true;
    stop_ = Stop::kNone;
    large_ = copies_ = false;
    last_ = true;
    recent_large_ = 0;
    phase_ = Phase::kHeader;
    header_have_ = 0;
    msn_ = {1, 1, 1};
    send_mo_ = read_offset_ = 0;
    position_ = 0;
    frame_.clear();
    carry_.clear();
}

Rx::Status Rx::step(const RxGuard&, Pass& pass) {
    fresh_ = {};
    if (phase_ == Phase::kDiscard || status_.has_fault()) return discard(pass);
    const Status status = stops() ? resume(pass) : framed_ ? step_frames(pass) : step_direct(pass);
    rq_.tell(pass.outbox());
    return status;
}

IoResult Rx::read(const IoSlice* slices, std::size_t count) {
    const IoResult result = stream_.transport->receive(slices, count);
    if (result.status != IoStatus::kEmpty) counters_.add(Count::kRxCalls, 1);
    return result;
}

Rx::Status Rx::ended(IoStatus status) const {
    if (status == IoStatus::kAgain || status == IoStatus::kEmpty) return Status::kAgain;
    if (status == IoStatus::kEof && !inside_fpdu()) return Status::kEof;
    return Status::kBroken;  // a FIN inside an FPDU is MPA error 1 (RFC 5044 8)
}

// Of the next segment. One of a message's ends says little: of 64 KiB one segment is small.
bool Rx::expects_large() const {
    return last_ ? recent_large_ != 0 : large_ || largest_follows();
}

std::uint32_t Rx::large_left() const {
    if (phase_ == Phase::kPayload && large_) return payload_left_;
    const std::size_t size = frame_.empty() || stop_ == Stop::kNoReceive ? 0 : frame_size(frame_.octets());
    return size > kDirect ? static_cast<std::uint32_t>(size - frame_.size()) : 0;
}

bool Rx::inside_fpdu() const {
    if (phase_ == Phase::kDiscard) return false;
    return phase_ != Phase::kHeader || header_have_ != 0 || !frame_.empty();
}

// After an error nothing more of this direction is looked at (RFC 5044 8); the stream is read so that its end is seen.
Rx::Status Rx::discard(Pass& pass) {
    phase_ = Phase::kDiscard;
    frame_.clear();
    carry_.clear();
    stop_ = Stop::kNone;
    const IoSlice slice{pass.rx_staging().data(), pass.rx_staging().size()};
    const IoResult result = read(&slice, 1);
    return result.status == IoStatus::kOk ? Status::kMoved : ended(result.status);
}

// A receive may have been posted since, or the passes be over: takes up what was read already, and reads nothing.
Rx::Status Rx::resume(Pass& pass) {
    const bool segment_waits = stop_ == Stop::kNoReceive;
    if (segment_waits && !rq_.take()) return Status::kStalled;
    stop_ = Stop::kNone;
    ByteBuffer rest = std::move(carry_);
    carry_ = ByteBuffer();
    std::size_t taken = 0;
    if (framed_) {
        if (segment_waits) {
            ByteBuffer waiting = std::move(frame_);
            frame_ = ByteBuffer();
            segment_of_frame(waiting.octets(), pass);
        }
        if (!stops()) taken = consume_frames(rest.octets(), pass);
    } else {
        if (segment_waits) take_up(header_have_);
        if (!stops()) taken = consume_direct(rest.octets(), pass);
    }
    if (stops()) carry_.append(rest.octets().subspan(taken));
    return moved();
}

// ---- CRC and markers off
// -------------------------------------------------------------------------------------------------

// The payload of the next segment, as far as its place is known before its header is there.
struct Rx::Predicted {
    std::uint64_t offset = 0;
    std::uint32_t length = 0;
    std::size_t header_len = 0;  // of the segment's headers, before it
    std::uint32_t stag = 0;
    Target target = Target::kNothing;
    std::span<const IoSlice> slices;
};

// Where the first segment of a message alone may be short, the one behind a segment that is not the last is the
// largest. Other peers cut as they like; but all that a Read asked for belongs to its sink, and they will cut its
// Response into equals. If the header says something else after all, the octets are taken from there again.
Rx::Predicted Rx::predict(IoSlice* out) const {
    if (last_ || target_ == Target::kNothing) return {};
    Predicted next;
    next.target = target_;
    next.stag = stag_;
    next.offset = offset_ + payload_left_;
    const bool tagged = target_ != Target::kReceive;
    next.header_len = tagged ? wire::kTaggedHeaderLen : wire::kUntaggedHeaderLen;
    next.length = tagged ? wire::max_tagged_payload(wire::kMaxUlpdu) : wire::max_untagged_payload(wire::kMaxUlpdu);
    if (!short_first_) {
        if (target_ != Target::kReadSink) return {};
        next.length = ulpdu_len_ - static_cast<std::uint32_t>(next.header_len);
    }
    if (target_ == Target::kReadSink) {
        next.length =
            static_cast<std::uint32_t>(std::min<std::uint64_t>(next.length, reads_.orq.peek().length - next.offset));
    }
    if (next.length < kDirect) return {};
    const SliceResult found = slices(out, next.offset, next.length);
    if (found.length != next.length) return {};
    next.slices = {out, found.count};
    return next;
}

// One read brings, in this order: the rest of the payload in progress, to its place; into staging, what stands before
// the next payload; that one, if its place is predicted; into staging again, what stands behind it.
Rx::Status Rx::step_direct(Pass& pass) {
    const std::span<std::byte> staging = pass.rx_staging();
    std::array<IoSlice, kMaxSlices + 1 + kMaxSlices + 1> io;
    std::uint32_t count = 0;
    std::uint32_t direct = 0;
    Predicted next;
    std::size_t between = staging.size();
    if (phase_ == Phase::kPayload && !copies_ && (large_ || largest_follows()) && target_ != Target::kNothing) {
        const SliceResult target = slices(io.data(), offset_, payload_left_);
        if (target.error != MemoryError::kNone) {
            sink_lost();
            return Status::kMoved;
        }
        count = target.count;
        direct = target.length;
        if (direct == payload_left_) next = predict(io.data() + count + 1);
    }
    if (next.length != 0) {
        between = trailer_left_ + wire::kFpduHeaderLen + next.header_len;
    } else if (direct != 0) {
        between = direct == payload_left_ ? trailer_left_ + kAhead : 0;
    } else if (expects_large()) {
        between = (phase_ == Phase::kPayload ? payload_left_ : 0) + trailer_left_ + kAhead;
    }
    if (between != 0) io[count++] = {staging.data(), between};
    if (next.length != 0) {
        count += static_cast<std::uint32_t>(next.slices.size());
        io[count++] = {staging.data() + between, kAhead};
    }

    const IoResult result = read(io.data(), count);
    // Nothing was taken from the stream. The kernel asks no handler of the program's whether it lifts a protection; a
    // copy does, and finds out which message it is that has lost its memory.
    if (result.status == IoStatus::kFault) {
        if (!std::exchange(copies_, true)) return Status::kMoved;
        sink_lost();  // staging is never at fault
    }
    if (result.status != IoStatus::kOk) return ended(result.status);
    const std::size_t to_place = std::min<std::size_t>(result.count, direct);
    if (to_place != 0) placed(static_cast<std::uint32_t>(to_place));
    const std::size_t staged = std::min(result.count - to_place, between);
    consume_staging(staging.first(staged), pass);
    if (result.count > direct + between) {
        take_predicted(next, result.count - direct - between, staging.subspan(between), pass);
    }
    return moved();
}

// `size` octets behind the next header: in the slices that were predicted, as far as they reach, then in staging.
// Behind them staging has room for as many again.
void Rx::take_predicted(const Predicted& next, std::size_t size, std::span<std::byte> staging, Pass& pass) {
    const std::size_t ahead = std::min<std::size_t>(size, next.length);
    const std::span<std::byte> behind = staging.first(size - ahead);
    if (phase_ == Phase::kPayload && target_ == next.target && stag_ == next.stag && offset_ == next.offset &&
        payload_left_ == next.length) {
        placed(static_cast<std::uint32_t>(ahead));
    } else {
        const std::span<std::byte> back = staging.subspan(behind.size(), ahead);
        std::size_t at = 0;
        for (const IoSlice& slice : next.slices) {
            const std::size_t part = std::min(slice.length, ahead - at);
            if (!copy_octets(back.data() + at, slice.base, part)) return sink_lost();
            at += part;
        }
        consume_staging(back, pass);
    }
    consume_staging(behind, pass);
}

void Rx::consume_staging(std::span<const std::byte> octets, Pass& pass) {
    const std::size_t taken = stops() ? 0 : consume_direct(octets, pass);
    if (stops()) carry_.append(octets.subspan(taken));
}

std::size_t Rx::consume_direct(std::span<const std::byte> octets, Pass& pass) {
    std::size_t at = 0;
    while (at < octets.size() && !stops()) {
        const auto rest = octets.subspan(at);
        switch (phase_) {
            case Phase::kHeader:
                at += take_header(rest);
                break;
            case Phase::kPayload: {
                const auto part = rest.first(std::min<std::size_t>(rest.size(), payload_left_));
                if (!place(part)) return octets.size();
                at += part.size();
                break;
            }
            case Phase::kTrailer: {
                const auto part = static_cast<std::uint32_t>(std::min<std::size_t>(rest.size(), trailer_left_));
                at += part;
                trailer_left_ -= part;
                if (trailer_left_ != 0) break;
                header_have_ = 0;
                phase_ = Phase::kHeader;
                end_segment(pass);
                break;
            }
            case Phase::kDiscard:
                return octets.size();
        }
    }
    return at;
}

// Octets of header_ that are needed before anything can be said: two and the control octets first, then the whole
// header.
std::size_t Rx::header_want() const {
    if (header_have_ < wire::kFpduHeaderLen) return wire::kFpduHeaderLen;
    const std::size_t ulpdu_len = wire::load_be16(header_.data());
    const std::size_t controls = wire::kFpduHeaderLen + std::min(ulpdu_len, wire::kControlLen);
    if (header_have_ < controls || ulpdu_len < wire::kControlLen) return controls;
    return wire::kFpduHeaderLen + std::min(ulpdu_len, segment_header_len(octet(header_[2]), octet(header_[3])));
}

std::size_t Rx::take_header(std::span<const std::byte> octets) {
    if (header_have_ == 0 && octets.size() >= kMaxHeader) {  // as nearly always: no need to go step by step
        std::memcpy(header_.data(), octets.data(), kMaxHeader);
        header_have_ = wire::kFpduHeaderLen + wire::kControlLen;
        header_have_ = static_cast<std::uint32_t>(header_want());
        header_complete(header_have_);
        return header_have_;
    }
    std::size_t at = 0;
    for (;;) {
        const std::size_t want = header_want();
        if (header_have_ == want) {
            header_complete(want);
            return at;
        }
        if (at == octets.size()) return at;
        const std::size_t part = std::min(want - header_have_, octets.size() - at);
        std::memcpy(header_.data() + header_have_, octets.data() + at, part);
        header_have_ += static_cast<std::uint32_t>(part);
        at += part;
    }
}

void Rx::header_complete(std::size_t length) {
    const std::size_t header = length - wire::kFpduHeaderLen;
    ulpdu_len_ = wire::load_be16(header_.data());
    payload_left_ = ulpdu_len_ - static_cast<std::uint32_t>(std::min<std::size_t>(header, ulpdu_len_));
    trailer_left_ = static_cast<std::uint32_t>(wire::pad_len(ulpdu_len_) + wire::kCrcLen);
    note_size(payload_left_);
    copies_ = false;
    take_up(length);
}

// The segment whose header is there; again, if it has stalled.
void Rx::take_up(std::size_t length) {
    switch (begin_segment(Header(header_.data() + wire::kFpduHeaderLen, length - wire::kFpduHeaderLen))) {
        case Verdict::kAccept:
            phase_ = payload_left_ != 0 ? Phase::kPayload : Phase::kTrailer;
            break;
        case Verdict::kStall:
            stop_ = Stop::kNoReceive;
            break;
        case Verdict::kFail:
            break;
    }
}

// ---- CRC or markers on, or foreign memory
// --------------------------------------------------------------------------------

Rx::Status Rx::step_frames(Pass& pass) {
    std::array<IoSlice, 2> io;
    std::uint32_t count = 0;
    std::size_t missing = 0;  // of the FPDU in frame_, read to its place
    bool large = expects_large();
    if (!frame_.empty()) {
        const std::size_t size = frame_size(frame_.octets());
        if (size > frame_.size()) {
            if (bypass_ && !refused_ && can_go_unread()) return step_unread(size, pass);
            missing = size - frame_.size();
            if (bypass_ && frame_.size() < kLookAhead) missing = std::min(missing, kAhead);
            large = large || size >= kDirect;
            io[count++] = {frame_.room(missing), missing};
        }
    }
    const std::span<std::byte> staging = pass.rx_staging().first(large || bypass_ ? kAhead : PassPool::kRxStaging);
    io[count++] = {staging.data(), staging.size()};
    const IoResult result = read(io.data(), count);
    if (result.status != IoStatus::kOk) return ended(result.status);

    const std::size_t to_frame = std::min(result.count, missing);
    frame_.added(to_frame);
    return consume_staged(staging.first(result.count - to_frame), pass);
}

Rx::Status Rx::consume_staged(std::span<std::byte> staged, Pass& pass) {
    const std::size_t taken = consume_frames(staged, pass);
    if (stops()) carry_.append(staged.subspan(taken));
    return moved();
}

// The FPDU in frame_, of `size` octets, has begun; the rest of it has not been read.
Rx::Status Rx::step_unread(std::size_t size, Pass& pass) {
    if (stream_.transport->take_drained()) return Status::kAgain;
    const bool large = size >= kDirect || largest_follows();
    const std::size_t room = large ? size - frame_.size() + kAhead : kUnreadRun;
    const std::span<std::byte> rest = pass.rx_staging().first(room);
    const ForeignMemory::Begun begun{frame_.octets(), wire::kFpduHeaderLen + ulpdu_len_ - payload_left_, target_name(),
                                     payload_left_, !last_};
    const ForeignMemory::Arrival arrival = memory_.foreign()->receive(qpn_, begun, rest);
    counters_.add(Count::kRxCalls, 1);
    if (arrival.status != IoStatus::kOk) return ended(arrival.status);
    stream_.transport->bypassed(arrival.taken, room);
    refused_ = arrival.placed == 0;
    if (!refused_) placed_unread(arrival, pass);
    return consume_staged(rest.first(arrival.staged), pass);
}

// Whether the header in frame_ is there, and is such that the payload may be placed if CRC and name are right. Also
// makes it the segment in progress.
bool Rx::can_go_unread() {
    const Header have = std::as_const(frame_).octets().subspan(std::min(frame_.size(), wire::kFpduHeaderLen));
    if (have.size() < wire::kControlLen) return false;
    ulpdu_len_ = wire::load_be16(frame_.octets().data());
    const std::size_t header_len = segment_header_len(octet(have[0]), octet(have[1]));
    if (have.size() < header_len || ulpdu_len_ < header_len + kUnread) return false;
    payload_left_ = ulpdu_len_ - static_cast<std::uint32_t>(header_len);
    dry_run_ = true;
    const Verdict verdict = begin_segment(have.first(header_len));
    dry_run_ = false;
    return verdict == Verdict::kAccept && target_ != Target::kNothing;
}

// The segment in progress is the first of them; those behind it are in the midst of its message, and nothing is to be
// done at their end.
void Rx::placed_unread(const ForeignMemory::Arrival& arrival, Pass& pass) {
    frame_.clear();
    counters_.add(Count::kRxFpdus, arrival.placed - 1);
    counters_.add(Count::kRxBytes, arrival.octets - payload_left_);
    payload_left_ = arrival.octets;
    placed(arrival.octets);
    end_segment(pass);
}

// Raw octets of the FPDU that begins with these, 0 while they are too few to tell. Any length is taken (MPA-61).
std::size_t Rx::frame_size(std::span<const std::byte> octets) const {
    const std::size_t at = markers_ ? wire::opening_marker_len(position_) : 0;
    if (octets.size() < at + wire::kFpduHeaderLen) return 0;
    const std::size_t ulpdu_len = wire::load_be16(octets.data() + at);
    return markers_ ? wire::fpdu_size_with_markers(position_, ulpdu_len) : wire::fpdu_size(ulpdu_len);
}

std::size_t Rx::consume_frames(std::span<std::byte> octets, Pass& pass) {
    std::size_t at = 0;
    for (;;) {
        if (phase_ == Phase::kDiscard) return octets.size();
        if (stops()) return at;
        const auto rest = octets.subspan(at);
        if (frame_.empty()) {
            if (rest.empty()) return at;
            const std::size_t size = frame_size(rest);
            if (size == 0 || size > rest.size()) {
                frame_.reserve(size);
                frame_.append(rest);
                refused_ = false;
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

void Rx::take_frame(std::span<std::byte> raw, Pass& pass) {
    const std::uint64_t position = position_;
    position_ += raw.size();
    note_size(raw.size());
    if (crc_ && !wire::fpdu_crc_ok(raw)) {
        counters_.add(Count::kRxCrcErrors, 1);
        fail(wire::fault::kCrc, AsyncEvent::kQpFatal, {});
        return;
    }
    std::size_t logical = raw.size();
    if (markers_ && !wire::strip_markers(position, raw, logical)) {
        fail(wire::fault::kMarker, AsyncEvent::kQpFatal, {});
        return;
    }
    segment_of_frame(raw.first(logical), pass);
}

void Rx::segment_of_frame(std::span<std::byte> logical, Pass& pass) {
    ulpdu_len_ = wire::load_be16(logical.data());
    const Header ulpdu = logical.subspan(wire::kFpduHeaderLen, ulpdu_len_);
    std::size_t header_len = ulpdu_len_;
    if (ulpdu_len_ >= wire::kControlLen) {
        header_len = std::min<std::size_t>(header_len, segment_header_len(octet(ulpdu[0]), octet(ulpdu[1])));
    }
    payload_left_ = ulpdu_len_ - static_cast<std::uint32_t>(header_len);
    const Header header = ulpdu.first(header_len);
    const std::span<const std::byte> payload = ulpdu.subspan(header_len);
    ForeignMemory* const foreign = memory_.foreign();
    switch (begin_segment(header)) {
        case Verdict::kAccept:
            if (foreign != nullptr && target_ != Target::kNothing && !payload.empty()
                    ? place_foreign(*foreign, payload, header)
                    : place(payload)) {
                phase_ = Phase::kHeader;
                end_segment(pass);
            }
            break;
        case Verdict::kStall:
            stop_ = Stop::kNoReceive;
            frame_.append(logical);
            break;
        case Verdict::kFail:
            break;
    }
}

}  // namespace swrnic::engine
