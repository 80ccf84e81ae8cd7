// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Reads the time for guesses. Each post asks, and steady_clock takes three times as long as the processor's counter,
// since it waits until all before it has executed.
#pragma once

#include <chrono>

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
    static constexpr CycleCounter of_clock() { return {false, kCyclesAreNanoseconds}; }

    CycleRate rate() const { return rate_; }
    Cycles now() const {
#ifdef __x86_64__
        if (reads_tsc_) [[likely]]
            return Cycles(static_cast<std::int64_t>(__rdtsc()));
#endif
        return Cycles(std::chrono::nanoseconds(std::chrono::steady_clock::now().time_since_epoch()).count());
    }

  private:
    constexpr CycleCounter(bool reads_tsc, CycleRate rate) : reads_tsc_(reads_tsc), rate_(rate) {}

    bool reads_tsc_;
    CycleRate rate_;
};

}  // namespace swrnic::engine
