// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// The times of tuning.h in cycles of one engine's counter. What a post and an empty poll look at stands in front.
#pragma once

#include "engine/core/types.h"
#include "engine/cycles.h"
#include "engine/tuning.h"

namespace swrnic::engine {

struct alignas(kCacheLine) Times {
    // busy_poll_for: as EngineOptions has it.
    explicit constexpr Times(CycleRate rate, std::chrono::nanoseconds busy_poll_for = tuning::kBusyPoll)
        : burst_gap(rate.cycles_in(tuning::kBurstGap)),
          long_burst_gap(rate.cycles_in(tuning::kLongBurstGap)),
          gather(rate.cycles_in(tuning::kGather)),
          flush_gap(rate.cycles_in(tuning::kFlushGap)),
          stream_goes_on(rate.cycles_in(tuning::kStreamGoesOn)),
          early_backoff(rate.cycles_in(tuning::kEarlyBackoff)),
          longest_gap(rate.cycles_in(tuning::kLongestGap)),
          long_turn(rate.cycles_in(tuning::kLongTurn)),
          bulk_backoff(rate.cycles_in(tuning::kBulkBackoff)),
          longest_backoff(rate.cycles_in(tuning::kLongestBackoff)),
          burst_goes_on(rate.cycles_in(tuning::kBurstGoesOn)),
          busy_poll(rate.cycles_in(busy_poll_for)),
          cooldown(rate.cycles_in(tuning::kCooldown)),
          longest_cooldown(rate.cycles_in(tuning::kLongestCooldown)),
          report_every(rate.cycles_in(tuning::kReportEvery)) {}

    Cycles burst_gap, long_burst_gap, gather, flush_gap, stream_goes_on, early_backoff, longest_gap, long_turn;
    Cycles bulk_backoff, longest_backoff;
    Cycles burst_goes_on, busy_poll, cooldown, longest_cooldown, report_every;
};

}  // namespace swrnic::engine
