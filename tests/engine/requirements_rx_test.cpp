// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Requirements of docs/PROTOCOL.md that no vector speaks of: what a Qp makes of what comes in.
#include <gtest/gtest.h>

#include "engine/messages.h"
#include "wire/terminate.h"

namespace swrnic::engine::test {

namespace {

// DDP-31: of two faults in one segment the earlier check speaks; DDP-17: an empty Send is checked like any other.
TEST(Requirements, TheFirstCheckSpeaks) {
    const std::string unknown_stag = "00badbad0000000000001000";
    const struct {
        std::string segment;
        wire::TerminateCode code;
    } rows[] = {
        {"", wire::fault::kShortSegment},                         // MPA-62
        {"c2", wire::fault::kShortSegment},                       // not two octets; and DV
        {"c24000", wire::fault::kTaggedDdpVersion},               // DV; and no whole header
        {"4283", wire::fault::kUntaggedDdpVersion},               // the same, untagged
        {"c18000", wire::fault::kShortSegment},                   // no whole header; and RV
        {"c18c" + unknown_stag, wire::fault::kRdmapVersion},      // RV; and opcode
        {"c14c" + unknown_stag, wire::fault::kUnexpectedOpcode},  // opcode; and STag
        {"c143" + unknown_stag, wire::fault::kUnexpectedOpcode},  // T; and STag
        {"c140" + unknown_stag + "5a", wire::fault::kTaggedInvalidStag},
        {"414300000000000000040000000900000009", wire::fault::kInvalidQn},         // QN; and MSN, MO
        {"414300000000000000010000000900000009", wire::fault::kUnexpectedOpcode},  // QN of another; and MSN
        {"414300000000000000000000000900000009", wire::fault::kInvalidMsn},        // MSN; and MO
        {"414300000000000000000000000100000009", wire::fault::kInvalidMo},         // MO, of an empty Send
        {"4143000000000000000000000001000000095a", wire::fault::kInvalidMo},       // MO; and length
    };
    for (const auto& row : rows) {
        SCOPED_TRACE(row.segment);
        Rig rig;
        ASSERT_TRUE(rig.start(plain_stream()));
        ASSERT_EQ(rig.qp->post_recv({1, {}}), PostResult::kOk);
        append_fpdu(rig.script.inbound, golden::from_hex(row.segment), false, false);
        EXPECT_EQ(rig.receive(), Rx::Status::kAgain);
        EXPECT_EQ(rig.transmit(), Tx::Status::kLast);
        const auto out = ulpdus_of(rig.script.outbound, false, false);
        ASSERT_EQ(out.size(), 1u);
        EXPECT_EQ(wire::parse_terminate(out[0]).code, row.code);
    }
}

// RDMAP-34: a Terminate that is none is the end all the same, and is not answered.
TEST(Requirements, AMalformedTerminateIsNotAnswered) {
    const std::string good = "414700000000000000020000000100000000";
    for (const std::string& ulpdu :
         {std::string("414700000000000000020000000200000000") + "11010000",  // MSN 2
          std::string("414700000000000000020000000100000004") + "11010000",  // MO 4
          std::string("014700000000000000020000000100000000") + "11010000",  // not the last segment
          good + "1101", good + "1101c000001e"}) {                           // missing octets
        SCOPED_TRACE(ulpdu);
        Rig rig;
        ASSERT_TRUE(rig.start(plain_stream()));
        append_fpdu(rig.script.inbound, golden::from_hex(ulpdu), false, false);
        EXPECT_EQ(rig.receive(), Rx::Status::kAgain);
        EXPECT_EQ(rig.transmit(), Tx::Status::kLast);
        EXPECT_TRUE(rig.script.outbound.empty());
        rig.end(CloseReason::kError);
        ASSERT_EQ(rig.outbox.events.size(), 1u);
        EXPECT_EQ(rig.outbox.events[0].event, AsyncEvent::kQpFatal);
    }
}

// RDMAP-60: a Read Request sees the Write in front of it, also when both came at once.
TEST(Requirements, AReadSeesTheWriteBeforeIt) {
    Rig rig;
    ASSERT_TRUE(rig.start(plain_stream()));
    std::vector<std::byte> data(64);
    const std::uint32_t stag = rig.region(data, kAllRights, 0x1000);
    append_fpdu(rig.script.inbound, read_request({9, 0, 64, stag, 0x1000}, 1), false, false);
    append_fpdu(rig.script.inbound, tagged(Opcode::kWrite, stag, 0x1000, 64), false, false);
    append_fpdu(rig.script.inbound, read_request({9, 0, 64, stag, 0x1000}, 2), false, false);
    EXPECT_EQ(rig.receive(), Rx::Status::kAgain);
    rig.transmit();
    const auto out = ulpdus_of(rig.script.outbound, false, false);
    ASSERT_EQ(out.size(), 2u);
    EXPECT_TRUE(std::equal(data.begin(), data.end(), out[1].begin() + wire::kTaggedHeaderLen));
    EXPECT_EQ(data[0], std::byte(0x5a));
}

// VERBS-33: the sink of a Read needs LOCAL_WRITE alone, and a Write of the peer to its STag gains nothing by it.
TEST(Requirements, TheSinkOfAReadIsNoTargetForWrites) {
    for (const bool ephemeral : {true, false}) {
        Rig rig;
        ASSERT_TRUE(rig.start(plain_stream()));
        std::vector<std::byte> sink(16);
        const Sge sge = sge_of(sink, rig.region(sink, access::kLocalWrite));
        ASSERT_EQ(post(rig, 1, WrOpcode::kRead, {&sge, 1}), PostResult::kOk);
        rig.transmit();
        const std::uint32_t stag = ephemeral ? sink_of(ulpdus_of(rig.script.outbound, false, false).at(0)) : sge.lkey;
        append_fpdu(rig.script.inbound, tagged(Opcode::kWrite, stag, ephemeral ? 0 : sge.addr, 16), false, false);
        rig.receive();
        EXPECT_EQ(rig.transmit(), Tx::Status::kLast);
        EXPECT_EQ(wire::parse_terminate(ulpdus_of(rig.script.outbound, false, false).back()).code,
                  wire::fault::kTaggedInvalidStag);
        EXPECT_EQ(sink, std::vector<std::byte>(16));
    }
}

}  // namespace

}  // namespace swrnic::engine::test
