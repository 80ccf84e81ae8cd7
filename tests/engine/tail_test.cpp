// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Tx::Tail::kCork: what waits for more of its kind, and what does not.
#include <gtest/gtest.h>

#include "engine/support.h"
#include "wire/fpdu.h"

namespace swrnic::engine::test {

namespace {

constexpr std::uint32_t kEmss = 1460;
constexpr std::size_t kPacket = 44 * kEmss;  // 64 KiB less headers, in whole segments

class TailTest : public testing::Test {
  protected:
    void start(bool large_fpdu, bool crc = false) {
        StreamParameters parameters = plain_stream();
        parameters.large_fpdu = large_fpdu;
        parameters.crc = crc;
        rig_.script.emss = kEmss;
        ASSERT_TRUE(rig_.start(parameters));
    }
    void post(WrOpcode opcode, std::uint32_t length, int count) {
        for (int i = 0; i < count; ++i) {
            const Sge sge{reinterpret_cast<std::uintptr_t>(data_.data()), length, key_};
            ASSERT_EQ(rig_.qp->post_send({0, opcode, 0, {&sge, 1}, 0x1000, 0x2000, 0}), PostResult::kOk);
        }
    }
    std::size_t sent() const { return rig_.script.outbound.size(); }

    Rig rig_;
    std::vector<std::byte> data_ = std::vector<std::byte>(65'536);
    const std::uint32_t key_ = rig_.region(data_, access::kLocalWrite);
};

TEST_F(TailTest, SmallMessagesWaitUntilTheyFillAPacket) {
    constexpr std::size_t kFpdu = wire::fpdu_size(wire::kTaggedHeaderLen + 4096);
    start(true);
    post(WrOpcode::kWrite, 4096, 40);
    EXPECT_EQ(rig_.transmit(Tx::Tail::kCork), Tx::Status::kCorked);
    EXPECT_EQ(sent(), 2 * kPacket / kFpdu * kFpdu);
    // More of them: those that waited go first, and again whole packets.
    post(WrOpcode::kWrite, 4096, 20);
    EXPECT_EQ(rig_.transmit(Tx::Tail::kCork), Tx::Status::kCorked);
    EXPECT_EQ(sent(), (2 * kPacket / kFpdu + kPacket / kFpdu) * kFpdu);
    EXPECT_EQ(rig_.transmit(), Tx::Status::kIdle);
    EXPECT_EQ(ulpdus_of(rig_.script.outbound, false, false).size(), 60u);
}

// Copied and sealed before it is known where the last packet ends.
TEST_F(TailTest, WithCrcNothingIsLost) {
    start(true, true);
    for (int round = 1; round <= 10; ++round) {
        post(WrOpcode::kSend, 4096, 20);
        rig_.transmit(Tx::Tail::kCork);
    }
    EXPECT_EQ(rig_.transmit(), Tx::Status::kIdle);
    const auto out = ulpdus_of(rig_.script.outbound, false, true);
    ASSERT_EQ(out.size(), 200u);
    for (std::size_t i = 0; i < out.size(); ++i)
        EXPECT_EQ(wire::UntaggedHeader::parse(out[i].data()).msn, i + 1);
}

TEST_F(TailTest, LessThanAPacketDoesNotWait) {
    start(true);
    post(WrOpcode::kSend, 4096, 15);
    EXPECT_EQ(rig_.transmit(Tx::Tail::kCork), Tx::Status::kIdle);
    EXPECT_EQ(ulpdus_of(rig_.script.outbound, false, false).size(), 15u);
}

TEST_F(TailTest, LargeMessagesDoNotWait) {
    start(true);
    post(WrOpcode::kWrite, 30'000, 5);
    EXPECT_EQ(rig_.transmit(Tx::Tail::kCork), Tx::Status::kIdle);
    EXPECT_EQ(ulpdus_of(rig_.script.outbound, false, false).size(), 5u);
}

// A message of several FPDUs is not cut, and counts with its whole length.
TEST_F(TailTest, MessagesWaitAsAWhole) {
    start(false);
    post(WrOpcode::kWrite, 8192, 14);
    EXPECT_EQ(rig_.transmit(Tx::Tail::kCork), Tx::Status::kCorked);
    EXPECT_EQ(ulpdus_of(rig_.script.outbound, false, false).size(), 7u * 6);
    EXPECT_LE(sent(), kPacket);
    EXPECT_EQ(rig_.transmit(), Tx::Status::kIdle);
    EXPECT_EQ(ulpdus_of(rig_.script.outbound, false, false).size(), 14u * 6);
}

}  // namespace
}  // namespace swrnic::engine::test
