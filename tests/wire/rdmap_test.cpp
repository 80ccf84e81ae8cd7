// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "wire/rdmap.h"

#include <gtest/gtest.h>

#include <cstring>
#include <set>
#include <string>

#include "golden/vectors.h"

namespace swrnic::wire {
namespace {

using golden::Bytes;
using golden::to_hex;

const Bytes kRequestOctets = golden::from_hex("0000ab00 0000000000009000 00000010 00badbad 8000000000000040");
constexpr ReadRequest kRequest{0xab00, 0x9000, 16, 0xbadbad, 0x8000000000000040};

TEST(ReadRequest, Deconstruct) {
    EXPECT_EQ(ReadRequest::parse(kRequestOctets.data()), kRequest);
}

TEST(ReadRequest, Construct) {
    Bytes out(kReadRequestLen, std::byte(0xee));
    kRequest.emit(out.data());
    EXPECT_EQ(to_hex(out), to_hex(kRequestOctets));
}

TEST(ReadRequest, WholeSegment) {
    Bytes out(kReadRequestSegmentLen, std::byte(0xee));
    emit_read_request_segment(kRequest, 7, out.data());
    EXPECT_EQ(to_hex(out), "414100000000000000010000000700000000" + to_hex(kRequestOctets));
}

TEST(Control, VersionAndOpcode) {  // RFC 5040 4.1
    EXPECT_EQ(rdmap_control(Opcode::kWrite), 0x40);
    EXPECT_EQ(rdmap_control(Opcode::kTerminate), 0x47);
    EXPECT_TRUE(rdmap_version_ok(0x7f));  // reserved bits are ignored
    EXPECT_EQ(opcode_of(0x73), Opcode::kSend);
    for (const std::uint8_t control : {0x03, 0x83, 0xc3})
        EXPECT_FALSE(rdmap_version_ok(control));
}

TEST(OpcodeTraits, MatchTheTable) {  // RFC 5040 figure 4, RFC 7306 figure 2
    struct Row {
        Opcode opcode;
        bool tagged;
        unsigned qn, extra;
        bool single, invalidates, solicited;
    };
    constexpr Row kRows[] = {
        {Opcode::kWrite, true, 0, 0, false, false, false},
        {Opcode::kReadRequest, false, 1, 28, true, false, false},
        {Opcode::kReadResponse, true, 0, 0, false, false, false},
        {Opcode::kSend, false, 0, 0, false, false, false},
        {Opcode::kSendInvalidate, false, 0, 0, false, true, false},
        {Opcode::kSendSolicited, false, 0, 0, false, false, true},
        {Opcode::kSendSolicitedInvalidate, false, 0, 0, false, true, true},
        {Opcode::kTerminate, false, 2, 4, true, false, false},
        {Opcode::kImmediate, false, 0, 8, true, false, false},
        {Opcode::kImmediateSolicited, false, 0, 8, true, false, true},
        {Opcode::kAtomicRequest, false, 1, 52, true, false, false},
        {Opcode::kAtomicResponse, false, 3, 12, true, false, false},
    };
    for (const Row& row : kRows) {
        const OpcodeTraits& traits = traits_of(rdmap_control(row.opcode));
        SCOPED_TRACE(opcode_name(rdmap_control(row.opcode)));
        EXPECT_TRUE(traits.assigned);
        EXPECT_EQ(traits.tagged, row.tagged);
        EXPECT_EQ(traits.qn, row.qn);
        EXPECT_EQ(traits.extra_len, row.extra);
        EXPECT_EQ(traits.single_segment, row.single);
        EXPECT_EQ(traits.invalidates, row.invalidates);
        EXPECT_EQ(traits.solicited, row.solicited);
    }
    for (std::uint8_t opcode = 12; opcode < 16; ++opcode)
        EXPECT_FALSE(traits_of(kRdmapVersion | opcode).assigned);
}

// ---- RFC 7306

const Bytes kImmediateOctets = golden::from_hex("cafebabe 00000001");

TEST(Immediate, KeepsTheOctetsOfTheProgram) {
    const Immediate immediate = Immediate::parse(kImmediateOctets.data());
    EXPECT_EQ(std::memcmp(&immediate.data, kImmediateOctets.data(), 4), 0);
    EXPECT_EQ(immediate.use, Immediate::kOfNextSend);
    Bytes out(kImmediateLen, std::byte(0xee));
    immediate.emit(out.data());
    EXPECT_EQ(to_hex(out), to_hex(kImmediateOctets));
}

const Bytes kAtomicOctets = golden::from_hex(
    "00000002 00000078 00012a07 0000000000070010 0000000000001111 00000000000000ff 0000000000002222 ffffffffffffff00");
constexpr AtomicRequest kAtomic{AtomicOpcode::kCmpSwap, 0x78, 0x12a07, 0x70010, 0x1111, 0xff, 0x2222, ~0xffull};

TEST(AtomicRequest, DeconstructAndConstruct) {
    EXPECT_EQ(AtomicRequest::parse(kAtomicOctets.data()), kAtomic);
    Bytes out(kAtomicRequestSegmentLen, std::byte(0xee));
    emit_atomic_request_segment(kAtomic, 7, out.data());
    EXPECT_EQ(to_hex(out), "414a00000000000000010000000700000000" + to_hex(kAtomicOctets));
}

TEST(AtomicRequest, ReservedBitsAreIgnored) {
    Bytes octets = kAtomicOctets;
    octets[0] = octets[1] = octets[2] = std::byte(0xff);
    octets[3] = std::byte(0xf2);
    EXPECT_EQ(AtomicRequest::parse(octets.data()), kAtomic);
}

TEST(AtomicResponse, DeconstructAndConstruct) {
    const Bytes octets = golden::from_hex("00000077 0000000000000029");
    constexpr AtomicResponse kResponse{0x77, 0x29};
    EXPECT_EQ(AtomicResponse::parse(octets.data()), kResponse);
    Bytes out(kAtomicResponseLen, std::byte(0xee));
    kResponse.emit(out.data());
    EXPECT_EQ(to_hex(out), to_hex(octets));
}

class AtomicCalc : public testing::TestWithParam<golden::Vector> {};

TEST_P(AtomicCalc, Result) {  // RFC 7306 5.1
    const nlohmann::json& context = GetParam().context;
    const auto value = [](const nlohmann::json& from, const char* name) {
        return from.contains(name) ? std::stoull(from.at(name).get<std::string>(), nullptr, 0) : 0;
    };
    const bool swaps = context.at("op") == "cmpswap";
    const AtomicRequest request{swaps ? AtomicOpcode::kCmpSwap : AtomicOpcode::kFetchAdd,
                                0,
                                0,
                                0,
                                value(context, "data"),
                                value(context, "mask"),
                                value(context, "compare"),
                                swaps ? value(context, "compare_mask") : ~0ull};
    EXPECT_EQ(request.result(value(context, "original")), value(GetParam().expect, "result"));
}

INSTANTIATE_TEST_SUITE_P(Vectors, AtomicCalc, testing::ValuesIn(golden::vectors("atomic_calc")), golden::VectorName{});

TEST(OpcodeName, IsThereForAllSixteen) {
    std::set<std::string_view> names;
    for (std::uint8_t opcode = 0; opcode < 16; ++opcode)
        names.insert(opcode_name(kRdmapVersion | opcode));
    EXPECT_EQ(names.size(), 16u);
    EXPECT_EQ(names.count(""), 0u);
    EXPECT_EQ(opcode_name(0x41), "RDMA Read Request");
}

}  // namespace
}  // namespace swrnic::wire
