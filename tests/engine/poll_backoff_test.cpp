// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// When polls leave the socket alone, and posts wait for others to leave with. With a sanitizer the polls alone may take
// longer than what ends a burst, so this is not built with one.
#include <linux/tcp.h>
#include <netinet/in.h>
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

class PollBackoffTest : public JoinedTest {};

std::uint32_t segments_sent(int fd) {
    tcp_info info{};
    socklen_t size = sizeof info;
    EXPECT_EQ(::getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &size), 0);
    return info.tcpi_data_segs_out;
}

constexpr int kTries = 200;

// In how many tries nothing leaves in the call that posts one more behind a burst and an empty poll.
int gathered_behind_a_poll(Side& from, Side& to, int fd, std::size_t burst) {
    int gathered = 0;
    for (int i = 0; i < kTries; ++i) {
        for (std::size_t posted = 0; posted < burst; ++posted)
            EXPECT_EQ(post_write(from, to), PostResult::kOk);
        for (std::size_t done = 0; done < burst;)
            done += static_cast<std::size_t>(from.poll());
        EXPECT_EQ(from.poll(), 0);
        const std::uint32_t before = segments_sent(fd);
        EXPECT_EQ(post_write(from, to), PostResult::kOk);
        if (segments_sent(fd) == before) ++gathered;
        while (from.poll() == 0) {
        }
    }
    return gathered;
}

// A program that keeps its queue full polls for room; what it posts then is gathered, unless it was stopped between the
// two: on a busy machine that may be so most of the time. Others wait for nobody but a thread that is at their QP.
TEST_F(PollBackoffTest, ALongBurstGoesOnBehindAPoll) {
    Side from(300), to(400);
    const auto [active, passive] = connected_sockets();
    join(from, active, true);
    join(to, passive, false);
    int fewest = kTries, most = 0;
    for (int round = 0; round < 50 && fewest >= kTries / 4; ++round)
        fewest = std::min(fewest, gathered_behind_a_poll(from, to, active, 2));
    EXPECT_LT(fewest, kTries / 4);
    for (int round = 0; round < 50 && most <= kTries * 3 / 4; ++round)
        most = std::max(most, gathered_behind_a_poll(from, to, active, 32));
    EXPECT_GT(most, kTries * 3 / 4);
}

// So many messages, one behind the other and received.
void bring(Side& from, Side& to, std::size_t messages) {
    const auto received = [&] { return to.qp->counters().get(Count::kRxFpdus); };
    const std::uint64_t expected = received() + messages;
    for (std::size_t i = 0; i < messages; ++i)
        EXPECT_EQ(post_write(from, to), PostResult::kOk);
    for (std::size_t done = 0; done < messages;)
        done += static_cast<std::size_t>(from.poll());
    while (received() != expected)
        EXPECT_EQ(to.poll(), 0);
}

std::uint64_t receive_calls(const Side& side) {
    return side.qp->counters().get(Count::kRxCalls);
}

// Polls until then, and the receive calls in them.
struct Waited {
    std::uint64_t calls = 0, polls = 0;
    std::uint64_t spared() const { return polls - std::min(polls, calls); }
};
Waited wait_until(Side& side, std::chrono::steady_clock::time_point until) {
    Waited waited;
    const std::uint64_t before = receive_calls(side);
    for (; std::chrono::steady_clock::now() < until; ++waited.polls)
        EXPECT_EQ(side.poll(), 0);
    waited.calls = receive_calls(side) - before;
    return waited;
}
Waited wait_for(Side& side, std::chrono::microseconds time) {
    return wait_until(side, std::chrono::steady_clock::now() + time);
}

// Behind many messages `side` makes few receive calls in its polls; behind a single one each poll makes one.
void expect_backoff_behind_many(Side& from, Side& to, Side& side) {
    std::uint64_t fewest = ~std::uint64_t{0}, fewest_spared = fewest;
    for (int round = 0; round < 20; ++round) {
        bring(from, to, 32);
        fewest = std::min(fewest, wait_for(side, 500us).calls);
        bring(from, to, 1);
        fewest_spared = std::min(fewest_spared, wait_for(side, 500us).spared());
    }
    EXPECT_LE(fewest, 500u / 4 + 2);
    EXPECT_LE(fewest_spared, 2u);
}

// A call that comes too early keeps the socket from its sender.
TEST_F(PollBackoffTest, PollsBackOffBehindABurst) {
    expect_backoff_behind_many(a_, b_, b_);
}

// It was seen how often its sender flushes: the first call behind a flush is not made long before the next.
TEST_F(PollBackoffTest, PollsBackOffUntilTheNextFlushIsNear) {
    constexpr int kFlushes = 10;
    std::uint64_t fewest = ~std::uint64_t{0};
    // The best of many rounds: an interruption of a loaded machine adds calls, and takes none away.
    for (int round = 0; round < 500 && fewest > kFlushes * 2u; ++round) {
        bring(a_, b_, 20);
        const std::uint64_t before = receive_calls(b_);
        for (int i = 0; i < kFlushes; ++i) {
            const auto next = std::chrono::steady_clock::now() + 60us;
            bring(a_, b_, 20);
            wait_until(b_, next);
        }
        fewest = std::min(fewest, receive_calls(b_) - before);
    }
    EXPECT_LE(fewest, kFlushes * 2u);
}

// Nor is each poll a call behind a long burst of its own program, which waits for the peer.
TEST_F(PollBackoffTest, PollsBackOffBehindALongBurstOfTheirProgram) {
    bring(a_, b_, 1);
    bring(b_, a_, 1);  // no stream, and it is the one that received last
    expect_backoff_behind_many(a_, b_, a_);
}

// Though another QP had news just before, and epoll is asked again at once, and again.
TEST_F(PollBackoffTest, PollsBackOffBehindABurstWhoeverHadNewsBefore) {
    Side other(300);
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
    std::uint64_t fewest = ~std::uint64_t{0};
    for (std::uint64_t round = 1; round <= 50; ++round) {
        ASSERT_EQ(post_write(other, b_), PostResult::kOk);
        while (other.poll() == 0) {
        }
        while (received() != round)
            EXPECT_EQ(b_.poll(), 0);
        bring(a_, b_, 32);
        fewest = std::min(fewest, wait_for(b_, 60us).calls);
    }
    EXPECT_LE(fewest, 60u / 4 + 2);
    b_.engine->destroy_qp(qp);
}

// Its peer is a bare socket, so that an FPDU comes in parts.
class LargeFpduTest : public testing::Test {
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

    Side to_{200};
    sys::Fd peer_;
    std::vector<std::byte> fpdu_;
};

// The rest of a large FPDU takes its time, however little of it has come: polls leave it alone until it can be there.
TEST_F(LargeFpduTest, PollsBackOffUntilTheRestCanHaveCome) {
    std::uint64_t fewest = ~std::uint64_t{0};
    for (int round = 0; round < 50; ++round) {
        const std::uint64_t before = receive_calls(to_);
        send(0, kFirst);
        while (receive_calls(to_) == before)
            to_.poll();
        const Waited waited = wait_for(to_, 3us);
        if (waited.polls >= 4) fewest = std::min(fewest, waited.calls);
        send(kFirst, fpdu_.size());
        EXPECT_TRUE(soon([&] { return to_.poll(), received() == static_cast<std::uint64_t>(round) + 1; }));
    }
    EXPECT_EQ(fewest, 0u);
}

}  // namespace

}  // namespace swrnic::engine::test
