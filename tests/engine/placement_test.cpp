// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "engine/placement.h"

#include <gtest/gtest.h>
#include <sched.h>

#include <thread>

namespace swrnic::engine::test {

namespace {

constexpr int kTurns = 1000;

int times_left(Placement& placement, int here, int poster) {
    int left = 0;
    for (int i = 0; i < kTurns; ++i)
        left += placement.should_leave(here, poster, 7) ? 1 : 0;
    return left;
}

cpu_set_t affinity() {
    cpu_set_t set;
    EXPECT_EQ(sched_getaffinity(0, sizeof set, &set), 0);
    return set;
}

TEST(Placement, LeavesItsPostersProcessorOnceInAWhile) {
    Placement placement;
    EXPECT_EQ(times_left(placement, 1, 1), 1);
    int again = 0;
    for (int i = 0; i < 10; ++i)
        again += times_left(placement, 1, 1);
    EXPECT_GT(again, 0);
    EXPECT_LE(again, 10);
}

TEST(Placement, StaysElsewhere) {
    Placement placement;
    EXPECT_EQ(times_left(placement, 1, 0), 0);
    EXPECT_EQ(times_left(placement, 0, -1), 0);  // nobody posted
}

TEST(Placement, StaysWhereItIsOnlyNowAndThen) {
    Placement placement;
    for (int i = 0; i < kTurns; ++i)
        EXPECT_FALSE(placement.should_leave(i % 16 == 0 ? 0 : 1, 1, 0));
}

TEST(Placement, StaysWithAProgramThatSleepsBetweenMessages) {
    Placement placement;
    for (std::uint64_t arms = 0; arms < kTurns; ++arms)
        EXPECT_FALSE(placement.should_leave(1, 1, arms));
}

TEST(Placement, ALeftProcessorMayBeUsedAgain) {
    const cpu_set_t before = affinity();
    if (CPU_COUNT(&before) < 2) GTEST_SKIP() << "needs two processors";
    bool elsewhere = false;
    for (int i = 0; i < 100 && !elsewhere; ++i) {
        const int here = sched_getcpu();
        leave_processor(here);
        elsewhere = sched_getcpu() != here;
        const cpu_set_t after = affinity();
        EXPECT_TRUE(CPU_EQUAL(&before, &after));
    }
    EXPECT_TRUE(elsewhere);
}

TEST(Placement, StaysOnItsOnlyProcessor) {
    std::thread([] {
        const int here = sched_getcpu();
        cpu_set_t only;
        CPU_ZERO(&only);
        CPU_SET(static_cast<std::size_t>(here), &only);
        ASSERT_EQ(sched_setaffinity(0, sizeof only, &only), 0);
        leave_processor(here);
        const cpu_set_t after = affinity();
        EXPECT_TRUE(CPU_EQUAL(&only, &after));
    }).join();
}

}  // namespace

}  // namespace swrnic::engine::test
