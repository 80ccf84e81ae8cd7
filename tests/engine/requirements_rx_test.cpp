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

struct Framing {
    bool crc, markers;
};
constexpr Framing kFramings[] = {{false, false}, {true, false}, {false, true}, {true, true}};
// Of a ULPDU at a marker position; the markers of a longer FPDU would have to point farther back than 16 bits can say.
constexpr std::size_t kMostWithMarkers = 65526;

StreamParameters framed_by(Framing framing) {
    StreamParameters parameters = plain_stream();
    parameters.crc = framing.crc;
    parameters.markers_rx = framing.markers;
    return parameters;
}

// One ULPDU of this length, whole messages all, comes in by at most so many octets at a time, then a short Send.
void expect_taken(Opcode opcode, std::size_t length, Framing framing, std::size_t most) {
    Rig rig;
    ASSERT_TRUE(rig.start(framed_by(framing)));
    const bool send = opcode == Opcode::kSend, response = opcode == Opcode::kReadResponse;
    const std::size_t payload = length - (send ? wire::kUntaggedHeaderLen : wire::kTaggedHeaderLen);
    Bytes data(payload + 64, std::byte(0xee)), small(4);
    const std::uint32_t stag = rig.region(data, kAllRights, 0x1000);
    const Sge place{0x1000, static_cast<std::uint32_t>(payload), stag};
    const Sge second = sge_of(small, rig.region(small, access::kLocalWrite));
    rig.random.wish(0xabcd);
    if (response) {
        ASSERT_EQ(post(rig, 1, WrOpcode::kRead, {&place, 1}), PostResult::kOk);
        rig.transmit();
    }
    if (send) {
        ASSERT_EQ(rig.qp->post_recv({2, {&place, 1}}), PostResult::kOk);
    }
    ASSERT_EQ(rig.qp->post_recv({3, {&second, 1}}), PostResult::kOk);
    Bytes ulpdu = send       ? send_of(1, payload)
                  : response ? tagged(opcode, 0xabcd, 0, payload)
                             : tagged(opcode, stag, 0x1000, payload);
    for (std::size_t i = 0; i < payload; ++i)
        ulpdu[length - payload + i] = std::byte(i * 131 >> 3);
    append_fpdu(rig.script.inbound, ulpdu, framing.markers, framing.crc);
    append_fpdu(rig.script.inbound, send_of(send ? 2 : 1, 4), framing.markers, framing.crc);
    rig.script.most = most;
    EXPECT_EQ(rig.receive(), Rx::Status::kAgain);
    EXPECT_TRUE(std::equal(data.begin(), data.end() - 64, ulpdu.end() - static_cast<std::ptrdiff_t>(payload)));
    EXPECT_EQ(Bytes(data.end() - 64, data.end()), Bytes(64, std::byte(0xee)));
    EXPECT_EQ(rig.poll(rig.send_cq).size(), response ? 1u : 0u);
    const auto received = rig.poll(rig.recv_cq);
    ASSERT_EQ(received.size(), send ? 2u : 1u);
    EXPECT_EQ(received[0].byte_len, send ? payload : 4);
    EXPECT_EQ(received.back().wr_id, 3u);
}

// MPA-61: whatever the length field can say is taken, beyond what the RFC lets a sender say too.
TEST(Requirements, EveryUlpduLengthIsTaken) {
    for (const Framing framing : kFramings) {
        const std::size_t most_of_all = framing.markers ? kMostWithMarkers : 65535;
        for (const std::size_t length : {std::size_t{64768}, std::size_t{64769}, std::size_t{65474}, most_of_all}) {
            for (const Opcode opcode : {Opcode::kWrite, Opcode::kReadResponse, Opcode::kSend}) {
                for (const std::size_t most : {std::size_t{1}, std::size_t{7}, std::size_t{1460}, kNoLimit}) {
                    SCOPED_TRACE(std::to_string(length) + " octets, opcode " + std::to_string(unsigned(opcode)) +
                                 (framing.crc ? ", CRC" : "") + (framing.markers ? ", markers" : ""));
                    ASSERT_NO_FATAL_FAILURE(expect_taken(opcode, length, framing, most));
                }
            }
        }
    }
}

// MPA-86: of a longer FPDU no marker can be right.
TEST(Requirements, MarkersPointNoFartherThan16Bits) {
    for (const bool crc : {false, true}) {
        for (const std::size_t length : {kMostWithMarkers + 1, std::size_t{65535}}) {
            Rig rig;
            ASSERT_TRUE(rig.start(framed_by({crc, true})));
            Bytes data(length);
            const std::uint32_t stag = rig.region(data, kAllRights, 0x1000);
            append_fpdu(rig.script.inbound, tagged(Opcode::kWrite, stag, 0x1000, length - wire::kTaggedHeaderLen), true,
                        crc);
            EXPECT_EQ(rig.receive(), Rx::Status::kAgain);
            EXPECT_EQ(rig.transmit(), Tx::Status::kLast);
            const auto out = ulpdus_of(rig.script.outbound, false, crc);
            ASSERT_EQ(out.size(), 1u);
            EXPECT_EQ(wire::parse_terminate(out[0]).code, wire::fault::kMarker);
            EXPECT_EQ(data, Bytes(length));
        }
    }
}

}  // namespace

}  // namespace swrnic::engine::test
