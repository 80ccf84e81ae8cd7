// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Shared receive queues, without a thread: who gets which receive, the limit, and what happens to a half-filled one.
#include "engine/core/srq.h"

#include <gtest/gtest.h>

#include <array>

#include "engine/support.h"

namespace swrnic::engine::test {

namespace {

constexpr std::uint32_t kSrqPd = 9, kHandle = 33;

Bytes send_segment(std::uint32_t msn, std::uint32_t mo, std::size_t payload, bool last = true) {
    Bytes ulpdu(wire::kUntaggedHeaderLen + payload, std::byte(0x5a));
    wire::UntaggedHeader{last, wire::rdmap_control(wire::Opcode::kSend), 0, wire::kSendQueue, msn, mo}.emit(
        ulpdu.data());
    return ulpdu;
}

// Two QPs of one domain share a queue of another domain, whose regions its receives name.
class SrqTest : public testing::Test {
  protected:
    void SetUp() override {
        for (std::size_t i = 0; i < rigs_.size(); ++i) {
            Rig& rig = rigs_[i];
            lkeys_[i] = rig.region(memory_, access::kLocalWrite, 0, kSrqPd);
            QpInit init = rig.qp->init();
            init.srq = &srq_;
            rig.qp = std::make_unique<Qp>(init, rig.memory, rig.random);
            rig.qp->apply(QpEvent::kToInit);
            ASSERT_TRUE(rig.start(plain_stream()));
        }
    }
    // A receive of 16 octets for the rig that will take it: each rig has a table of regions of its own.
    PostResult post(std::uint64_t wr_id, std::size_t rig = 0, std::uint32_t length = 16) {
        const Sge sge{reinterpret_cast<std::uintptr_t>(memory_.data()), length, lkeys_[rig]};
        return srq_.post({wr_id, {&sge, 1}});
    }
    void arrive(std::size_t rig, const Bytes& ulpdu) { append_fpdu(rigs_[rig].script.inbound, ulpdu, false, false); }

    std::vector<std::byte> memory_ = std::vector<std::byte>(64);
    std::array<Rig, 2> rigs_;
    std::array<std::uint32_t, 2> lkeys_{};
    Srq srq_{kSrqPd, 8, 4, kHandle};
};

TEST_F(SrqTest, ReceivesGoToWhoeverNeedsOneInTheOrderOfPosting) {
    ASSERT_EQ(post(1, 0), PostResult::kOk);
    ASSERT_EQ(post(2, 1), PostResult::kOk);
    ASSERT_EQ(post(3, 0), PostResult::kOk);
    arrive(0, send_segment(1, 0, 8));
    EXPECT_EQ(rigs_[0].receive(), Rx::Status::kAgain);
    arrive(1, send_segment(1, 0, 4));
    EXPECT_EQ(rigs_[1].receive(), Rx::Status::kAgain);
    arrive(0, send_segment(2, 0, 0));
    EXPECT_EQ(rigs_[0].receive(), Rx::Status::kAgain);
    const auto first = rigs_[0].poll(rigs_[0].recv_cq), second = rigs_[1].poll(rigs_[1].recv_cq);
    ASSERT_EQ(first.size(), 2u);
    ASSERT_EQ(second.size(), 1u);
    EXPECT_EQ(first[0].wr_id, 1u);
    EXPECT_EQ(first[0].byte_len, 8u);
    EXPECT_EQ(second[0].wr_id, 2u);
    EXPECT_EQ(first[1].wr_id, 3u);
    EXPECT_EQ(memory_[7], std::byte(0x5a));
    EXPECT_EQ(memory_[8], std::byte(0));
    EXPECT_TRUE(srq_.empty());
}

TEST_F(SrqTest, AMessageKeepsItsReceiveWhileOthersTakeTheNext) {
    ASSERT_EQ(post(1, 0), PostResult::kOk);
    ASSERT_EQ(post(2, 1), PostResult::kOk);
    arrive(0, send_segment(1, 0, 8, false));
    EXPECT_EQ(rigs_[0].receive(), Rx::Status::kAgain);
    arrive(1, send_segment(1, 0, 4));
    EXPECT_EQ(rigs_[1].receive(), Rx::Status::kAgain);
    arrive(0, send_segment(1, 8, 8));
    EXPECT_EQ(rigs_[0].receive(), Rx::Status::kAgain);
    const auto whole = rigs_[0].poll(rigs_[0].recv_cq);
    ASSERT_EQ(whole.size(), 1u);
    EXPECT_EQ(whole[0].wr_id, 1u);
    EXPECT_EQ(whole[0].byte_len, 16u);
    EXPECT_EQ(rigs_[1].poll(rigs_[1].recv_cq).at(0).wr_id, 2u);
}

TEST_F(SrqTest, AnEmptyQueueStallsTheStreamUntilAReceiveIsPosted) {
    arrive(0, send_segment(1, 0, 8));
    EXPECT_EQ(rigs_[0].receive(), Rx::Status::kStalled);
    srq_.wait(*rigs_[0].qp);
    EXPECT_TRUE(srq_.has_waiters());
    ASSERT_EQ(post(1), PostResult::kOk);
    EXPECT_EQ(srq_.take_waiters(), std::vector<Qp*>{rigs_[0].qp.get()});
    EXPECT_FALSE(srq_.has_waiters());
    EXPECT_EQ(rigs_[0].receive(), Rx::Status::kAgain);
    EXPECT_EQ(rigs_[0].poll(rigs_[0].recv_cq).size(), 1u);
}

TEST_F(SrqTest, AQpThatIsGoneWaitsNoMore) {
    srq_.wait(*rigs_[0].qp);
    srq_.wait(*rigs_[1].qp);
    srq_.forget(*rigs_[0].qp);
    EXPECT_EQ(srq_.take_waiters(), std::vector<Qp*>{rigs_[1].qp.get()});
}

TEST_F(SrqTest, AQueueThatIsRefilledSlowlyServesEachWaiterInItsTurn) {
    std::array<std::uint32_t, 2> sent{};
    const auto send_four = [&](std::size_t rig) {
        for (int i = 0; i < 4; ++i)
            arrive(rig, send_segment(++sent[rig], 0, 8));
    };
    for (std::size_t rig : {0, 1}) {
        send_four(rig);
        ASSERT_EQ(rigs_[rig].receive(), Rx::Status::kStalled);
        srq_.wait(*rigs_[rig].qp);
    }
    std::array<std::size_t, 2> received{};
    for (int refill = 0; refill < 4; ++refill) {
        // Whose turn it is finds one receive of its own region, and its peer has more to send; the other finds none.
        const std::vector<Qp*> waiters = srq_.take_waiters();
        ASSERT_EQ(waiters.size(), 2u);
        const std::size_t first = waiters.front() == rigs_[0].qp.get() ? 0 : 1;
        ASSERT_EQ(post(0, first), PostResult::kOk);
        for (Qp* waiter : waiters) {
            const std::size_t rig = waiter == rigs_[0].qp.get() ? 0 : 1;
            ASSERT_EQ(rigs_[rig].receive(), Rx::Status::kStalled);
            srq_.wait(*waiter);
            received[rig] += rigs_[rig].poll(rigs_[rig].recv_cq).size();
        }
    }
    EXPECT_EQ(received, (std::array<std::size_t, 2>{2, 2}));
}

TEST_F(SrqTest, TheLimitIsToldOnceForEachArming) {
    for (std::uint64_t i = 0; i < 4; ++i)
        ASSERT_EQ(post(i), PostResult::kOk);
    EXPECT_FALSE(srq_.arm_limit(9));  // more than it can hold
    ASSERT_TRUE(srq_.arm_limit(3));
    for (std::uint32_t msn = 1; msn <= 4; ++msn) {
        arrive(0, send_segment(msn, 0, 1));
        EXPECT_EQ(rigs_[0].receive(), Rx::Status::kAgain);
        // 3 are left, then 2: fewer than the limit
        EXPECT_EQ(rigs_[0].outbox.events.size(), msn < 2 ? 0u : 1u) << msn;
    }
    EXPECT_EQ(rigs_[0].outbox.events[0].event, AsyncEvent::kSrqLimitReached);
    EXPECT_EQ(rigs_[0].outbox.events[0].id, kHandle);
    EXPECT_EQ(srq_.attributes().limit, 0u);
}

TEST_F(SrqTest, ALimitThatIsReachedIsToldAtArming) {
    Outbox outbox;
    ASSERT_EQ(post(0), PostResult::kOk);
    ASSERT_TRUE(srq_.arm_limit(1));
    srq_.tell(outbox);
    EXPECT_TRUE(outbox.empty()) << "one is not fewer than one";
    ASSERT_TRUE(srq_.arm_limit(2));
    EXPECT_EQ(srq_.attributes().limit, 0u);
    srq_.tell(outbox);
    ASSERT_EQ(outbox.events.size(), 1u);
    EXPECT_EQ(outbox.events[0].event, AsyncEvent::kSrqLimitReached);
    srq_.tell(outbox);
    EXPECT_EQ(outbox.events.size(), 1u);
}

TEST_F(SrqTest, ItHoldsWhatItGrantsAndGrowsWithWhatItHolds) {
    for (std::uint64_t i = 0; i < 8; ++i)
        ASSERT_EQ(post(i), PostResult::kOk);
    EXPECT_EQ(post(8), PostResult::kFull);
    EXPECT_FALSE(srq_.resize(7));
    ASSERT_TRUE(srq_.resize(20));
    EXPECT_EQ(srq_.attributes().max_wr, 20u);
    for (std::uint64_t i = 8; i < 20; ++i)
        ASSERT_EQ(post(i), PostResult::kOk);
    EXPECT_EQ(post(20), PostResult::kFull);
    for (std::uint32_t msn = 1; msn <= 20; ++msn)
        arrive(0, send_segment(msn, 0, 1));
    EXPECT_EQ(rigs_[0].receive(), Rx::Status::kAgain);
    const auto done = rigs_[0].poll(rigs_[0].recv_cq);
    ASSERT_EQ(done.size(), 20u);
    for (std::uint64_t i = 0; i < done.size(); ++i)
        EXPECT_EQ(done[i].wr_id, i);
}

TEST_F(SrqTest, TheQpsOwnQueueTakesNothing) {
    EXPECT_EQ(rigs_[0].qp->post_recv({1, {}}), PostResult::kInvalid);
    const std::array<Sge, 5> five{};
    EXPECT_EQ(srq_.post({1, five}), PostResult::kInvalid);
}

TEST_F(SrqTest, TheEndFlushesTheReceiveInUseAndLeavesTheOthers) {
    ASSERT_EQ(post(1), PostResult::kOk);
    ASSERT_EQ(post(2, 1), PostResult::kOk);
    arrive(0, send_segment(1, 0, 8, false));
    EXPECT_EQ(rigs_[0].receive(), Rx::Status::kAgain);
    rigs_[0].end(CloseReason::kLost);
    const auto flushed = rigs_[0].poll(rigs_[0].recv_cq);
    ASSERT_EQ(flushed.size(), 1u);
    EXPECT_EQ(flushed[0].wr_id, 1u);
    EXPECT_EQ(flushed[0].status, WcStatus::kWrFlushErr);
    ASSERT_EQ(rigs_[0].outbox.events.size(), 1u);
    EXPECT_EQ(rigs_[0].outbox.events[0].event, AsyncEvent::kQpLastWqeReached);
    arrive(1, send_segment(1, 0, 4));
    EXPECT_EQ(rigs_[1].receive(), Rx::Status::kAgain);
    EXPECT_EQ(rigs_[1].poll(rigs_[1].recv_cq).at(0).wr_id, 2u);
}

TEST_F(SrqTest, AMessageThatIsTooLongFailsTheReceiveThatItTook) {
    ASSERT_EQ(post(1, 0, 4), PostResult::kOk);
    arrive(0, send_segment(1, 0, 8));
    rigs_[0].receive();
    rigs_[0].transmit();
    rigs_[0].end(CloseReason::kError);
    const auto failed = rigs_[0].poll(rigs_[0].recv_cq);
    ASSERT_EQ(failed.size(), 1u);
    EXPECT_EQ(failed[0].status, WcStatus::kLocLenErr);
}

}  // namespace

}  // namespace swrnic::engine::test
