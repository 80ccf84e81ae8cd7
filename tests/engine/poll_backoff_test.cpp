// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// The gates in their engine (those alone: poll_gate_test.cpp, send_gate_test.cpp): when polls leave the socket alone,
// and posts wait for others to leave with. Time stands still unless the test lets it pass, but for the engines'
// threads: what they do is a call or two.
#include <sys/socket.h>

#include <algorithm>
#include <vector>

#include "side.h"
#include "wire/byteorder.h"
#include "wire/ddp.h"
#include "wire/fpdu.h"
#include "wire/rdmap.h"

namespace swrnic::engine::test {

namespace {

constexpr CycleRate kPlainRate{2'000'000};

class PollBackoffTest : public testing::Test {
  protected:
    PollBackoffTest() {
        const auto [active, passive] = connected_sockets();
        join(a_, active, true);
        join(b_, passive, false);
    }
    void pass(std::chrono::nanoseconds time) { now_ = now_.load() + kPlainRate.cycles_in(time); }
    // So many messages, one behind the other. Not a moment passes.
    static void send(Side& from, Side& to, std::size_t messages) {
        for (std::size_t i = 0; i < messages; ++i)
            EXPECT_EQ(post_write(from, to), PostResult::kOk);
        for (std::size_t done = 0; done < messages;)
            done += static_cast<std::size_t>(from.poll());
    }
    // The same, and received. A thread that is put aside under the RX lock keeps the polls out (here and in what
    // follows), for as many of them as a processor makes meanwhile: so many moments would be the burst's end.
    void bring(Side& from, Side& to, std::size_t messages) {
        const auto received = [&] { return to.qp->counters().get(Count::kRxFpdus); };
        const std::uint64_t expected = received() + messages;
        send(from, to, messages);
        for (int polls = 0; received() < expected; pass(1us)) {
            EXPECT_EQ(to.poll(), 0);
            if (++polls > 100) std::this_thread::sleep_for(1ms);
        }
    }
    // How many receive calls so many polls make, before any time passes.
    static std::uint64_t calls_of(Side& side, int polls) {
        std::this_thread::sleep_for(5ms);  // what its thread was at is over
        const std::uint64_t before = receive_calls(side);
        for (int i = 0; i < polls; ++i)
            EXPECT_EQ(side.poll(), 0);
        return receive_calls(side) - before;
    }
    static std::uint64_t receive_calls(const Side& side) { return side.qp->counters().get(Count::kRxCalls); }
    // Behind many messages the polls of `side` make few receive calls; behind a single one each poll makes one.
    void expect_backoff_behind_many(Side& from, Side& to, Side& side, std::chrono::nanoseconds backoff) {
        bring(from, to, 32);
        EXPECT_LE(calls_of(side, kPolls), kOfTheThread);
        const std::uint64_t before = receive_calls(side);
        pass(backoff);
        EXPECT_TRUE(soon([&] { return calls_of(side, kPolls), receive_calls(side) > before; }));
        EXPECT_LE(receive_calls(side) - before, 1 + kOfTheThread);
        pass(1s);  // what was is forgotten
        bring(from, to, 1);
        EXPECT_TRUE(soon([&] { return calls_of(side, kPolls) >= kPolls - kOfTheThread; }));
    }

    static constexpr int kPolls = 100;
    static constexpr std::uint64_t kOfTheThread = 2;
    static constexpr EngineOptions kOptions{.busy_poll = 0ns};  // it would look for ever while no time passes

    std::atomic<Cycles> now_{Cycles(1'000'000'000)};
    const CycleCounter counter_ = CycleCounter::of(now_, kPlainRate);
    Side a_{100, kOptions, counter_}, b_{200, kOptions, counter_};
};

// A program that keeps its queue full polls for room; what it posts then is gathered. Others wait for nobody.
TEST_F(PollBackoffTest, ALongBurstGoesOnBehindAPoll) {
    std::uint64_t posted = 0;
    for (const std::size_t burst : {2, 32}) {
        send(a_, b_, burst);  // a receiver that is late would make the next post another burst's first
        posted += burst + 1;
        EXPECT_EQ(a_.poll(), 0);
        EXPECT_EQ(post_write(a_, b_), PostResult::kOk);
        EXPECT_EQ(static_cast<DrivenQp*>(a_.qp)->sends.state(),
                  burst == 2 ? SendGate::State::kFirst : SendGate::State::kLong);
        while (a_.poll() == 0) {
        }
        EXPECT_TRUE(soon([&] { return pass(1us), b_.poll(), b_.qp->counters().get(Count::kRxFpdus) == posted; }));
        pass(1s);
    }
}

// A call that comes too early keeps the socket from its sender.
TEST_F(PollBackoffTest, PollsBackOffBehindABurst) {
    expect_backoff_behind_many(a_, b_, b_, tuning::kLongestBackoff);
}

// Nor is each poll a call behind a long burst of its own program, which waits for the peer.
TEST_F(PollBackoffTest, PollsBackOffBehindALongBurstOfTheirProgram) {
    bring(a_, b_, 1);
    bring(b_, a_, 1);  // no stream, and it is the one that received last
    expect_backoff_behind_many(a_, b_, a_, tuning::kEarlyBackoff);
}

// Though another QP had news just before, and epoll is asked again at once, and again.
TEST_F(PollBackoffTest, PollsBackOffBehindABurstWhoeverHadNewsBefore) {
    Side other(300, kOptions, counter_);
    const std::uint32_t second = 201;
    Qp* const qp = b_.engine->create_qp(qp_init(second, b_.cq));
    b_.engine->modify_state(*qp, QpState::kInit);
    b_.engine->set_access(*qp, access::kRemoteWrite);
    const auto [active, passive] = connected_sockets();
    join(other, active, true);
    Connection connection{};
    connection.fd = passive;
    b_.engine->connect(second, connection);
    const auto received = [&] { return qp->counters().get(Count::kRxFpdus); };
    for (std::uint64_t round = 1; round <= 5; ++round) {
        ASSERT_EQ(post_write(other, b_), PostResult::kOk);
        while (other.poll() == 0) {
        }
        for (; received() != round; pass(1us))
            EXPECT_EQ(b_.poll(), 0);
        bring(a_, b_, 32);
        EXPECT_LE(calls_of(b_, kPolls), kOfTheThread);
        pass(1s);
    }
    b_.engine->destroy_qp(qp);
}

// Its peer is a bare socket, so that an FPDU comes in parts.
class LargeFpduTest : public PollBackoffTest {
  protected:
    static constexpr std::size_t kPayload = 60'000, kFirst = 8'000;  // not much, of what takes some microseconds

    void SetUp() override {
        const auto [active, passive] = connected_sockets();
        peer_ = sys::Fd(active);
        join(to_, passive, false);
        const std::size_t ulpdu_len = wire::kTaggedHeaderLen + kPayload;
        fpdu_.resize(wire::fpdu_size(ulpdu_len));
        wire::store_be16(fpdu_.data(), static_cast<std::uint16_t>(ulpdu_len));
        wire::TaggedHeader{true, wire::rdmap_control(wire::Opcode::kWrite), to_.stag,
                           reinterpret_cast<std::uintptr_t>(to_.memory.data())}
            .emit(fpdu_.data() + wire::kFpduHeaderLen);
    }
    void send(std::size_t from, std::size_t to) {
        const auto length = static_cast<ssize_t>(to - from);
        ASSERT_EQ(::send(peer_.get(), fpdu_.data() + from, to - from, MSG_NOSIGNAL), length);
    }
    std::uint64_t received() const { return to_.qp->counters().get(Count::kRxFpdus); }

    Side to_{300, kOptions, counter_};
    sys::Fd peer_;
    std::vector<std::byte> fpdu_;
};

// The rest of a large FPDU takes its time, however little of it has come: polls leave it alone until it can be there.
TEST_F(LargeFpduTest, PollsBackOffUntilTheRestCanHaveCome) {
    for (std::uint64_t round = 1; round <= 5; ++round) {
        const std::uint64_t before = receive_calls(to_);
        send(0, kFirst);
        while (receive_calls(to_) == before)
            to_.poll();
        EXPECT_LE(calls_of(to_, kPolls), kOfTheThread);
        pass(tuning::kBulkBackoff);
        EXPECT_GE(calls_of(to_, kPolls), 1u);
        send(kFirst, fpdu_.size());
        EXPECT_TRUE(soon([&] { return pass(1us), to_.poll(), received() == round; }));
        pass(1s);
    }
}

}  // namespace

}  // namespace swrnic::engine::test
