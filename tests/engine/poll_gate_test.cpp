// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// When polls look at what came in, by a clock of the test's own.
#include "engine/sched/poll_gate.h"

#include <gtest/gtest.h>

#include <vector>

#include "engine/gates.h"

namespace swrnic::engine::test {

namespace {

using State = PollGate::State;
using Turn = PollGate::Turn;

constexpr Turn kNothing{0, 0, 0}, kLittle{100, 1, 0}, kMany{1'600, 16, 0}, kMuch{16 * 1024, 4, 0};

// A queue pair's gate, and a poll that makes a receive call when it may.
struct Poller {
    void turn(const Turn& turn, bool behind_burst = false) {
        if (!gate.is_open_after(turn, behind_burst)) gate.on_turn(kTimes, turn, now);
    }
    Cycles backoff(bool flushes = false, bool waits_for_peer = false) const {
        return std::max(gate.next_look(kTimes, flushes, waits_for_peer) - now, Cycles());
    }
    void pass(std::chrono::nanoseconds time) { now = now + cycles(time); }

    PollGate gate;
    Cycles now = kBegin;
};

std::string outcome(std::int64_t streamed_before_us, Turn turn, std::size_t rest, bool behind_burst) {
    Poller poller;
    if (streamed_before_us != 0) poller.turn(kMany);
    poller.pass(std::chrono::microseconds(streamed_before_us));
    turn.rest = rest;
    poller.turn(turn, behind_burst);
    const std::int64_t backoff = poller.backoff().count() * 1'000'000 / kRate.per_millisecond();
    return std::to_string((backoff + 50) / 100 * 100) + " ns, " + std::string(name(poller.gate.state()));
}

std::string whole_table() {
    struct Row {
        const char* text;
        Turn turn;
    };
    std::string table;
    for (const std::int64_t before : {0, 4, 20, 100, 1'001})
        for (const Row& row : {Row{"nothing", kNothing}, {"little", kLittle}, {"many", kMany}, {"much", kMuch}})
            for (const std::size_t rest : {0, 2'048, 32'768})
                for (const bool behind_burst : {false, true})
                    table += (before == 0 ? "single" : "stream, " + std::to_string(before) + " us ago") + ": " +
                             row.text + (rest != 0 ? ", " + std::to_string(rest) + " to come" : "") +
                             (behind_burst ? ", behind a burst" : "") + " -> " +
                             outcome(before, row.turn, rest, behind_burst) + "\n";
    return table;
}

// A change of the table is a change of this file, and is to be seen in review.
TEST(PollGate, IsAsOnRecord) {
    expect_as_on_record("poll-gate.golden", whole_table());
}

TEST(PollGate, IsOpenForWhatIsAnsweredOneByOne) {
    Poller poller;
    for (int i = 0; i < 10; ++i) {
        poller.turn(i % 2 == 0 ? kLittle : kNothing);
        EXPECT_EQ(poller.backoff(), Cycles());
    }
}

// It was seen how often its sender flushes: the first call behind a flush is not made long before the next, and none
// is made twice in between.
TEST(PollGate, BacksOffUntilTheNextFlushIsNear) {
    Poller poller;
    int calls = 0;
    for (int flush = 0; flush < 100; ++flush) {
        poller.turn(kMany);
        for (const Cycles next = poller.now + cycles(20us); poller.now < next; poller.pass(500ns)) {
            if (poller.backoff() != Cycles()) continue;
            poller.turn(kNothing);
            ++calls;
        }
    }
    EXPECT_LE(calls, 210);
    EXPECT_GE(calls, 100) << "it does look before";
}

TEST(PollGate, ForgetsAStreamThatCameLongAgo) {
    Poller poller;
    poller.turn(kMuch);
    for (int i = 0; i < 300; ++i) {
        poller.pass(5us);
        poller.turn(kNothing);
    }
    EXPECT_EQ(poller.gate.state(), State::kSingle);
    EXPECT_EQ(poller.backoff(), Cycles());
}

TEST(PollGate, LooksSeldomWhileItsPollsFlush) {
    Poller poller;
    poller.turn(kNothing, true);
    EXPECT_EQ(poller.backoff(), Cycles());
    EXPECT_EQ(poller.backoff(true), kTimes.flush_gap);
    EXPECT_EQ(poller.backoff(false, true), kTimes.early_backoff);
}

TEST(NewsGate, AsksAtOnceWhileThereAreNewsAndSeldomWithout) {
    NewsGate gate;
    Cycles now = kBegin;
    EXPECT_TRUE(gate.is_due(now));
    gate.on_asked(kTimes, now, true);
    EXPECT_EQ(gate.state(kTimes), NewsGate::State::kNews);
    EXPECT_TRUE(gate.is_due(now));
    std::vector<std::int64_t> gaps;
    for (int i = 0; i < 8; ++i) {
        gate.on_asked(kTimes, now, false);
        EXPECT_FALSE(gate.is_due(now));
        const Cycles asked = now;
        while (!gate.is_due(now))
            now = now + cycles(100ns);
        gaps.push_back((now - asked).count() * 1'000'000 / kRate.per_millisecond() / 100);
    }
    EXPECT_EQ(gaps, (std::vector<std::int64_t>{12, 25, 50, 100, 200, 400, 800, 800})) << "tenths of a microsecond";
    EXPECT_EQ(gate.state(kTimes), NewsGate::State::kSilent);
    EXPECT_TRUE(gate.is_due(now - cycles(1s))) << "the counter of another processor";
    gate.on_asked(kTimes, now, true);
    EXPECT_EQ(gate.state(kTimes), NewsGate::State::kNews);
}

}  // namespace

}  // namespace swrnic::engine::test
