// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// One test per fault that the engine once had.
#include <gtest/gtest.h>

#include "engine/messages.h"
#include "wire/terminate.h"

namespace swrnic::engine::test {

namespace {

Bytes untagged(Opcode opcode, std::uint32_t qn, std::uint32_t msn, std::uint32_t mo, std::size_t payload,
               bool last = true) {
    Bytes ulpdu(wire::kUntaggedHeaderLen + payload, std::byte(0x5a));
    wire::UntaggedHeader{last, wire::rdmap_control(opcode), 0, qn, msn, mo}.emit(ulpdu.data());
    return ulpdu;
}

SendWr simple(std::uint64_t wr_id, WrOpcode opcode, const Sge& sge) {
    return {wr_id, opcode, send_flag::kSignaled, {&sge, 1}, 0x1000, 0x2000, 0};
}

// A peer that answers an empty Read of ours before the Request has left: nothing in an empty Response has to be
// guessed.
TEST(Regression, ReadAnsweredBeforeItsRequestIsSent) {
    Rig rig;
    ASSERT_TRUE(rig.start(plain_stream()));
    rig.script.window = 0;
    ASSERT_EQ(rig.qp->post_send({1, WrOpcode::kRead, send_flag::kSignaled, {}, 0, 7, 0}), PostResult::kOk);
    EXPECT_EQ(rig.transmit(), Tx::Status::kBlocked);
    append_fpdu(rig.script.inbound, tagged(Opcode::kReadResponse, 0, 0, 0), false, false);
    EXPECT_EQ(rig.receive(), Rx::Status::kAgain);
    rig.script.window = kNoLimit;
    EXPECT_EQ(rig.transmit(), Tx::Status::kIdle);
    EXPECT_EQ(ulpdus_of(rig.script.outbound, false, false).size(), 1u);
    EXPECT_EQ(rig.poll(rig.send_cq).size(), 1u);
}

// A Write of 64 KiB ends in a small FPDU, and so does one of 1 MiB: the large one behind it is read to its place all
// the same, when the messages before began with such a one.
TEST(Regression, WhatFollowsTheSmallEndOfALargeMessageIsNotCopied) {
    constexpr std::size_t kLarge = 60'000, kMessages = 32;
    Rig rig;
    std::vector<std::byte> data(65'536);
    const std::uint32_t stag = rig.region(data, access::kLocalWrite | access::kRemoteWrite, 0x1000);
    ASSERT_TRUE(rig.start(plain_stream()));
    rig.script.place = data;
    for (std::size_t i = 0; i < kMessages; ++i) {
        append_fpdu(rig.script.inbound, tagged(Opcode::kWrite, stag, 0x1000, kLarge, false), false, false);
        append_fpdu(rig.script.inbound, tagged(Opcode::kWrite, stag, 0x1000 + kLarge, data.size() - kLarge), false,
                    false);
    }
    EXPECT_EQ(rig.receive(), Rx::Status::kAgain);
    EXPECT_EQ(rig.qp->counters().get(Count::kRxWrites), kMessages);
    EXPECT_EQ(data, std::vector<std::byte>(data.size(), std::byte(0x5a)));
    EXPECT_LE(rig.script.elsewhere, PassPool::kRxStaging + kMessages * 8192) << "one staging area, and small ends";
}

// A completion that finds its CQ full is lost: the stream may not go on as if it had been told.
TEST(Regression, AnOverflownCqEndsTheStreamWhoseCompletionItLost) {
    Rig rig({.cq_entries = 1});
    ASSERT_TRUE(rig.start(plain_stream()));
    for (std::uint64_t id = 1; id <= 2; ++id)
        ASSERT_EQ(rig.qp->post_send({id, WrOpcode::kSend, send_flag::kSignaled, {}, 0, 0, 0}), PostResult::kOk);
    EXPECT_EQ(rig.transmit(), Tx::Status::kLast);
    ASSERT_EQ(rig.outbox.events.size(), 1u);
    EXPECT_EQ(rig.outbox.events[0].event, AsyncEvent::kCqErr);
    const auto sent = ulpdus_of(rig.script.outbound, false, false);
    ASSERT_EQ(sent.size(), 3u);
    const wire::Terminate terminate = wire::parse_terminate(sent[2]);
    ASSERT_TRUE(terminate.ok());
    EXPECT_EQ(terminate.code, wire::fault::kLocalFailure);
    rig.end(CloseReason::kError);
    ASSERT_EQ(rig.outbox.events.size(), 2u);
    EXPECT_EQ(rig.outbox.events[1].event, AsyncEvent::kQpFatal);
    EXPECT_EQ(rig.poll(rig.send_cq).size(), 1u);
}

// A receive whose memory the program has unmapped is found out by the kernel, in the middle of a payload.
TEST(Regression, AReceiveThatIsUnmappedSaysSo) {
    Rig rig;
    ASSERT_TRUE(rig.start(plain_stream()));
    std::vector<std::byte> target(40000);
    const Sge sge = sge_of(target, rig.region(target, access::kLocalWrite));
    ASSERT_EQ(rig.qp->post_recv({7, {&sge, 1}}), PostResult::kOk);
    Bytes stream;
    append_fpdu(stream, untagged(Opcode::kSend, wire::kSendQueue, 1, 0, target.size()), false, false);
    rig.script.inbound.assign(stream.begin(), stream.begin() + 48);
    EXPECT_EQ(rig.receive(), Rx::Status::kAgain);
    rig.script.fault = true;
    EXPECT_EQ(rig.receive(), Rx::Status::kBroken);
    rig.end(CloseReason::kLost);
    const auto done = rig.poll(rig.recv_cq);
    ASSERT_EQ(done.size(), 1u);
    EXPECT_EQ(done[0].wr_id, 7u);
    EXPECT_EQ(done[0].status, WcStatus::kLocProtErr);
}

// The same with the Request cut by TCP behind its sink STag, which the peer has read.
TEST(Regression, ReadAnsweredWhileItsRequestIsCut) {
    Rig rig;
    ASSERT_TRUE(rig.start(plain_stream()));
    std::vector<std::byte> sink(64);
    const Sge sge = sge_of(sink, rig.region(sink, access::kLocalWrite));
    rig.random.wish(0xabcdef);
    rig.script.window = 40;
    ASSERT_EQ(rig.qp->post_send(simple(1, WrOpcode::kRead, sge)), PostResult::kOk);
    EXPECT_EQ(rig.transmit(), Tx::Status::kBlocked);
    append_fpdu(rig.script.inbound, tagged(Opcode::kReadResponse, 0xabcdef, 0, 64), false, false);
    EXPECT_EQ(rig.receive(), Rx::Status::kAgain);
    rig.script.window = kNoLimit;
    EXPECT_EQ(rig.transmit(), Tx::Status::kIdle);
    const auto out = ulpdus_of(rig.script.outbound, false, false);
    ASSERT_EQ(out.size(), 1u);
    EXPECT_EQ(wire::ReadRequest::parse(out[0].data() + wire::kUntaggedHeaderLen).sink_stag, 0xabcdefu);
    EXPECT_EQ(rig.poll(rig.send_cq).size(), 1u);
}

// Only a plain Send is an RTR (RFC 6581 9.2): any other empty message of the family needs its receive.
TEST(Regression, EmptySolicitedSendIsNoRtr) {
    for (const auto opcode : {Opcode::kSendSolicited, Opcode::kSendInvalidate}) {
        Rig rig;
        StreamParameters parameters = plain_stream();
        parameters.initiator = false;
        parameters.p2p = true;
        parameters.rtr = rtr::kSend;
        ASSERT_TRUE(rig.start(parameters));
        append_fpdu(rig.script.inbound, untagged(opcode, 0, 1, 0, 0), false, false);
        EXPECT_EQ(rig.receive(), Rx::Status::kStalled);
        EXPECT_TRUE(rig.poll(rig.recv_cq).empty());
    }
}

// A request that cannot be sent must not cut off, nor overtake, what was posted before it.
TEST(Regression, BadRequestLetsItsPredecessorsOut) {
    for (const std::size_t window : {0u, 1000u, 5000u}) {
        SCOPED_TRACE(window);
        Rig rig;
        ASSERT_TRUE(rig.start(plain_stream()));
        std::vector<std::byte> data(10000);
        const std::uint32_t key = rig.region(data, access::kLocalWrite);
        rig.script.window = window;
        const Sge good = sge_of(data, key), bad = sge_of(data, key ^ 1);
        ASSERT_EQ(rig.qp->post_send(simple(1, WrOpcode::kSend, good)), PostResult::kOk);
        ASSERT_EQ(rig.qp->post_send(simple(2, WrOpcode::kSend, bad)), PostResult::kOk);
        EXPECT_EQ(rig.transmit(), Tx::Status::kBlocked);
        rig.script.window = kNoLimit;
        EXPECT_EQ(rig.transmit(), Tx::Status::kLast);
        rig.end();
        const auto out = ulpdus_of(rig.script.outbound, false, false);
        ASSERT_EQ(out.size(), 8u);  // 7 of the Send, then the Terminate
        EXPECT_TRUE(wire::is_last(std::to_integer<std::uint8_t>(out[6][0])));
        EXPECT_EQ(wire::parse_terminate(out[7]).code, wire::fault::kLocalFailure);
        const auto done = rig.poll(rig.send_cq);
        ASSERT_EQ(done.size(), 2u);
        EXPECT_EQ(done[0].status, WcStatus::kSuccess);
        EXPECT_EQ(done[1].status, WcStatus::kLocProtErr);
    }
}

// The same for a Read whose source has gone: what is on its way before the Response is finished first.
TEST(Regression, LostReadSourceLetsThePredecessorsOut) {
    Rig rig;
    ASSERT_TRUE(rig.start(plain_stream()));
    std::vector<std::byte> data(10000), source(64);
    const Sge good = sge_of(data, rig.region(data, access::kLocalWrite));
    const std::uint32_t stag = rig.region(source, access::kRemoteRead, 0x1000);
    rig.script.window = 2000;
    append_fpdu(rig.script.inbound, read_request({1, 0, 64, stag, 0x1000}, 1), false, false);
    ASSERT_EQ(rig.qp->post_send(simple(1, WrOpcode::kSend, good)), PostResult::kOk);
    EXPECT_EQ(rig.transmit(), Tx::Status::kBlocked);
    EXPECT_EQ(rig.receive(), Rx::Status::kAgain);
    rig.memory.remove(stag);
    rig.script.window = 1000;  // the Response would come next, but the Send is not out yet
    EXPECT_EQ(rig.transmit(), Tx::Status::kBlocked);
    rig.script.window = kNoLimit;
    EXPECT_EQ(rig.transmit(), Tx::Status::kLast);
    const auto out = ulpdus_of(rig.script.outbound, false, false);
    ASSERT_EQ(out.size(), 8u);
    EXPECT_TRUE(wire::is_last(std::to_integer<std::uint8_t>(out[6][0])));
    EXPECT_EQ(wire::parse_terminate(out[7]).code, wire::fault::kReadInvalidStag);
}

// A bad request behind an unanswered Read of the peer: the fault must not be followed by the beginning of a Response.
TEST(Regression, FaultOfARequestIsNotFollowedByAResponse) {
    Rig rig;
    ASSERT_TRUE(rig.start(plain_stream()));
    std::vector<std::byte> data(10000);
    const std::uint32_t stag = rig.region(data, kAllRights, 0x1000);
    // one Response, so that the next turn is a request's
    append_fpdu(rig.script.inbound, read_request({1, 0, 0, stag, 0x1000}, 1), false, false);
    EXPECT_EQ(rig.receive(), Rx::Status::kAgain);
    EXPECT_EQ(rig.transmit(), Tx::Status::kIdle);
    append_fpdu(rig.script.inbound, read_request({1, 0, 10000, stag, 0x1000}, 2), false, false);
    EXPECT_EQ(rig.receive(), Rx::Status::kAgain);
    const Sge bad{0x1000, 64, stag ^ 1};
    ASSERT_EQ(rig.qp->post_send(simple(2, WrOpcode::kSend, bad)), PostResult::kOk);
    EXPECT_EQ(rig.transmit(), Tx::Status::kLast);
    const auto out = ulpdus_of(rig.script.outbound, false, false);
    ASSERT_FALSE(out.empty());
    EXPECT_EQ(wire::parse_terminate(out.back()).code, wire::fault::kLocalFailure);
    for (std::size_t i = 0; i + 1 < out.size(); ++i) {
        const bool last = wire::is_last(std::to_integer<std::uint8_t>(out[i][0]));
        EXPECT_TRUE(last || i + 2 < out.size()) << "the Terminate stands inside a message";
    }
}

// An FPDU that is half out cannot be finished without its memory: the stream is over.
TEST(Regression, MemoryGoneInsideAnFpduBreaksTheStream) {
    for (const bool response : {false, true}) {
        Rig rig;
        ASSERT_TRUE(rig.start(plain_stream()));
        rig.script.emss = 9000;
        std::vector<std::byte> data(8000);
        const std::uint32_t key = rig.region(data, kAllRights);
        const Sge sge = sge_of(data, key);
        if (response) {
            append_fpdu(rig.script.inbound, read_request({1, 0, 8000, key, sge.addr}, 1), false, false);
            EXPECT_EQ(rig.receive(), Rx::Status::kAgain);
        } else {
            ASSERT_EQ(rig.qp->post_send(simple(1, WrOpcode::kSend, sge)), PostResult::kOk);
        }
        rig.script.window = 4000;
        EXPECT_EQ(rig.transmit(), Tx::Status::kBlocked);
        rig.memory.remove(key);
        rig.script.window = kNoLimit;
        EXPECT_EQ(rig.transmit(), Tx::Status::kBroken);
        EXPECT_EQ(rig.script.outbound.size(), 4000u);
        rig.end(CloseReason::kLost);
        const auto done = rig.poll(rig.send_cq);
        ASSERT_EQ(done.size(), response ? 0u : 1u);
        if (!response) {
            EXPECT_EQ(done[0].status, WcStatus::kLocProtErr);
        }
    }
}

// A receive may hold more than 2^32 octets, a message may not (RFC 5041 5.2): its offset must not begin anew.
TEST(Regression, MessageBeyondFourGigabytes) {
    Rig rig;
    ASSERT_TRUE(rig.start(plain_stream()));
    std::vector<std::byte> data(64);
    const std::uint32_t key =
        rig.memory.add(Rig::kPd, data.data(), std::uint64_t{1} << 33, 0x1000, access::kLocalWrite);
    const std::array<Sge, 2> sges{{{0x1000, 0xffffffff, key}, {0x1000 + 0xffffffff, 0xffffffff, key}}};
    ASSERT_EQ(rig.qp->post_recv({1, sges}), PostResult::kOk);
    CoreTestAccess::send_offset(rig.qp->rx()) = 0xfffffff0;
    append_fpdu(rig.script.inbound, untagged(Opcode::kSend, 0, 1, 0xfffffff0, 64), false, false);
    EXPECT_EQ(rig.receive(), Rx::Status::kAgain);
    EXPECT_EQ(rig.transmit(), Tx::Status::kLast);
    const auto out = ulpdus_of(rig.script.outbound, false, false);
    ASSERT_EQ(out.size(), 1u);
    EXPECT_EQ(wire::parse_terminate(out[0]).code, wire::fault::kMessageTooLong);
}

// EFAULT while a Response goes out says nothing about the requests that wait behind it.
TEST(Regression, FaultInAResponseBlamesNoRequest) {
    struct Faulting final : Transport {
        IoResult receive(const IoSlice*, std::size_t) override { return {IoStatus::kAgain, 0}; }
        IoResult send(const IoSlice*, std::size_t) override { return {IoStatus::kFault, 0}; }
        void finish_sending() override {}
        std::uint32_t emss() const override { return 1460; }
    };
    Rig rig;
    struct Both final : Transport {
        explicit Both(Script& script) : in(script) {}
        IoResult receive(const IoSlice* slices, std::size_t count) override { return in.receive(slices, count); }
        IoResult send(const IoSlice* slices, std::size_t count) override { return out.send(slices, count); }
        void finish_sending() override {}
        std::uint32_t emss() const override { return 1460; }
        ScriptTransport in;
        Faulting out;
    };
    std::vector<std::byte> data(64);
    const std::uint32_t key = rig.region(data, kAllRights);
    {
        RxGuard rx(rig.qp->rx_lock());
        TxGuard tx(rig.qp->tx_lock());
        std::unique_ptr<Transport> transport = std::make_unique<Both>(rig.script);
        ASSERT_TRUE(rig.qp->start(rx, tx, plain_stream(), transport));
    }
    const Sge sge = sge_of(data, key);
    append_fpdu(rig.script.inbound, read_request({1, 0, 64, key, sge.addr}, 1), false, false);
    EXPECT_EQ(rig.receive(), Rx::Status::kAgain);
    ASSERT_EQ(rig.qp->post_send(simple(1, WrOpcode::kSend, sge)), PostResult::kOk);
    EXPECT_EQ(rig.transmit(), Tx::Status::kBroken);
    rig.end(CloseReason::kLost);
    const auto done = rig.poll(rig.send_cq);
    ASSERT_EQ(done.size(), 1u);
    EXPECT_EQ(done[0].status, WcStatus::kWrFlushErr);
}

// What receives expect of the next message's size is told by the last two: a Send that stalls is one of them.
TEST(Regression, AStalledSendCountsOnceForTheSizeOfTheNext) {
    Rig rig;
    StreamParameters parameters = plain_stream();
    parameters.large_fpdu = true;
    ASSERT_TRUE(rig.start(parameters));
    std::vector<std::byte> data(40'000);
    const std::uint32_t key = rig.region(data, kAllRights, 0x1000);
    append_fpdu(rig.script.inbound, tagged(Opcode::kWrite, key, 0x1000, data.size()), false, false);
    append_fpdu(rig.script.inbound, untagged(Opcode::kSend, 0, 1, 0, 0), false, false);
    EXPECT_EQ(rig.receive(), Rx::Status::kStalled);
    EXPECT_EQ(CoreTestAccess::recent_large(rig.qp->rx()), 0b10u);
    ASSERT_EQ(rig.qp->post_recv({1, {}}), PostResult::kOk);
    EXPECT_EQ(rig.receive(), Rx::Status::kAgain);
    EXPECT_EQ(CoreTestAccess::recent_large(rig.qp->rx()), 0b10u);
    EXPECT_EQ(rig.poll(rig.recv_cq).size(), 1u);
}

}  // namespace

}  // namespace swrnic::engine::test
