// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// The time for guesses: is this a burst, is it too early to look. It mixes with no other time: a span of nanoseconds
// becomes one of cycles by a CycleRate alone. Who reads it: cycle_counter.h.
#pragma once

#include <chrono>
#include <cstdint>

namespace swrnic::engine {

// A point in the time of the counter, or a span of it.
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

class CycleRate {
  public:
    constexpr explicit CycleRate(std::int64_t per_millisecond) : per_millisecond_(per_millisecond) {}
    constexpr std::int64_t per_millisecond() const { return per_millisecond_; }
    // Of spans up to some minutes.
    constexpr Cycles cycles_in(std::chrono::nanoseconds time) const {
        return Cycles(time.count() * per_millisecond_ / 1'000'000);
    }

  private:
    std::int64_t per_millisecond_;
};

inline constexpr CycleRate kCyclesAreNanoseconds{1'000'000};

}  // namespace swrnic::engine
