// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Two daemons' devices, joined by TCP, each on a kernel that is not there.
#include "server.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/eventfd.h>

#include <chrono>
#include <memory>
#include <thread>

#include "fake_kernel.h"

namespace swrnic::daemon::test {

namespace {

constexpr std::uint32_t kStag = 0x1234;

Bytes octets(std::size_t length, unsigned seed) {
    Bytes made(length);
    for (std::size_t i = 0; i < length; ++i)
        made[i] = static_cast<std::byte>(i * 7 + i / 251 + seed);
    return made;
}

swrnic_wqe of(std::uint16_t opcode, std::uint32_t stag = 0, std::uint64_t to = 0) {
    swrnic_wqe wqe{};
    wqe.opcode = opcode;
    wqe.remote_stag = stag;
    wqe.remote_to = to;
    return wqe;
}

// Both ends of a TCP connection.
std::array<int, 2> tcp_pair() {
    const int listener = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const int segment = 1460;  // and no more, though it is the loopback: many FPDUs
    EXPECT_EQ(::setsockopt(listener, IPPROTO_TCP, TCP_MAXSEG, &segment, sizeof segment), 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t length = sizeof address;
    EXPECT_EQ(::bind(listener, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
    EXPECT_EQ(::listen(listener, 1), 0);
    EXPECT_EQ(::getsockname(listener, reinterpret_cast<sockaddr*>(&address), &length), 0);
    const int one = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    EXPECT_EQ(::connect(one, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
    EXPECT_EQ(::fcntl(one, F_SETFL, O_NONBLOCK), 0);
    const int two = ::accept4(listener, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
    ::close(listener);
    return {one, two};
}

class ServerTest : public testing::Test {
  protected:
    void SetUp() override {
        for (std::size_t i = 0; i < 2; ++i) {
            servers[i] = Server::create({}, "swr" + std::to_string(i), kernels[i]->event_fd,
                                        std::make_unique<FakeCalls>(*kernels[i]), gone_fd);
            ASSERT_NE(servers[i], nullptr);
            servers[i]->start();
        }
    }
    void TearDown() override {
        for (auto& server : servers)
            server.reset();
        ::close(gone_fd);
    }
    void connect() { connect(a, b); }
    static void connect(FakeKernel& initiator, FakeKernel& responder, bool crc = false) {
        const auto [one, two] = tcp_pair();
        initiator.connect(one, SWRNIC_ROLE_INITIATOR, crc);
        responder.connect(two, SWRNIC_ROLE_RESPONDER, crc);
        for (FakeKernel* kernel : {&initiator, &responder}) {
            const swrnic_up ready = kernel->heard();
            EXPECT_EQ(ready.type, std::uint32_t{SWRNIC_UP_QP_READY});
            EXPECT_EQ(ready.id, kernel->qpn);
        }
    }

    const int gone_fd = ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    FakeKernel a{0x111}, b{0x222};
    std::array<FakeKernel*, 2> kernels{&a, &b};
    std::array<std::unique_ptr<Server>, 2> servers;
};

TEST_F(ServerTest, WhatWasPostedBeforeTheConnectionIsDoneAfterIt) {
    b.post(SWRNIC_QUEUE_RECV, of(SWRNIC_WQE_RECV), Bytes(100'000));
    a.post(SWRNIC_QUEUE_SEND, of(SWRNIC_WQE_SEND), octets(70'000, 1));
    connect();
    const auto received = b.completed(1);
    ASSERT_EQ(received.size(), 1u);
    EXPECT_EQ(received[0].queue, std::uint32_t{SWRNIC_QUEUE_RECV});
    EXPECT_EQ(received[0].status, 0u);
    EXPECT_EQ(received[0].length, 70'000u);
    Bytes came = b.memory(SWRNIC_NAME_RECV, 0);
    came.resize(70'000);
    EXPECT_EQ(came, octets(70'000, 1));
}

// Nothing is taken before a message needs it, and one that finds nothing goes on when there is something.
class SharedReceivesTest : public ServerTest {
  protected:
    SharedReceivesTest() { kernels[1] = &c; }
    FakeKernel c{0x222, true};
};

TEST_F(SharedReceivesTest, AreTakenAsMessagesCome) {
    constexpr std::uint64_t kMany = 100;
    c.post(SWRNIC_QUEUE_RECV, of(SWRNIC_WQE_RECV), Bytes(16));
    connect(a, c);
    EXPECT_EQ(c.fetched(SWRNIC_QUEUE_RECV), 0u);
    for (std::uint64_t i = 0; i < kMany; ++i)
        a.post(SWRNIC_QUEUE_SEND, of(SWRNIC_WQE_SEND), octets(16, static_cast<unsigned>(i)));
    EXPECT_EQ(c.completed(1).size(), 1u);
    for (std::uint64_t i = 1; i < kMany; ++i)
        c.post(SWRNIC_QUEUE_RECV, of(SWRNIC_WQE_RECV), Bytes(16));
    const auto received = c.completed(kMany);
    ASSERT_EQ(received.size(), kMany);
    for (std::uint64_t i = 0; i < kMany; ++i) {
        EXPECT_EQ(received[i].sequence, i);
        EXPECT_EQ(c.memory(SWRNIC_NAME_RECV, i), octets(16, static_cast<unsigned>(i)));
    }
}

TEST_F(ServerTest, AllKindsOfRequestsCompleteInOrder) {
    b.add_stag(kStag, Bytes(50'000));
    b.post(SWRNIC_QUEUE_RECV, of(SWRNIC_WQE_RECV), Bytes(8));
    connect();
    a.post(SWRNIC_QUEUE_SEND, of(SWRNIC_WQE_LOCAL));
    a.post(SWRNIC_QUEUE_SEND, of(SWRNIC_WQE_WRITE, kStag, kTo), octets(50'000, 2));
    a.post(SWRNIC_QUEUE_SEND, of(SWRNIC_WQE_READ, kStag, kTo + 10), Bytes(40'000));
    swrnic_wqe fenced = of(SWRNIC_WQE_SEND_INV, kStag);
    fenced.flags = SWRNIC_WQE_FENCE | SWRNIC_WQE_SOLICITED;
    a.post(SWRNIC_QUEUE_SEND, fenced, octets(8, 3));
    const auto done = a.completed(4);
    ASSERT_EQ(done.size(), 4u);
    for (std::uint64_t i = 0; i < 4; ++i) {
        EXPECT_EQ(done[i].sequence, i);
        EXPECT_EQ(done[i].queue, std::uint32_t{SWRNIC_QUEUE_SEND});
        EXPECT_EQ(done[i].status, 0u);
    }
    EXPECT_EQ(a.executed(), std::vector<std::uint64_t>{0});
    const Bytes written = octets(50'000, 2);
    EXPECT_EQ(a.memory(SWRNIC_NAME_SEND, 2), Bytes(written.begin() + 10, written.begin() + 40'010));
    const auto received = b.completed(1);
    EXPECT_EQ(received[0].flags, SWRNIC_DONE_INVALIDATED | SWRNIC_DONE_SOLICITED);
    EXPECT_EQ(received[0].invalidated, kStag);
    EXPECT_TRUE(b.memory(SWRNIC_NAME_TAGGED, kStag).empty());
}

// What is complete with a move is reported by the call that moves it.
TEST_F(ServerTest, CompletionsTakeNoCallsOfTheirOwn) {
    b.add_stag(kStag, Bytes(50'000));
    for (std::uint64_t i = 0; i < 3; ++i)
        b.post(SWRNIC_QUEUE_RECV, of(SWRNIC_WQE_RECV), Bytes(10'000));
    connect();
    a.post(SWRNIC_QUEUE_SEND, of(SWRNIC_WQE_SEND), octets(8, 1));
    a.post(SWRNIC_QUEUE_SEND, of(SWRNIC_WQE_SEND), octets(10'000, 2));
    EXPECT_EQ(a.completed(2).size(), 2u);
    a.post(SWRNIC_QUEUE_SEND, of(SWRNIC_WQE_READ, kStag, kTo), Bytes(50'000));
    EXPECT_EQ(a.completed(3).size(), 3u);
    a.post(SWRNIC_QUEUE_SEND, of(SWRNIC_WQE_WRITE, kStag, kTo), octets(20'000, 3));
    a.post(SWRNIC_QUEUE_SEND, of(SWRNIC_WQE_SEND_INV, kStag), octets(8, 4));
    EXPECT_EQ(a.completed(5).size(), 5u);
    const auto received = b.completed(3);
    ASSERT_EQ(received.size(), 3u);
    EXPECT_EQ(received[1].length, 10'000u);
    EXPECT_EQ(received[2].invalidated, kStag);
    for (FakeKernel* kernel : {&a, &b}) {
        EXPECT_EQ(kernel->moves().completed, 0u);
        EXPECT_EQ(kernel->moves().invalidated, 0u);
    }
}

// Calls, once the daemon has done all that it was told of: it may look again behind what it has completed.
unsigned fetched_at_rest(FakeKernel& kernel) {
    unsigned fetched = kernel.moves().fetched;
    constexpr std::chrono::milliseconds kLook{1}, kRest{50};
    for (auto since = std::chrono::steady_clock::now(); std::chrono::steady_clock::now() - since < kRest;) {
        std::this_thread::sleep_for(kLook);
        if (fetched == kernel.moves().fetched) continue;
        fetched = kernel.moves().fetched;
        since = std::chrono::steady_clock::now();
    }
    return fetched;
}

// Each of them tells the daemon once, and is fetched by one call, with the receives that are there by then.
TEST_F(ServerTest, AMessageIsFetchedByOneCall) {
    b.post(SWRNIC_QUEUE_RECV, of(SWRNIC_WQE_RECV), Bytes(16));
    a.post(SWRNIC_QUEUE_RECV, of(SWRNIC_WQE_RECV), Bytes(16));
    connect();
    a.post(SWRNIC_QUEUE_SEND, of(SWRNIC_WQE_LOCAL));
    EXPECT_EQ(a.completed(1).size(), 1u);
    const unsigned before = fetched_at_rest(a);
    a.post(SWRNIC_QUEUE_RECV, of(SWRNIC_WQE_RECV), Bytes(16));
    a.post(SWRNIC_QUEUE_SEND, of(SWRNIC_WQE_SEND), octets(16, 1));
    EXPECT_EQ(a.completed(2).size(), 2u);
    EXPECT_EQ(b.completed(1).size(), 1u);
    EXPECT_EQ(a.moves().fetched, before + 1);
    EXPECT_EQ(a.fetched(SWRNIC_QUEUE_RECV), 2u);
    EXPECT_EQ(a.moves().executed, 0u);
}

// A receive that comes when a message waits for it is told of, though others are not.
TEST_F(ServerTest, AMessageThatWaitsGetsTheNextReceive) {
    connect();
    a.post(SWRNIC_QUEUE_SEND, of(SWRNIC_WQE_SEND), octets(16, 1));
    EXPECT_EQ(a.completed(1).size(), 1u);
    b.post(SWRNIC_QUEUE_RECV, of(SWRNIC_WQE_RECV), Bytes(16));
    EXPECT_EQ(b.completed(1).size(), 1u);
    EXPECT_EQ(b.memory(SWRNIC_NAME_RECV, 0), octets(16, 1));
}

class PayloadTest : public ServerTest, public testing::WithParamInterface<bool> {};

// Of either side it is moved between socket and memory by the other's calls; here it comes by only where the stream is
// cut.
TEST_P(PayloadTest, GoesPastTheDaemon) {
    constexpr std::size_t kLength = 1'000'000;
    connect(a, b, GetParam());
    b.add_stag(kStag, octets(kLength, 4));
    a.post(SWRNIC_QUEUE_SEND, of(SWRNIC_WQE_READ, kStag, kTo), Bytes(kLength));
    EXPECT_EQ(a.completed(1).at(0).status, 0u);
    EXPECT_EQ(a.memory(SWRNIC_NAME_SEND, 0), octets(kLength, 4));
    a.post(SWRNIC_QUEUE_SEND, of(SWRNIC_WQE_WRITE, kStag, kTo), octets(kLength, 5));
    swrnic_wqe last = of(SWRNIC_WQE_SEND);
    b.post(SWRNIC_QUEUE_RECV, of(SWRNIC_WQE_RECV), Bytes(8));
    a.post(SWRNIC_QUEUE_SEND, last, octets(8, 6));
    EXPECT_EQ(b.completed(1).at(0).status, 0u);
    EXPECT_EQ(b.memory(SWRNIC_NAME_TAGGED, kStag), octets(kLength, 5));
    for (FakeKernel* kernel : {&a, &b}) {
        const FakeKernel::Moves moves = kernel->moves();
        EXPECT_GT(moves.placed, kLength / 1440 / 2);
        EXPECT_LT(moves.received, moves.placed);
        EXPECT_GT(moves.transmitted, kLength / SWRNIC_MOVED_OCTETS);
        EXPECT_EQ(moves.copied_in, 0u);
    }
}

// As svcrdma and xprtrdma do: one operation has several regions, and several Reads.
TEST_P(PayloadTest, OfSeveralRegionsGoesPastTheDaemon) {
    constexpr std::size_t kEach = 100'000;
    constexpr unsigned kRegions = 8;
    connect(a, b, GetParam());
    for (unsigned i = 0; i < kRegions; ++i) {
        b.add_stag(kStag + i, octets(kEach, i));
        a.post(SWRNIC_QUEUE_SEND, of(SWRNIC_WQE_READ, kStag + i, kTo), Bytes(kEach));
    }
    EXPECT_EQ(a.completed(kRegions).size(), kRegions);
    for (unsigned i = 0; i < kRegions; ++i) {
        EXPECT_EQ(a.memory(SWRNIC_NAME_SEND, i), octets(kEach, i));
        a.post(SWRNIC_QUEUE_SEND, of(SWRNIC_WQE_WRITE, kStag + i, kTo), octets(kEach, i + 1));
    }
    b.post(SWRNIC_QUEUE_RECV, of(SWRNIC_WQE_RECV), Bytes(8));
    a.post(SWRNIC_QUEUE_SEND, of(SWRNIC_WQE_SEND), octets(8, 6));
    EXPECT_EQ(b.completed(1).at(0).status, 0u);
    for (unsigned i = 0; i < kRegions; ++i)
        EXPECT_EQ(b.memory(SWRNIC_NAME_TAGGED, kStag + i), octets(kEach, i + 1));
    for (FakeKernel* kernel : {&a, &b}) {
        const FakeKernel::Moves moves = kernel->moves();
        EXPECT_GT(moves.placed, moves.copied_out * 4);
        EXPECT_LT(moves.received, moves.placed);
    }
}

INSTANTIATE_TEST_SUITE_P(Streams, PayloadTest, testing::Bool(),
                         [](const auto& crc) { return crc.param ? "Crc" : "Plain"; });

TEST_F(ServerTest, ManyRequestsAreFetchedAndReportedInTheirOrder) {
    constexpr std::uint64_t kMany = 100;  // more than one FETCH takes
    for (std::uint64_t i = 0; i < kMany; ++i)
        b.post(SWRNIC_QUEUE_RECV, of(SWRNIC_WQE_RECV), Bytes(16));
    for (std::uint64_t i = 0; i < kMany; ++i)
        a.post(SWRNIC_QUEUE_SEND, of(SWRNIC_WQE_SEND), octets(16, static_cast<unsigned>(i)));
    connect();
    const auto received = b.completed(kMany);
    ASSERT_EQ(received.size(), kMany);
    for (std::uint64_t i = 0; i < kMany; ++i) {
        EXPECT_EQ(received[i].sequence, i);
        EXPECT_EQ(b.memory(SWRNIC_NAME_RECV, i), octets(16, static_cast<unsigned>(i)));
    }
}

TEST_F(ServerTest, AnErrorIsReportedOnceAndTheRestIsLeftToTheModule) {
    connect();
    b.post(SWRNIC_QUEUE_RECV, of(SWRNIC_WQE_RECV), Bytes(16));
    a.post(SWRNIC_QUEUE_SEND, of(SWRNIC_WQE_READ, kStag, kTo), Bytes(16));  // no such STag
    const swrnic_up closed = a.heard();
    EXPECT_EQ(closed.type, std::uint32_t{SWRNIC_UP_QP_CLOSED});
    EXPECT_EQ(closed.aux, std::uint32_t{SWRNIC_CLOSE_ERROR});
    EXPECT_EQ(b.heard().type, std::uint32_t{SWRNIC_UP_QP_CLOSED});
    const auto done = a.completed(1);
    ASSERT_EQ(done.size(), 1u);
    EXPECT_EQ(done[0].status, static_cast<std::uint32_t>(engine::WcStatus::kRemAccessErr));
    EXPECT_TRUE(b.completed(0).empty());  // its receive was flushed
}

TEST_F(ServerTest, AQpIsMadeAnewAfterItsEnd) {
    for (int i = 0; i < 3; ++i) {
        connect();
        a.tell({.type = SWRNIC_DOWN_QP_DISCONNECT, .qpn = a.qpn, .u = {}});
        for (FakeKernel* kernel : {&a, &b}) {
            const swrnic_up closed = kernel->heard();
            EXPECT_EQ(closed.type, std::uint32_t{SWRNIC_UP_QP_CLOSED});
            EXPECT_EQ(closed.aux, std::uint32_t{SWRNIC_CLOSE_GRACEFUL});
        }
    }
}

TEST_F(ServerTest, AQpThatTheModuleDoesNotKnowIsClosed) {
    const auto [one, two] = tcp_pair();
    swrnic_down record{.type = SWRNIC_DOWN_QP_CONNECTED, .qpn = 0x999, .u = {}};
    record.u.connected.fd = one;
    a.tell(record);
    const swrnic_up closed = a.heard();
    EXPECT_EQ(closed.type, std::uint32_t{SWRNIC_UP_QP_CLOSED});
    EXPECT_EQ(closed.id, 0x999u);
    ::close(two);
}

TEST_F(ServerTest, ADeviceThatHasGoneIsToldOf) {
    EXPECT_FALSE(servers[0]->gone());
    a.leave();
    pollfd ready{gone_fd, POLLIN, 0};
    ASSERT_EQ(::poll(&ready, 1, 10'000), 1);
    EXPECT_TRUE(servers[0]->gone());
    EXPECT_FALSE(servers[1]->gone());
}

}  // namespace

}  // namespace swrnic::daemon::test
