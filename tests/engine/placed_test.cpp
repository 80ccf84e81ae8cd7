// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Requests that are complete when the peer has placed them, and the questions by which a QP learns that.
#include <gtest/gtest.h>

#include <algorithm>

#include "engine/messages.h"
#include "engine/support.h"
#include "wire/rdmap.h"

namespace swrnic::engine::test {
namespace {

class PlacedTest : public testing::Test {
  protected:
    void SetUp() override {
        rig_.qp->wire(true);
        ASSERT_TRUE(rig_.qp->apply(QpEvent::kToRtr));
        ASSERT_TRUE(rig_.qp->apply(QpEvent::kToRtsWired));
        StreamParameters parameters = plain_stream();
        parameters.ird = parameters.ord = 32;
        ASSERT_TRUE(rig_.start(parameters));
        sge_ = {reinterpret_cast<std::uintptr_t>(memory_.data()), 64, rig_.region(memory_, kAllRights)};
    }
    void write(std::uint64_t id) {
        ASSERT_EQ(rig_.qp->post_send(
                      {id, WrOpcode::kWrite, send_flag::kSignaled, {&sge_, 1}, sge_.addr, sge_.lkey, {0}, {}, {}}),
                  PostResult::kOk);
        rig_.transmit();
    }
    std::size_t questions() const {
        const std::vector<Bytes> sent = ulpdus_of(rig_.script.outbound, false, false);
        return static_cast<std::size_t>(std::count_if(sent.begin(), sent.end(), [](const Bytes& ulpdu) {
            return wire::opcode_of(std::to_integer<std::uint8_t>(ulpdu[1])) == wire::Opcode::kReadRequest;
        }));
    }
    void answer() {
        append_fpdu(rig_.script.inbound, tagged(wire::Opcode::kReadResponse, 1, 0, 0), false, false);
        rig_.receive();
        rig_.transmit();
    }

    std::vector<std::byte> memory_ = std::vector<std::byte>(64);
    Rig rig_;
    Sge sge_{};
};

TEST_F(PlacedTest, SomeQuestionsAreUnderWayAtOnce) {
    constexpr std::size_t kMost = 8, kWrites = 12;
    for (std::size_t i = 1; i <= kWrites; ++i) {
        ASSERT_NO_FATAL_FAILURE(write(i));
        EXPECT_EQ(questions(), std::min(i, kMost));
        EXPECT_TRUE(rig_.poll(rig_.send_cq).empty());
    }
    // The first answer is of the first Write alone, and leaves room for a question about those that wait.
    answer();
    EXPECT_EQ(rig_.poll(rig_.send_cq).size(), 1u);
    EXPECT_EQ(questions(), kMost + 1);
    for (std::size_t i = 0; i < kMost - 1; ++i) {
        answer();
        EXPECT_EQ(rig_.poll(rig_.send_cq).size(), 1u);
    }
    answer();
    EXPECT_EQ(rig_.poll(rig_.send_cq).size(), kWrites - kMost);
    EXPECT_EQ(questions(), kMost + 1);
}

}  // namespace
}  // namespace swrnic::engine::test
