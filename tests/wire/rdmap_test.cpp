// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "wire/rdmap.h"

#include <gtest/gtest.h>

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

TEST(OpcodeTraits, MatchTheTable) {  // RFC 5040 figure 4
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
    };
    for (const Row& row : kRows) {
        const OpcodeTraits& traits = traits_of(rdmap_control(row.opcode));
        SCOPED_TRACE(opcode_name(rdmap_control(row.opcode)));
        EXPECT_TRUE(traits.supported);
        EXPECT_EQ(traits.tagged, row.tagged);
        EXPECT_EQ(traits.qn, row.qn);
        EXPECT_EQ(traits.extra_len, row.extra);
        EXPECT_EQ(traits.single_segment, row.single);
        EXPECT_EQ(traits.invalidates, row.invalidates);
        EXPECT_EQ(traits.solicited, row.solicited);
    }
    for (std::uint8_t opcode = 8; opcode < 16; ++opcode)
        EXPECT_FALSE(traits_of(kRdmapVersion | opcode).supported);
}

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
