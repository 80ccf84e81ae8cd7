// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// When posts leave, by a clock of the test's own.
#include "engine/sched/send_gate.h"

#include <gtest/gtest.h>

#include "engine/gates.h"

namespace swrnic::engine::test {

namespace {

using Decision = SendGate::Decision;
using State = SendGate::State;

constexpr std::uint64_t kSmall = 64, kLarge = Tx::kCopy + 1;

// A queue pair's gate, and a poster that flushes as the engine does.
struct Poster {
    Decision post(std::chrono::nanoseconds gap, std::uint64_t octets = kSmall) {
        now = now + cycles(gap);
        const Decision decision = gate.on_post(kTimes, now, posted += octets, epoch);
        if (decision != Decision::kGather && notes_flushes) gate.on_flushed(now);
        return decision;
    }
    void poll() {
        ++epoch;
        if (gate.take_gathered(posted)) gate.on_flushed(now);
    }
    void bring_to(State state) {
        post(1ms);
        while (gate.state() != state)
            post(1us);
    }

    SendGate gate;
    Cycles now = kBegin;
    std::uint64_t posted = 0, epoch = 0;
    bool notes_flushes = true;  // false: the last flush was long ago
};

std::string outcome(State state, std::uint64_t octets, std::chrono::nanoseconds gap, bool polled, bool due) {
    Poster poster;
    poster.notes_flushes = !due;
    poster.bring_to(state);
    poster.epoch += polled ? 1 : 0;
    const Decision decision = poster.post(gap, octets);
    return std::string(name(decision)) + ", " + std::string(name(poster.gate.state()));
}

std::string send_gate_table() {
    std::string table;
    for (const State state : {State::kFirst, State::kSecond, State::kBurst, State::kLong})
        for (const std::uint64_t octets : {kSmall, kLarge})
            for (const auto gap : {1us, 10us, 30us})
                for (const bool polled : {false, true})
                    for (const bool due : {false, true})
                        table += std::string(name(state)) + ": " + (octets == kSmall ? "small" : "large") + " after " +
                                 std::to_string(gap.count()) + " us" + (polled ? ", polled" : "") +
                                 (due ? ", flush due" : "") + " -> " + outcome(state, octets, gap, polled, due) + "\n";
    return table;
}

// A change of the table is a change of this file, and is to be seen in review.
TEST(SendGate, IsAsOnRecord) {
    expect_as_on_record("send-gate.golden", send_gate_table());
}

TEST(SendGate, FlushesTheFirstTwoAndGathersWhatFollows) {
    Poster poster;
    EXPECT_EQ(poster.post(1us), Decision::kFlush);
    EXPECT_EQ(poster.post(1us), Decision::kFlush);
    EXPECT_EQ(poster.post(1us), Decision::kGather);
    EXPECT_TRUE(poster.gate.take_gathered(poster.posted));
    EXPECT_FALSE(poster.gate.take_gathered(poster.posted)) << "it was flushed";
}

// What its poster alone posts goes out after 40 us, and a long burst in whole packets.
TEST(SendGate, LetsThePosterFlushEachGather) {
    Poster poster;
    int flushes = 0, corks = 0;
    for (Cycles until = poster.now + cycles(10ms); poster.now < until;) {
        const Decision decision = poster.post(1us);
        flushes += decision == Decision::kFlush ? 1 : 0;
        corks += decision == Decision::kCork ? 1 : 0;
    }
    EXPECT_EQ(flushes, 2) << "before the burst was one";
    EXPECT_NEAR(corks, 10'000 / 41, 1);
}

TEST(SendGate, GathersNoMoreThanTheKernelCopiesFast) {
    for (const auto& [octets, most] : {std::pair{kSmall, tuning::kDeferredSmall}, {kLarge, tuning::kDeferredLarge}}) {
        Poster poster;
        poster.bring_to(State::kLong);
        poster.gate.take_gathered(poster.posted);
        poster.gate.on_flushed(poster.now);
        const std::uint64_t before = poster.posted;
        while (poster.post(0us, octets) == Decision::kGather) {
        }
        EXPECT_GT(poster.posted - before, most);
        EXPECT_LE(poster.posted - before, most + octets);
    }
}

// A program that keeps its queue full polls for room; what it posts then is gathered. Others wait for nobody.
TEST(SendGate, ALongBurstGoesOnBehindAPoll) {
    Poster few, many, large;
    few.bring_to(State::kBurst);
    few.poll();
    EXPECT_EQ(few.post(1us), Decision::kFlush);
    many.bring_to(State::kLong);
    many.poll();
    EXPECT_EQ(many.post(10us), Decision::kGather);
    EXPECT_EQ(many.post(30us), Decision::kFlush) << "after a pause it is no burst";
    EXPECT_EQ(many.gate.state(), State::kFirst);
    large.bring_to(State::kLong);
    large.poll();
    EXPECT_EQ(large.post(10us, kLarge), Decision::kFlush) << "the receiver would run dry";
}

// The flush itself takes longer than a burst's gap.
TEST(SendGate, CountsGapsFromTheEndOfAFlush) {
    Poster poster;
    poster.bring_to(State::kSecond);
    poster.now = poster.now + cycles(1ms);
    poster.gate.on_flushed(poster.now);
    EXPECT_EQ(poster.post(1us), Decision::kGather);
}

TEST(SendGate, WaitsForThePeerBehindALongBurstAndNotForEver) {
    Poster poster;
    poster.bring_to(State::kBurst);
    EXPECT_FALSE(poster.gate.waits_for_peer(kTimes, poster.now));
    poster.bring_to(State::kLong);
    EXPECT_TRUE(poster.gate.waits_for_peer(kTimes, poster.now));
    EXPECT_TRUE(poster.gate.waits_for_peer(kTimes, poster.now + cycles(999us)));
    EXPECT_FALSE(poster.gate.waits_for_peer(kTimes, poster.now + cycles(1ms)));
}

}  // namespace

}  // namespace swrnic::engine::test
