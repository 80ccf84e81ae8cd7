// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// When the completion of a receive may be seen: not before that of the Send that it answers, and not before what it
// says of an invalidated STag is true.
#include <gtest/gtest.h>

#include "engine/messages.h"

namespace swrnic::engine::test {

namespace {

constexpr std::uint64_t kBase = 0x10000;

Bytes empty_send(std::uint32_t msn, std::uint32_t invalidate = 0) {
    Bytes ulpdu(wire::kUntaggedHeaderLen);
    wire::UntaggedHeader{true,       wire::rdmap_control(invalidate != 0 ? Opcode::kSendInvalidate : Opcode::kSend),
                         invalidate, wire::kSendQueue,
                         msn,        0}
        .emit(ulpdu.data());
    return ulpdu;
}

class ReceiveOrder : public testing::Test {
  protected:
    void SetUp() override {
        EXPECT_TRUE(rig.start(plain_stream()));
        region = rig.region(data, kAllRights, kBase);
        for (std::uint64_t i = 1; i <= 8; ++i)
            EXPECT_EQ(rig.qp->post_recv({i, {}}), PostResult::kOk);
    }
    void arrives(std::uint32_t msn, std::uint32_t invalidate = 0) {
        append_fpdu(rig.script.inbound, empty_send(msn, invalidate), false, false);
    }
    std::vector<std::uint64_t> received() {
        std::vector<std::uint64_t> ids;
        for (const WorkCompletion& done : rig.poll(rig.recv_cq)) {
            EXPECT_EQ(done.status, WcStatus::kSuccess);
            ids.push_back(done.wr_id);
        }
        return ids;
    }
    using Ids = std::vector<std::uint64_t>;

    Rig rig;
    std::vector<std::byte> data = std::vector<std::byte>(64);
    std::uint32_t region = 0;
};

// Another thread receives the answer while the one that sent is still inside its call.
TEST_F(ReceiveOrder, AnAnswerIsCompleteBehindTheSendThatAskedForIt) {
    ASSERT_EQ(post(rig, 10, WrOpcode::kSend), PostResult::kOk);
    int answers = 0;
    rig.script.inside_send = [&] {
        for (int i = 0; i < 3; ++i)
            arrives(static_cast<std::uint32_t>(++answers));
        EXPECT_EQ(rig.receive(), Rx::Status::kAgain);
        EXPECT_TRUE(rig.poll(rig.send_cq).empty());
        EXPECT_TRUE(received().empty()) << "the Send is not complete";
    };
    EXPECT_EQ(rig.transmit(), Tx::Status::kIdle);
    rig.script.inside_send = nullptr;
    EXPECT_EQ(rig.poll(rig.send_cq).size(), 1u);
    EXPECT_EQ(received(), (Ids{1, 2, 3}));
    arrives(4);
    rig.receive();
    EXPECT_EQ(received(), Ids{4}) << "nobody sends: nothing to wait for";
}

// It answers nothing that TCP could have taken.
TEST_F(ReceiveOrder, AMessageThatIsOutInPartHoldsNobodyUp) {
    const Sge sge = sge_of(data, rig.region(data, access::kLocalWrite));
    ASSERT_EQ(post(rig, 10, WrOpcode::kSend, {&sge, 1}), PostResult::kOk);
    rig.script.window = 20;
    EXPECT_EQ(rig.transmit(), Tx::Status::kBlocked);
    arrives(1);
    rig.receive();
    EXPECT_EQ(received(), Ids{1});
    EXPECT_TRUE(rig.poll(rig.send_cq).empty());
}

// The program may arm its CQ while nothing stands in it: who sends tells of what waited.
TEST_F(ReceiveOrder, WhoSendsNotifies) {
    ASSERT_EQ(post(rig, 10, WrOpcode::kSend), PostResult::kOk);
    rig.recv_cq.arm(false);
    rig.script.inside_send = [&] {
        arrives(1);
        rig.receive();
        EXPECT_TRUE(rig.outbox.notify.empty());
    };
    rig.transmit();
    EXPECT_EQ(rig.outbox.notify, std::vector<std::uint32_t>{Rig::kRecvCq});
}

// SEC-6, SEC-10: somebody who looked the STag up before may still be placing.
TEST_F(ReceiveOrder, AnInvalidationIsToldWhenNobodyIsInsideAnyMore) {
    arrives(1);
    arrives(2, region);
    arrives(3);
    {
        const Pass other = rig.passes.begin();
        EXPECT_EQ(rig.receive(), Rx::Status::kMoved);
        EXPECT_EQ(rig.memory.look_up(Rig::kPd, region, kBase, 1, access::kRemoteWrite, Rig::kQpn).error,
                  MemoryError::kInvalidStag)
            << "for others it has gone already";
        EXPECT_EQ(received(), Ids{1});
        const Pass later = rig.passes.begin();
        EXPECT_EQ(rig.receive(), Rx::Status::kMoved);
        EXPECT_TRUE(received().empty());
    }
    const Pass later = rig.passes.begin();
    EXPECT_EQ(rig.receive(), Rx::Status::kAgain);
    const auto done = rig.poll(rig.recv_cq);
    ASSERT_EQ(done.size(), 2u);
    EXPECT_EQ(done[0].wr_id, 2u);
    EXPECT_EQ(done[0].wc_flags, wc_flag::kWithInv);
    EXPECT_EQ(done[0].invalidated_stag, region);
    EXPECT_EQ(done[1].wr_id, 3u);
}

// What the peer has sent before its FIN is received, though it closes at once.
TEST_F(ReceiveOrder, TheEndOfTheStreamIsBehindAnInvalidationThatWaits) {
    arrives(1, region);
    rig.script.fin = true;
    {
        const Pass other = rig.passes.begin();
        EXPECT_EQ(rig.receive(), Rx::Status::kMoved);
    }
    EXPECT_EQ(rig.receive(), Rx::Status::kEof);
    EXPECT_EQ(received(), Ids{1});
}

// A fault that stands behind it in the same read ends the stream, and is found when it need not wait any more.
TEST(ReceiveOrderHeld, AFaultBehindAnInvalidationThatWaitsFlushesItNot) {
    for (const bool crc : {false, true}) {
        SCOPED_TRACE(crc);
        Rig rig;
        StreamParameters stream = plain_stream();
        stream.crc = crc;
        ASSERT_TRUE(rig.start(stream));
        std::vector<std::byte> data(64);
        const std::uint32_t region = rig.region(data, kAllRights, kBase);
        for (std::uint64_t i = 1; i <= 3; ++i)
            ASSERT_EQ(rig.qp->post_recv({i, {}}), PostResult::kOk);
        append_fpdu(rig.script.inbound, empty_send(1, region), false, crc);
        append_fpdu(rig.script.inbound, empty_send(2), false, crc);
        append_fpdu(rig.script.inbound, empty_send(7), false, crc);  // no such MSN is expected
        {
            const Pass other = rig.passes.begin();
            EXPECT_EQ(rig.receive(), Rx::Status::kMoved);
            EXPECT_FALSE(rig.qp->has_fault());
            EXPECT_TRUE(rig.poll(rig.recv_cq).empty());
        }
        rig.receive();
        EXPECT_TRUE(rig.qp->has_fault());
        rig.end(CloseReason::kError);
        const auto done = rig.poll(rig.recv_cq);
        ASSERT_EQ(done.size(), 3u);
        EXPECT_EQ(done[0].status, WcStatus::kSuccess);
        EXPECT_EQ(done[0].invalidated_stag, region);
        EXPECT_EQ(done[1].status, WcStatus::kSuccess);
        EXPECT_EQ(done[2].status, WcStatus::kWrFlushErr);
    }
}

TEST_F(ReceiveOrder, AnAbortFlushesWhatCannotBeSaid) {
    arrives(1, region);
    arrives(2);  // behind it, so not received
    const Pass other = rig.passes.begin();
    EXPECT_EQ(rig.receive(), Rx::Status::kMoved);
    rig.end(CloseReason::kLost);
    const auto done = rig.poll(rig.recv_cq);
    ASSERT_EQ(done.size(), 8u);
    for (std::uint64_t i = 0; i < done.size(); ++i) {
        EXPECT_EQ(done[i].wr_id, i + 1);
        EXPECT_EQ(done[i].status, WcStatus::kWrFlushErr);
        EXPECT_EQ(done[i].wc_flags, 0u);
    }
}

TEST(ReceiveOrderOverflow, ACompletionThatWaitedAndIsLostEndsTheStream) {
    Rig rig({.cq_entries = 1});
    ASSERT_TRUE(rig.start(plain_stream()));
    for (std::uint64_t i = 1; i <= 2; ++i) {
        ASSERT_EQ(rig.qp->post_recv({i, {}}), PostResult::kOk);
        append_fpdu(rig.script.inbound, empty_send(static_cast<std::uint32_t>(i)), false, false);
    }
    ASSERT_EQ(post(rig, 10, WrOpcode::kSend), PostResult::kOk);
    rig.script.inside_send = [&] { rig.receive(); };
    {
        TxGuard guard(rig.qp->tx_lock());
        Pass pass = rig.passes.begin();
        EXPECT_EQ(rig.qp->transmit(guard, pass), Tx::Status::kMoved);
    }
    EXPECT_TRUE(rig.qp->has_fault());
}

}  // namespace

}  // namespace swrnic::engine::test
