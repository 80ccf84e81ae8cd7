// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Two engines joined by real sockets with little room, so that a sender is full most of the time: whatever wakes it is
// a race between pollers and the background threads, and a wake-up that gets lost is a hang.
#include <gtest/gtest.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <set>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "engine/engine_impl.h"
#include "sockets.h"
#include "wire/terminate.h"

namespace swrnic::engine::test {

namespace {

using namespace std::chrono_literals;

constexpr std::uint32_t kPd = 1, kAll = access::kLocalWrite | access::kRemoteWrite | access::kRemoteRead;
constexpr std::size_t kLength = 300'000;
constexpr std::uint64_t kMessages = 60;
constexpr std::uint16_t kReads = 8;  // at a time

struct QuietHost final : Host {
    void comp_posted(std::uint32_t) override {}
    void async_event(AsyncEvent, std::uint32_t) override { ++events; }
    void qp_ready(std::uint32_t) override {}
    void qp_closed(std::uint32_t, CloseReason) override {}
    void terminated(std::uint32_t, std::string_view, bool sent) override {
        ++(sent ? terminates_sent : terminates_received);
    }
    bool control_readable() override { return false; }
    bool report() override {
        ++reports;
        return false;
    }
    std::atomic<int> events{0}, terminates_sent{0}, terminates_received{0}, reports{0};
};

QpInit qp_init(std::uint32_t number, Cq* cq) {
    return {.qpn = number,
            .pd = kPd,
            .send_cq = cq,
            .recv_cq = cq,
            .max_send_wr = 64,
            .max_recv_wr = 64,
            .max_send_sge = 1,
            .max_recv_sge = 1,
            .max_inline = 64,
            .sq_sig_all = true};
}

struct Side {
    explicit Side(std::uint32_t number, const EngineOptions& options = {}) : qpn(number) {
        engine = Engine::create(options, host, -1);
        cq = engine->create_cq(256, number);
        qp = engine->create_qp(qp_init(number, cq));
        engine->modify_state(*qp, QpState::kInit);
        engine->set_access(*qp, access::kRemoteWrite | access::kRemoteRead);
        stag = engine->register_region(kPd, reinterpret_cast<std::uintptr_t>(memory.data()), memory.size(),
                                       reinterpret_cast<std::uintptr_t>(memory.data()), kAll);
    }
    ~Side() {
        engine->destroy_qp(qp);
        engine->destroy_cq(cq);
    }
    // Successful completions, or -1.
    int poll() {
        bool failed = false;
        const int found = engine->poll_cq(
            *cq, 16, [&](const WorkCompletion& done) { failed = failed || done.status != WcStatus::kSuccess; });
        return failed ? -1 : found;
    }
    Sge sge() { return {reinterpret_cast<std::uintptr_t>(memory.data()), kLength, stag}; }

    const std::uint32_t qpn;
    QuietHost host;
    std::unique_ptr<Engine> engine;
    Cq* cq;
    Qp* qp;
    std::vector<std::byte> memory = std::vector<std::byte>(kLength, std::byte(0x5a));
    std::uint32_t stag;
};

template <typename Condition>
testing::AssertionResult soon(Condition condition) {
    const auto deadline = std::chrono::steady_clock::now() + 5s;
    while (!condition()) {
        if (std::chrono::steady_clock::now() > deadline) return testing::AssertionFailure() << "not within 5 s";
        std::this_thread::sleep_for(100us);
    }
    return testing::AssertionSuccess();
}

void join(Side& side, int fd, bool initiator) {
    Connection connection{};
    connection.fd = fd;
    connection.initiator = initiator;
    connection.large_fpdu = true;
    connection.ird = connection.ord = kReads;
    side.engine->connect(side.qpn, connection);
}

// 64 octets.
PostResult post_write(Side& from, Side& to) {
    const Sge one{reinterpret_cast<std::uintptr_t>(from.memory.data()), 64, from.stag};
    const PostResult result = from.engine->post_send(
        *from.qp, {0, WrOpcode::kWrite, 0, {&one, 1}, reinterpret_cast<std::uintptr_t>(to.memory.data()), to.stag, 0});
    from.engine->ring_doorbell(*from.qp);
    return result;
}

class ProgressTest : public testing::Test {
  protected:
    void SetUp() override {
        const auto [active, passive] = connected_sockets();
        join(a_, active, true);
        join(b_, passive, false);
    }
    // All messages of one side, some at a time, polling only when `polls`.
    static void run(Side& from, Side& to, WrOpcode opcode, std::uint64_t messages) {
        const auto deadline = std::chrono::steady_clock::now() + 20s;
        std::uint64_t posted = 0, done = 0;
        const Sge sge = from.sge();
        while (done != messages) {
            ASSERT_LT(std::chrono::steady_clock::now(), deadline) << done << " of " << messages << " are done";
            if (posted != messages && posted - done < 32) {
                const PostResult result = from.engine->post_send(
                    *from.qp,
                    {posted, opcode, 0, {&sge, 1}, reinterpret_cast<std::uintptr_t>(to.memory.data()), to.stag, 0});
                ASSERT_EQ(result, PostResult::kOk);
                from.engine->ring_doorbell(*from.qp);
                ++posted;
                continue;
            }
            const int found = from.poll();
            ASSERT_GE(found, 0);
            done += static_cast<std::uint64_t>(found);
        }
    }

    // Posts whose last octet their target waits for, the sender having polled so often behind them.
    static void write_octets(Side& from, Side& to, std::size_t count, std::byte value, std::uint32_t length = 1,
                             int polls = 0) {
        to.memory[count + length - 2] = std::byte(0);
        for (std::size_t i = 0; i < count; ++i) {
            from.memory[i + length - 1] = value;
            const Sge one{reinterpret_cast<std::uintptr_t>(from.memory.data() + i), length, from.stag};
            const auto at = reinterpret_cast<std::uintptr_t>(to.memory.data() + i);
            ASSERT_EQ(from.engine->post_send(*from.qp, {i, WrOpcode::kWrite, 0, {&one, 1}, at, to.stag, 0}),
                      PostResult::kOk);
            from.engine->ring_doorbell(*from.qp);
        }
        std::size_t done = 0;
        for (int i = 0; i < polls; ++i)
            done += static_cast<std::size_t>(from.poll());
        const auto deadline = std::chrono::steady_clock::now() + 1s;
        volatile std::byte* const last = to.memory.data() + count + length - 2;
        while (*last != value)
            ASSERT_LT(std::chrono::steady_clock::now(), deadline);
        while (done < count)
            done += static_cast<std::size_t>(from.poll());
    }
    // Finding nothing.
    static void keep_polling(Side& side) {
        const auto until = std::chrono::steady_clock::now() + 20ms;
        while (std::chrono::steady_clock::now() < until)
            EXPECT_EQ(side.poll(), 0);
    }

    Side a_{100}, b_{200};
};

// The responder of a Read calls nothing: its socket is full and empty again while threads alone look.
TEST_F(ProgressTest, ReadsWhoseResponderIsFullMostOfTheTime) {
    run(a_, b_, WrOpcode::kRead, kMessages);
    run(b_, a_, WrOpcode::kRead, kMessages);
}

TEST_F(ProgressTest, WritesThroughAFullSocket) {
    run(a_, b_, WrOpcode::kWrite, kMessages);
}

// Both poll, both are full, and each poll of one takes events that the other's thread waits for.
TEST_F(ProgressTest, BothWaysAtOnce) {
    std::thread other([this] { run(b_, a_, WrOpcode::kRead, kMessages); });
    run(a_, b_, WrOpcode::kRead, kMessages);
    other.join();
    std::thread writer([this] { run(b_, a_, WrOpcode::kWrite, kMessages); });
    run(a_, b_, WrOpcode::kWrite, kMessages);
    writer.join();
    EXPECT_EQ(a_.host.events + b_.host.events, 0);
}

// Two posts, and then memory alone is looked at: the second must not wait for a poll.
TEST_F(ProgressTest, APostBehindAPostNeedsNoPoll) {
    for (int round = 1; round <= 20; ++round)
        write_octets(a_, b_, 2, std::byte(round));
}

// The lines that hold what is posted are its poster's, and so is the doorbell: who receives leaves both alone.
TEST_F(ProgressTest, WhatComesInIsNoReasonToSend) {
    const Sge one{reinterpret_cast<std::uintptr_t>(b_.memory.data()), 1, b_.stag};
    const auto sends = [this] { return b_.qp->counters().get(Count::kTxCalls); };
    write_octets(a_, b_, 1, std::byte(1));  // the first of all is one: a Responder sends nothing before
    std::this_thread::sleep_for(20ms);      // the turn that it wakes the sender in has ended
    const std::uint64_t before = sends();
    const auto to = reinterpret_cast<std::uintptr_t>(a_.memory.data());
    ASSERT_EQ(b_.engine->post_send(*b_.qp, {0, WrOpcode::kWrite, 0, {&one, 1}, to, a_.stag, 0}), PostResult::kOk);
    for (int round = 2; round <= 20; ++round) {
        write_octets(a_, b_, 1, std::byte(round));
        std::this_thread::sleep_for(1ms);
    }
    EXPECT_EQ(sends(), before);
    b_.engine->ring_doorbell(*b_.qp);
    EXPECT_EQ(b_.poll(), 1);
}

// But what does give the sender something to do needs no poll: a Read done that others wait for, ...
TEST_F(ProgressTest, AReadBehindOthersNeedsNoPoll) {
    const Sge one{reinterpret_cast<std::uintptr_t>(a_.memory.data()), 1, a_.stag};
    for (std::uint64_t i = 0; i < 3 * kReads; ++i) {
        const auto from = reinterpret_cast<std::uintptr_t>(b_.memory.data());
        ASSERT_EQ(a_.engine->post_send(*a_.qp, {i, WrOpcode::kRead, 0, {&one, 1}, from, b_.stag, 0}), PostResult::kOk);
    }
    a_.engine->ring_doorbell(*a_.qp);
    EXPECT_TRUE(soon([this] { return !a_.qp->send_queue_busy(); }));
}

// ... the first message of all, before which a Responder sends nothing, ...
TEST_F(ProgressTest, WhatWaitsForTheFirstMessageNeedsNoPoll) {
    ASSERT_EQ(post_write(b_, a_), PostResult::kOk);
    std::this_thread::sleep_for(10ms);
    EXPECT_TRUE(b_.qp->send_queue_busy());
    ASSERT_EQ(post_write(a_, b_), PostResult::kOk);
    EXPECT_TRUE(soon([this] { return !b_.qp->send_queue_busy(); }));
}

// ... and what is wrong with it.
TEST_F(ProgressTest, ATerminateNeedsNoPoll) {
    const Sge one{reinterpret_cast<std::uintptr_t>(a_.memory.data()), 1, a_.stag};
    ASSERT_EQ(a_.engine->post_send(*a_.qp, {0, WrOpcode::kWrite, 0, {&one, 1}, 0, 1, 0}), PostResult::kOk);
    a_.engine->ring_doorbell(*a_.qp);
    EXPECT_TRUE(soon([this] { return a_.host.terminates_received == 1; }));
    EXPECT_TRUE(soon([this] { return b_.host.terminates_sent == 1; }));
}

// What wakes the thread is not taken by a poll, or it would sleep on while everybody thinks it awake.
TEST_F(ProgressTest, APollLeavesTheThreadItsWakeUp) {
    for (int round = 1; round <= 200 && !HasFailure(); ++round) {
        Side from(300), to(400);
        const auto [active, passive] = connected_sockets();
        join(from, active, true);
        join(to, passive, false);
        write_octets(from, to, 1, std::byte(round), 1, 100);  // the first doorbell wakes it, for a report
        write_octets(from, to, 16, std::byte(round));
    }
}

// A thread that has told all there was sleeps until there is more.
TEST_F(ProgressTest, APostBehindASilenceIsReported) {
    write_octets(a_, b_, 1, std::byte(1));
    std::this_thread::sleep_for(600ms);
    const int before = a_.host.reports;
    std::this_thread::sleep_for(600ms);
    EXPECT_EQ(a_.host.reports, before);
    write_octets(a_, b_, 1, std::byte(2));
    EXPECT_TRUE(soon([&] { return a_.host.reports > before; }));
}

// Nor must the end of a burst, though its poster has polled for long before.
TEST_F(ProgressTest, ABurstNeedsNoPoll) {
    for (int round = 1; round <= 10; ++round) {
        keep_polling(a_);
        write_octets(a_, b_, 16, std::byte(round));
    }
}

// Nor what a poll held back of it, to fill a packet with what comes.
TEST_F(ProgressTest, WhatAPollHoldsBackNeedsNoOther) {
    for (int round = 1; round <= 20; ++round)
        write_octets(a_, b_, 40, std::byte(round), 4096, 1);
}

// A thread that has seen polls for long looks seldom, but not never: 5 ms, and what a busy machine takes.
TEST_F(ProgressTest, ATargetWhosePollerFellSilentIsServed) {
    for (int round = 1; round <= 10; ++round) {
        keep_polling(b_);
        write_octets(a_, b_, 1, std::byte(round));
    }
}

std::set<std::string> tasks() {
    std::set<std::string> found;
    for (const auto& task : std::filesystem::directory_iterator("/proc/self/task"))
        found.insert(task.path());
    return found;
}

// How often the thread has slept.
std::uint64_t sleeps(const std::string& task) {
    std::ifstream status(task + "/status");
    for (std::string line; std::getline(status, line);) {
        constexpr std::string_view kLabel = "voluntary_ctxt_switches:";
        if (line.starts_with(kLabel)) return std::stoull(line.substr(kLabel.size()));
    }
    ADD_FAILURE() << "no count of switches in " << task;
    return 0;
}

std::chrono::nanoseconds processor_time(const std::string& task) {
    std::uint64_t spent = 0;
    std::ifstream(task + "/schedstat") >> spent;
    return std::chrono::nanoseconds(spent);
}

// A target that is written to all the time: its thread sleeps between two messages only if somebody else wants its
// processor, which others than this program may do for a while. It sleeps when no more comes.
TEST_F(ProgressTest, AThreadLooksOnBetweenMessagesAndSleepsBehindThem) {
    constexpr std::size_t kRound = 200, kFew = kRound / 20;
    const std::set<std::string> others = tasks();
    Side target(300);
    const std::set<std::string> all = tasks();
    ASSERT_EQ(all.size(), others.size() + 1);
    const std::string thread =
        *std::find_if(all.begin(), all.end(), [&](const auto& task) { return !others.contains(task); });
    Side writer(400);
    const auto [active, passive] = connected_sockets();
    join(target, passive, false);
    join(writer, active, true);
    std::uint64_t fewest = kRound;
    const auto deadline = std::chrono::steady_clock::now() + 60s;
    while (fewest > kFew && std::chrono::steady_clock::now() < deadline) {
        const std::uint64_t before = sleeps(thread);
        for (std::size_t i = 0; i < kRound; ++i)
            write_octets(writer, target, 1, std::byte(i % 2 + 1));
        fewest = std::min(fewest, sleeps(thread) - before);
    }
    EXPECT_LE(fewest, kFew) << "for " << kRound << " messages, in the best round";
    const std::chrono::nanoseconds spent = processor_time(thread);
    ASSERT_GT(spent, 0ns);
    std::this_thread::sleep_for(200ms);
    EXPECT_LT(processor_time(thread) - spent, 5ms);
}

// With a sanitizer the polls alone may take longer than what ends a burst.
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)

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
TEST_F(ProgressTest, ALongBurstGoesOnBehindAPoll) {
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
void expect_rests_behind_many(Side& from, Side& to, Side& side) {
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
TEST_F(ProgressTest, PollsRestBehindABurst) {
    expect_rests_behind_many(a_, b_, b_);
}

// It was seen how often its sender flushes: the first call behind a flush is not made long before the next.
TEST_F(ProgressTest, PollsRestUntilTheNextFlushIsNear) {
    constexpr int kFlushes = 10;
    std::uint64_t fewest = ~std::uint64_t{0};
    for (int round = 0; round < 50; ++round) {
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
TEST_F(ProgressTest, PollsRestBehindALongBurstOfTheirProgram) {
    bring(a_, b_, 1);
    bring(b_, a_, 1);  // no stream, and it is the one that received last
    expect_rests_behind_many(a_, b_, a_);
}

// Though another QP had news just before, and epoll is asked again at once, and again.
TEST_F(ProgressTest, PollsRestBehindABurstWhoeverHadNewsBefore) {
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
TEST_F(LargeFpduTest, PollsRestUntilTheRestCanHaveCome) {
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

#endif

// A poll may hear of a new stream before whoever connects has let go of it.
TEST(StreamBeginTest, WhatWasThereBeforeIsReceivedWhoeverHearsOfIt) {
    for (int round = 0; round < 1000 && !testing::Test::HasFailure(); ++round) {
        Side from(100), to(200);
        const auto [active, passive] = connected_sockets();
        join(from, active, true);
        EXPECT_EQ(post_write(from, to), PostResult::kOk);
        std::atomic<bool> polls{false}, done{false};
        std::thread poller([&] {
            for (; !done; polls = true)
                to.poll();
        });
        while (!polls) {
        }
        join(to, passive, false);
        EXPECT_TRUE(soon([&] { return to.qp->counters().get(Count::kRxFpdus) == 1; })) << "in round " << round;
        done = true;
        poller.join();
    }
}

// The end of the stream flushes what it sees in the queue, and posting what it finds too late for that.
TEST(StreamEndTest, WhatIsPostedMeanwhileIsCompleted) {
    for (int round = 0; round < 200; ++round) {
        Side from(100), to(200);
        const auto [active, passive] = connected_sockets();
        join(from, active, true);
        join(to, passive, false);
        std::atomic<bool> posting{false};
        std::thread end([&] {
            while (!posting) {
            }
            std::this_thread::sleep_for(std::chrono::microseconds(round));
            from.engine->abort(from.qpn);
        });
        int posted = 0, done = 0;
        const auto poll = [&] { done += from.engine->poll_cq(*from.cq, 64, [](const WorkCompletion&) {}); };
        while (from.engine->query(*from.qp).state != QpState::kErr) {
            const PostResult result = post_write(from, to);
            if (result == PostResult::kOk) ++posted;
            // Not more than the CQ holds.
            if (result == PostResult::kFull || posted - done >= 128) poll();
            posting = true;
        }
        end.join();
        for (const auto deadline = std::chrono::steady_clock::now() + 1s;
             done < posted && std::chrono::steady_clock::now() < deadline;)
            poll();
        ASSERT_EQ(done, posted) << "in round " << round;
    }
}

// A receiver that is slower than its sender meets every Send with an empty queue: each of them may wait as long.
TEST(ReceiveQueueTest, EveryMessageMayWaitAnew) {
    constexpr auto kPatience = 300ms;
    EngineOptions options{};
    options.rnr_timeout = kPatience;
    Side from(100), to(200, options);
    const auto [active, passive] = connected_sockets();
    join(from, active, true);
    join(to, passive, false);
    const Sge message{reinterpret_cast<std::uintptr_t>(from.memory.data()), 8, from.stag};
    const Sge place{reinterpret_cast<std::uintptr_t>(to.memory.data()), 8, to.stag};
    const auto end = std::chrono::steady_clock::now() + 4 * kPatience;
    std::uint64_t posted = 0, sent = 0, received = 0;
    ASSERT_EQ(to.engine->post_recv(*to.qp, {0, {&place, 1}}), PostResult::kOk);
    while (std::chrono::steady_clock::now() < end) {
        for (; posted < sent + 16; ++posted) {
            ASSERT_EQ(from.engine->post_send(*from.qp, {posted, WrOpcode::kSend, 0, {&message, 1}, 0, 0, 0}),
                      PostResult::kOk);
            from.engine->ring_doorbell(*from.qp);
        }
        const int came = to.poll(), went = from.poll();
        ASSERT_GE(came, 0) << "after " << received << " messages";
        ASSERT_GE(went, 0) << "after " << received << " messages";
        sent += static_cast<std::uint64_t>(went);
        received += static_cast<std::uint64_t>(came);
        if (came > 0) {
            ASSERT_EQ(to.engine->post_recv(*to.qp, {0, {&place, 1}}), PostResult::kOk);
        }
        std::this_thread::sleep_for(1ms);
    }
    EXPECT_GT(received, 20u);
    EXPECT_EQ(to.host.terminates_sent, 0);
}

// Destruction takes a QP out of the queue and then waits for the passes that know of it. One of them may have work left
// for it: were that to bring it back, a later pass would drive what is freed.
TEST(ReadyQueueTest, NobodyBringsBackWhatWasRetired) {
    PassPool passes;
    SystemRandom random;
    MemoryTable memory(passes, random, nullptr);
    Cq cq(16, 1);
    const QpInit init = qp_init(1, &cq);
    DrivenQp one(init, memory, random), other(init, memory, random);
    ReadyQueue queue;
    EXPECT_TRUE(queue.push(one, kToReceive));
    EXPECT_TRUE(queue.push(other, kToReceive));
    EXPECT_FALSE(queue.push(one, kToSend));
    EXPECT_EQ(queue.size(), 2u) << "stands in it once";
    const auto expect_next = [&](DrivenQp* qp, unsigned reasons) {
        const ReadyQueue::Entry next = queue.pop();
        EXPECT_EQ(next.qp, qp);
        EXPECT_EQ(next.reasons, reasons);
    };
    expect_next(&one, kToReceive | kToSend);
    EXPECT_TRUE(queue.push(one, kToSend)) << "once more, behind the other";
    queue.retire(one);
    EXPECT_FALSE(queue.push(one, kToReceive));
    expect_next(&other, kToReceive);
    expect_next(nullptr, 0);
    queue.retire(other);
    queue.push(other, kToSend);
    EXPECT_TRUE(queue.empty());
}

// Epoll tells of both at once, so news of room alone are of a socket that holds nothing.
TEST(EngineHostTest, RoomToSendIsNoReasonToReceive) {
    Side side(300);
    const auto [peer, fd] = connected_sockets();
    join(side, fd, true);
    const auto calls = [&] { return side.qp->counters().get(Count::kRxCalls); };
    const Sge sge = side.sge();
    for (std::uint64_t i = 0; i < 32; ++i) {
        ASSERT_EQ(side.engine->post_send(*side.qp, {i, WrOpcode::kWrite, 0, {&sge, 1}, 0, 1, 0}), PostResult::kOk);
    }
    side.engine->ring_doorbell(*side.qp);
    EXPECT_TRUE(side.qp->send_queue_busy()) << "the socket is full";
    std::vector<char> octets(1 << 16);
    EXPECT_TRUE(soon([&] { return ::read(peer, octets.data(), octets.size()) < 0 && !side.qp->send_queue_busy(); }))
        << "there was room for all of it, again and again";
    EXPECT_EQ(calls(), 0u) << "and nothing to receive";
    const std::byte first{0};
    ASSERT_EQ(::write(peer, &first, 1), 1);
    EXPECT_TRUE(soon([&] { return calls() >= 1; })) << "it became readable";
    ::close(peer);
}

// A Terminate as the peer's engine would send it. 0/0/0 is a code, not the lack of one.
TEST(EngineHostTest, IsToldOfATerminateWhateverItsCode) {
    for (const wire::TerminateCode code : {wire::TerminateCode{0, 0, 0}, wire::TerminateCode{0, 1, 2}}) {
        Side side(300);
        const auto [peer, fd] = connected_sockets();
        Connection connection{};
        connection.fd = fd;
        side.engine->connect(side.qpn, connection);
        std::array<std::byte, wire::kMaxTerminateUlpdu> ulpdu;
        const std::size_t length = wire::build_terminate(code, {}, 0, ulpdu);
        std::vector<std::byte> fpdu{std::byte(length >> 8), std::byte(length)};
        fpdu.insert(fpdu.end(), ulpdu.begin(), ulpdu.begin() + static_cast<std::ptrdiff_t>(length));
        fpdu.resize((fpdu.size() + 3) / 4 * 4 + 4);  // padding, and a CRC that nobody looks at
        ASSERT_EQ(::write(peer, fpdu.data(), fpdu.size()), static_cast<ssize_t>(fpdu.size()));
        EXPECT_TRUE(soon([&] { return side.host.terminates_received != 0; }));
        EXPECT_EQ(side.host.terminates_received, 1) << wire::terminate_name(code);
        EXPECT_EQ(side.host.terminates_sent, 0);
        ::close(peer);
    }
}

}  // namespace

}  // namespace swrnic::engine::test
