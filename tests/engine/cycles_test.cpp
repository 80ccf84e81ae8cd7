// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// The time for guesses: its rate is measured, and the times of tuning.h follow it.
#include <gtest/gtest.h>

#include <thread>

#include "engine/cycle_counter.h"
#include "engine/sched/times.h"

namespace swrnic::engine::test {

namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

TEST(Cycles, AreOfTheirRate) {
    EXPECT_EQ(CycleRate(2'445'000).cycles_in(2us), Cycles(4'890));
    EXPECT_EQ(CycleRate(3'000'000).cycles_in(60s), Cycles(180'000'000'000));
    EXPECT_EQ(kCyclesAreNanoseconds.cycles_in(7us), Cycles(7'000));
}

TEST(Cycles, OfTheTimesAreThoseOfTheCounter) {
    const Times slow(kCyclesAreNanoseconds), fast(CycleRate(5'000'000));
    EXPECT_EQ(slow.burst_gap.count(), tuning::kBurstGap.count());
    EXPECT_EQ(slow.report_every.count(), std::chrono::nanoseconds(tuning::kReportEvery).count());
    EXPECT_EQ(fast.burst_gap, slow.burst_gap * 5);
    EXPECT_EQ(fast.longest_cooldown, slow.longest_cooldown * 5);
}

// By how much it goes wrong, as a part of the time that passes.
double error_of(const CycleCounter& counter) {
    const Cycles begin = counter.now();
    const Clock::time_point since = Clock::now();
    std::this_thread::sleep_for(20ms);
    const Cycles counted = counter.now() - begin;
    const Cycles passed = counter.rate().cycles_in(Clock::now() - since);
    return std::abs(static_cast<double>(counted.count() - passed.count())) / static_cast<double>(passed.count());
}

TEST(Cycles, AreCountedAtTheRateThatWasMeasured) {
    // The best of some: between two readings the machine may do something else.
    double least = 1;
    for (int i = 0; i < 10 && least > 0.01; ++i)
        least = std::min(least, error_of(CycleCounter::measured()));
    EXPECT_LT(least, 0.01);
}

TEST(Cycles, AreNanosecondsWithoutACounterOfTheProcessor) {
    const CycleCounter counter = CycleCounter::of_clock();
    EXPECT_EQ(counter.rate().per_millisecond(), 1'000'000);
    const std::chrono::nanoseconds before = Clock::now().time_since_epoch();
    const Cycles now = counter.now();
    const std::chrono::nanoseconds after = Clock::now().time_since_epoch();
    EXPECT_LE(before.count(), now.count());
    EXPECT_LE(now.count(), after.count());
}

}  // namespace

}  // namespace swrnic::engine::test
