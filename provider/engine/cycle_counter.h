// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Reads the time for guesses. Each post asks, and steady_clock takes three times as long as the processor's counter,
// since it waits until all before it has executed.
#pragma once

#include <atomic>

#include "engine/cycles.h"
#ifdef __x86_64__
#include <x86intrin.h>
#endif

namespace swrnic::engine {

class CycleCounter {
  public:
    // Measures for a fifth of a millisecond how fast the processor's counter goes. Where its rate is not constant, or
    // there is none, it reads steady_clock.
    static CycleCounter measured();
    static constexpr CycleCounter of_clock() { return {nullptr, false, kCyclesAreNanoseconds}; }
    // For tests: it is what they say.
    static constexpr CycleCounter of(const std::atomic<Cycles>& now, CycleRate rate) { return {&now, false, rate}; }

    CycleRate rate() const { return rate_; }
    Cycles now() const {
#ifdef __x86_64__
        if (reads_tsc_) [[likely]]
            return Cycles(static_cast<std::int64_t>(__rdtsc()));
#endif
        return now_otherwise();
    }

  private:
    constexpr CycleCounter(const std::atomic<Cycles>* told, bool reads_tsc, CycleRate rate)
        : told_(told), reads_tsc_(reads_tsc), rate_(rate) {}
    [[gnu::cold]] Cycles now_otherwise() const;

    const std::atomic<Cycles>* told_;
    bool reads_tsc_;
    CycleRate rate_;
};

}  // namespace swrnic::engine
