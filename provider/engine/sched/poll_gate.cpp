// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "engine/sched/poll_gate.h"

#include <array>

namespace swrnic::engine {

namespace {

constexpr std::int64_t kLargestFpdu = 64 * 1024;  // octets, about

}  // namespace

void PollGate::on_turn(const Times& times, const Turn& turn, Cycles now) {
    const Cycles before = now - streamed_at_;
    const bool goes_on = state() == State::kStream && before < times.stream_goes_on;
    Cycles backoff = times.bulk_backoff * static_cast<std::int64_t>(turn.rest) / kLargestFpdu;
    if (turn.brings_much()) {
        // Many that are little come at once, when their sender flushes, and again after as long.
        const bool flushed = turn.octets < tuning::kBulkOctets && goes_on;
        backoff = flushed ? std::clamp(before / 4 * 3, times.bulk_backoff, times.longest_backoff) : times.bulk_backoff;
        streamed_at_ = now;
    } else if (goes_on) {
        backoff = std::max(backoff, times.early_backoff);
    } else {
        streamed_at_ = {};
    }
    tried_at_.store(now, std::memory_order_relaxed);
    backoff_until_.store(now + backoff, std::memory_order_relaxed);
}

std::string_view name(PollGate::State state) {
    constexpr std::array<std::string_view, 2> kNames{"single", "stream"};
    return kNames[static_cast<std::size_t>(state)];
}

std::string_view name(NewsGate::State state) {
    constexpr std::array<std::string_view, 3> kNames{"news", "quiet", "silent"};
    return kNames[static_cast<std::size_t>(state)];
}

}  // namespace swrnic::engine
