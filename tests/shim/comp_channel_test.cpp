// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Completion channels and the async file: kernel semantics of read, poll, destroy.
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/epoll.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <thread>

#include "raw.h"

namespace swrnic::test {
namespace {

using namespace std::chrono_literals;

class CompChannelTest : public testing::Test {
  protected:
    void SetUp() override {
        ASSERT_TRUE(context.ok());
        ASSERT_EQ(context.create_channel(channel), 0);
        ASSERT_EQ(context.create_cq(cq, channel.get(), 0xfeed), 0);
    }
    std::uint64_t read_event() {
        std::uint64_t event = 0;
        return read(channel.get(), &event, sizeof(event)) == sizeof(event) ? event : 0;
    }
    Context context;
    Fd channel;
    std::uint32_t cq = 0;
};

TEST_F(CompChannelTest, EventNamesTheCq) {
    EXPECT_FALSE(readable(channel.get(), 0));
    ASSERT_EQ(context.report(SWRNIC_UP_COMP_POSTED, cq), 0);
    EXPECT_TRUE(readable(channel.get(), 0));
    EXPECT_EQ(read_event(), 0xfeedu);
    EXPECT_FALSE(readable(channel.get(), 0));
}

TEST_F(CompChannelTest, OneEventPerReadWhateverTheBuffer) {
    ASSERT_EQ(context.report(SWRNIC_UP_COMP_POSTED, cq), 0);
    ASSERT_EQ(context.report(SWRNIC_UP_COMP_POSTED, cq), 0);
    char buffer[64];
    EXPECT_EQ(read(channel.get(), buffer, 4), -1);
    EXPECT_EQ(errno, EINVAL);
    EXPECT_EQ(read(channel.get(), buffer, sizeof(buffer)), 8);
    EXPECT_EQ(read(channel.get(), buffer, sizeof(buffer)), 8);
}

TEST_F(CompChannelTest, NonBlockingReadOfNothing) {
    ASSERT_EQ(fcntl(channel.get(), F_SETFL, O_NONBLOCK), 0);
    std::uint64_t event = 0;
    EXPECT_EQ(read(channel.get(), &event, sizeof(event)), -1);
    EXPECT_EQ(errno, EAGAIN);
}

TEST_F(CompChannelTest, DestroyDropsWhatWasNotReadAndCountsWhatWas) {
    for (int i = 0; i < 3; ++i)
        ASSERT_EQ(context.report(SWRNIC_UP_COMP_POSTED, cq), 0);
    std::uint32_t other = 0;
    ASSERT_EQ(context.create_cq(other, channel.get(), 0xbeef), 0);
    ASSERT_EQ(context.report(SWRNIC_UP_COMP_POSTED, other), 0);
    EXPECT_EQ(read_event(), 0xfeedu);
    ib_uverbs_destroy_cq_resp counts{};
    ASSERT_EQ(context.destroy_cq(cq, counts), 0);
    EXPECT_EQ(counts.comp_events_reported, 1u);
    EXPECT_EQ(read_event(), 0xbeefu) << "only the other CQ's event is left";
    EXPECT_FALSE(readable(channel.get(), 0));
    EXPECT_EQ(context.report(SWRNIC_UP_COMP_POSTED, cq), EINVAL);
}

TEST_F(CompChannelTest, BlockingReadWakesUp) {
    std::thread poster([&] {
        std::this_thread::sleep_for(50ms);
        context.report(SWRNIC_UP_COMP_POSTED, cq);
    });
    EXPECT_EQ(read_event(), 0xfeedu);
    poster.join();
}

std::atomic<int> g_signals{0};
void count_signal(int) {
    ++g_signals;
}

// Sends SIGUSR1 to a thread that blocks in read until it has returned or the test posts an event.
ssize_t read_through_signals(int channel, int flags, const std::function<void()>& after_signals, int& error) {
    struct sigaction action {};
    action.sa_handler = count_signal;
    action.sa_flags = flags;
    sigaction(SIGUSR1, &action, nullptr);
    g_signals = 0;
    ssize_t result = 0;
    std::atomic<bool> done{false};
    std::thread reader([&] {
        std::uint64_t event = 0;
        result = read(channel, &event, sizeof(event));
        error = errno;
        done = true;
    });
    for (int i = 0; i < 5 && !done; ++i) {
        std::this_thread::sleep_for(20ms);
        if (!done) pthread_kill(reader.native_handle(), SIGUSR1);
    }
    after_signals();
    reader.join();
    return result;
}

TEST_F(CompChannelTest, SignalInterruptsABlockingRead) {
    int error = 0;
    EXPECT_EQ(read_through_signals(
                  channel.get(), 0, [] {}, error),
              -1);
    EXPECT_EQ(error, EINTR);
    EXPECT_GE(g_signals, 1);
}

TEST_F(CompChannelTest, RestartingSignalDoesNot) {
    int error = 0;
    const auto post = [&] { context.report(SWRNIC_UP_COMP_POSTED, cq); };
    EXPECT_EQ(read_through_signals(channel.get(), SA_RESTART, post, error), 8);
    EXPECT_GE(g_signals, 1);
}

TEST_F(CompChannelTest, CancelledReaderStrandsNothing) {
#ifdef __SANITIZE_ADDRESS__
    GTEST_SKIP() << "AddressSanitizer does not follow the unwinding of a cancelled thread";
#endif
    std::thread reader([&] {
        pthread_setcanceltype(PTHREAD_CANCEL_DEFERRED, nullptr);
        read_event();
    });
    std::this_thread::sleep_for(50ms);
    ASSERT_EQ(pthread_cancel(reader.native_handle()), 0);
    reader.join();
    ASSERT_EQ(context.report(SWRNIC_UP_COMP_POSTED, cq), 0);
    EXPECT_EQ(read_event(), 0xfeedu);
    std::uint32_t pd = 0;
    EXPECT_EQ(context.alloc_pd(pd), 0) << "the lock is free";
}

// One that is cancelled when its event has just come may go with what made the channel readable, but not with the
// event.
TEST_F(CompChannelTest, ReadersCancelledWhileEventsComeHideNone) {
#ifdef __SANITIZE_ADDRESS__
    GTEST_SKIP() << "AddressSanitizer does not follow the unwinding of a cancelled thread";
#endif
    for (int i = 0; i < 300; ++i) {
        std::atomic<bool> begun{false}, got{false};
        std::thread reader([&] {
            begun = true;
            got = read_event() == 0xfeed;
        });
        while (!begun)
            std::this_thread::yield();
        if (i % 2 == 0) std::this_thread::sleep_for(100us);
        ASSERT_EQ(context.report(SWRNIC_UP_COMP_POSTED, cq), 0);
        for (int spins = i; spins > 0; --spins)
            std::this_thread::yield();
        pthread_cancel(reader.native_handle());
        reader.join();
        if (got) continue;
        ASSERT_TRUE(readable(channel.get(), 1000));
        ASSERT_EQ(read_event(), 0xfeedu);
        ASSERT_FALSE(readable(channel.get(), 0));
    }
}

TEST_F(CompChannelTest, StaysReadableUntilTheLastEventIsRead) {
    for (int i = 0; i < 3; ++i)
        ASSERT_EQ(context.report(SWRNIC_UP_COMP_POSTED, cq), 0);
    for (int i = 0; i < 3; ++i) {
        EXPECT_TRUE(readable(channel.get(), 0));
        EXPECT_EQ(read_event(), 0xfeedu);
    }
    EXPECT_FALSE(readable(channel.get(), 0));
    ASSERT_EQ(context.report(SWRNIC_UP_COMP_POSTED, cq), 0);
    EXPECT_TRUE(readable(channel.get(), 0));
}

// One that hears of edges, and of nothing else.
class Edges {
  public:
    explicit Edges(int fd) : epoll_(epoll_create1(EPOLL_CLOEXEC)) {
        epoll_event watch{};
        watch.events = EPOLLIN | EPOLLET;
        epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &watch);
    }
    bool has_come() const {
        epoll_event event{};
        return epoll_wait(epoll_.get(), &event, 1, 0) == 1;
    }

  private:
    const Fd epoll_;
};

// Programs take one event for each edge: with a kernel's file they may fall behind, but never stall.
TEST_F(CompChannelTest, EachEventIsAnEdge) {
    const Edges edges(channel.get());
    ASSERT_EQ(context.report(SWRNIC_UP_COMP_POSTED, cq), 0);
    for (int i = 0; i < 3; ++i) {
        ASSERT_EQ(context.report(SWRNIC_UP_COMP_POSTED, cq), 0);
        EXPECT_TRUE(edges.has_come()) << "though earlier ones wait: " << i;
        EXPECT_EQ(read_event(), 0xfeedu);
        EXPECT_FALSE(edges.has_come()) << "to take one is no news";
    }
    EXPECT_EQ(read_event(), 0xfeedu);
    EXPECT_FALSE(readable(channel.get(), 0));
}

TEST(AsyncFile, EachEventIsAnEdge) {
    const Context context;
    const Edges edges(context.async.get());
    std::uint32_t cqs[3];
    for (std::uint32_t& cq : cqs) {
        ASSERT_EQ(context.create_cq(cq), 0);
        ASSERT_EQ(context.report(SWRNIC_UP_ASYNC_EVENT, cq, 0), 0);
        EXPECT_TRUE(edges.has_come());
    }
    ib_uverbs_destroy_cq_resp counts{};
    for (const std::uint32_t cq : cqs) {
        EXPECT_TRUE(readable(context.async.get(), 0));
        ASSERT_EQ(context.destroy_cq(cq, counts), 0);
    }
    EXPECT_FALSE(edges.has_come());
    EXPECT_FALSE(readable(context.async.get(), 0)) << "they went with their queues";
}

TEST(CmEvents, EachIsAnEdge) {
    const Cm cm, other;
    const Edges edges(cm.fd.get()), others(other.fd.get());
    const sockaddr_in to = loopback(1);
    std::uint32_t id = 0;
    for (int i = 0; i < 3; ++i) {
        id = cm.create_id(1);
        ASSERT_EQ(cm.resolve(id, reinterpret_cast<const sockaddr*>(&to), sizeof(to)), 0);
        EXPECT_TRUE(edges.has_come());
    }
    rdma_ucm_migrate_id move{};
    rdma_ucm_migrate_resp counts{};
    move.response = reinterpret_cast<std::uintptr_t>(&counts);
    move.id = id;
    move.fd = static_cast<std::uint32_t>(cm.fd.get());
    ASSERT_EQ(other.command(RDMA_USER_CM_CMD_MIGRATE_ID, move, sizeof(counts)), 0);
    EXPECT_TRUE(others.has_come()) << "what moves with its id";
    for (int i = 0; i < 2; ++i) {
        EXPECT_TRUE(readable(cm.fd.get(), 0));
        EXPECT_TRUE(cm.event());
    }
    EXPECT_FALSE(readable(cm.fd.get(), 0));
    EXPECT_TRUE(other.event());
    EXPECT_FALSE(readable(other.fd.get(), 0));
    EXPECT_FALSE(edges.has_come());
}

// Two that wait in read() while a third is cancelled there: however their tokens were counted, the channel is readable
// afterwards exactly while it holds an event.
TEST_F(CompChannelTest, CancelledAmongOtherReadersLeavesTheCountRight) {
#ifdef __SANITIZE_ADDRESS__
    GTEST_SKIP() << "AddressSanitizer does not follow the unwinding of a cancelled thread";
#endif
    for (int i = 0; i < 200; ++i) {
        std::atomic<int> got{0};
        std::atomic<bool> begun{false};
        std::thread victim([&] {
            begun = true;
            got += read_event() == 0xfeed ? 1 : 0;
        });
        std::vector<std::thread> readers;
        for (int n = 0; n < 2; ++n)
            readers.emplace_back([&] { got += read_event() == 0xfeed ? 1 : 0; });
        while (!begun)
            std::this_thread::yield();
        for (int n = 0; n < 4; ++n) {
            ASSERT_EQ(context.report(SWRNIC_UP_COMP_POSTED, cq), 0);
            if (n == i % 4) pthread_cancel(victim.native_handle());
        }
        victim.join();
        for (std::thread& reader : readers)
            reader.join();
        for (int left = 4 - got; left > 0; --left) {
            ASSERT_TRUE(readable(channel.get(), 0)) << left << " are left";
            ASSERT_EQ(read_event(), 0xfeedu);
        }
        ASSERT_FALSE(readable(channel.get(), 0));
    }
}

TEST_F(CompChannelTest, EverySleeperIsWokenThoughOneEventMadeItReadable) {
    std::atomic<int> got{0};
    std::vector<std::thread> readers;
    for (int i = 0; i < 4; ++i)
        readers.emplace_back([&] { got += read_event() == 0xfeed ? 1 : 0; });
    std::this_thread::sleep_for(50ms);
    for (int i = 0; i < 4; ++i)
        ASSERT_EQ(context.report(SWRNIC_UP_COMP_POSTED, cq), 0);
    for (std::thread& reader : readers)
        reader.join();
    EXPECT_EQ(got, 4);
    EXPECT_FALSE(readable(channel.get(), 0));
}

TEST_F(CompChannelTest, TwoReadersShareTheEvents) {
    std::atomic<int> got{0};
    std::vector<std::thread> readers;
    for (int i = 0; i < 2; ++i) {
        readers.emplace_back([&] {
            for (int n = 0; n < 500; ++n)
                got += read_event() == 0xfeed ? 1 : 0;
        });
    }
    for (int i = 0; i < 1000; ++i)
        ASSERT_EQ(context.report(SWRNIC_UP_COMP_POSTED, cq), 0);
    for (std::thread& reader : readers)
        reader.join();
    EXPECT_EQ(got, 1000);
}

TEST_F(CompChannelTest, ChannelMustBeOneOfThisContext) {
    const Context other;
    Fd foreign;
    ASSERT_EQ(other.create_channel(foreign), 0);
    std::uint32_t handle = 0;
    EXPECT_EQ(context.create_cq(handle, foreign.get()), EBADF);
    EXPECT_EQ(context.create_cq(handle, context.async.get()), EBADF);
    EXPECT_EQ(context.create_cq(handle, 0), EBADF);
    EXPECT_EQ(context.create_cq(handle, -1, 0, 0), EINVAL) << "no entries";
    EXPECT_EQ(context.create_cq(handle, -1, 0, 0x7fffffff), EINVAL);
}

TEST_F(CompChannelTest, ReaderWakesWhenTheContextEnds) {
    ssize_t result = 0;
    int error = 0;
    std::thread reader([&] {
        std::uint64_t event = 0;
        result = read(channel.get(), &event, sizeof(event));
        error = errno;
    });
    std::this_thread::sleep_for(50ms);
    context.cmd.reset();
    reader.join();
    EXPECT_EQ(result, -1);
    EXPECT_EQ(error, EIO);
}

TEST_F(CompChannelTest, EventAfterTheChannelWasClosed) {
    channel.reset();
    EXPECT_EQ(context.report(SWRNIC_UP_COMP_POSTED, cq), 0) << "harmless";
    ib_uverbs_destroy_cq_resp counts{};
    EXPECT_EQ(context.destroy_cq(cq, counts), 0);
    EXPECT_EQ(counts.comp_events_reported, 0u);
}

TEST(AsyncFile, EachKindOncePerObject) {
    const Context context;
    std::uint32_t pd = 0, cq = 0;
    ASSERT_EQ(context.alloc_pd(pd), 0);
    ASSERT_EQ(context.create_cq(cq, -1, 0xc0), 0);
    Context::Qp qp;
    ASSERT_EQ(context.create_qp(pd, cq, qp, default_startup(), 0x99), 0);
    EXPECT_EQ(context.report(SWRNIC_UP_ASYNC_EVENT, qp.qpn, 1), 0);       // QP_FATAL
    EXPECT_EQ(context.report(SWRNIC_UP_ASYNC_EVENT, qp.qpn, 1), EINVAL);  // again
    EXPECT_EQ(context.report(SWRNIC_UP_ASYNC_EVENT, cq, 0), 0);           // CQ_ERR
    EXPECT_EQ(context.report(SWRNIC_UP_ASYNC_EVENT, qp.qpn, 8), EINVAL);  // DEVICE_FATAL is not the process's to raise
    EXPECT_EQ(context.report(SWRNIC_UP_ASYNC_EVENT, 12345, 1), EINVAL);
    ib_uverbs_async_event_desc event{};
    ASSERT_EQ(read(context.async.get(), &event, sizeof(event)), 16);
    EXPECT_EQ(event.element, 0x99u);
    EXPECT_EQ(event.event_type, 1u);
    std::uint32_t reported = 0;
    EXPECT_EQ(context.destroy_qp(qp.handle, &reported), 0);
    EXPECT_EQ(reported, 1u);
    ib_uverbs_destroy_cq_resp counts{};
    EXPECT_EQ(context.destroy_cq(cq, counts), 0);
    EXPECT_EQ(counts.async_events_reported, 0u) << "its event was never read";
    EXPECT_FALSE(readable(context.async.get(), 0));
}

}  // namespace
}  // namespace swrnic::test
