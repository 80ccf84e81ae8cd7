// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// The startup frames of Linux siw (tests/golden/captures), replayed against both of our ends.
#include <gtest/gtest.h>

#include <algorithm>

#include "golden/pcap.h"
#include "machine.h"

namespace swrnic::mpatest {
namespace {

unsigned half(std::span<const std::byte> octets, std::size_t at) {
    return std::to_integer<unsigned>(octets[at]) << 8 | std::to_integer<unsigned>(octets[at + 1]);
}

// The parameters with which our Initiator would say what this Request says.
swrnic_mpa_params as_requested(const golden::MpaConnection& c) {
    swrnic_mpa_params p{};
    p.rev = c.request_revision;
    p.markers_wanted = c.request_flags & 0x80;
    p.crc_wanted = c.request_flags & 0x40;
    p.large_fpdu = c.request_flags & 0x08 ? SWRNIC_MPA_LARGE_OFFER : SWRNIC_MPA_LARGE_NEVER;
    p.max_ird = 128;
    if (c.request_revision < 2) return p;
    const unsigned ird = half(c.request_data, 0), ord = half(c.request_data, 2);
    p.p2p = ird & 0x8000 ? 1 : 0;
    p.rtr_kinds = static_cast<__u8>((ird & 0x4000 ? SWRNIC_RTR_SEND : 0) | (ord & 0x8000 ? SWRNIC_RTR_WRITE : 0) |
                                    (ord & 0x4000 ? SWRNIC_RTR_READ : 0));
    p.ird = ird & 0x3fff;
    p.ord = ord & 0x3fff;
    return p;
}

std::span<const std::byte> ulp_data(const golden::MpaConnection& c) {
    return c.request_data.subspan(c.request_revision < 2 ? 0 : 4);
}

// Feeds a direction segment by segment, as it was captured, until the machine has its frame.
std::size_t replay(End& end, const golden::Direction& direction) {
    std::size_t used = 0, begin = 0;
    for (const std::size_t cut : direction.cuts) {
        const auto segment = std::span(direction.bytes).subspan(begin, cut - begin);
        const std::size_t n = end.feed(segment);
        used += n;
        if (n < segment.size()) break;
        begin = cut;
    }
    return used;
}

void check_responder(const golden::Connection& connection, const golden::MpaConnection& c) {
    End end = End::responder(), bytewise = End::responder();
    const std::size_t used = replay(end, connection.to_server);
    bytewise.feed(connection.to_server.bytes, 1);
    EXPECT_EQ(end.outcome(), bytewise.outcome());
    ASSERT_EQ(end.event(), SWRNIC_MPA_EV_REQUEST);
    EXPECT_EQ(used, connection.to_server.bytes.size() - c.to_server.size()) << "exactly its frame";
    EXPECT_TRUE(std::ranges::equal(end.peer_private(), ulp_data(c)));

    // The same Responder as siw: the answer is to be acceptable to siw's Initiator, whose rules are known.
    swrnic_mpa_params p = default_params();
    p.crc_wanted = 0;
    ASSERT_EQ(swrnic_mpa_accept(end.raw(), &p, nullptr, 0), 0);
    const Bytes reply = end.send();
    const auto flags = std::to_integer<unsigned>(reply.at(16));
    EXPECT_EQ(std::to_integer<unsigned>(reply.at(17)), c.request_revision);
    EXPECT_EQ(flags & 0x40, c.request_flags & 0x40u) << "siw looks for C in the Reply alone";
    EXPECT_EQ(flags & 0x10, c.request_flags & 0x10u);
    EXPECT_EQ(flags & 0x08, c.request_flags & 0x08u) << "siw with large sends";
}

void check_initiator(const golden::Connection& connection, const golden::MpaConnection& c) {
    const swrnic_mpa_params p = as_requested(c);
    End end = End::initiator(p, ulp_data(c));
    const Bytes request = end.send();
    EXPECT_TRUE(std::ranges::equal(
        request, std::span(connection.to_server.bytes).first(connection.to_server.bytes.size() - c.to_server.size())))
        << "octet by octet the captured Request";

    const std::size_t used = replay(end, connection.to_client);
    EXPECT_EQ(used, connection.to_client.bytes.size() - c.to_client.size());
    if (c.rejected) {
        EXPECT_EQ(end.event(), SWRNIC_MPA_EV_REJECTED);
        return;
    }
    ASSERT_EQ(end.event(), SWRNIC_MPA_EV_ESTABLISHED) << end.outcome();
    const swrnic_connected out = end.connected();
    EXPECT_EQ((out.flags & SWRNIC_CONN_CRC) != 0, c.crc);
    EXPECT_EQ((out.flags & SWRNIC_CONN_LARGE_FPDU) != 0, (c.request_flags & c.reply_flags & 0x08) != 0);
    EXPECT_EQ((out.flags & SWRNIC_CONN_P2P) != 0, p.p2p != 0) << "siw repeats A";
    EXPECT_EQ((out.rtr != 0), p.p2p != 0);
}

TEST(MpaCaptures, BothEndsDigestSiw) {
    unsigned connections = 0, rejected = 0, crc = 0, p2p = 0, large = 0, rev1 = 0;
    for (const auto& file : golden::captures()) {
        for (const golden::Connection& connection : golden::read_pcap(file)) {
            const auto c = golden::split_mpa(connection);
            if (!c) continue;
            SCOPED_TRACE(file.filename().string() + " client port " + std::to_string(connection.client.port));
            check_responder(connection, *c);
            check_initiator(connection, *c);
            ++connections;
            rejected += c->rejected;
            crc += c->crc;
            rev1 += c->request_revision == 1;
            large += (c->request_flags & 0x08) != 0;
            p2p += c->request_revision == 2 && (half(c->request_data, 0) & 0x8000);
        }
    }
    EXPECT_GE(connections, 60u);
    EXPECT_EQ(rejected, 1u);  // markers, which siw refuses
    EXPECT_GE(crc, 10u);
    EXPECT_GE(p2p, 6u);
    EXPECT_GE(large, 7u);
    EXPECT_GE(rev1, 8u);
}

// Mainline siw, its own peer_to_peer off, is asked for peer-to-peer with RTR by Read, and agrees.
TEST(MpaCaptures, MainlineSiwRepeatsTheAOfARequest) {
    const auto file = golden::golden_dir() / "captures" / "handmade-rping-eth0.pcap";
    const auto connections = golden::read_pcap(file);
    const auto c = golden::split_mpa(connections.at(4));
    ASSERT_TRUE(c);
    EXPECT_EQ(golden::to_hex(c->request_data), "80104010");
    EXPECT_EQ(golden::to_hex(c->reply_data), "80104010");
}

}  // namespace
}  // namespace swrnic::mpatest
