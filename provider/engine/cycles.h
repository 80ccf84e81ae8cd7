// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// The time for guesses: is this a burst, is it too early to look. Each post asks. Clock::now() takes three times as
// long, since it waits until all before it has executed. Off by two, this only makes the guess a bad one; but it must
// go on, since what waits for it to pass would wait for ever.
#pragma once

#include <chrono>
#include <cstdint>
#ifdef __x86_64__
#include <x86intrin.h>
#endif

namespace swrnic::engine {

constexpr std::int64_t kCyclesInNs = 3;  // about

constexpr std::int64_t cycles_in(std::chrono::nanoseconds time) {
    return time.count() * kCyclesInNs;
}

inline std::int64_t cycles() {
#ifdef __x86_64__
    return static_cast<std::int64_t>(__rdtsc());
#else
    return cycles_in(std::chrono::steady_clock::now().time_since_epoch());
#endif
}

}  // namespace swrnic::engine
