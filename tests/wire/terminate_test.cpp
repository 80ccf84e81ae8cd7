// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "wire/terminate.h"

#include <gtest/gtest.h>

#include <array>
#include <cstdio>
#include <map>
#include <set>
#include <string>

#include "golden/vectors.h"

namespace swrnic::wire {
namespace {

using golden::Bytes;
using golden::from_hex;
using golden::to_hex;
using golden::Vector;

std::string built(TerminateCode code, std::span<const std::byte> offending, std::size_t segment_len) {
    std::array<std::byte, kMaxTerminateUlpdu> out;
    out.fill(std::byte(0xee));
    const std::size_t length = build_terminate(code, offending, segment_len, out);
    return to_hex(std::span(out).first(length));
}

std::string triple(TerminateCode code) {
    return std::to_string(code.layer) + "/" + std::to_string(code.type) + "/" + std::to_string(code.code);
}

TerminateCode code_from(const std::string& text) {
    unsigned layer = 99, type = 99, code = 999;
    EXPECT_EQ(std::sscanf(text.c_str(), "%u/%u/%u", &layer, &type, &code), 3) << text;
    return {static_cast<std::uint8_t>(layer), static_cast<std::uint8_t>(type), static_cast<std::uint8_t>(code)};
}

class TerminateVector : public testing::TestWithParam<Vector> {};

TEST_P(TerminateVector, Parsed) {
    const auto& expect = GetParam().expect;
    const Terminate terminate = parse_terminate(GetParam().bytes);
    if (expect.at("outcome") == "close") {
        static const std::map<std::string, TerminateDefect> kReasons{{"short", TerminateDefect::kShort},
                                                                     {"last", TerminateDefect::kNotLast},
                                                                     {"qn", TerminateDefect::kQn},
                                                                     {"msn", TerminateDefect::kMsn},
                                                                     {"mo", TerminateDefect::kMo}};
        EXPECT_EQ(terminate.defect, kReasons.at(expect.at("reason")));
        return;
    }
    ASSERT_EQ(expect.at("outcome"), "terminated");
    ASSERT_TRUE(terminate.ok());
    EXPECT_EQ(terminate.code.layer, expect.at("layer"));
    EXPECT_EQ(terminate.code.type, expect.at("etype"));
    EXPECT_EQ(terminate.code.code, expect.at("code"));
    EXPECT_EQ((terminate.quote & kTerminateLengthValid) != 0, expect.at("M") == 1);
    EXPECT_EQ((terminate.quote & kTerminateDdpHeader) != 0, expect.at("D") == 1);
    EXPECT_EQ((terminate.quote & kTerminateRdmaHeader) != 0, expect.at("R") == 1);
    const auto& length = expect.at("ddp_segment_length");
    EXPECT_EQ(terminate.segment_len, length.is_null() ? 0 : length.get<int>());
    const auto text = [&](const char* key) {
        return expect.at(key).is_null() ? "" : expect.at(key).get<std::string>();
    };
    EXPECT_EQ(to_hex(terminate.ddp_header), text("ddp_header"));
    EXPECT_EQ(to_hex(terminate.rdma_header), text("rdma_header"));
}

TEST_P(TerminateVector, Named) {
    const auto& expect = GetParam().expect;
    if (expect.at("outcome") != "terminated") return;  // refused, has no name
    const std::string name = expect.at("name");
    const Terminate terminate = parse_terminate(GetParam().bytes);
    EXPECT_FALSE(terminate_name(terminate.code).empty());
    // A name with a layer in it is the registry's; the others describe the vector.
    if (name.find('/') != std::string::npos) {
        EXPECT_EQ(terminate_name(terminate.code), name);
    }
}

TEST_P(TerminateVector, AnyTruncationIsSafe) {
    for (std::size_t length = 0; length < GetParam().bytes.size(); ++length) {
        const Bytes prefix(GetParam().bytes.begin(), GetParam().bytes.begin() + static_cast<std::ptrdiff_t>(length));
        const Terminate terminate = parse_terminate(prefix);  // the exact allocation lets a sanitizer see any overrun
        if (length < kUntaggedHeaderLen + kTerminateControlLen) {
            EXPECT_FALSE(terminate.ok()) << length;
        }
    }
}

class OwnTerminate : public testing::TestWithParam<Vector> {};

// What we would send ourselves comes out octet for octet.
TEST_P(OwnTerminate, Rebuilt) {
    const Terminate terminate = parse_terminate(GetParam().bytes);
    Bytes offending(terminate.ddp_header.begin(), terminate.ddp_header.end());
    offending.insert(offending.end(), terminate.rdma_header.begin(), terminate.rdma_header.end());
    EXPECT_EQ(built(terminate.code, offending, terminate.segment_len), to_hex(GetParam().bytes));
}

INSTANTIATE_TEST_SUITE_P(Golden, TerminateVector, testing::ValuesIn(golden::vectors("terminate")),
                         golden::VectorName{});

std::vector<Vector> own_terminates() {
    // Accepted, never sent: zero filled header space, reserved bits, M alone, bit-fields of a little endian sender.
    static const std::set<std::string> kForeign{"TERM-035", "TERM-036", "TERM-037", "TERM-039"};
    std::vector<Vector> found;
    for (auto& vector : golden::vectors("terminate"))
        if (vector.expect.at("outcome") == "terminated" && kForeign.count(vector.id) == 0) found.push_back(vector);
    return found;
}

INSTANTIATE_TEST_SUITE_P(Golden, OwnTerminate, testing::ValuesIn(own_terminates()), golden::VectorName{});

// The Terminate that answers each bad segment of the vectors.
class TerminateAnswer : public testing::TestWithParam<Vector> {};

TEST_P(TerminateAnswer, QuotesTheSegment) {
    const auto& expect = GetParam().expect;
    const TerminateCode code = code_from(expect.at("terminate"));
    EXPECT_EQ(triple(code), expect.at("terminate").get<std::string>());
    const std::string ulpdu = built(code, GetParam().bytes, GetParam().bytes.size());
    EXPECT_EQ(ulpdu, expect.at("terminate_ulpdu").get<std::string>());

    const Bytes octets = from_hex(ulpdu);
    const Terminate back = parse_terminate(octets);
    ASSERT_TRUE(back.ok());
    EXPECT_EQ(back.code, code);
    const std::string mdr{back.quote & kTerminateLengthValid ? '1' : '0', back.quote & kTerminateDdpHeader ? '1' : '0',
                          back.quote & kTerminateRdmaHeader ? '1' : '0'};
    EXPECT_EQ(mdr, expect.at("hdrct").get<std::string>());
}

std::vector<Vector> refused_segments() {
    std::vector<Vector> found;
    for (auto& vector : golden::vectors("ddp_segment"))
        if (vector.expect.contains("terminate")) found.push_back(vector);
    return found;
}

INSTANTIATE_TEST_SUITE_P(Golden, TerminateAnswer, testing::ValuesIn(refused_segments()), golden::VectorName{});

TEST(Terminate, Deconstruct) {
    const Bytes octets =
        from_hex("4147 00000000 00000002 00000001 00000000  11 01 c0 00 001e c14000badbad0000000000010000");
    const Terminate terminate = parse_terminate(octets);
    ASSERT_TRUE(terminate.ok());
    EXPECT_EQ(terminate.code, fault::kTaggedBounds);
    EXPECT_EQ(terminate.quote, kTerminateLengthValid | kTerminateDdpHeader);
    EXPECT_EQ(terminate.segment_len, 30);
    EXPECT_EQ(TaggedHeader::parse(terminate.ddp_header.data()).stag, 0xbadbadu);
    EXPECT_TRUE(terminate.rdma_header.empty());
}

TEST(Terminate, Construct) {
    // docs/spec/mpa.md section 9: Terminate 2/0/2 is not tied to a segment.
    EXPECT_EQ(built(terminate_for(MpaError::kCrc), {}, 0), "41470000000000000002000000010000000020020000");
    // Too little of the offending segment at hand: nothing is quoted rather than something wrong.
    const Bytes stub = from_hex("c14000badbad00");
    EXPECT_EQ(built(fault::kTaggedInvalidStag, stub, stub.size()), "41470000000000000002000000010000000011000000");
}

TEST(Terminate, Truncated) {
    const Bytes octets = from_hex(
        "4147 00000000 00000002 00000001 00000000  01 00 e0 00 002e"
        "4141 00000000 00000001 00000001 00000000"
        "0000ab00 0000000000009000 00000010 00badbad 0000000000000040");
    ASSERT_EQ(octets.size(), kMaxTerminateUlpdu);
    EXPECT_TRUE(parse_terminate(octets).ok());
    for (std::size_t length = 0; length < octets.size(); ++length)
        EXPECT_EQ(parse_terminate(std::span(octets).first(length)).defect, TerminateDefect::kShort) << length;
}

TEST(Terminate, ImpossibleLength) {
    // The segment length field is the peer's claim: read, never used to address anything.
    const Bytes octets =
        from_hex("4147 00000000 00000002 00000001 00000000  11 01 c0 00 ffff c14000badbad0000000000010000");
    const Terminate terminate = parse_terminate(octets);
    ASSERT_TRUE(terminate.ok());
    EXPECT_EQ(terminate.segment_len, 0xffff);
    EXPECT_EQ(terminate.ddp_header.size(), kTaggedHeaderLen);
    // And our own never overflows it.
    EXPECT_NE(built(fault::kTaggedBounds, from_hex("c14000badbad0000000000010000"), 70000).find("c000ffff"),
              std::string::npos);
}

TEST(Terminate, OtherMessagesAreNone) {
    Bytes octets = from_hex("4143 00000000 00000002 00000001 00000000 20020000");
    EXPECT_EQ(parse_terminate(octets).defect, TerminateDefect::kOpcode);
    octets[0] = std::byte(0xc1), octets[1] = std::byte(0x47);
    EXPECT_EQ(parse_terminate(octets).defect, TerminateDefect::kOpcode);
}

TEST(TerminateQuote, FollowsTheTable) {  // RFC 5040 figure 10
    EXPECT_EQ(terminate_quote({0, 0, 0}, true), 0x00);
    EXPECT_EQ(terminate_quote(fault::kReadBounds, true), 0xe0);
    EXPECT_EQ(terminate_quote(fault::kInvalidateForeign, false), 0xc0);
    EXPECT_EQ(terminate_quote(fault::kUnexpectedOpcode, true), 0xc0);
    EXPECT_EQ(terminate_quote(fault::kShortSegment, false), 0x00);
    EXPECT_EQ(terminate_quote(fault::kTaggedWrap, false), 0xc0);
    EXPECT_EQ(terminate_quote(fault::kNoBuffer, true), 0xc0);
    EXPECT_EQ(terminate_quote(fault::kCrc, false), 0x00);
}

TEST(TerminateName, NeverEmpty) {
    for (unsigned layer = 0; layer < 16; ++layer)
        for (unsigned type = 0; type < 16; ++type)
            for (unsigned code = 0; code < 256; ++code)
                ASSERT_FALSE(terminate_name({static_cast<std::uint8_t>(layer), static_cast<std::uint8_t>(type),
                                             static_cast<std::uint8_t>(code)})
                                 .empty());
    EXPECT_EQ(terminate_name({2, 3, 2}), "MPA/MPA CRC Error");
}

}  // namespace
}  // namespace swrnic::wire
