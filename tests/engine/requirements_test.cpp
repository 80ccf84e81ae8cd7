// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Requirements of docs/PROTOCOL.md that no vector speaks of: what a Qp sends, when, and what it holds back.
#include <gtest/gtest.h>

#include "engine/messages.h"
#include "wire/terminate.h"

namespace swrnic::engine::test {

namespace {

StreamParameters responder(bool crc) {
    StreamParameters parameters = plain_stream();
    parameters.initiator = false;
    parameters.crc = crc;
    return parameters;
}

// MPA-25: what a Responder has posted waits for the first FPDU of its peer.
TEST(Requirements, AResponderSendsNothingBeforeTheFirstFpdu) {
    for (const bool crc : {false, true}) {
        Rig rig;
        ASSERT_TRUE(rig.start(responder(crc)));
        ASSERT_EQ(post(rig, 1, WrOpcode::kSend), PostResult::kOk);
        rig.transmit();
        EXPECT_TRUE(rig.script.outbound.empty());
        append_fpdu(rig.script.inbound, tagged(Opcode::kWrite, 1, 0, 0), false, crc);
        rig.script.most = 5;
        EXPECT_EQ(rig.receive(), Rx::Status::kAgain);
        EXPECT_EQ(rig.transmit(), Tx::Status::kIdle);
        EXPECT_EQ(ulpdus_of(rig.script.outbound, false, crc).size(), 1u);
        EXPECT_EQ(rig.poll(rig.send_cq).size(), 1u);
    }
}

// MPA-94 and its opposite: a wrong CRC is answered (MPA-92), but not by a Responder that may not speak yet; nothing of
// the FPDU, nor what follows it, is placed (MPA-77, MPA-90).
TEST(Requirements, AWrongCrcIsAnsweredExceptInTheFirstFpdu) {
    for (const bool first : {false, true}) {
        Rig rig;
        StreamParameters parameters = responder(true);
        parameters.initiator = !first;
        ASSERT_TRUE(rig.start(parameters));
        std::vector<std::byte> target(64);
        const std::uint32_t stag = rig.region(target, kAllRights, 0x1000);
        append_fpdu(rig.script.inbound, tagged(Opcode::kWrite, stag, 0x1000, 32), false, true);
        rig.script.inbound[30] ^= std::byte(1);
        append_fpdu(rig.script.inbound, tagged(Opcode::kWrite, stag, 0x1000, 32), false, true);
        EXPECT_EQ(rig.receive(), Rx::Status::kAgain);
        rig.transmit();
        const auto out = ulpdus_of(rig.script.outbound, false, true);
        ASSERT_EQ(out.size(), first ? 0u : 1u);
        if (!first) {
            EXPECT_EQ(wire::parse_terminate(out[0]).code, wire::fault::kCrc);
        }
        EXPECT_EQ(target, std::vector<std::byte>(64));
        rig.end(CloseReason::kError);
        ASSERT_EQ(rig.outbox.events.size(), 1u) << "told, whatever was sent (RDMAP-74)";
        EXPECT_EQ(rig.outbox.events[0].event, AsyncEvent::kQpFatal);
    }
}

// MPA-59, MPA-73: without CRC the field is not looked at, nor is PAD (MPA-58).
TEST(Requirements, WithoutCrcTheFieldMayHoldAnything) {
    Rig rig;
    ASSERT_TRUE(rig.start(plain_stream()));
    std::vector<std::byte> data(64);
    const Sge sge = sge_of(data, rig.region(data, access::kLocalWrite));
    for (std::uint32_t i = 1; i <= 2; ++i) {
        ASSERT_EQ(rig.qp->post_recv({i, {&sge, 1}}), PostResult::kOk);
        append_fpdu(rig.script.inbound, send_of(i, 1), false, false);
        std::fill_n(rig.script.inbound.rbegin(), wire::kCrcLen + wire::pad_len(19), std::byte(0xee));
    }
    EXPECT_EQ(rig.receive(), Rx::Status::kAgain);
    EXPECT_EQ(rig.poll(rig.recv_cq).size(), 2u);
    EXPECT_FALSE(rig.qp->has_fault());
}

// MPA-57 to MPA-59, MPA-74, SEC-43: Sends of 0 to 5 octets, to the last octet on the wire, padding and CRC field too.
TEST(Requirements, ShortSendsAreOnTheWireAsOnRecord) {
    const auto recorded = golden::vectors("fpdu_stream");
    for (const bool crc : {true, false}) {
        for (std::uint32_t length = 0; length <= 5; ++length) {
            const std::string id = crc ? "FPDU-00" + std::to_string(3 + length)
                                       : (length == 0 ? "FPDU-009" : "FPDU-01" + std::to_string(length - 1));
            if (!crc && length > 3) continue;  // FPDU-013 and on are not as we would send them
            SCOPED_TRACE(id);
            const auto vector = std::find_if(recorded.begin(), recorded.end(), [&](auto& v) { return v.id == id; });
            ASSERT_NE(vector, recorded.end());
            Rig rig;
            StreamParameters parameters = plain_stream();
            parameters.crc = crc;
            ASSERT_TRUE(rig.start(parameters));
            std::vector<std::byte> data;
            for (int i = 0; i < 5; ++i)
                data.push_back(std::byte(0xa0 + i));
            const Sge sge{reinterpret_cast<std::uintptr_t>(data.data()), length, rig.region(data, 0)};
            ASSERT_EQ(post(rig, 1, WrOpcode::kSend, {&sge, 1}), PostResult::kOk);
            rig.transmit();
            EXPECT_EQ(golden::to_hex(rig.script.outbound), golden::to_hex(vector->bytes));
        }
    }
}

// MPA-49, MPA-51, MPA-54: the RTR is the first FPDU, has the form of RFC 6581 9.2, uses its MSN and completes nothing.
TEST(Requirements, TheRtrComesFirstAndIsNobodysRequest) {
    for (const std::uint8_t kind : {rtr::kSend, rtr::kWrite, rtr::kRead}) {
        SCOPED_TRACE(int{kind});
        Rig rig;
        StreamParameters parameters = plain_stream();
        parameters.crc = parameters.p2p = true;
        parameters.rtr = kind;
        parameters.ord = 1;
        ASSERT_TRUE(rig.start(parameters));
        ASSERT_EQ(post(rig, 1, WrOpcode::kSend), PostResult::kOk);
        rig.transmit();
        const auto out = ulpdus_of(rig.script.outbound, false, true);
        ASSERT_EQ(out.size(), 2u);
        if (kind == rtr::kWrite) {
            ASSERT_EQ(out[0].size(), wire::kTaggedHeaderLen);
            EXPECT_EQ(golden::to_hex(std::span(out[0]).first(2)), "c140");
            EXPECT_NE(wire::TaggedHeader::parse(out[0].data()).stag, 0u);
        } else {
            EXPECT_EQ(golden::to_hex(out[0]),
                      kind == rtr::kSend ? "414300000000000000000000000100000000"
                                         : "41410000000000000001000000010000000000000001000000000000000000000000"
                                           "000000010000000000000000");
        }
        EXPECT_EQ(wire::UntaggedHeader::parse(out[1].data()).msn, kind == rtr::kSend ? 2u : 1u);
        if (kind == rtr::kRead) {  // its Response completes nothing, and frees ORD for the ULP's Read, which has MSN 2
            append_fpdu(rig.script.inbound, tagged(Opcode::kReadResponse, 1, 0, 0), false, true);
            EXPECT_EQ(rig.receive(), Rx::Status::kAgain);
            ASSERT_EQ(post(rig, 2, WrOpcode::kRead), PostResult::kOk);
            rig.transmit();
            EXPECT_EQ(wire::UntaggedHeader::parse(ulpdus_of(rig.script.outbound, false, true).at(2).data()).msn, 2u);
        }
        const auto done = rig.poll(rig.send_cq);
        ASSERT_EQ(done.size(), 1u);
        EXPECT_EQ(done[0].wr_id, 1u);
    }
}

// MPA-54, the other side: an RTR by Send takes no receive, the Send behind it (MSN 2) takes the first.
TEST(Requirements, AnRtrBySendTakesNoReceive) {
    Rig rig;
    StreamParameters parameters = responder(false);
    parameters.p2p = true;
    parameters.rtr = rtr::kSend;
    ASSERT_TRUE(rig.start(parameters));
    ASSERT_EQ(rig.qp->post_recv({7, {}}), PostResult::kOk);
    append_fpdu(rig.script.inbound, send_of(1, 0), false, false);
    EXPECT_EQ(rig.receive(), Rx::Status::kAgain);
    EXPECT_TRUE(rig.poll(rig.recv_cq).empty());
    append_fpdu(rig.script.inbound, send_of(2, 0), false, false);
    EXPECT_EQ(rig.receive(), Rx::Status::kAgain);
    const auto done = rig.poll(rig.recv_cq);
    ASSERT_EQ(done.size(), 1u);
    EXPECT_EQ(done[0].wr_id, 7u);
}

// MPA-41, MPA-50, MPA-52: what startup has found unusable is said by a Terminate, which is the first FPDU and the last.
TEST(Requirements, AnUnusableReplyIsAnsweredByATerminateAlone) {
    for (const std::uint8_t code : {5, 6, 7}) {
        Rig rig;
        StreamParameters parameters = plain_stream();
        parameters.crc = parameters.p2p = true;
        parameters.rtr = rtr::kWrite;
        parameters.terminate = code;
        ASSERT_TRUE(rig.start(parameters));
        post(rig, 1, WrOpcode::kSend);
        EXPECT_EQ(rig.transmit(), Tx::Status::kLast);
        const auto out = ulpdus_of(rig.script.outbound, false, true);
        ASSERT_EQ(out.size(), 1u);
        const wire::TerminateCode expected{2, 0, code};
        EXPECT_EQ(wire::parse_terminate(out[0]).code, expected);
    }
}

// MPA-96: where the FIN stands decides.
TEST(Requirements, AFinInsideAnFpduBreaksTheStream) {
    for (const bool crc : {false, true}) {
        Bytes whole;
        append_fpdu(whole, tagged(Opcode::kWrite, 1, 0, 0), false, crc);
        for (std::size_t cut = 0; cut <= whole.size(); ++cut) {
            Rig rig;
            StreamParameters parameters = plain_stream();
            parameters.crc = crc;
            ASSERT_TRUE(rig.start(parameters));
            rig.script.inbound.assign(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(cut));
            rig.script.fin = true;
            const bool boundary = cut == 0 || cut == whole.size();
            EXPECT_EQ(rig.receive(), boundary ? Rx::Status::kEof : Rx::Status::kBroken) << cut;
        }
    }
}

// DDP-12 to DDP-15, MPA-66, MPA-69: a message in segments of the MULPDU in force, which follows the EMSS.
TEST(Requirements, MessagesAreCutAtTheMulpdu) {
    for (const WrOpcode opcode : {WrOpcode::kSend, WrOpcode::kWrite}) {
        const std::size_t header = opcode == WrOpcode::kSend ? wire::kUntaggedHeaderLen : wire::kTaggedHeaderLen;
        for (const std::uint32_t length : {0u, 1u, 1454u, 2048u, 10000u}) {
            for (const std::uint32_t emss : {1460u, 536u}) {
                SCOPED_TRACE(testing::Message() << length << " octets, EMSS " << emss);
                Rig rig;
                ASSERT_TRUE(rig.start(plain_stream()));
                std::vector<std::byte> data(10000);
                const Sge sge{reinterpret_cast<std::uintptr_t>(data.data()), length,
                              rig.region(data, access::kLocalWrite)};
                post(rig, 1, WrOpcode::kSend);
                rig.transmit();
                rig.script.emss = emss;  // from here on
                ASSERT_EQ(post(rig, 2, opcode, {&sge, 1}), PostResult::kOk);
                rig.transmit();
                auto out = ulpdus_of(rig.script.outbound, false, false);
                out.erase(out.begin());
                const std::size_t room = emss - 6 - emss % 4 - header;
                ASSERT_EQ(out.size(), length == 0 ? 1 : (length + room - 1) / room);
                std::uint32_t offset = 0;
                for (std::size_t i = 0; i < out.size(); ++i) {
                    const bool last = i + 1 == out.size();
                    EXPECT_EQ(wire::is_last(std::to_integer<std::uint8_t>(out[i][0])), last);
                    EXPECT_EQ(out[i].size() - header, last ? length - offset : room);
                    if (opcode == WrOpcode::kSend) {
                        EXPECT_EQ(wire::UntaggedHeader::parse(out[i].data()).mo, offset);
                        EXPECT_EQ(wire::UntaggedHeader::parse(out[i].data()).msn, 2u);
                    } else {
                        EXPECT_EQ(wire::TaggedHeader::parse(out[i].data()).to, 0x4000 + offset);
                    }
                    offset += static_cast<std::uint32_t>(out[i].size() - header);
                }
            }
        }
    }
}

// DDP-22, RDMAP-62, VERBS-11: done when TCP has the last octet, not before; arrival is nobody's business.
TEST(Requirements, ASendIsDoneWhenTcpHasItsLastOctet) {
    Rig rig;
    ASSERT_TRUE(rig.start(plain_stream()));
    std::vector<std::byte> data(40);
    const Sge sge = sge_of(data, rig.region(data, access::kLocalWrite));
    ASSERT_EQ(post(rig, 1, WrOpcode::kSend, {&sge, 1}), PostResult::kOk);
    const std::size_t whole = wire::fpdu_size(wire::kUntaggedHeaderLen + data.size());
    for (std::size_t sent = 0; sent < whole; ++sent) {
        EXPECT_TRUE(rig.poll(rig.send_cq).empty()) << sent;
        rig.script.window = 1;
        rig.transmit();
    }
    EXPECT_EQ(rig.script.outbound.size(), whole);
    EXPECT_EQ(rig.poll(rig.send_cq).size(), 1u);
}

// RDMAP-63, RDMAP-65, RDMAP-68: a Send behind a Read completes after it; a Read beyond ORD waits, and so does what is
// behind it.
TEST(Requirements, ReadsWaitForOrdAndCompleteInOrder) {
    Rig rig;
    StreamParameters parameters = plain_stream();
    parameters.ord = 1;
    ASSERT_TRUE(rig.start(parameters));
    std::vector<std::byte> sink(16);
    const Sge sge = sge_of(sink, rig.region(sink, access::kLocalWrite));
    ASSERT_EQ(post(rig, 1, WrOpcode::kRead, {&sge, 1}), PostResult::kOk);
    ASSERT_EQ(post(rig, 2, WrOpcode::kSend), PostResult::kOk);
    ASSERT_EQ(post(rig, 3, WrOpcode::kRead, {&sge, 1}), PostResult::kOk);
    ASSERT_EQ(post(rig, 4, WrOpcode::kSend), PostResult::kOk);
    rig.transmit();
    auto out = ulpdus_of(rig.script.outbound, false, false);
    ASSERT_EQ(out.size(), 2u);
    EXPECT_EQ(opcode_of(out[0]), Opcode::kReadRequest);
    EXPECT_EQ(opcode_of(out[1]), Opcode::kSend);
    EXPECT_TRUE(rig.poll(rig.send_cq).empty());
    append_fpdu(rig.script.inbound, tagged(Opcode::kReadResponse, sink_of(out[0]), 0, 16), false, false);
    EXPECT_EQ(rig.receive(), Rx::Status::kAgain);
    rig.transmit();
    auto done = rig.poll(rig.send_cq);
    ASSERT_EQ(done.size(), 2u);
    EXPECT_EQ(done[0].wr_id, 1u);
    EXPECT_EQ(done[1].wr_id, 2u);
    out = ulpdus_of(rig.script.outbound, false, false);
    ASSERT_EQ(out.size(), 4u);
    append_fpdu(rig.script.inbound, tagged(Opcode::kReadResponse, sink_of(out[2]), 0, 16), false, false);
    EXPECT_EQ(rig.receive(), Rx::Status::kAgain);
    done = rig.poll(rig.send_cq);
    ASSERT_EQ(done.size(), 2u);
    EXPECT_EQ(done[1].wr_id, 4u);
}

TEST(Requirements, AReadWithoutOrdIsRefused) {  // RDMAP-68
    Rig rig;
    StreamParameters parameters = plain_stream();
    parameters.ord = 0;
    ASSERT_TRUE(rig.start(parameters));
    EXPECT_EQ(post(rig, 1, WrOpcode::kRead), PostResult::kInvalid);
}

// RDMAP-12, RDMAP-16, RDMAP-66: Responses in the order of their Requests, to the sink that each named (RDMAP-15).
TEST(Requirements, ResponsesComeInTheOrderOfRequests) {
    Rig rig;
    ASSERT_TRUE(rig.start(plain_stream()));
    std::vector<std::byte> source(3000, std::byte(1));
    const std::uint32_t stag = rig.region(source, access::kRemoteRead, 0x1000);
    const std::uint32_t sizes[] = {3000, 0, 5, 1500};
    for (std::uint32_t i = 0; i < 4; ++i)
        append_fpdu(rig.script.inbound, read_request({i, ~std::uint64_t{0} - i, sizes[i], stag, 0x1000}, i + 1), false,
                    false);
    EXPECT_EQ(rig.receive(), Rx::Status::kAgain);
    rig.transmit();
    std::uint32_t response = 0;
    std::uint64_t offset = 0;
    for (const Bytes& ulpdu : ulpdus_of(rig.script.outbound, false, false)) {
        ASSERT_EQ(opcode_of(ulpdu), Opcode::kReadResponse);
        const auto header = wire::TaggedHeader::parse(ulpdu.data());
        EXPECT_EQ(header.stag, response);
        EXPECT_EQ(header.to, ~std::uint64_t{0} - response + offset);
        offset += ulpdu.size() - wire::kTaggedHeaderLen;
        if (!header.last) continue;
        EXPECT_EQ(offset, sizes[response]);
        offset = 0;
        ++response;
    }
    EXPECT_EQ(response, 4u);
}

// RDMAP-31: a Read whose source goes away half answered: the Terminate shows the rest of the Request.
TEST(Requirements, ATerminateShowsTheRestOfAHalfAnsweredRead) {
    Rig rig;
    ASSERT_TRUE(rig.start(plain_stream()));
    std::vector<std::byte> source(5000);
    const std::uint32_t stag = rig.region(source, access::kRemoteRead, 0x1000);
    append_fpdu(rig.script.inbound, read_request({9, 0x700, 5000, stag, 0x1000}, 1), false, false);
    EXPECT_EQ(rig.receive(), Rx::Status::kAgain);
    rig.script.window = wire::fpdu_size(1454);  // one segment, to the octet
    EXPECT_EQ(rig.transmit(), Tx::Status::kBlocked);
    rig.memory.remove(stag);
    rig.script.window = kNoLimit;
    EXPECT_EQ(rig.transmit(), Tx::Status::kLast);
    const auto out = ulpdus_of(rig.script.outbound, false, false);
    ASSERT_EQ(out.size(), 2u);
    const wire::Terminate terminate = wire::parse_terminate(out[1]);
    ASSERT_EQ(terminate.code, wire::fault::kReadInvalidStag);
    ASSERT_EQ(terminate.rdma_header.size(), wire::kReadRequestLen);
    const wire::ReadRequest rest{9, 0x700 + 1440, 5000 - 1440, stag, 0x1000 + 1440};
    EXPECT_EQ(wire::ReadRequest::parse(terminate.rdma_header.data()), rest);
}

// RDMAP-33, RDMAP-36, VERBS-18, VERBS-19: after a Terminate nothing goes out; the Read that it quotes says why, the
// rest is flushed, in order.
TEST(Requirements, AReceivedTerminateStopsAllAndBlamesTheQuotedRead) {
    Rig rig;
    ASSERT_TRUE(rig.start(plain_stream()));
    ASSERT_EQ(rig.qp->post_recv({100, {}}), PostResult::kOk);
    for (std::uint64_t id = 1; id <= 2; ++id)
        ASSERT_EQ(post(rig, id, WrOpcode::kRead), PostResult::kOk);
    ASSERT_EQ(post(rig, 3, WrOpcode::kSend), PostResult::kOk);
    rig.transmit();
    const std::size_t before = rig.script.outbound.size();
    const Bytes request = ulpdus_of(rig.script.outbound, false, false).at(1);
    std::array<std::byte, wire::kMaxTerminateUlpdu> terminate;
    const std::size_t length = wire::build_terminate(wire::fault::kReadBounds, request, request.size(), terminate);
    ASSERT_EQ(post(rig, 4, WrOpcode::kSend), PostResult::kOk);
    append_fpdu(rig.script.inbound, std::span(terminate).first(length), false, false);
    append_fpdu(rig.script.inbound, send_of(1, 0), false, false);
    rig.receive();
    EXPECT_EQ(rig.transmit(), Tx::Status::kLast);
    EXPECT_EQ(rig.script.outbound.size(), before);
    rig.end(CloseReason::kError);
    const auto done = rig.poll(rig.send_cq);
    ASSERT_EQ(done.size(), 4u);
    for (std::size_t i = 0; i < 4; ++i) {
        EXPECT_EQ(done[i].wr_id, i + 1);
        EXPECT_EQ(done[i].status, i == 1 ? WcStatus::kRemAccessErr : WcStatus::kWrFlushErr);
        EXPECT_EQ(done[i].vendor_err, i == 1 ? wire::fault::kReadBounds.packed() : 0);  // VERBS-16
    }
    const auto received = rig.poll(rig.recv_cq);
    ASSERT_EQ(received.size(), 1u) << "what follows a Terminate is ignored";
    EXPECT_EQ(received[0].status, WcStatus::kWrFlushErr);
}

// A second QP of the same PD, process and passes, on CQs and a stream of its own.
struct Neighbour {
    explicit Neighbour(Rig& home)
        : rig(home), qp({78, Rig::kPd, &send_cq, &recv_cq, 16, 16, 2, 2, 0, false}, home.memory, home.random) {
        qp.set_access(kAllRights);
        qp.apply(QpEvent::kToInit);
        RxGuard rx(qp.rx_lock());
        TxGuard tx(qp.tx_lock());
        std::unique_ptr<Transport> transport = std::make_unique<ScriptTransport>(script);
        EXPECT_TRUE(qp.start(rx, tx, plain_stream(), transport));
    }
    void drive() {
        Pass pass = rig.passes.begin();
        RxGuard rx(qp.rx_lock());
        TxGuard tx(qp.tx_lock());
        while (qp.receive(rx, pass) == Rx::Status::kMoved) {
        }
        while (qp.transmit(tx, pass) == Tx::Status::kMoved) {
        }
    }
    Rig& rig;
    Cq send_cq{64, 2001}, recv_cq{64, 2002};
    Script script;
    Qp qp;
};

// SEC-27: the CQ of one QP overflows; a QP with another CQ does not notice.
TEST(Requirements, AnOverflownCqHurtsNobodyElse) {
    Rig rig({.cq_entries = 1});
    Neighbour other(rig);
    ASSERT_TRUE(rig.start(plain_stream()));
    for (std::uint64_t id = 1; id <= 3; ++id) {
        ASSERT_EQ(post(rig, id, WrOpcode::kSend), PostResult::kOk);
        ASSERT_EQ(other.qp.post_send({id, WrOpcode::kSend, send_flag::kSignaled, {}, 0, 0, 0}), PostResult::kOk);
    }
    EXPECT_EQ(rig.transmit(), Tx::Status::kLast);
    other.drive();
    EXPECT_TRUE(rig.qp->has_fault());
    EXPECT_FALSE(other.qp.has_fault());
    EXPECT_EQ(other.qp.state(), QpState::kRts);
    EXPECT_EQ(rig.poll(other.send_cq).size(), 3u);
    EXPECT_EQ(ulpdus_of(other.script.outbound, false, false).size(), 3u);
}

// SEC-41: in the middle of a Write of the neighbour's peer, another stream fails and ends.
TEST(Requirements, AFaultOfOneStreamIsNoOthers) {
    Rig rig;
    Neighbour other(rig);
    ASSERT_TRUE(rig.start(plain_stream()));
    std::vector<std::byte> target(40000);
    const std::uint32_t stag = rig.region(target, kAllRights, 0x1000);
    Bytes stream;
    append_fpdu(stream, tagged(Opcode::kWrite, stag, 0x1000, target.size()), false, false);
    const auto half = stream.begin() + 20000;
    other.script.inbound.assign(stream.begin(), half);
    other.drive();
    append_fpdu(rig.script.inbound, tagged(Opcode::kWrite, stag, 0xfff, 1), false, false);  // out of bounds
    EXPECT_EQ(rig.receive(), Rx::Status::kAgain);
    EXPECT_EQ(rig.transmit(), Tx::Status::kLast);
    rig.end(CloseReason::kError);
    other.script.inbound.insert(other.script.inbound.end(), half, stream.end());
    other.drive();
    EXPECT_FALSE(other.qp.has_fault());
    EXPECT_EQ(target, std::vector<std::byte>(target.size(), std::byte(0x5a)));
}

}  // namespace

}  // namespace swrnic::engine::test
