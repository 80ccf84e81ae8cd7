// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Regions whose offsets are no addresses, over a connection, as the target of a peer and as local memory (VERBS-30).
#include <cerrno>

#include "pair.h"

namespace swrnic::test {
namespace {

constexpr int kAll = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;
constexpr std::size_t kFrom = 1000, kLength = 3000;

class Regions : public DataPairTest {
  protected:
    ibv_wc_status transfer(ibv_wr_opcode opcode, const ibv_mr& mr, std::uint64_t to, std::uint32_t length) {
        ibv_sge local{.addr = address(source_.data()), .length = length, .lkey = source_mr_->lkey};
        return post(opcode, local, mr.rkey, to);
    }
    ibv_wc_status post(ibv_wr_opcode opcode, ibv_sge local, std::uint32_t rkey, std::uint64_t to) {
        ibv_send_wr wr{};
        wr.opcode = opcode;
        wr.send_flags = IBV_SEND_SIGNALED;
        wr.sg_list = &local;
        wr.num_sge = 1;
        wr.wr.rdma.remote_addr = to;
        wr.wr.rdma.rkey = rkey;
        ibv_send_wr* bad = nullptr;
        EXPECT_EQ(ibv_post_send(client_.qp(), &wr, &bad), 0);
        return next(client_.send_cq).status;
    }
    // The whole of it is written and read back, nothing around it changes, and its neighbours are refused.
    void check_target(const ibv_mr& mr, std::uint64_t base) {
        const std::array<char, 8192> sent = source_;
        ASSERT_EQ(transfer(IBV_WR_RDMA_WRITE, mr, base, kLength), IBV_WC_SUCCESS);
        ASSERT_EQ(transfer(IBV_WR_RDMA_READ, mr, base + 10, kLength - 10), IBV_WC_SUCCESS);
        for (std::size_t i = 0; i < target_.size(); ++i)
            ASSERT_EQ(target_[i], i >= kFrom && i < kFrom + kLength ? sent[i - kFrom] : 0) << i;
        for (std::size_t i = 0; i < kLength - 10; ++i)
            ASSERT_EQ(source_[i], sent[i + 10]) << i;
        EXPECT_EQ(transfer(IBV_WR_RDMA_READ, mr, base + 1, kLength), IBV_WC_REM_ACCESS_ERR);
    }
};

TEST_F(Regions, zero_based) {
    ibv_mr* mr = reg(target_.data() + kFrom, kLength, kAll | IBV_ACCESS_ZERO_BASED);
    check_target(*mr, 0);
}

TEST_F(Regions, zero_based_by_address) {
    ibv_mr* mr = reg(target_.data() + kFrom, kLength, kAll | IBV_ACCESS_ZERO_BASED);
    EXPECT_EQ(transfer(IBV_WR_RDMA_READ, *mr, address(target_.data() + kFrom), 1), IBV_WC_REM_ACCESS_ERR);
}

class Iova : public Regions, public testing::WithParamInterface<std::uint64_t> {};

TEST_P(Iova, is_where_the_region_begins) {
    const MrPtr mr(ibv_reg_mr_iova(pd(), target_.data() + kFrom, kLength, GetParam(), kAll));
    ASSERT_TRUE(mr) << errno;
    EXPECT_EQ(mr->addr, target_.data() + kFrom);
    EXPECT_EQ(mr->length, kLength);
    check_target(*mr, GetParam());
}
INSTANTIATE_TEST_SUITE_P(All, Iova, testing::Values(0, 0x1000, 0x123456789abcdef, UINT64_MAX - kLength));

// Elements of a request speak of the same offsets.
TEST_F(Regions, offsets_in_elements) {
    const MrPtr mr(ibv_reg_mr_iova(pd(), target_.data() + kFrom, kLength, 0x5000, kAll));
    ASSERT_TRUE(mr);
    for (std::size_t i = 0; i < kLength; ++i)
        target_[kFrom + i] = static_cast<char>(i * 3 + 5);
    const std::array<char, 8192> held = target_;
    ASSERT_EQ(post(IBV_WR_RDMA_WRITE, {.addr = 0x5000 + 7, .length = 500, .lkey = mr->lkey}, source_mr_->rkey,
                   address(source_.data())),
              IBV_WC_SUCCESS);
    // A Read behind it, of other octets into the region.
    ASSERT_EQ(post(IBV_WR_RDMA_READ, {.addr = 0x5000 + 1000, .length = 500, .lkey = mr->lkey}, source_mr_->rkey,
                   address(source_.data())),
              IBV_WC_SUCCESS);
    for (std::size_t i = 0; i < 500; ++i) {
        ASSERT_EQ(source_[i], held[kFrom + 7 + i]) << i;
        ASSERT_EQ(target_[kFrom + 1000 + i], held[kFrom + 7 + i]) << i;
    }
    EXPECT_EQ(post(IBV_WR_RDMA_WRITE, {.addr = address(target_.data() + kFrom), .length = 1, .lkey = mr->lkey},
                   source_mr_->rkey, address(source_.data())),
              IBV_WC_LOC_PROT_ERR);
}

}  // namespace
}  // namespace swrnic::test
