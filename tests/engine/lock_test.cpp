// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Mutex: one at a time, and who waits is woken. Lock::take_or_flag: work is left to the holder of a lock, and never
// lost.
#include "engine/core/lock.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <mutex>
#include <optional>
#include <thread>

namespace swrnic::engine::test {

namespace {

// Now and then its holder sleeps, so that the others wait in the kernel. A wake-up that gets lost is a hang.
TEST(MutexTest, OneAtATimeAndNobodyWaitsForEver) {
    constexpr int kRounds = 20'000;
    Mutex mutex;
    int inside = 0, entered = 0;  // under the mutex
    std::atomic<int> together{0};
    const auto run = [&] {
        for (int round = 0; round < kRounds; ++round) {
            const std::lock_guard hold(mutex);
            if (++inside != 1) ++together;
            if (++entered % 1000 == 0) std::this_thread::sleep_for(std::chrono::milliseconds(2));
            --inside;
        }
    };
    std::thread one(run), two(run);
    run();
    one.join();
    two.join();
    EXPECT_EQ(together, 0);
    EXPECT_EQ(entered, 3 * kRounds);
}

TEST(MutexTest, IsNotTakenTwice) {
    Mutex mutex;
    EXPECT_TRUE(mutex.try_lock());
    EXPECT_FALSE(mutex.try_lock());
    mutex.unlock();
    EXPECT_TRUE(mutex.try_lock());
    mutex.unlock();
}

TEST(TakeOrMark, LeavesTheMarkWhereTheLockIsTaken) {
    RxLock lock;
    std::atomic<bool> due{false};
    std::optional<RxGuard> holder(lock.take_or_flag(due));
    EXPECT_TRUE(holder->owns());
    EXPECT_FALSE(due);
    EXPECT_FALSE(lock.take_or_flag(due).owns());
    EXPECT_TRUE(due);
    holder.reset();
    EXPECT_TRUE(lock.take_or_flag(due).owns());
    EXPECT_FALSE(due) << "taken with the lock";
}

// Two with one piece of work each, at the same moment: whoever comes second may find the lock taken, or just free.
TEST(TakeOrMark, LosesNoWork) {
    constexpr int kRounds = 100'000;
    RxLock lock;
    std::atomic<bool> due{false};
    std::atomic<int> posted{0}, arrived{0}, lost{0};
    int done = 0;  // under the lock
    const auto drive = [&] {
        do {
            const RxGuard guard = lock.take_or_flag(due);
            if (!guard.owns()) return;
            done = posted.load(std::memory_order_relaxed);
        } while (due);
    };
    // The second to arrive lets both go on.
    const auto meet = [&](int times) {
        arrived.fetch_add(1);
        for (int looks = 0; arrived.load() < 2 * times; ++looks)
            if (looks > 10'000) std::this_thread::yield();  // where both have one processor
    };
    const auto run = [&](bool counts) {
        for (int round = 0; round < kRounds; ++round) {
            meet(3 * round + 1);
            posted.fetch_add(1, std::memory_order_relaxed);
            drive();
            meet(3 * round + 2);
            if (counts && done != 2 * (round + 1)) ++lost;
            meet(3 * round + 3);
        }
    };
    std::thread other(run, false);
    run(true);
    other.join();
    EXPECT_EQ(lost, 0);
}

}  // namespace

}  // namespace swrnic::engine::test
