// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Two engines joined by real sockets with little room, so that a sender is full most of the time: whatever wakes it is
// a race between pollers and the background threads, and a wake-up that gets lost is a hang.
#include <linux/sockios.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <set>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "side.h"
#include "wire/terminate.h"

namespace swrnic::engine::test {

namespace {

constexpr std::uint64_t kMessages = 60;

class ProgressTest : public JoinedTest {
  protected:
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
        const auto deadline = std::chrono::steady_clock::now() + 10s;  // what is lost never comes
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
    // What it has posted alone.
    static bool completes(Side& side) {
        const auto deadline = std::chrono::steady_clock::now() + 10s;
        int found = 0;
        while (found == 0 && std::chrono::steady_clock::now() < deadline)
            found = side.poll();
        return found == 1;
    }
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

// A program that has received is likely to answer, and one send then takes the Response along. Now and then the thread
// is faster than the poll.
TEST_F(ProgressTest, APollLeavesAResponseToThePostBehindIt) {
    const Sge of_a{reinterpret_cast<std::uintptr_t>(a_.memory.data()), 1, a_.stag};
    const Sge of_b{reinterpret_cast<std::uintptr_t>(b_.memory.data()), 1, b_.stag};
    const Counters& counted = b_.qp->counters();
    constexpr int kRounds = 200;
    int taken_along = 0;
    for (int round = 0; round < kRounds; ++round) {
        const std::uint64_t requests = counted.get(Count::kRxReadRequests);
        ASSERT_EQ(a_.engine->post_send(*a_.qp, {0, WrOpcode::kRead, 0, {&of_a, 1}, of_b.addr, b_.stag, {0}, {}, {}}),
                  PostResult::kOk);
        a_.engine->ring_doorbell(*a_.qp);
        std::uint64_t sends = 0;
        while (counted.get(Count::kRxReadRequests) == requests) {
            sends = counted.get(Count::kTxCalls);
            ASSERT_EQ(b_.poll(), 0);
        }
        ASSERT_EQ(b_.engine->post_send(*b_.qp, {0, WrOpcode::kWrite, 0, {&of_b, 1}, of_a.addr, a_.stag, {0}, {}, {}}),
                  PostResult::kOk);
        b_.engine->ring_doorbell(*b_.qp);
        taken_along += counted.get(Count::kTxCalls) == sends + 1 ? 1 : 0;
        for (int done = 0; done != 1;)
            done += a_.poll();
        for (int done = 0; done != 1;)
            done += b_.poll();
        EXPECT_EQ(b_.poll(), 0);  // as it waits for the next one
    }
    EXPECT_GT(taken_along, kRounds / 10);
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

// It comes to tell of what there is twice as long behind the last time, so as not to be woken where something moves.
TEST_F(ProgressTest, AReportLetsAThreadSleep) {
    std::this_thread::sleep_for(600ms);
    a_.host.has_news = true;
    const int first = a_.host.reports;
    write_octets(a_, b_, 1, std::byte(1));
    ASSERT_TRUE(soon([&] { return a_.host.reports > first; }));
    const int before = a_.host.reports;
    ASSERT_TRUE(soon([&] { return a_.host.reports > before; }));
    EXPECT_GE(a_.host.since_report.load(), 450ms);
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

// Who has polled until the peer had placed a large Write has nothing left to poll for, and looks at memory: the thread
// takes in what comes there at once, however long it has yielded before.
TEST_F(ProgressTest, AWriterThatTurnsToItsMemoryIsServedAtOnce) {
    Side a{300, {}, CycleCounter::measured(), true}, b{400, {}, CycleCounter::measured(), true};
    join(a, b);
    std::vector<std::chrono::nanoseconds> took;
    for (int round = 1; round <= 21; ++round) {
        keep_polling(a);
        ASSERT_EQ(post_write(a, b, 64 * 1024), PostResult::kOk);
        ASSERT_TRUE(completes(a));
        a.memory[0] = std::byte(0);
        b.memory[0] = std::byte(1);
        const auto began = std::chrono::steady_clock::now();
        ASSERT_EQ(post_write(b, a, 1), PostResult::kOk);
        volatile std::byte* const first = a.memory.data();
        while (*first != std::byte(1))
            ASSERT_LT(std::chrono::steady_clock::now() - began, 10s);
        took.push_back(std::chrono::steady_clock::now() - began);
        ASSERT_TRUE(completes(b));
    }
    std::nth_element(took.begin(), took.begin() + 10, took.end());
    EXPECT_LT(took[10], 1ms);  // a yield that has grown takes 5 ms
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

// What a task has run, and what it was kept waiting for a processor.
struct Share {
    std::chrono::nanoseconds ran, waited;
};
Share share_of(const std::string& task) {
    std::uint64_t ran = 0, waited = 0;
    std::ifstream(task + "/schedstat") >> ran >> waited;
    return {std::chrono::nanoseconds(ran), std::chrono::nanoseconds(waited)};
}

// A target that is written to all the time: its thread sleeps between two messages only if somebody else wants its
// processor. So the test counts rounds alone in which neither the thread nor the writer was kept waiting for one, and
// judges nothing where other programs left it no such round. The thread sleeps when no more comes.
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
    const std::string own = "/proc/self/task/" + std::to_string(::gettid());
    std::uint64_t fewest = kRound;
    int quiet = 0;
    const auto deadline = std::chrono::steady_clock::now() + 60s;
    while (fewest > kFew && std::chrono::steady_clock::now() < deadline) {
        const auto start = std::chrono::steady_clock::now();
        const auto waited = [&] { return share_of(thread).waited + share_of(own).waited; };
        const std::uint64_t slept_before = sleeps(thread);
        const std::chrono::nanoseconds waited_before = waited();
        for (std::size_t i = 0; i < kRound; ++i)
            write_octets(writer, target, 1, std::byte(i % 2 + 1));
        const std::uint64_t slept = sleeps(thread) - slept_before;
        if (waited() - waited_before > (std::chrono::steady_clock::now() - start) / 20) continue;
        ++quiet;
        fewest = std::min(fewest, slept);
    }
    if (quiet == 0) GTEST_SKIP() << "other programs wanted the processors all the time";
    EXPECT_LE(fewest, kFew) << "for " << kRound << " messages, in the best of " << quiet << " quiet rounds";
    const std::chrono::nanoseconds ran = share_of(thread).ran;
    ASSERT_GT(ran, 0ns);
    std::this_thread::sleep_for(200ms);
    EXPECT_LT(share_of(thread).ran - ran, 5ms);
}

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

// A program may connect again as soon as it hears of the connection, and the peer takes the two in their order.
TEST(StreamBeginTest, TheRtrLeavesBeforeTheProgramHearsOfTheConnection) {
    Side side(100);
    const auto [active, passive] = connected_sockets();
    ssize_t sent = -1;
    side.host.on_ready = [&, peer = passive] {
        char octet;
        sent = ::recv(peer, &octet, 1, MSG_PEEK | MSG_DONTWAIT);
    };
    Connection connection{};
    connection.fd = active;
    connection.initiator = connection.p2p = true;
    connection.rtr = rtr::kWrite;
    connection.ird = connection.ord = kReads;
    side.engine->connect(side.qpn, connection);
    EXPECT_EQ(sent, 1);
    ::close(passive);
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
// The shim takes no QP to ERROR whose stream it has not heard the end of: whoever asks it to has seen to that.
TEST(StreamEndTest, TheHostKnowsOfItBeforeErrorIsReached) {
    Side a{100}, b{200};
    std::atomic<bool> tells{false}, told{false};
    b.host.on_closed = [&] {
        tells = true;
        std::this_thread::sleep_for(200ms);
        told = true;
    };
    join(a, b);
    ASSERT_EQ(post_write(a, b), PostResult::kOk);
    ASSERT_TRUE(soon([&] { return a.poll() == 1; }));
    ASSERT_TRUE(a.engine->modify_state(*a.qp, QpState::kErr));
    ASSERT_TRUE(soon([&] { return tells.load(); }));
    ASSERT_TRUE(b.engine->modify_state(*b.qp, QpState::kErr));
    EXPECT_TRUE(told);
}

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

// An FPDU as the peer's engine would send it, without markers; the CRC is one that nobody looks at.
std::vector<std::byte> fpdu_of(std::span<const std::byte> ulpdu) {
    std::vector<std::byte> fpdu((2 + ulpdu.size() + 3) / 4 * 4 + 4);
    fpdu[0] = std::byte(ulpdu.size() >> 8);
    fpdu[1] = std::byte(ulpdu.size());
    std::copy(ulpdu.begin(), ulpdu.end(), fpdu.begin() + 2);
    return fpdu;
}

std::vector<std::byte> terminate_of(const wire::TerminateCode& code) {
    std::array<std::byte, wire::kMaxTerminateUlpdu> ulpdu;
    return fpdu_of(std::span(ulpdu).first(wire::build_terminate(code, {}, 0, ulpdu)));
}

// 0/0/0 is a code, not the lack of one.
TEST(EngineHostTest, IsToldOfATerminateWhateverItsCode) {
    for (const wire::TerminateCode code : {wire::TerminateCode{0, 0, 0}, wire::TerminateCode{0, 1, 2}}) {
        Side side(300);
        const auto [peer, fd] = connected_sockets();
        Connection connection{};
        connection.fd = fd;
        side.engine->connect(side.qpn, connection);
        const std::vector<std::byte> fpdu = terminate_of(code);
        ASSERT_EQ(::write(peer, fpdu.data(), fpdu.size()), static_cast<ssize_t>(fpdu.size()));
        EXPECT_TRUE(soon([&] { return side.host.terminates_received != 0; }));
        EXPECT_EQ(side.host.terminates_received, 1) << wire::terminate_name(code);
        EXPECT_EQ(side.host.terminates_sent, 0);
        ::close(peer);
    }
}

// The peer wrote more than one turn receives, then a Terminate, and reset the connection. Who finds that out by sending
// must still hear of the Terminate.
TEST(EngineHostTest, IsToldOfATerminateBehindAllElseWhenSendingBreaks) {
    constexpr std::size_t kPayload = 60'000, kWrites = 80;
    Side side(300);
    const auto [peer, fd] = connected_sockets();
    const int room = 2 * kPayload * kWrites;
    if (::setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &room, sizeof room) != 0)
        GTEST_SKIP() << "so large a receive buffer needs CAP_NET_ADMIN";
    ASSERT_EQ(::fcntl(peer, F_SETFL, 0), 0);
    join(side, fd, true);
    {
        RxGuard nobody_receives(side.qp->rx_lock());
        std::vector<std::byte> ulpdu(wire::kTaggedHeaderLen + kPayload, std::byte(0x77));
        const auto to = reinterpret_cast<std::uintptr_t>(side.memory.data());
        wire::TaggedHeader{true, wire::rdmap_control(wire::Opcode::kWrite), side.stag, to}.emit(ulpdu.data());
        const std::vector<std::byte> write = fpdu_of(ulpdu), last = terminate_of({0, 1, 2});
        for (std::size_t i = 0; i < kWrites; ++i)
            ASSERT_EQ(::write(peer, write.data(), write.size()), static_cast<ssize_t>(write.size()));
        ASSERT_EQ(::write(peer, last.data(), last.size()), static_cast<ssize_t>(last.size()));
        int unacknowledged = 0;
        ASSERT_TRUE(soon([&] { return ::ioctl(peer, SIOCOUTQ, &unacknowledged) == 0 && unacknowledged == 0; }));
        const linger abortive{1, 0};
        ASSERT_EQ(::setsockopt(peer, SOL_SOCKET, SO_LINGER, &abortive, sizeof abortive), 0);
        ::close(peer);
        std::this_thread::sleep_for(50ms);  // the engine's thread has heard of all of it, and found the lock taken
    }
    EXPECT_EQ(post_write(side, side), PostResult::kOk);
    EXPECT_TRUE(soon([&] { return side.host.terminates_received == 1; }));
    EXPECT_TRUE(soon([&] { return !side.qp->connected(); }));
}

// A QP that is destroyed takes its timer with it: its deadline may be a day away.
TEST(Timers, EndWithTheirQp) {
    QuietHost host;
    EngineOptions options{};
    options.user_timeout = std::chrono::hours(24);
    auto made = std::make_unique<Engine::Impl>(options, host, -1);
    Engine::Impl& inside = *made;
    Engine engine(std::move(made));
    Cq* const cq = engine.create_cq(16, 1);
    for (std::uint32_t qpn = 1; qpn <= 3; ++qpn) {
        Qp* const qp = engine.create_qp(qp_init(qpn, cq));
        engine.modify_state(*qp, QpState::kInit);
        const auto [here, there] = connected_sockets();
        Connection connection{};
        connection.fd = here;
        connection.initiator = true;
        engine.connect(qpn, connection);
        engine.disconnect(qpn);  // waits for the peer's end
        EXPECT_EQ(inside.armed_timers(), 1u);
        engine.destroy_qp(qp);
        EXPECT_EQ(inside.armed_timers(), 0u);
        ::close(there);
    }
    engine.destroy_cq(cq);
}

}  // namespace

}  // namespace swrnic::engine::test
