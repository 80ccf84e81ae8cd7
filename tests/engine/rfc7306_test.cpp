// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Immediate Data and atomics (RFC 7306): what a Qp sends and takes, and two of them joined in every cut.
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <optional>

#include "engine/core/atomics.h"
#include "engine/core/copy.h"
#include "engine/fault_recovery.h"
#include "engine/messages.h"
#include "page_that_goes.h"
#include "wire/terminate.h"

namespace swrnic::engine::test {

namespace {

constexpr std::uint32_t kImm = 0xbebafeca;

StreamParameters agreed() {
    StreamParameters parameters = plain_stream();
    parameters.rfc7306 = true;
    return parameters;
}

SendWr with_immediate(std::uint64_t wr_id, WrOpcode opcode, std::span<const Sge> sges, std::uint32_t flags = 0) {
    return {wr_id, opcode, send_flag::kSignaled | flags, sges, 0x4000, 0x2000, {.imm_data = kImm}};
}

SendWr atomic(std::uint64_t wr_id, WrOpcode opcode, const Sge& result, std::uint64_t operand, std::uint64_t swap = 0,
              std::uint64_t to = 0x4000, std::uint32_t stag = 0x2000) {
    SendWr wr{wr_id, opcode, send_flag::kSignaled, {&result, 1}, to, stag, {0}};
    wr.atomic = {operand, swap};
    return wr;
}

Bytes immediate(Opcode opcode, std::uint32_t msn, std::uint32_t use) {
    Bytes ulpdu(wire::kImmediateSegmentLen);
    wire::UntaggedHeader{true, wire::rdmap_control(opcode), 0, wire::kSendQueue, msn, 0}.emit(ulpdu.data());
    wire::Immediate{kImm, use}.emit(ulpdu.data() + wire::kUntaggedHeaderLen);
    return ulpdu;
}

Bytes atomic_request(const wire::AtomicRequest& request, std::uint32_t msn) {
    Bytes ulpdu(wire::kAtomicRequestSegmentLen);
    wire::emit_atomic_request_segment(request, msn, ulpdu.data());
    return ulpdu;
}

wire::AtomicRequest fetch_add(std::uint32_t stag, std::uint64_t to, std::uint64_t add, std::uint32_t id = 1) {
    return {wire::AtomicOpcode::kFetchAdd, id, stag, to, add, 0, 0, ~std::uint64_t{0}};
}

wire::TerminateCode terminate_of(Rig& rig) {
    rig.transmit();
    const auto out = ulpdus_of(rig.script.outbound, false, false);
    const auto parsed = out.empty() ? wire::Terminate{} : wire::parse_terminate(out.back());
    return parsed.code;
}

struct Word {
    alignas(8) std::uint64_t value = 0;
    std::byte* at() { return reinterpret_cast<std::byte*>(&value); }
    Sge sge(Rig& rig) {
        return {reinterpret_cast<std::uintptr_t>(&value), 8, rig.memory.add(Rig::kPd, at(), 8, address(), kAllRights)};
    }
    std::uint64_t address() const { return reinterpret_cast<std::uintptr_t>(&value); }
};

// ---- what goes out

// RDMAP-38, RDMAP-40: the Write, then Immediate Data with the next MSN of queue 0; one request, one completion.
TEST(Rfc7306, AWriteWithImmediateIsTwoMessages) {
    for (const bool solicited : {false, true}) {
        Rig rig({.max_send_wr = 2});
        ASSERT_TRUE(rig.start(agreed()));
        std::vector<std::byte> data(3000, std::byte(0x5a));
        const Sge sge = sge_of(data, rig.region(data, 0));
        ASSERT_EQ(
            rig.qp->post_send(with_immediate(1, WrOpcode::kWriteImm, {&sge, 1}, solicited ? send_flag::kSolicited : 0)),
            PostResult::kOk);
        ASSERT_EQ(post(rig, 2, WrOpcode::kSend), PostResult::kOk);
        EXPECT_EQ(post(rig, 3, WrOpcode::kSend), PostResult::kFull);
        rig.transmit();
        const auto out = ulpdus_of(rig.script.outbound, false, false);
        ASSERT_EQ(out.size(), 5u);
        for (std::size_t i = 0; i < 3; ++i)
            EXPECT_EQ(opcode_of(out[i]), Opcode::kWrite);
        EXPECT_EQ(wire::TaggedHeader::parse(out[2].data()).last, true);
        EXPECT_EQ(out[3], immediate(solicited ? Opcode::kImmediateSolicited : Opcode::kImmediate, 1, 0));
        EXPECT_EQ(wire::UntaggedHeader::parse(out[4].data()).msn, 2u);
        const auto sends = rig.poll(rig.send_cq);
        ASSERT_EQ(sends.size(), 2u);
        EXPECT_EQ(sends[0].opcode, WcOpcode::kWrite);
        EXPECT_EQ(sends[0].byte_len, 3000u);
        EXPECT_EQ(sends[1].wr_id, 2u);
    }
}

// The Immediate Data says that it belongs to the Send behind it, whose opcode asks for the event.
TEST(Rfc7306, ASendWithImmediateIsTwoMessages) {
    Rig rig;
    ASSERT_TRUE(rig.start(agreed()));
    std::vector<std::byte> data(16, std::byte(0x5a));
    const Sge sge = sge_of(data, rig.region(data, 0));
    ASSERT_EQ(
        rig.qp->post_send(with_immediate(1, WrOpcode::kSendImm, {&sge, 1}, send_flag::kSolicited | send_flag::kInline)),
        PostResult::kOk);
    ASSERT_EQ(post(rig, 2, WrOpcode::kSend), PostResult::kOk);
    rig.transmit();
    const auto out = ulpdus_of(rig.script.outbound, false, false);
    ASSERT_EQ(out.size(), 3u);
    EXPECT_EQ(out[0], immediate(Opcode::kImmediate, 1, wire::Immediate::kOfNextSend));
    EXPECT_EQ(opcode_of(out[1]), Opcode::kSendSolicited);
    EXPECT_EQ(wire::UntaggedHeader::parse(out[1].data()).msn, 2u);
    EXPECT_EQ(wire::UntaggedHeader::parse(out[2].data()).msn, 3u);
    const auto sends = rig.poll(rig.send_cq);
    ASSERT_EQ(sends.size(), 2u);
    EXPECT_EQ(sends[0].opcode, WcOpcode::kSend);
}

// Nothing comes between the two messages, not even the answer to a Read that has waited.
TEST(Rfc7306, NothingComesBetweenTheTwoMessages) {
    Rig rig;
    ASSERT_TRUE(rig.start(agreed()));
    std::vector<std::byte> data(16);
    const Sge sge = sge_of(data, rig.region(data, kAllRights));
    ASSERT_EQ(post(rig, 1, WrOpcode::kSend), PostResult::kOk);  // the Response's turn comes behind it
    ASSERT_EQ(rig.qp->post_send(with_immediate(2, WrOpcode::kSendImm, {&sge, 1})), PostResult::kOk);
    for (std::uint32_t msn = 1; msn <= 3; ++msn)
        append_fpdu(rig.script.inbound, read_request({7, 0, 8, sge.lkey, sge.addr}, msn), false, false);
    EXPECT_EQ(rig.receive(), Rx::Status::kAgain);
    rig.transmit();
    std::vector<Opcode> order;
    for (const Bytes& ulpdu : ulpdus_of(rig.script.outbound, false, false))
        order.push_back(opcode_of(ulpdu));
    EXPECT_EQ(order, (std::vector{Opcode::kReadResponse, Opcode::kSend, Opcode::kReadResponse, Opcode::kImmediate,
                                  Opcode::kSend, Opcode::kReadResponse}));
}

// RDMAP-42, RDMAP-49: the Requests of both atomics, on queue 1 with the Reads, and no more of them than ORD.
TEST(Rfc7306, AtomicRequestsShareTheCreditsOfReads) {
    Rig rig;
    StreamParameters parameters = agreed();
    parameters.ord = 3;
    ASSERT_TRUE(rig.start(parameters));
    Word result;
    const Sge sge = result.sge(rig);
    for (const std::uint32_t id : {0x77u, 0x78u, 0x79u})
        rig.random.wish(id);
    ASSERT_EQ(rig.qp->post_send(atomic(1, WrOpcode::kFetchAdd, sge, 5)), PostResult::kOk);
    ASSERT_EQ(post(rig, 2, WrOpcode::kRead, {&sge, 1}), PostResult::kOk);
    ASSERT_EQ(rig.qp->post_send(atomic(3, WrOpcode::kCmpSwap, sge, 0x22, 0x11)), PostResult::kOk);
    ASSERT_EQ(rig.qp->post_send(atomic(4, WrOpcode::kFetchAdd, sge, 1)), PostResult::kOk);
    rig.transmit();
    const auto out = ulpdus_of(rig.script.outbound, false, false);
    ASSERT_EQ(out.size(), 3u);
    constexpr std::uint64_t kOnes = ~std::uint64_t{0};
    EXPECT_EQ(out[0], atomic_request({wire::AtomicOpcode::kFetchAdd, 0x77, 0x2000, 0x4000, 5, 0, 0, kOnes}, 1));
    EXPECT_EQ(opcode_of(out[1]), Opcode::kReadRequest);
    EXPECT_EQ(out[2],
              atomic_request({wire::AtomicOpcode::kCmpSwap, 0x79, 0x2000, 0x4000, 0x11, kOnes, 0x22, kOnes}, 3));
    EXPECT_TRUE(rig.poll(rig.send_cq).empty());
}

TEST(Rfc7306, AnAtomicHasOneElementOfEightOctets) {
    Rig rig;
    ASSERT_TRUE(rig.start(agreed()));
    Word result;
    Sge sge = result.sge(rig);
    SendWr wr = atomic(1, WrOpcode::kFetchAdd, sge, 5);
    wr.flags |= send_flag::kInline;
    EXPECT_EQ(rig.qp->post_send(wr), PostResult::kInvalid);
    sge.length = 4;
    EXPECT_EQ(rig.qp->post_send(atomic(1, WrOpcode::kFetchAdd, sge, 5)), PostResult::kInvalid);
    const Sge two[] = {sge, sge};
    wr = atomic(1, WrOpcode::kFetchAdd, sge, 5);
    wr.sges = two;
    EXPECT_EQ(rig.qp->post_send(wr), PostResult::kInvalid);
    // VERBS-9: it must be writable, which is found out in its turn.
    const Sge read_only{result.address(), 8, rig.memory.add(Rig::kPd, result.at(), 8, result.address(), 0)};
    ASSERT_EQ(rig.qp->post_send(atomic(1, WrOpcode::kFetchAdd, read_only, 5)), PostResult::kOk);
    rig.transmit();
    rig.end();
    const auto sends = rig.poll(rig.send_cq);
    ASSERT_EQ(sends.size(), 1u);
    EXPECT_EQ(sends[0].status, WcStatus::kLocProtErr);
}

// ---- toward a peer that has not agreed

TEST(Rfc7306, IsRefusedTowardAPeerThatHasNotAgreed) {
    Rig rig;
    ASSERT_TRUE(rig.start(plain_stream()));
    Word result;
    const Sge sge = result.sge(rig);
    EXPECT_EQ(rig.qp->post_send(with_immediate(1, WrOpcode::kWriteImm, {})), PostResult::kNotAgreed);
    EXPECT_EQ(rig.qp->post_send(with_immediate(1, WrOpcode::kSendImm, {})), PostResult::kNotAgreed);
    EXPECT_EQ(rig.qp->post_send(atomic(1, WrOpcode::kFetchAdd, sge, 5)), PostResult::kNotAgreed);
    EXPECT_EQ(rig.qp->post_send(atomic(1, WrOpcode::kCmpSwap, sge, 5)), PostResult::kNotAgreed);
    EXPECT_EQ(post(rig, 2, WrOpcode::kSend), PostResult::kOk);
    rig.transmit();
    EXPECT_EQ(ulpdus_of(rig.script.outbound, false, false).size(), 1u);
}

// A wired QP takes requests before it has a stream.
TEST(Rfc7306, WhatWasPostedBeforeThePeerWasKnownFails) {
    for (const bool agrees : {false, true}) {
        Rig rig;
        rig.qp->wire(false);
        ASSERT_TRUE(rig.qp->apply(QpEvent::kToRtr));
        rig.qp->allow_reads(true);
        Word result;
        const Sge sge = result.sge(rig);
        ASSERT_EQ(post(rig, 1, WrOpcode::kSend), PostResult::kOk);
        ASSERT_EQ(rig.qp->post_send(with_immediate(2, WrOpcode::kSendImm, {})), PostResult::kOk);
        ASSERT_EQ(rig.qp->post_send(atomic(3, WrOpcode::kFetchAdd, sge, 5)), PostResult::kOk);
        ASSERT_TRUE(rig.start(agrees ? agreed() : plain_stream()));
        rig.transmit();
        if (agrees) {
            EXPECT_EQ(ulpdus_of(rig.script.outbound, false, false).size(), 4u);
            continue;
        }
        EXPECT_EQ(terminate_of(rig), wire::fault::kLocalFailure);
        rig.end();
        const auto sends = rig.poll(rig.send_cq);
        ASSERT_EQ(sends.size(), 3u);
        EXPECT_EQ(sends[0].status, WcStatus::kSuccess);
        EXPECT_EQ(sends[1].status, WcStatus::kLocQpOpErr);
        EXPECT_EQ(sends[2].status, WcStatus::kWrFlushErr);
    }
}

// It is standard, and MPA has no way to say that one speaks it. All but whose 64 bits those are.
TEST(Rfc7306, AForeignPeersMessagesAreTaken) {
    Rig rig;
    ASSERT_TRUE(rig.start(plain_stream()));
    Word target;
    const Sge sge = target.sge(rig);
    ASSERT_EQ(rig.qp->post_recv({1, {}}), PostResult::kOk);
    append_fpdu(rig.script.inbound, immediate(Opcode::kImmediate, 1, wire::Immediate::kOfNextSend), false, false);
    append_fpdu(rig.script.inbound, atomic_request(fetch_add(sge.lkey, sge.addr, 5), 1), false, false);
    EXPECT_EQ(rig.receive(), Rx::Status::kAgain);
    const auto receives = rig.poll(rig.recv_cq);
    ASSERT_EQ(receives.size(), 1u);
    EXPECT_EQ(receives[0].opcode, WcOpcode::kRecvRdmaWithImm);
    EXPECT_EQ(receives[0].imm_data, kImm);
    EXPECT_EQ(receives[0].byte_len, 0u);
    rig.transmit();
    EXPECT_EQ(target.value, 5u);
}

// ---- what comes in

TEST(Rfc7306, ImmediateDataWaitsForAReceive) {
    Rig rig;
    ASSERT_TRUE(rig.start(agreed()));
    append_fpdu(rig.script.inbound, immediate(Opcode::kImmediate, 1, 0), false, false);
    EXPECT_EQ(rig.receive(), Rx::Status::kStalled);
    ASSERT_EQ(rig.qp->post_recv({1, {}}), PostResult::kOk);
    EXPECT_EQ(rig.receive(), Rx::Status::kAgain);
    EXPECT_EQ(rig.poll(rig.recv_cq).size(), 1u);
}

TEST(Rfc7306, ASendsImmediateTakesNoReceiveOfItsOwn) {
    Rig rig;
    ASSERT_TRUE(rig.start(agreed()));
    std::vector<std::byte> data(16);
    const Sge sge = sge_of(data, rig.region(data, access::kLocalWrite));
    append_fpdu(rig.script.inbound, immediate(Opcode::kImmediate, 1, wire::Immediate::kOfNextSend), false, false);
    EXPECT_EQ(rig.receive(), Rx::Status::kAgain);
    for (std::uint64_t id = 1; id <= 2; ++id)
        ASSERT_EQ(rig.qp->post_recv({id, {&sge, 1}}), PostResult::kOk);
    append_fpdu(rig.script.inbound, send_of(2, 16), false, false);
    append_fpdu(rig.script.inbound, send_of(3, 16), false, false);
    EXPECT_EQ(rig.receive(), Rx::Status::kAgain);
    const auto receives = rig.poll(rig.recv_cq);
    ASSERT_EQ(receives.size(), 2u);
    EXPECT_EQ(receives[0].opcode, WcOpcode::kRecv);
    EXPECT_EQ(receives[0].wc_flags, wc_flag::kWithImm);
    EXPECT_EQ(receives[0].imm_data, kImm);
    EXPECT_EQ(receives[0].byte_len, 16u);
    EXPECT_EQ(receives[1].wc_flags, 0u);
    EXPECT_EQ(rig.qp->counters().get(Count::kRxSends), 2u);
}

// The length is the Write's, however many segments it had, and not that of one before it.
TEST(Rfc7306, TheReceiveTellsTheLengthOfTheWrite) {
    Rig rig;
    ASSERT_TRUE(rig.start(agreed()));
    std::vector<std::byte> data(256);
    const std::uint32_t stag = rig.region(data, kAllRights, 0x1000);
    for (std::uint64_t id = 1; id <= 3; ++id)
        ASSERT_EQ(rig.qp->post_recv({id, {}}), PostResult::kOk);
    append_fpdu(rig.script.inbound, tagged(Opcode::kWrite, stag, 0x1000, 100), false, false);
    Bytes first = tagged(Opcode::kWrite, stag, 0x1000, 30);
    first[0] &= ~std::byte(wire::kLast);
    append_fpdu(rig.script.inbound, first, false, false);
    append_fpdu(rig.script.inbound, tagged(Opcode::kWrite, stag, 0x101e, 20), false, false);
    append_fpdu(rig.script.inbound, immediate(Opcode::kImmediate, 1, 0), false, false);
    append_fpdu(rig.script.inbound, immediate(Opcode::kImmediate, 2, 0), false, false);
    append_fpdu(rig.script.inbound, tagged(Opcode::kWrite, stag, 0x1000, 0), false, false);
    append_fpdu(rig.script.inbound, immediate(Opcode::kImmediate, 3, 0), false, false);
    EXPECT_EQ(rig.receive(), Rx::Status::kAgain);
    const auto receives = rig.poll(rig.recv_cq);
    ASSERT_EQ(receives.size(), 3u);
    EXPECT_EQ(receives[0].byte_len, 50u);
    EXPECT_EQ(receives[1].byte_len, 0u);
    EXPECT_EQ(receives[2].byte_len, 0u);
}

TEST(Rfc7306, ImmediateDataOfASendIsFollowedByOne) {
    for (const Opcode next : {Opcode::kImmediate, Opcode::kSendInvalidate}) {
        Rig rig;
        ASSERT_TRUE(rig.start(agreed()));
        std::vector<std::byte> data(16);
        const std::uint32_t stag = rig.region(data, kAllRights);
        ASSERT_EQ(rig.qp->post_recv({1, {}}), PostResult::kOk);
        append_fpdu(rig.script.inbound, immediate(Opcode::kImmediate, 1, wire::Immediate::kOfNextSend), false, false);
        Bytes second = next == Opcode::kImmediate ? immediate(next, 2, 0) : send_of(2, 0);
        if (next == Opcode::kSendInvalidate)
            wire::UntaggedHeader{true, wire::rdmap_control(next), stag, 0, 2, 0}.emit(second.data());
        append_fpdu(rig.script.inbound, second, false, false);
        rig.receive();
        EXPECT_EQ(terminate_of(rig), wire::fault::kImmediateWithoutSend);
        EXPECT_EQ(rig.memory.look_up(Rig::kPd, stag, sge_of(data, stag).addr, 1, access::kRemoteWrite).error,
                  MemoryError::kNone);
    }
}

// A Terminate that quotes either message names the request.
TEST(Rfc7306, ATerminateOfTheImmediateDataFailsItsRequest) {
    for (const WrOpcode opcode : {WrOpcode::kWriteImm, WrOpcode::kSendImm}) {
        Rig rig;
        rig.qp->wire(true);
        ASSERT_TRUE(rig.qp->apply(QpEvent::kToRtr));
        ASSERT_TRUE(rig.start(agreed()));
        ASSERT_EQ(post(rig, 1, WrOpcode::kSend), PostResult::kOk);
        ASSERT_EQ(rig.qp->post_send(with_immediate(2, opcode, {})), PostResult::kOk);
        rig.transmit();
        std::array<std::byte, wire::kMaxTerminateUlpdu> terminate;
        const Bytes quoted = immediate(Opcode::kImmediate, 2, 0);
        const std::size_t length = wire::build_terminate(wire::fault::kNoBuffer, quoted, quoted.size(), terminate);
        append_fpdu(rig.script.inbound, std::span(terminate).first(length), false, false);
        rig.receive();
        rig.end();
        const auto sends = rig.poll(rig.send_cq);
        ASSERT_EQ(sends.size(), 2u);
        EXPECT_EQ(sends[0].status, WcStatus::kSuccess);
        EXPECT_EQ(sends[1].status, WcStatus::kRnrRetryExcErr);
    }
}

// RDMAP-48, RDMAP-50: executed once, however often its Response is laid out.
TEST(Rfc7306, AnAtomicIsExecutedOnce) {
    Rig rig;
    ASSERT_TRUE(rig.start(agreed()));
    Word target;
    const Sge sge = target.sge(rig);
    append_fpdu(rig.script.inbound, atomic_request(fetch_add(sge.lkey, sge.addr, 5, 0x1234), 1), false, false);
    rig.receive();
    EXPECT_EQ(target.value, 0u);
    rig.script.window = 0;
    rig.transmit();
    EXPECT_EQ(target.value, 5u);
    for (std::size_t i = 0; i < 12; ++i) {
        rig.script.window = 3;
        rig.transmit();
    }
    EXPECT_EQ(target.value, 5u);
    const auto out = ulpdus_of(rig.script.outbound, false, false);
    ASSERT_EQ(out.size(), 1u);
    EXPECT_EQ(wire::AtomicResponse::parse(out[0].data() + wire::kUntaggedHeaderLen), (wire::AtomicResponse{0x1234, 0}));
}

// RDMAP-50: a Read before it shows the memory as it was, one behind it as it is.
TEST(Rfc7306, AnAtomicIsExecutedInItsTurn) {
    for (const std::size_t length : {std::size_t{8}, std::size_t{40000}}) {
        Rig rig;
        ASSERT_TRUE(rig.start(agreed()));
        std::vector<std::byte> data(length);
        const Sge sge = sge_of(data, rig.region(data, kAllRights));
        const auto size = static_cast<std::uint32_t>(length);
        append_fpdu(rig.script.inbound, read_request({7, 0, size, sge.lkey, sge.addr}, 1), false, false);
        append_fpdu(rig.script.inbound, atomic_request(fetch_add(sge.lkey, sge.addr, 5), 2), false, false);
        append_fpdu(rig.script.inbound, atomic_request(fetch_add(sge.lkey, sge.addr, 6), 3), false, false);
        append_fpdu(rig.script.inbound, read_request({7, 0, size, sge.lkey, sge.addr}, 4), false, false);
        rig.receive();
        rig.script.window = 20;
        rig.transmit();
        EXPECT_EQ(data[0], std::byte(0)) << "the Read before it has not gone out";
        rig.script.window = kNoLimit;
        rig.transmit();
        std::vector<std::uint64_t> seen;
        for (const Bytes& ulpdu : ulpdus_of(rig.script.outbound, false, false)) {
            std::uint64_t value = 0;
            if (opcode_of(ulpdu) == Opcode::kAtomicResponse) {
                value = wire::AtomicResponse::parse(ulpdu.data() + wire::kUntaggedHeaderLen).original;
            } else if (wire::TaggedHeader::parse(ulpdu.data()).to == 0) {
                std::memcpy(&value, ulpdu.data() + wire::kTaggedHeaderLen, sizeof value);
            } else {
                continue;
            }
            seen.push_back(value);
        }
        EXPECT_EQ(seen, (std::vector<std::uint64_t>{0, 0, 5, 11}));
    }
}

// What was good when the Request came may be gone when its turn comes; and no octet is answered then.
TEST(Rfc7306, ATargetThatHasGoneEndsTheStream) {
    Rig rig;
    ASSERT_TRUE(rig.start(agreed()));
    Word target;
    const Sge sge = target.sge(rig);
    const Bytes request = atomic_request(fetch_add(sge.lkey, sge.addr, 5), 1);
    append_fpdu(rig.script.inbound, request, false, false);
    rig.receive();
    ASSERT_TRUE(rig.memory.remove(sge.lkey));
    rig.transmit();
    const auto out = ulpdus_of(rig.script.outbound, false, false);
    ASSERT_EQ(out.size(), 1u);
    const auto parsed = wire::parse_terminate(out[0]);
    EXPECT_EQ(parsed.code, wire::fault::kReadInvalidStag);
    EXPECT_EQ(parsed.segment_len, request.size());
    EXPECT_EQ(Bytes(parsed.ddp_header.begin(), parsed.ddp_header.end()), Bytes(request.begin(), request.begin() + 18));
    EXPECT_TRUE(parsed.rdma_header.empty());
    EXPECT_EQ(target.value, 0u);
}

// The program has unmapped it, or taken the right to write it, while it was registered.
TEST(Rfc7306, MemoryThatTheProgramTookAwayEndsTheStreamAlone) {
#if !SWRNIC_RECOVERS_FROM_FAULTS || defined(__SANITIZE_ADDRESS__)
    GTEST_SKIP() << "faults are not recovered from";
#endif
    recover_from_faults();
    for (const bool unmapped : {true, false}) {
        for (const bool swaps : {true, false}) {
            Rig rig;
            ASSERT_TRUE(rig.start(agreed()));
            const swrnic::test::PageThatGoes page;
            const auto to = reinterpret_cast<std::uintptr_t>(page.data());
            const std::uint32_t stag = rig.memory.add(Rig::kPd, page.data(), page.size(), to, kAllRights);
            wire::AtomicRequest request = fetch_add(stag, to, 5);
            if (swaps) request.opcode = wire::AtomicOpcode::kCmpSwap;
            append_fpdu(rig.script.inbound, atomic_request(request, 1), false, false);
            unmapped ? page.unmap() : page.protect(PROT_READ);
            rig.receive();
            EXPECT_EQ(terminate_of(rig), wire::fault::kReadInvalidStag);
        }
    }
}

// RDMAP-45: the Tagged Offset may be a multiple of 8 where the memory is not.
TEST(Rfc7306, TheMemoryItselfMustBeAligned) {
    Rig rig;
    ASSERT_TRUE(rig.start(agreed()));
    std::vector<std::byte> data(32);
    const std::uint32_t stag = rig.memory.add(Rig::kPd, data.data() + 4, 16, 0x1000, kAllRights);
    append_fpdu(rig.script.inbound, atomic_request(fetch_add(stag, 0x1000, 5), 1), false, false);
    rig.receive();
    EXPECT_EQ(terminate_of(rig), wire::fault::kAtomicMisaligned);
    EXPECT_EQ(data, std::vector<std::byte>(32));
}

TEST(Rfc7306, TheQpsGrantCountsToo) {
    Rig rig;
    rig.qp->set_access(access::kRemoteRead | access::kRemoteWrite);
    ASSERT_TRUE(rig.start(agreed()));
    Word target;
    const Sge sge = target.sge(rig);
    append_fpdu(rig.script.inbound, atomic_request(fetch_add(sge.lkey, sge.addr, 5), 1), false, false);
    rig.receive();
    EXPECT_EQ(terminate_of(rig), wire::fault::kReadAccess);
}

// RDMAP-49, RDMAP-69.
TEST(Rfc7306, AtomicsBeyondIrdEndTheStream) {
    Rig rig;
    StreamParameters parameters = agreed();
    parameters.ird = 2;
    ASSERT_TRUE(rig.start(parameters));
    Word target;
    const Sge sge = target.sge(rig);
    for (std::uint32_t msn = 1; msn <= 3; ++msn)
        append_fpdu(rig.script.inbound, atomic_request(fetch_add(sge.lkey, sge.addr, 5), msn), false, false);
    rig.receive();
    EXPECT_EQ(terminate_of(rig), wire::fault::kIrdExceeded);
}

// RDMAP-17, RDMAP-47: a Response of the other kind, or with an MSN that is not due.
TEST(Rfc7306, AResponseMustBeThatOfTheOldestRequest) {
    enum class Wrong { kReadForAtomic, kAtomicForRead, kMsn, kNotLast };
    for (const Wrong wrong : {Wrong::kReadForAtomic, Wrong::kAtomicForRead, Wrong::kMsn, Wrong::kNotLast}) {
        Rig rig;
        ASSERT_TRUE(rig.start(agreed()));
        Word result;
        const Sge sge = result.sge(rig);
        rig.random.wish(0x77);
        if (wrong == Wrong::kAtomicForRead) {
            ASSERT_EQ(post(rig, 1, WrOpcode::kRead, {&sge, 1}), PostResult::kOk);
        } else {
            ASSERT_EQ(rig.qp->post_send(atomic(1, WrOpcode::kFetchAdd, sge, 5)), PostResult::kOk);
        }
        rig.transmit();
        Bytes response(wire::kAtomicResponseSegmentLen);
        wire::UntaggedHeader{wrong != Wrong::kNotLast,
                             wire::rdmap_control(Opcode::kAtomicResponse),
                             0,
                             3,
                             wrong == Wrong::kMsn ? 2u : 1u,
                             0}
            .emit(response.data());
        wire::AtomicResponse{0x77, 0x29}.emit(response.data() + wire::kUntaggedHeaderLen);
        if (wrong == Wrong::kReadForAtomic) response = tagged(Opcode::kReadResponse, 0x77, 0, 8);
        append_fpdu(rig.script.inbound, response, false, false);
        rig.receive();
        const wire::TerminateCode expected = wrong == Wrong::kReadForAtomic   ? wire::fault::kUnexpectedReadResponse
                                             : wrong == Wrong::kAtomicForRead ? wire::fault::kUnexpectedAtomicResponse
                                             : wrong == Wrong::kMsn           ? wire::fault::kInvalidMsn
                                                                              : wire::fault::kShortSegment;
        EXPECT_EQ(terminate_of(rig), expected);
        EXPECT_EQ(result.value, 0u);
    }
}

// RDMAP-52, VERBS-18: the Terminate names the atomic by its MSN.
TEST(Rfc7306, ARefusedAtomicFails) {
    const std::pair<wire::TerminateCode, WcStatus> kCases[] = {
        {wire::fault::kReadAccess, WcStatus::kRemAccessErr},
        {wire::fault::kReadBounds, WcStatus::kRemAccessErr},
        {wire::fault::kAtomicMisaligned, WcStatus::kRemInvReqErr},
        {wire::fault::kAtomicOpcode, WcStatus::kRemInvReqErr}};
    for (const auto& [code, status] : kCases) {
        Rig rig;
        ASSERT_TRUE(rig.start(agreed()));
        Word result;
        const Sge sge = result.sge(rig);
        ASSERT_EQ(post(rig, 1, WrOpcode::kRead, {&sge, 1}), PostResult::kOk);
        ASSERT_EQ(rig.qp->post_send(atomic(2, WrOpcode::kFetchAdd, sge, 5)), PostResult::kOk);
        rig.transmit();
        const auto out = ulpdus_of(rig.script.outbound, false, false);
        std::array<std::byte, wire::kMaxTerminateUlpdu> terminate;
        const std::size_t length = wire::build_terminate(code, out.at(1), out[1].size(), terminate);
        append_fpdu(rig.script.inbound, std::span(terminate).first(length), false, false);
        rig.receive();
        rig.end();
        const auto sends = rig.poll(rig.send_cq);
        ASSERT_EQ(sends.size(), 2u);
        EXPECT_EQ(sends[0].status, WcStatus::kWrFlushErr);
        EXPECT_EQ(sends[1].status, status);
    }
}

// VERBS-5: a fence waits for atomics as for Reads.
TEST(Rfc7306, AFenceWaitsForAnAtomic) {
    Rig rig;
    ASSERT_TRUE(rig.start(agreed()));
    Word result;
    const Sge sge = result.sge(rig);
    rig.random.wish(0x77);
    ASSERT_EQ(rig.qp->post_send(atomic(1, WrOpcode::kFetchAdd, sge, 5)), PostResult::kOk);
    ASSERT_EQ(rig.qp->post_send({2, WrOpcode::kSend, send_flag::kSignaled | send_flag::kFence, {}, 0, 0, {0}}),
              PostResult::kOk);
    rig.transmit();
    EXPECT_EQ(ulpdus_of(rig.script.outbound, false, false).size(), 1u);
    Bytes response(wire::kAtomicResponseSegmentLen);
    wire::UntaggedHeader{true, wire::rdmap_control(Opcode::kAtomicResponse), 0, 3, 1, 0}.emit(response.data());
    wire::AtomicResponse{0x77, 0x29}.emit(response.data() + wire::kUntaggedHeaderLen);
    append_fpdu(rig.script.inbound, response, false, false);
    rig.receive();
    rig.transmit();
    EXPECT_EQ(ulpdus_of(rig.script.outbound, false, false).size(), 2u);
    EXPECT_EQ(rig.poll(rig.send_cq).size(), 2u);
    EXPECT_EQ(result.value, 0x29u);
}

// ---- execution

TEST(ChangeAtomically, DoesWhatTheRequestSays) {
    for (const golden::Vector& vector : golden::vectors("atomic_calc")) {
        SCOPED_TRACE(vector.id);
        const auto value = [](const nlohmann::json& from, const char* name) {
            return from.contains(name) ? std::stoull(from.at(name).get<std::string>(), nullptr, 0) : 0;
        };
        wire::AtomicRequest request = fetch_add(0, 0, value(vector.context, "data"));
        request.mask = value(vector.context, "mask");
        if (vector.context.at("op") == "cmpswap") {
            request.opcode = wire::AtomicOpcode::kCmpSwap;
            request.compare = value(vector.context, "compare");
            request.compare_mask = value(vector.context, "compare_mask");
        }
        Word word;
        word.value = value(vector.context, "original");
        std::uint64_t original = 0;
        ASSERT_TRUE(change_atomically(word.at(), request, original));
        EXPECT_EQ(original, value(vector.expect, "returned"));
        EXPECT_EQ(word.value, value(vector.expect, "result"));
    }
}

// ---- two of them, joined

// What one sends the other receives, cut after every so many octets.
struct JoinedByTcp {
    explicit JoinedByTcp(const StreamParameters& parameters, std::size_t most) : most_(most) {
        StreamParameters passive = parameters;
        passive.initiator = false;
        EXPECT_TRUE(ends[0].start(parameters) && ends[1].start(passive));
    }
    void run() {
        for (int idle = 0; idle < 3; ++idle) {
            for (std::size_t i = 0; i < 2; ++i) {
                Rig &from = ends[i], &to = ends[1 - i];
                from.transmit();
                if (!from.script.outbound.empty()) idle = 0;
                Bytes& into = to.script.inbound;
                into.insert(into.end(), from.script.outbound.begin(), from.script.outbound.end());
                from.script.outbound.clear();
                to.script.most = most_;
                to.receive();
            }
        }
    }
    Rig ends[2];

  private:
    const std::size_t most_;
};

TEST(Rfc7306Joined, EveryRequestArrivesInEveryCut) {
    for (const bool crc : {false, true}) {
        for (const bool large : {false, true}) {
            for (const std::size_t most : {1u, 2u, 3u, 5u, 7u, 19u, 27u, 31u, 71u, 100000u}) {
                SCOPED_TRACE(testing::Message() << "crc " << crc << ", large " << large << ", " << most << " octets");
                StreamParameters parameters = agreed();
                parameters.crc = crc;
                parameters.large_fpdu = parameters.short_first = large;
                JoinedByTcp pair(parameters, most);
                Rig &a = pair.ends[0], &b = pair.ends[1];
                Word result, target;
                std::vector<std::byte> from(4000), into(4000);
                for (std::size_t i = 0; i < from.size(); ++i)
                    from[i] = static_cast<std::byte>(i * 7 + 1);
                const Sge out = sge_of(from, a.region(from, 0)), back = result.sge(a);
                const Sge in = sge_of(into, b.region(into, kAllRights)), word = target.sge(b);
                for (std::uint64_t id = 1; id <= 2; ++id)
                    ASSERT_EQ(b.qp->post_recv({id, {&in, 1}}), PostResult::kOk);
                SendWr write = with_immediate(1, WrOpcode::kWriteImm, {&out, 1});
                write.remote_addr = in.addr;
                write.rkey = in.lkey;
                ASSERT_EQ(a.qp->post_send(write), PostResult::kOk);
                ASSERT_EQ(a.qp->post_send(with_immediate(2, WrOpcode::kSendImm, {&out, 1})), PostResult::kOk);
                ASSERT_EQ(a.qp->post_send(atomic(3, WrOpcode::kFetchAdd, back, 5, 0, word.addr, word.lkey)),
                          PostResult::kOk);
                ASSERT_EQ(a.qp->post_send(atomic(4, WrOpcode::kCmpSwap, back, 5, 9, word.addr, word.lkey)),
                          PostResult::kOk);
                pair.run();
                const auto sends = a.poll(a.send_cq), receives = b.poll(b.recv_cq);
                ASSERT_EQ(sends.size(), 4u);
                ASSERT_EQ(receives.size(), 2u);
                for (const WorkCompletion& done : receives) {
                    EXPECT_EQ(done.status, WcStatus::kSuccess);
                    EXPECT_EQ(done.byte_len, 4000u);
                    EXPECT_EQ(done.imm_data, kImm);
                    EXPECT_EQ(done.wc_flags, wc_flag::kWithImm);
                }
                EXPECT_EQ(receives[0].opcode, WcOpcode::kRecvRdmaWithImm);
                EXPECT_EQ(receives[1].opcode, WcOpcode::kRecv);
                constexpr WcOpcode kOpcodes[] = {WcOpcode::kWrite, WcOpcode::kSend, WcOpcode::kFetchAdd,
                                                 WcOpcode::kCompSwap};
                for (std::size_t i = 0; i < sends.size(); ++i) {
                    EXPECT_EQ(sends[i].status, WcStatus::kSuccess);
                    EXPECT_EQ(sends[i].opcode, kOpcodes[i]);
                }
                EXPECT_EQ(from, into);
                EXPECT_EQ(target.value, 9u);
                EXPECT_EQ(result.value, 5u);
            }
        }
    }
}

}  // namespace

}  // namespace swrnic::engine::test
