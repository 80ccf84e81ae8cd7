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

// A point in the time of the processor's counter, or a span of it. It mixes with no other time: a span of nanoseconds
// becomes one of these by cycles_in() alone.
class Cycles {
  public:
    constexpr Cycles() = default;
    constexpr explicit Cycles(std::int64_t count) : count_(count) {}
    constexpr std::int64_t count() const { return count_; }

    friend constexpr bool operator==(Cycles a, Cycles b) { return a.count_ == b.count_; }
    friend constexpr bool operator<(Cycles a, Cycles b) { return a.count_ < b.count_; }
    friend constexpr bool operator>(Cycles a, Cycles b) { return b < a; }
    friend constexpr bool operator<=(Cycles a, Cycles b) { return !(b < a); }
    friend constexpr bool operator>=(Cycles a, Cycles b) { return !(a < b); }
    friend constexpr Cycles operator+(Cycles a, Cycles b) { return Cycles(a.count_ + b.count_); }
    friend constexpr Cycles operator-(Cycles a, Cycles b) { return Cycles(a.count_ - b.count_); }
    friend constexpr Cycles operator*(Cycles a, std::int64_t times) { return Cycles(a.count_ * times); }
    friend constexpr Cycles operator/(Cycles a, std::int64_t parts) { return Cycles(a.count_ / parts); }

    // Of a span: neither longer than `most` nor negative, as one between two processors may be.
    constexpr bool is_within(Cycles most) const {
        return static_cast<std::uint64_t>(count_) <= static_cast<std::uint64_t>(most.count_);
    }

  private:
    std::int64_t count_ = 0;
};

// About: the counter of most processors goes three times in a nanosecond.
constexpr Cycles cycles_in(std::chrono::nanoseconds time) {
    return Cycles(time.count() * 3);
}

inline Cycles cycles() {
#ifdef __x86_64__
    return Cycles(static_cast<std::int64_t>(__rdtsc()));
#else
    return cycles_in(std::chrono::steady_clock::now().time_since_epoch());
#endif
}

}  // namespace swrnic::engine
