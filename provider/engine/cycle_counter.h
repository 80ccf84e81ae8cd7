// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Reads the time for guesses. Each post asks, and steady_clock takes three times as long as the processor's counter,
// since it waits until all before it has executed.
#pragma once

#include <atomic>
#include <cstdint>

#include "engine/cycles.h"
#ifdef __x86_64__
#include <x86intrin.h>
#endif

namespace swrnic::engine {

// The processor's counter, if it is known here. What executes around it is not waited for.
#if defined(__x86_64__)
inline constexpr bool kHasProcessorCounter = true;
inline std::int64_t read_processor_counter() {
    return static_cast<std::int64_t>(__rdtsc());
}
#elif defined(__aarch64__)
inline constexpr bool kHasProcessorCounter = true;
inline std::int64_t read_processor_counter() {
    std::int64_t count;
    asm volatile("mrs %0, cntvct_el0" : "=r"(count));
    return count;
}
#else
inline constexpr bool kHasProcessorCounter = false;
inline std::int64_t read_processor_counter() {
    return 0;
}
#endif

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
        if (kHasProcessorCounter && reads_processor_) [[likely]]
            return Cycles(read_processor_counter());
        return now_otherwise();
    }

  private:
    constexpr CycleCounter(const std::atomic<Cycles>* told, bool reads_processor, CycleRate rate)
        : told_(told), reads_processor_(reads_processor), rate_(rate) {}
    [[gnu::cold]] Cycles now_otherwise() const;

    const std::atomic<Cycles>* told_;
    bool reads_processor_;
    CycleRate rate_;
};

}  // namespace swrnic::engine
