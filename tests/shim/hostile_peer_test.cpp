// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// A listening port is open to anybody. Whatever arrives there, the listener serves on.
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <random>
#include <thread>

#include "joined_pair.h"

namespace swrnic::test {
namespace {

// True when the peer is cut off within the time.
bool is_cut_off(int fd, int timeout_ms) {
    char octet = 0;
    return readable(fd, timeout_ms) && recv(fd, &octet, 1, MSG_DONTWAIT) <= 0;
}

class HostilePeerTest : public testing::Test {
  protected:
    void SetUp() override { ASSERT_TRUE(pair.ready()); }
    void TearDown() override {
        EXPECT_FALSE(pair.passive.cm.event(0)) << "the application heard of it";
        EXPECT_TRUE(pair.establish()) << "the listener does not serve any more";
    }
    Fd peer_that_says(const std::string& bytes) {
        Fd peer = raw_client(pair.port);
        EXPECT_EQ(send(peer.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL), static_cast<ssize_t>(bytes.size()));
        return peer;
    }
    JoinedPair pair;
};

TEST_F(HostilePeerTest, AnotherProtocol) {
    const Fd peer = peer_that_says("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n");
    EXPECT_TRUE(is_cut_off(peer.get(), 2000));
}

TEST_F(HostilePeerTest, ReplyInsteadOfRequest) {
    std::string frame = mpa_request(0, 1, 0, "");
    frame[9] = 'p';
    EXPECT_TRUE(is_cut_off(peer_that_says(frame).get(), 2000));
}

TEST_F(HostilePeerTest, LengthBeyondTheLimit) {
    EXPECT_TRUE(is_cut_off(peer_that_says(mpa_request(0, 1, 0xffff, "")).get(), 2000));
    EXPECT_TRUE(is_cut_off(peer_that_says(mpa_request(0, 1, 513, "")).get(), 2000));
}

TEST_F(HostilePeerTest, EnhancedBlockWithoutRoom) {
    EXPECT_TRUE(is_cut_off(peer_that_says(mpa_request(0x10, 2, 3, "abc")).get(), 2000));
}

TEST_F(HostilePeerTest, UnknownRevision) {
    EXPECT_TRUE(is_cut_off(peer_that_says(mpa_request(0, 9, 0, "")).get(), 2000));
}

TEST_F(HostilePeerTest, PrivateDataThatTheApiCannotShowIsRejected) {
    const Fd peer = peer_that_says(mpa_request(0, 1, 300, std::string(300, 'x')));
    char reply[20];
    ASSERT_TRUE(readable(peer.get(), 2000));
    ASSERT_EQ(recv(peer.get(), reply, sizeof(reply), MSG_WAITALL), 20);
    EXPECT_EQ(reply[9], 'p');
    EXPECT_NE(reply[16] & 0x20, 0) << "R=1";
}

TEST_F(HostilePeerTest, FinInTheMiddle) {
    const std::string frame = mpa_request(0, 1, 8, "12345678");
    for (std::size_t cut = 0; cut < frame.size(); ++cut) {
        const Fd peer = peer_that_says(frame.substr(0, cut));
        shutdown(peer.get(), SHUT_WR);
        EXPECT_TRUE(is_cut_off(peer.get(), 2000)) << cut;
    }
}

TEST_F(HostilePeerTest, ResetInTheMiddle) {
    for (int i = 0; i < 50; ++i) {
        const Fd peer = peer_that_says("MPA ID");
        const linger now{1, 0};
        setsockopt(peer.get(), SOL_SOCKET, SO_LINGER, &now, sizeof(now));
    }
}

TEST_F(HostilePeerTest, RandomOctets) {
    std::mt19937 random(20240607);
    for (int i = 0; i < 200; ++i) {
        std::string bytes(1 + random() % 600, '\0');
        for (char& byte : bytes)
            byte = static_cast<char>(random());
        if (i % 2 == 0)
            bytes.replace(0, std::min<std::size_t>(16, bytes.size()), "MPA ID Req Frame",
                          std::min<std::size_t>(16, bytes.size()));
        if (i % 2 == 0 && bytes.size() > 18)
            bytes[18] = '\x7f';  // a length that no Request has: none of these is valid
        Fd peer = raw_client(pair.port);
        send(peer.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
}

TEST_F(HostilePeerTest, SilentPeersBeyondTheLimit) {
    std::vector<Fd> silent;
    for (int i = 0; i < 200; ++i)
        silent.push_back(raw_client(pair.port));
    EXPECT_TRUE(is_cut_off(silent.front().get(), 2000)) << "the oldest of more than 128 makes room";
    EXPECT_FALSE(is_cut_off(silent.back().get(), 0));
    EXPECT_TRUE(pair.request()) << "served while they hold their places";
    ASSERT_EQ(pair.passive.cm.reject(pair.passive.id, ""), 0);
    ASSERT_TRUE(pair.active.cm.event());
    pair.active.id = pair.active.cm.create_id(JoinedPair::kActiveUid);  // for TearDown's connection
    ASSERT_TRUE(pair.active.cm.resolve_to_loopback(pair.active.id, pair.port));
}

TEST(ListenBacklog, BurstOfHonestPeersIsServedWhole) {
    constexpr int kPeers = 400;  // far beyond the places for half-open connections
    const Cm server;
    const std::uint16_t port = server.listen_on_loopback(server.create_id(1), 1000);
    const std::string request = mpa_request(0, 1, 0, "");
    std::vector<Fd> peers;
    for (int i = 0; i < kPeers; ++i)
        peers.push_back(raw_client(port));
    for (const Fd& peer : peers)
        EXPECT_EQ(send(peer.get(), request.data(), request.size(), MSG_NOSIGNAL), 20);
    int requests = 0;
    while (requests < kPeers && server.event(2000))
        ++requests;
    EXPECT_EQ(requests, kPeers);
}

TEST_F(HostilePeerTest, SilenceEndsByItself) {
    const Fd silent = raw_client(pair.port);
    EXPECT_TRUE(is_cut_off(silent.get(), 8000)) << "RFC 5044 7.1.2 (10): the wait for a frame is bounded";
}

TEST(ListenBacklog, MoreRequestsThanTheApplicationTakes) {
    const Cm server;
    const std::uint32_t listener = server.create_id(1);
    const std::uint16_t port = server.listen_on_loopback(listener, 2);
    std::vector<Fd> peers;
    const std::string request = mpa_request(0, 1, 0, "");
    for (int i = 0; i < 5; ++i) {
        peers.push_back(raw_client(port));
        ASSERT_EQ(send(peers.back().get(), request.data(), request.size(), 0), 20);
    }
    int refused = 0;
    for (const Fd& peer : peers)
        refused += readable(peer.get(), 300) ? 1 : 0;
    EXPECT_EQ(refused, 3);
    EXPECT_TRUE(server.event());
    EXPECT_TRUE(server.event());
    EXPECT_FALSE(server.event(0));
    const Fd late = raw_client(port);
    ASSERT_EQ(send(late.get(), request.data(), request.size(), 0), 20);
    EXPECT_TRUE(server.event()) << "room again once the events were read";
}

}  // namespace
}  // namespace swrnic::test
