// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// What a transport asks of its socket, and when.
#include "engine/tcp_transport.h"

#include <gtest/gtest.h>
#include <linux/tcp.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <fstream>
#include <string>
#include <vector>

#include "engine/engine.h"
#include "sockets.h"

namespace swrnic::engine::test {

namespace {

using namespace std::chrono_literals;

std::string congestion_control(int fd) {
    std::array<char, 32> name{};
    socklen_t size = name.size() - 1;
    EXPECT_EQ(::getsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, name.data(), &size), 0);
    return name.data();
}

int socket_option(int fd, int which) {
    int value = 0;
    socklen_t size = sizeof value;
    EXPECT_EQ(::getsockopt(fd, SOL_SOCKET, which, &value, &size), 0);
    return value;
}

Connection connection_on(int fd, bool same_host) {
    Connection connection;
    connection.fd = fd;
    connection.same_host = same_host;
    return connection;
}

int tcp_option(int fd, int which) {
    int value = -1;
    socklen_t size = sizeof value;
    EXPECT_EQ(::getsockopt(fd, IPPROTO_TCP, which, &value, &size), 0);
    return value;
}

TEST(TcpTransportTest, LimitsSilenceFromTheBeginningOrWithinOneHostOnceTheSocketIsFull) {
    for (const bool same_host : {true, false}) {
        const auto [active, passive] = connected_sockets();
        TcpTransport one(connection_on(active, same_host), 30s);
        const TcpTransport other(connection_on(passive, same_host), 30s);
        EXPECT_EQ(tcp_option(active, TCP_USER_TIMEOUT), same_host ? 0 : 30'000);
        one.note_blocked();
        EXPECT_EQ(tcp_option(active, TCP_USER_TIMEOUT), 30'000);
    }
}

TEST(TcpTransportTest, DelaysNothing) {
    const auto [active, passive] = connected_sockets();
    Connection told = connection_on(passive, true);
    told.nodelay = true;
    const TcpTransport one(connection_on(active, true), 30s), other(told, 30s);
    EXPECT_EQ(tcp_option(active, TCP_NODELAY), 1);
    EXPECT_EQ(tcp_option(passive, TCP_NODELAY), 0) << "the shim's word is taken";
}

TEST(TcpTransportTest, ProbesThePeerButWithinOneHost) {
    for (const bool same_host : {true, false}) {
        const auto [active, passive] = connected_sockets();
        const TcpTransport one(connection_on(active, same_host), 30s), other(connection_on(passive, same_host), 30s);
        EXPECT_EQ(socket_option(active, SO_KEEPALIVE), same_host ? 0 : 1);
    }
}

TEST(TcpTransportTest, TakesAnotherCongestionControlOnceItSendsMuchWithinOneHost) {
    for (const bool same_host : {true, false}) {
        const auto [active, passive] = connected_sockets();
        const std::string before = congestion_control(active);
        TcpTransport one(connection_on(active, same_host), 30s);
        const TcpTransport other(connection_on(passive, same_host), 30s);
        EXPECT_EQ(congestion_control(active), before);
        EXPECT_TRUE(one.note_blocked());
        EXPECT_EQ(congestion_control(active), same_host ? "reno" : before);
        EXPECT_FALSE(one.note_blocked()) << "once";
    }
}

// The kernel's own sizing, which a connection elsewhere keeps, would be a test of nothing here: it may choose anything.
TEST(TcpTransportTest, KeepsLittleInTheSocketOnceItSendsMuchWithinOneHost) {
    int most = 0;
    ASSERT_TRUE(std::ifstream("/proc/sys/net/core/wmem_max") >> most);
    const int expected = 2 * std::min(most, 512 * 1024);
    for (const bool same_host : {true, false}) {
        const auto [active, passive] = connected_sockets();
        const int before = socket_option(active, SO_SNDBUF);
        ASSERT_NE(before, expected);
        TcpTransport one(connection_on(active, same_host), 30s);
        const TcpTransport other(connection_on(passive, same_host), 30s);
        EXPECT_EQ(socket_option(active, SO_SNDBUF), before);
        one.note_blocked();
        EXPECT_EQ(socket_option(active, SO_SNDBUF), same_host ? expected : before);
    }
}

// The kernel gives what it allows at most, half of tcp_rmem's last; twice 64 KiB is what a stream begins with.
TEST(TcpTransportTest, HasRoomForSomeLargeFpdusOnceItReceivesMuchAndIsNotFixedToIt) {
    const auto [active, passive] = connected_sockets();
    TcpTransport one(connection_on(active, false), 30s), other(connection_on(passive, false), 30s);
    const int before = socket_option(passive, SO_RCVBUF);
    ASSERT_LT(before, 1 << 20);
    std::vector<std::byte> octets(32 * 1024);
    const auto move = [&](std::size_t count) {
        const IoSlice in{octets.data(), count};
        EXPECT_EQ(one.send(&in, 1).count, count);
        other.begin_turn();
        for (std::size_t left = count; left != 0;) {
            const IoSlice rest{octets.data(), left};
            const IoResult got = other.receive(&rest, 1);
            if (got.status == IoStatus::kEmpty || got.status == IoStatus::kAgain) continue;
            ASSERT_EQ(got.status, IoStatus::kOk);
            left -= got.count;
        }
    };
    move(octets.size() / 2);
    EXPECT_LT(socket_option(passive, SO_RCVBUF), 1 << 20);
    move(octets.size());
    EXPECT_GE(socket_option(passive, SO_RCVBUF), 1 << 20);
    EXPECT_EQ(socket_option(passive, SO_RCVLOWAT), 1) << "a single octet makes the stream readable";
}

}  // namespace

}  // namespace swrnic::engine::test
