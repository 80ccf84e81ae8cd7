// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// The framing against a real peer: every stream of the siw captures, octet for octet. What is expected of each file is
// what golden/captures/README.md says about it.
#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "golden/pcap.h"
#include "reframe.h"
#include "wire/fpdu.h"
#include "wire/terminate.h"

namespace swrnic::wire {
namespace {

using golden::Bytes;
using golden::Connection;
using golden::MpaConnection;
using golden::to_hex;

using Octets = std::span<const std::byte>;

struct Digest {
    std::vector<Bytes> ulpdus;
    MpaError at_fin = MpaError::kNone;
    bool operator==(const Digest&) const = default;
};

// Feeds `stream` in pieces of the given ends (rising, the last one its size).
Digest digest(Octets stream, bool crc, bool markers, const std::vector<std::size_t>& ends) {
    const auto deframer = std::make_unique<FpduStream>(crc, markers);
    Digest result;
    std::size_t at = 0;
    for (const std::size_t end : ends) {
        Octets piece = stream.subspan(at, end - at);
        at = end;
        while (deframer->feed(piece) == FpduStream::Event::kUlpdu)
            result.ulpdus.emplace_back(deframer->ulpdu().begin(), deframer->ulpdu().end());
    }
    EXPECT_EQ(at, stream.size());
    result.at_fin = deframer->finish();
    return result;
}

std::vector<std::size_t> every_octet(std::size_t size) {
    std::vector<std::size_t> ends(size);
    for (std::size_t i = 0; i < size; ++i)
        ends[i] = i + 1;
    return ends;
}

// The TCP segment ends of a direction, counted from the first octet of Full Operation on.
std::vector<std::size_t> segment_ends(const golden::Direction& direction, Octets full_operation) {
    const std::size_t startup = direction.bytes.size() - full_operation.size();
    std::vector<std::size_t> ends;
    for (const std::size_t cut : direction.cuts)
        if (cut > startup) ends.push_back(cut - startup);
    return ends;
}

void check_headers(Octets ulpdu) {
    const auto view = SegmentView::check(ulpdu);
    ASSERT_TRUE(view);
    EXPECT_EQ(view->version(), kDdpVersion);
    EXPECT_TRUE(rdmap_version_ok(view->rdmap_control()));
    const OpcodeTraits& traits = traits_of(view->rdmap_control());
    EXPECT_EQ(traits.tagged, view->tagged());
    Bytes again(view->header_len());
    if (view->tagged()) {
        view->tagged_header().emit(again.data());
    } else {
        EXPECT_EQ(view->untagged_header().qn, traits.qn);
        view->untagged_header().emit(again.data());
    }
    EXPECT_EQ(to_hex(again), to_hex(view->header()));
    if (opcode_of(view->rdmap_control()) == Opcode::kReadRequest) {
        ASSERT_EQ(view->payload().size(), kReadRequestLen);
        Bytes request(kReadRequestLen);
        ReadRequest::parse(view->payload().data()).emit(request.data());
        EXPECT_EQ(to_hex(request), to_hex(view->payload()));
    }
}

// siw does not clear the PAD of a Send whose payload it took inline; RFC 5044 4.1 has the receiver ignore it.
bool is_small_send(Octets ulpdu) {
    return opcode_of(std::to_integer<std::uint8_t>(ulpdu[1])) == Opcode::kSend && ulpdu.size() < 40;
}

void check_stream(const golden::Direction& direction, Octets stream, bool crc, bool markers) {
    const Digest whole = digest(stream, crc, markers, {stream.size()});
    EXPECT_EQ(whole.at_fin, MpaError::kNone);
    EXPECT_TRUE(whole == digest(stream, crc, markers, segment_ends(direction, stream)));
    EXPECT_TRUE(whole == digest(stream, crc, markers, every_octet(stream.size())));

    std::uint64_t position = 0;
    for (const Bytes& ulpdu : whole.ulpdus) {
        check_headers(ulpdu);
        Bytes raw = reframed(ulpdu, position, markers, crc);
        ASSERT_LE(position + raw.size(), stream.size());
        const Octets seen = stream.subspan(position, raw.size());
        if (is_small_send(ulpdu)) {
            std::copy_n(seen.end() - kCrcLen - pad_len(ulpdu.size()), pad_len(ulpdu.size()),
                        raw.end() - kCrcLen - pad_len(ulpdu.size()));
            seal_fpdu(raw, crc);
        }
        EXPECT_EQ(to_hex(raw), to_hex(seen)) << "at " << position;
        position += raw.size();
    }
    EXPECT_EQ(position, stream.size());
}

class Capture : public testing::TestWithParam<std::filesystem::path> {};

TEST_P(Capture, EveryStreamIsDigested) {
    const auto connections = golden::read_pcap(GetParam());
    ASSERT_FALSE(connections.empty());
    for (const Connection& connection : connections) {
        SCOPED_TRACE("client port " + std::to_string(connection.client.port));
        EXPECT_TRUE(connection.to_server.complete && connection.to_client.complete);
        if (!connection.established) continue;  // connect-no-listener
        const auto mpa = golden::split_mpa(connection);
        ASSERT_TRUE(mpa);
        if (mpa->rejected) {
            EXPECT_TRUE(mpa->to_server.empty() && mpa->to_client.empty());
            continue;
        }
        check_stream(connection.to_server, mpa->to_server, mpa->crc, mpa->markers_to_server);
        check_stream(connection.to_client, mpa->to_client, mpa->crc, mpa->markers_to_client);
    }
}

// With CRC in use a flipped bit anywhere is seen; nothing behind it comes out.
TEST_P(Capture, DamageIsSeenWhereCrcIsInUse) {
    for (const Connection& connection : golden::read_pcap(GetParam())) {
        const auto mpa = golden::split_mpa(connection);
        if (!mpa || !mpa->crc || mpa->to_client.empty()) continue;
        const Digest good = digest(mpa->to_client, true, false, {mpa->to_client.size()});
        for (std::size_t at = 7; at < mpa->to_client.size(); at += mpa->to_client.size() / 7) {
            Bytes damaged(mpa->to_client.begin(), mpa->to_client.end());
            damaged[at] ^= std::byte(0x20);
            const Digest bad = digest(damaged, true, false, {damaged.size()});
            EXPECT_NE(bad.at_fin, MpaError::kNone) << at;
            ASSERT_LT(bad.ulpdus.size(), good.ulpdus.size());
            EXPECT_TRUE(std::equal(bad.ulpdus.begin(), bad.ulpdus.end(), good.ulpdus.begin())) << at;
        }
    }
}

INSTANTIATE_TEST_SUITE_P(Golden, Capture, testing::ValuesIn(golden::captures()),
                         [](const auto& row) { return golden::test_name(row.param.stem().string()); });

using Counts = std::map<Opcode, unsigned>;

Counts counts_of(Octets stream, bool crc) {
    Counts counts;
    for (const Bytes& ulpdu : digest(stream, crc, false, {stream.size()}).ulpdus)
        ++counts[opcode_of(std::to_integer<std::uint8_t>(ulpdu[1]))];
    return counts;
}

constexpr auto kWr = Opcode::kWrite, kReq = Opcode::kReadRequest, kResp = Opcode::kReadResponse, kSnd = Opcode::kSend;

struct Traffic {
    std::string file;
    bool crc;
    std::uint8_t revision;
    Counts client, server;  // of the data connection, the last one of the file
};

class CaptureTraffic : public testing::TestWithParam<Traffic> {};

TEST_P(CaptureTraffic, HasTheSegmentsOfTheReadme) {
    const auto connections = golden::read_pcap(golden::golden_dir() / "captures" / (GetParam().file + ".pcap"));
    const auto mpa = golden::split_mpa(connections.back());
    ASSERT_TRUE(mpa);
    EXPECT_EQ(mpa->crc, GetParam().crc);
    EXPECT_EQ(mpa->request_revision, GetParam().revision);
    EXPECT_EQ(mpa->reply_revision, GetParam().revision);
    EXPECT_EQ(counts_of(mpa->to_server, mpa->crc), GetParam().client);
    EXPECT_EQ(counts_of(mpa->to_client, mpa->crc), GetParam().server);
}

const Counts kRping3Client{{kSnd, 6}, {kResp, 3}}, kRping3Server{{kReq, 3}, {kWr, 3}, {kSnd, 6}};
const Counts kNothing{}, kFive{{kReq, 5}}, kCredits{{kWr, 2}};

const std::vector<Traffic> kTraffic{
    {"rping-5", false, 2, {{kSnd, 10}, {kResp, 5}}, {{kReq, 5}, {kWr, 5}, {kSnd, 10}}},
    {"rping-65000-2", false, 2, {{kSnd, 4}, {kResp, 92}}, {{kReq, 2}, {kWr, 92}, {kSnd, 4}}},
    {"rping-65000-2-bigmtu", false, 2, {{kSnd, 4}, {kResp, 4}}, {{kReq, 2}, {kWr, 4}, {kSnd, 4}}},
    {"rping-3-crc", true, 2, kRping3Client, kRping3Server},
    {"rping-3-crcs", true, 2, kRping3Client, kRping3Server},
    {"rping-3-p2p", false, 2, {{kSnd, 6}, {kResp, 3}, {kWr, 1}}, kRping3Server},
    {"rping-3-gso", false, 2, kRping3Client, kRping3Server},
    {"rping-3-mpa1", false, 1, {{kSnd, 1}}, kNothing},
    {"ib_write_bw-64", false, 2, {{kWr, 5}}, kNothing},
    {"ib_write_bw-40000", false, 2, {{kWr, 145}}, kNothing},
    {"ib_write_bw-40000-gso", false, 2, {{kWr, 7}}, kNothing},
    {"ib_write_bw-8192-crc", true, 2, {{kWr, 30}}, kNothing},
    {"ib_write_bw-8192-crcs", true, 2, {{kWr, 30}}, kNothing},
    {"ib_write_bw-8192-p2p", false, 2, {{kWr, 31}}, kNothing},
    {"ib_write_bw-8192-mpa1", false, 1, {{kWr, 30}}, kNothing},
    {"ib_write_bw-8192-gso", false, 2, {{kWr, 5}}, kNothing},
    {"ib_read_bw-64", false, 2, kFive, {{kResp, 5}}},
    {"ib_read_bw-8192", false, 2, kFive, {{kResp, 30}}},
    {"ib_read_bw-8192-crc", true, 2, kFive, {{kResp, 30}}},
    {"ib_read_bw-8192-crcs", true, 2, kFive, {{kResp, 30}}},
    {"ib_read_bw-8192-p2p", false, 2, {{kReq, 5}, {kWr, 1}}, {{kResp, 30}}},
    {"ib_read_bw-8192-mpa1", false, 1, kFive, {{kResp, 30}}},
    {"ib_read_bw-8192-gso", false, 2, kFive, {{kResp, 5}}},
    {"ib_send_bw-64", false, 2, {{kSnd, 5}}, kCredits},
    {"ib_send_bw-8192", false, 2, {{kSnd, 30}}, kCredits},
    {"ib_send_bw-8192-bigmtu", false, 2, {{kSnd, 5}}, kCredits},
    {"ib_send_bw-8191-crc", true, 2, {{kSnd, 30}}, kCredits},
};

INSTANTIATE_TEST_SUITE_P(Golden, CaptureTraffic, testing::ValuesIn(kTraffic),
                         [](const auto& row) { return golden::test_name(row.param.file); });

TEST(HandmadePeer, ElevenStreams) {
    const auto connections = golden::read_pcap(golden::golden_dir() / "captures" / "handmade-rping-eth0.pcap");
    ASSERT_EQ(connections.size(), 11u);
    for (const std::size_t stream : {6, 7, 9}) {
        const auto mpa = golden::split_mpa(connections[stream]);
        ASSERT_TRUE(mpa);
        EXPECT_EQ(counts_of(mpa->to_server, mpa->crc), kRping3Client);
        EXPECT_EQ(counts_of(mpa->to_client, mpa->crc), kRping3Server);
    }
    EXPECT_TRUE(golden::split_mpa(connections[2])->rejected);
    EXPECT_FALSE(golden::split_mpa(connections[6])->crc);
    EXPECT_TRUE(golden::split_mpa(connections[7])->crc);
    EXPECT_TRUE(golden::split_mpa(connections[10])->crc);  // asked for in the Reply only
}

// siw lays its control word out by bit-fields: type and layer change places, M, D, R are the low bits and so read as
// reserved.
struct SiwTerminate {
    std::string file;
    std::string control;  // as sent; empty: none
    TerminateCode reads_as;
};

class CaptureTerminate : public testing::TestWithParam<SiwTerminate> {};

TEST_P(CaptureTerminate, ReadsAsTheRfcHasIt) {
    const auto connections = golden::read_pcap(golden::golden_dir() / "captures" / (GetParam().file + ".pcap"));
    const auto mpa = golden::split_mpa(connections.back());
    ASSERT_TRUE(mpa);
    const Digest server = digest(mpa->to_client, mpa->crc, false, {mpa->to_client.size()});
    if (GetParam().control.empty()) {
        for (const Bytes& ulpdu : server.ulpdus)
            EXPECT_NE(opcode_of(std::to_integer<std::uint8_t>(ulpdu[1])), Opcode::kTerminate);
        return;
    }
    ASSERT_FALSE(server.ulpdus.empty());
    const Bytes& last = server.ulpdus.back();
    const Terminate terminate = parse_terminate(last);
    ASSERT_TRUE(terminate.ok());
    EXPECT_EQ(terminate.code, GetParam().reads_as);
    EXPECT_EQ(terminate.quote, 0);
    EXPECT_EQ(to_hex(Octets(last).subspan(kUntaggedHeaderLen, kTerminateControlLen)), GetParam().control);
}

const std::vector<SiwTerminate> kTerminates{
    {"term-ok", "", {}},
    {"term-wkey", "11000300", {1, 1, 0}},
    {"term-wkey-crc", "11000300", {1, 1, 0}},
    {"term-wbound", "11010300", {1, 1, 1}},
    {"term-wperm", "11000300", {1, 1, 0}},
    {"term-rkey", "10000700", {1, 0, 0}},
    {"term-rbound", "10010700", {1, 0, 1}},
    {"term-rperm", "", {}},
    {"term-long", "21020300", {2, 1, 2}},
    {"term-norecv", "21020300", {2, 1, 2}},
    {"term-inv", "10000700", {1, 0, 0}},
};

INSTANTIATE_TEST_SUITE_P(Golden, CaptureTerminate, testing::ValuesIn(kTerminates),
                         [](const auto& row) { return golden::test_name(row.param.file); });

}  // namespace
}  // namespace swrnic::wire
