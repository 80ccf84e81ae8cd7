// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// What the background thread does until its next turn, by a clock of the test's own.
#include "engine/sched/thread_gate.h"

#include <gtest/gtest.h>

#include <vector>

#include "engine/gates.h"

namespace swrnic::engine::test {

namespace {

using State = ThreadGate::State;

// Callers that the thread looks after, and its waits.
struct Thread {
    State look() { return gate.look(kTimes, callers, now); }
    void poll(std::uint64_t polls) {
        callers.polls += polls;
        callers.polls_done += polls;
    }
    void begin_poll() { ++callers.polls; }
    void end_poll() { ++callers.polls_done; }
    void post() { callers.deferred_at = now; }
    void pass(std::chrono::nanoseconds time) { now = now + cycles(time); }
    // A wait behind look(), which took so long.
    void wait(std::chrono::nanoseconds time) {
        const Cycles began = now;
        pass(time);
        gate.on_waited(kTimes, began, now);
    }
    void run_again_after(std::chrono::nanoseconds time) {
        const Cycles yielded_at = now;
        pass(time);
        gate.on_run_again(kTimes, yielded_at, now);
    }
    // The time until it looks again, in units of the shortest.
    std::int64_t yields_for() const { return gate.yields_for() / tuning::kYield; }

    ThreadGate gate;
    ThreadGate::Callers callers{};
    Cycles now = kBegin;
};

enum class Inside { kNo, kNew, kLong };

std::string outcome(std::uint64_t polls, Inside inside, bool burst, bool arms, bool short_wait, bool cooldown) {
    Thread thread;
    if (cooldown) thread.run_again_after(101us);
    thread.look();
    thread.wait(short_wait ? 10us : 201us);
    if (inside == Inside::kLong) {
        thread.begin_poll();
        for (std::uint32_t i = 0; i + 1 < tuning::kLooksInside; ++i)
            thread.look();
    }
    thread.poll(inside == Inside::kLong ? 0 : polls);
    if (inside == Inside::kLong) thread.callers.polls += polls;
    if (inside == Inside::kNew) thread.poll(1), thread.begin_poll();
    if (burst) thread.post();
    if (arms) ++thread.callers.arms;
    const State state = thread.look();
    return std::string(name(state)) +
           (state == State::kYield ? " for " + std::to_string(thread.yields_for() * 150) + " us" : "");
}

std::string whole_table() {
    std::string table;
    for (const std::uint64_t polls : {0, 3, 4})
        for (const Inside inside : {Inside::kNo, Inside::kNew, Inside::kLong})
            for (const bool burst : {false, true})
                for (const bool arms : {false, true})
                    for (const bool short_wait : {false, true})
                        for (const bool cooldown : {false, true})
                            table += std::to_string(polls) + " polls" +
                                     (inside == Inside::kNew    ? ", inside another"
                                      : inside == Inside::kLong ? ", inside one for long"
                                                                : "") +
                                     (burst ? ", burst" : "") + (arms ? ", req_notify" : "") +
                                     (short_wait ? ", short wait" : "") + (cooldown ? ", cooldown" : "") + " -> " +
                                     outcome(polls, inside, burst, arms, short_wait, cooldown) + "\n";
    return table;
}

// A change of the table is a change of this file, and is to be seen in review.
TEST(ThreadGate, IsAsOnRecord) {
    expect_as_on_record("thread-gate.golden", whole_table());
}

// A poller that goes on is looked after less and less, but not never; one that fell silent is served at the next look.
TEST(ThreadGate, YieldsToAPollerForLongerWhileItGoesOn) {
    Thread thread;
    std::vector<std::int64_t> times;
    for (int i = 0; i < 8; ++i) {
        thread.poll(1'000);
        EXPECT_EQ(thread.look(), State::kYield);
        times.push_back(thread.yields_for());
    }
    EXPECT_EQ(times, (std::vector<std::int64_t>{2, 4, 8, 16, 32, 32, 32, 32}));
    EXPECT_EQ(thread.look(), State::kSleep);
    thread.poll(4);
    EXPECT_EQ(thread.look(), State::kYield);
    EXPECT_EQ(thread.yields_for(), 2) << "from the beginning";
}

// What its peer sends is received by the thread alone.
TEST(ThreadGate, YieldsShortlyToABurstWithoutPolls) {
    Thread thread;
    for (int i = 0; i < 8; ++i) {
        thread.post();
        EXPECT_EQ(thread.look(), State::kYield);
        EXPECT_EQ(thread.yields_for(), 1);
        thread.pass(150us);
    }
    thread.pass(100us);
    EXPECT_EQ(thread.look(), State::kSleep) << "the last post was 250 us ago";
}

TEST(ThreadGate, TakesOverFromAPollThatLostItsProcessor) {
    Thread thread;
    thread.poll(4);
    thread.look();
    thread.end_poll();
    thread.callers.polls += 2;  // inside one
    EXPECT_EQ(thread.look(), State::kYield);
    std::uint32_t looks = 0;
    while (thread.look() == State::kYield)
        ASSERT_LT(++looks, 100u);
    EXPECT_EQ(looks, tuning::kLooksInside - 1);
}

// What there was to do while it yielded is the thread's, unless it was done; a kick asks for the thread itself.
TEST(ThreadGate, KnowsWhetherOthersDrove) {
    Thread thread;
    thread.poll(4);
    thread.look();
    const auto driven = [&](bool kicked) {
        return thread.gate.is_driven_by(kTimes, thread.callers, thread.now, kicked);
    };
    EXPECT_FALSE(driven(false));
    thread.poll(4);
    EXPECT_TRUE(driven(false));
    EXPECT_FALSE(driven(true));
    thread.look();
    thread.post();
    EXPECT_TRUE(driven(false));
    thread.pass(201us);
    EXPECT_FALSE(driven(false));
    thread.begin_poll();
    EXPECT_TRUE(driven(false));
}

TEST(ThreadGate, BusyPollsBetweenMessagesThatFollowClosely) {
    Thread thread;
    EXPECT_EQ(thread.look(), State::kSleep);
    thread.wait(200us);
    EXPECT_EQ(thread.look(), State::kBusyPoll);
    const Cycles began = thread.now;
    EXPECT_TRUE(thread.gate.keeps_looking(kTimes, began, began + cycles(99us)));
    EXPECT_FALSE(thread.gate.keeps_looking(kTimes, began, began + cycles(100us)));
    thread.wait(201us);
    EXPECT_EQ(thread.look(), State::kSleep);
}

TEST(ThreadGate, BusyPollsForAsLongAsItWasTold) {
    constexpr Times kNotAtAll(kRate, 0us), kLong(kRate, 1ms);
    ThreadGate gate;
    gate.on_waited(kNotAtAll, kBegin, kBegin);
    EXPECT_EQ(gate.look(kNotAtAll, {}, kBegin), State::kSleep);
    gate.on_waited(kLong, kBegin, kBegin + cycles(2ms));
    EXPECT_EQ(gate.look(kLong, {}, kBegin), State::kBusyPoll);
    EXPECT_TRUE(gate.keeps_looking(kLong, kBegin, kBegin + cycles(999us)));
}

// Who wants the processor gets it, for longer while that happens again soon.
TEST(ThreadGate, CoolsDownBehindALongYield) {
    Thread thread;
    std::vector<std::int64_t> cooldowns;
    for (int i = 0; i < 9; ++i) {
        thread.wait(1us);
        EXPECT_EQ(thread.look(), State::kBusyPoll);
        thread.run_again_after(100us);
        EXPECT_EQ(thread.look(), State::kBusyPoll) << "that was not long";
        thread.run_again_after(101us);
        EXPECT_FALSE(thread.gate.keeps_looking(kTimes, thread.now, thread.now));
        const Cycles from = thread.now;
        for (; thread.look() != State::kBusyPoll; thread.pass(100us))
            ASSERT_LT(thread.now - from, cycles(1s));
        cooldowns.push_back((thread.now - from).count() / cycles(1ms).count());
    }
    EXPECT_EQ(cooldowns, (std::vector<std::int64_t>{2, 4, 8, 16, 32, 64, 128, 128, 128}));
    thread.pass(1s);
    thread.run_again_after(101us);
    thread.pass(2ms);
    EXPECT_EQ(thread.look(), State::kBusyPoll) << "the last one was long ago";
}

}  // namespace

}  // namespace swrnic::engine::test
