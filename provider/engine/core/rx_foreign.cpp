// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "engine/core/rx_foreign.h"

#include <algorithm>
#include <optional>

#include "wire/ddp.h"
#include "wire/fpdu.h"

namespace swrnic::engine {

RxStatus RxForeign::step(Pass& pass) {
    if (framed_.missing() != 0 && framed_.position() != refused_ && can_go_unread()) return step_unread(pass);
    return framed_.step(pass, RxFramed::Reach::kHeader);
}

// Whether the header of the FPDU that has begun is there, and is such that the payload may be placed if CRC and name
// are right. Also makes it the segment in progress.
bool RxForeign::can_go_unread() {
    const RxSegment::Header begun = framed_.begun();
    const RxSegment::Header have = begun.subspan(std::min(begun.size(), wire::kFpduHeaderLen));
    if (have.size() < wire::kControlLen) return false;
    const std::uint32_t ulpdu_len = wire::load_be16(begun.data());
    const std::size_t header_len =
        RxSegment::header_len(std::to_integer<std::uint8_t>(have[0]), std::to_integer<std::uint8_t>(have[1]));
    if (have.size() < header_len || ulpdu_len < header_len + kUnread) return false;
    return segment_.begins_well(have.first(header_len), ulpdu_len) && segment_.has_place();
}

// The rest of the FPDU that has begun has not been read.
RxStatus RxForeign::step_unread(Pass& pass) {
    if (stream_.transport->take_drained()) return RxStatus::kAgain;
    const std::size_t have = framed_.begun().size(), missing = framed_.missing();
    const bool alone = (have + missing) * 2 > ForeignMemory::kMostOctets || sizes_.largest_follows();
    const std::uint32_t payload = segment_.payload_left();
    const std::size_t room = alone ? missing + RxInput::kAhead
                                   : std::min(missing + reach(have + missing), ForeignMemory::kMostOctets - have);
    const std::span<std::byte> rest = pass.rx_staging().first(room);
    std::optional<ForeignMemory::Ending> ending = segment_.ending();
    const ForeignMemory::Begun begun{framed_.begun(),        wire::kFpduHeaderLen + segment_.ulpdu_len() - payload,
                                     segment_.target_name(), payload,
                                     segment_.may_go_on(),   ending ? &*ending : nullptr};
    const ForeignMemory::Arrival arrival = memory_.foreign()->receive(qpn_, begun, rest);
    counters_.add(Count::kRxCalls, 1);
    if (arrival.status != IoStatus::kOk) return RxInput::ended(arrival.status, true);
    stream_.transport->bypassed(arrival.taken, arrival.remains ? arrival.taken : room);
    note_reach(arrival);
    if (arrival.placed == 0) {
        refused_ = framed_.position();
    } else {
        framed_.drop();
        segment_.placed_unread(arrival);
        if (ending && ending->done) segment_.set_completed();
        segment_.end(pass);
    }
    return framed_.take(rest.first(arrival.staged), pass);
}

// Behind an FPDU of so many octets: how far what continues it may go, and a header behind that.
std::size_t RxForeign::reach(std::size_t fpdu) const {
    if (segment_.place_of_next().target != RxSegment::Target::kReadSink) return reach_ * std::size_t{1024};
    const std::uint64_t payload = segment_.payload_left();
    const std::uint64_t left = segment_.read_length() - segment_.place_of_next().offset - payload;
    const std::uint64_t fpdus = (left + payload - 1) / payload;
    return std::min<std::uint64_t>(reach_ * std::uint64_t{1024}, left + fpdus * (fpdu - payload) + RxInput::kAhead);
}

// Twice as far as the last run went, if that was not all that had come.
void RxForeign::note_reach(const ForeignMemory::Arrival& arrival) {
    run_ = static_cast<std::uint16_t>(std::min<std::uint32_t>(run_ + (arrival.octets + 1023) / 1024, kLongestReach));
    if (arrival.remains) reach_ = std::clamp<std::uint16_t>(run_ * 2, kShortestReach, kLongestReach);
    if (arrival.whole) run_ = 0;
}

}  // namespace swrnic::engine
