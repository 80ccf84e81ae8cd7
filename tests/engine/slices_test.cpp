// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Which payloads of a send are copied, and which are sent from where they lie.
#include <gtest/gtest.h>

#include <algorithm>
#include <span>
#include <vector>

#include "engine/support.h"
#include "wire/fpdu.h"

namespace swrnic::engine::test {

namespace {

class SlicesTest : public testing::Test {
  protected:
    void SetUp() override {
        for (std::size_t i = 0; i < data_.size(); ++i)
            data_[i] = static_cast<std::byte>(i * 7 + i / 251);
        StreamParameters parameters = plain_stream();
        parameters.large_fpdu = true;
        ASSERT_TRUE(rig_.start(parameters));
    }
    // Messages of so many elements, alike in length, which follow each other in memory.
    void post(std::uint32_t length, int count, std::uint32_t elements = 1) {
        std::vector<Sge> sges;
        for (std::uint32_t i = 0; i < elements; ++i)
            sges.push_back({address() + i * (length / elements), length / elements, key_});
        for (int i = 0; i < count; ++i)
            ASSERT_EQ(rig_.qp->post_send({0, WrOpcode::kWrite, 0, sges, 0x1000, 0x2000, 0}), PostResult::kOk);
    }
    void expect_stream(std::size_t count, std::size_t length) {
        const auto out = ulpdus_of(rig_.script.outbound, false, false);
        ASSERT_EQ(out.size(), count);
        for (const Bytes& ulpdu : out)
            EXPECT_TRUE(
                std::ranges::equal(std::span(ulpdu).subspan(wire::kTaggedHeaderLen), std::span(data_).first(length)));
    }
    void expect_sent(std::size_t slices, std::size_t count, std::size_t length) {
        EXPECT_EQ(rig_.transmit(), Tx::Status::kIdle);
        EXPECT_EQ(rig_.script.slices, slices);
        expect_stream(count, length);
    }
    std::uintptr_t address() const { return reinterpret_cast<std::uintptr_t>(data_.data()); }

    Rig rig_;
    std::vector<std::byte> data_ = std::vector<std::byte>(Tx::kCopy);
    const std::uint32_t key_ = rig_.region(data_, access::kLocalWrite);
};

TEST_F(SlicesTest, AnFpduThatLeavesAloneIsOne) {
    post(Tx::kCopy, 1);
    expect_sent(1, 1, Tx::kCopy);
}

TEST_F(SlicesTest, BehindTheFirstOctetsPayloadsAreNotCopied) {
    post(4096, 20);
    expect_sent(18 * 2 + 1, 20, 4096);  // 18 of 20 payloads, and what stands around them
}

TEST_F(SlicesTest, SmallPayloadsAreCopied) {
    post(Tx::kLeastSlice, 20);
    expect_sent(1, 20, Tx::kLeastSlice);
}

TEST_F(SlicesTest, SmallElementsAreCopied) {
    post(4096, 20, 4);
    expect_sent(1, 20, 4096);
}

// What is laid out anew after a part of it went out may be laid out otherwise.
TEST_F(SlicesTest, WhereverTheTransportStopsTheStreamIsTheSame) {
    post(4096, 40);
    Tx::Status status = Tx::Status::kBlocked;
    int steps = 0;
    for (; status == Tx::Status::kBlocked; ++steps) {
        rig_.script.window = static_cast<std::size_t>(steps) * 331;
        status = rig_.transmit();
    }
    EXPECT_EQ(status, Tx::Status::kIdle);
    EXPECT_GT(steps, 20);
    expect_stream(40, 4096);
}

}  // namespace

}  // namespace swrnic::engine::test
