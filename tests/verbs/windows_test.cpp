// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Memory windows as an application uses them: the server binds, the client reads and writes through the window.
#include <poll.h>

#include <cerrno>

#include "pair.h"

namespace swrnic::test {
namespace {

constexpr unsigned kReadWrite = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;
constexpr int kBindable = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND;

TEST_F(DeviceTest, windows_are_offered) {
    EXPECT_GT(limits_.max_mw, 0);
    EXPECT_TRUE(limits_.device_cap_flags & IBV_DEVICE_MEM_WINDOW);
    EXPECT_TRUE(limits_.device_cap_flags & IBV_DEVICE_MEM_WINDOW_TYPE_2B);
    EXPECT_FALSE(limits_.device_cap_flags & IBV_DEVICE_MEM_WINDOW_TYPE_2A);
}

TEST_F(DeviceTest, windows_come_and_go) {
    ibv_mw* first = ibv_alloc_mw(pd_.get(), IBV_MW_TYPE_1);
    ibv_mw* second = ibv_alloc_mw(pd_.get(), IBV_MW_TYPE_2);
    ASSERT_TRUE(first && second);
    EXPECT_EQ(first->type, IBV_MW_TYPE_1);
    EXPECT_EQ(second->type, IBV_MW_TYPE_2);
    EXPECT_EQ(first->pd, pd_.get());
    EXPECT_NE(first->rkey >> 8, 0u);
    EXPECT_NE(first->rkey >> 8, second->rkey >> 8);
    EXPECT_EQ(ibv_dealloc_pd(pd_.get()), EBUSY);
    EXPECT_EQ(ibv_dealloc_mw(first), 0);
    EXPECT_EQ(ibv_dealloc_mw(second), 0);
    errno = 0;
    EXPECT_FALSE(ibv_alloc_mw(pd_.get(), static_cast<ibv_mw_type>(3)));
    EXPECT_EQ(errno, EINVAL);
}

class Windows : public DataPairTest {
  protected:
    void SetUp() override {
        DataPairTest::SetUp();
        if (HasFatalFailure()) return;
        mr_ = ibv_reg_mr(pd(), target_.data(), target_.size(), kBindable);
        mw_ = ibv_alloc_mw(pd(), IBV_MW_TYPE_2);
        ASSERT_TRUE(mr_ && mw_);
    }
    void TearDown() override {
        if (mw_) {
            EXPECT_EQ(ibv_dealloc_mw(mw_), 0);
        }
        if (mr_) {
            EXPECT_EQ(ibv_dereg_mr(mr_), 0);
        }
        DataPairTest::TearDown();
    }
    ibv_mw_bind_info info(std::size_t offset, std::uint64_t length, unsigned access = kReadWrite) const {
        return {.mr = mr_, .addr = address(target_.data()) + offset, .length = length, .mw_access_flags = access};
    }
    virtual int post_bind(ibv_mw* mw, std::uint32_t rkey, const ibv_mw_bind_info& what) {
        ibv_send_wr wr{};
        wr.wr_id = 11;
        wr.opcode = IBV_WR_BIND_MW;
        wr.send_flags = IBV_SEND_SIGNALED;
        wr.bind_mw.mw = mw;
        wr.bind_mw.rkey = rkey;
        wr.bind_mw.bind_info = what;
        ibv_send_wr* bad = nullptr;
        return ibv_post_send(server_.qp(), &wr, &bad);
    }
    virtual int post_inv(std::uint32_t rkey) {
        ibv_send_wr wr{};
        wr.wr_id = 12;
        wr.opcode = IBV_WR_LOCAL_INV;
        wr.send_flags = IBV_SEND_SIGNALED;
        wr.invalidate_rkey = rkey;
        ibv_send_wr* bad = nullptr;
        return ibv_post_send(server_.qp(), &wr, &bad);
    }
    ibv_wc_status bind(std::uint32_t rkey, const ibv_mw_bind_info& what) {
        EXPECT_EQ(post_bind(mw_, rkey, what), 0);
        const ibv_wc wc = next(server_.send_cq);
        if (wc.status == IBV_WC_SUCCESS) {
            EXPECT_EQ(wc.opcode, IBV_WC_BIND_MW);
            EXPECT_EQ(wc.wr_id, 11u);
        }
        return wc.status;
    }
    ibv_wc_status invalidate(std::uint32_t rkey) {
        EXPECT_EQ(post_inv(rkey), 0);
        const ibv_wc wc = next(server_.send_cq);
        if (wc.status == IBV_WC_SUCCESS) {
            EXPECT_EQ(wc.opcode, IBV_WC_LOCAL_INV);
            EXPECT_EQ(wc.wr_id, 12u);
        }
        return wc.status;
    }
    // The client's.
    ibv_wc_status transfer(ibv_wr_opcode opcode, std::uint32_t rkey, std::uint64_t to, std::uint32_t length) {
        ibv_sge local{.addr = address(source_.data()), .length = length, .lkey = source_mr_->lkey};
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
    ibv_wc_status read(std::uint32_t rkey, std::uint64_t to, std::uint32_t length) {
        return transfer(IBV_WR_RDMA_READ, rkey, to, length);
    }
    std::uint64_t base() const { return address(target_.data()); }

    ibv_mr* mr_ = nullptr;  // grants nothing to the peer by itself
    ibv_mw* mw_ = nullptr;
};

TEST_F(Windows, the_peer_writes_and_reads_through_it) {
    const std::uint32_t rkey = ibv_inc_rkey(mw_->rkey);
    ASSERT_EQ(bind(rkey, info(100, 200)), IBV_WC_SUCCESS);
    ASSERT_EQ(transfer(IBV_WR_RDMA_WRITE, rkey, base() + 100, 200), IBV_WC_SUCCESS);
    std::array<char, 8192> sent = source_;
    ASSERT_EQ(read(rkey, base() + 150, 50), IBV_WC_SUCCESS);  // behind the Write
    for (std::size_t i = 0; i < target_.size(); ++i)
        ASSERT_EQ(target_[i], i >= 100 && i < 300 ? sent[i - 100] : 0) << i;
    for (std::size_t i = 0; i < 50; ++i)
        ASSERT_EQ(source_[i], sent[50 + i]) << i;
    EXPECT_EQ(read(rkey, base() + 99, 1), IBV_WC_REM_ACCESS_ERR);
}

TEST_F(Windows, zero_based) {
    ASSERT_EQ(bind(mw_->rkey, info(100, 200, kReadWrite | IBV_ACCESS_ZERO_BASED)), IBV_WC_SUCCESS);
    ASSERT_EQ(transfer(IBV_WR_RDMA_WRITE, mw_->rkey, 0, 200), IBV_WC_SUCCESS);
    const std::array<char, 8192> sent = source_;
    ASSERT_EQ(read(mw_->rkey, 1, 199), IBV_WC_SUCCESS);
    for (std::size_t i = 0; i < 200; ++i)
        ASSERT_EQ(target_[100 + i], sent[i]) << i;
    EXPECT_EQ(target_[99], 0);
    EXPECT_EQ(target_[300], 0);
}

TEST_F(Windows, a_right_to_local_writes_is_taken_and_means_nothing) {
    ASSERT_EQ(bind(mw_->rkey, info(0, 8, IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_LOCAL_WRITE)), IBV_WC_SUCCESS);
    ASSERT_EQ(transfer(IBV_WR_RDMA_WRITE, mw_->rkey, base(), 8), IBV_WC_SUCCESS);
    ibv_mw* type_1 = ibv_alloc_mw(pd(), IBV_MW_TYPE_1);
    ibv_mw_bind wish{
        .wr_id = 1, .send_flags = IBV_SEND_SIGNALED, .bind_info = info(0, 8, kReadWrite | IBV_ACCESS_LOCAL_WRITE)};
    ASSERT_EQ(ibv_bind_mw(server_.qp(), type_1, &wish), 0);
    EXPECT_EQ(next(server_.send_cq).status, IBV_WC_SUCCESS);
    EXPECT_EQ(ibv_dealloc_mw(type_1), 0);
    EXPECT_EQ(read(mw_->rkey, base(), 8), IBV_WC_REM_ACCESS_ERR);
}

TEST_F(Windows, local_invalidation_ends_it) {  // VERBS-35
    ASSERT_EQ(bind(mw_->rkey, info(0, 8)), IBV_WC_SUCCESS);
    ASSERT_EQ(read(mw_->rkey, base(), 8), IBV_WC_SUCCESS);
    ASSERT_EQ(invalidate(mw_->rkey), IBV_WC_SUCCESS);
    ASSERT_EQ(invalidate(mw_->rkey), IBV_WC_SUCCESS);  // no harm
    const std::uint32_t next_key = ibv_inc_rkey(mw_->rkey);
    ASSERT_EQ(bind(next_key, info(0, 8)), IBV_WC_SUCCESS);
    ASSERT_EQ(read(next_key, base(), 8), IBV_WC_SUCCESS);
    EXPECT_EQ(read(mw_->rkey, base(), 8), IBV_WC_REM_ACCESS_ERR);
    EXPECT_EQ(state(client_.qp()), IBV_QPS_ERR);
}

TEST_F(Windows, the_peer_invalidates_it) {
    ASSERT_EQ(bind(mw_->rkey, info(0, 8)), IBV_WC_SUCCESS);
    receive(1, 8);
    ibv_send_wr wr{};
    wr.opcode = IBV_WR_SEND_WITH_INV;
    wr.invalidate_rkey = mw_->rkey;
    ibv_send_wr* bad = nullptr;
    ASSERT_EQ(ibv_post_send(client_.qp(), &wr, &bad), 0);
    const ibv_wc wc = next(server_.recv_cq);
    ASSERT_EQ(wc.status, IBV_WC_SUCCESS);
    EXPECT_TRUE(wc.wc_flags & IBV_WC_WITH_INV);
    EXPECT_EQ(wc.invalidated_rkey, mw_->rkey);
    ASSERT_EQ(bind(ibv_inc_rkey(mw_->rkey), info(0, 8)), IBV_WC_SUCCESS);
    EXPECT_EQ(read(mw_->rkey, base(), 8), IBV_WC_REM_ACCESS_ERR);
}

TEST_F(Windows, a_region_with_a_window_stays) {
    ASSERT_EQ(bind(mw_->rkey, info(0, 8)), IBV_WC_SUCCESS);
    EXPECT_EQ(ibv_dereg_mr(mr_), EBUSY);
    EXPECT_NE(ibv_rereg_mr(mr_, IBV_REREG_MR_CHANGE_ACCESS, nullptr, nullptr, 0, kBindable), 0);
    EXPECT_EQ(errno, EBUSY);
    ASSERT_EQ(read(mw_->rkey, base(), 8), IBV_WC_SUCCESS);
    ASSERT_EQ(invalidate(mw_->rkey), IBV_WC_SUCCESS);
    EXPECT_EQ(ibv_rereg_mr(mr_, IBV_REREG_MR_CHANGE_ACCESS, nullptr, nullptr, 0, kBindable), 0);
    ASSERT_EQ(bind(mw_->rkey, info(0, 8)), IBV_WC_SUCCESS);
    EXPECT_EQ(ibv_dereg_mr(mr_), EBUSY);
    EXPECT_EQ(ibv_dealloc_mw(mw_), 0);  // which ends the binding
    mw_ = nullptr;
    EXPECT_EQ(ibv_dereg_mr(mr_), 0);
    mr_ = nullptr;
}

TEST_F(Windows, a_qp_takes_its_windows_of_type_2_along) {
    ASSERT_EQ(bind(mw_->rkey, info(0, 8)), IBV_WC_SUCCESS);
    disconnect();
    EXPECT_EQ(ibv_dereg_mr(mr_), EBUSY);
    rdma_destroy_qp(server_.id);
    EXPECT_EQ(ibv_dereg_mr(mr_), 0);
    mr_ = nullptr;
}

TEST_F(Windows, a_reset_ends_them_too) {
    ASSERT_EQ(bind(mw_->rkey, info(0, 8)), IBV_WC_SUCCESS);
    disconnect();
    ASSERT_EQ(modify(server_.qp(), IBV_QPS_RESET), 0);
    EXPECT_EQ(ibv_dereg_mr(mr_), 0);
    mr_ = nullptr;
}

TEST_F(Windows, type_1_goes_from_binding_to_binding) {
    ibv_mw* mw = ibv_alloc_mw(pd(), IBV_MW_TYPE_1);
    ASSERT_TRUE(mw);
    const auto bind_1 = [&](const ibv_mw_bind_info& what) {
        ibv_mw_bind wish{.wr_id = 5, .send_flags = IBV_SEND_SIGNALED, .bind_info = what};
        const std::uint32_t before = mw->rkey;
        ASSERT_EQ(ibv_bind_mw(server_.qp(), mw, &wish), 0);
        EXPECT_EQ(mw->rkey, ibv_inc_rkey(before));
        const ibv_wc wc = next(server_.send_cq);
        EXPECT_EQ(wc.status, IBV_WC_SUCCESS);
        EXPECT_EQ(wc.opcode, IBV_WC_BIND_MW);
        EXPECT_EQ(wc.wr_id, 5u);
    };
    bind_1(info(0, 8));
    EXPECT_EQ(read(mw->rkey, base(), 8), IBV_WC_SUCCESS);
    bind_1(info(8, 8));
    EXPECT_EQ(read(mw->rkey, base() + 8, 8), IBV_WC_SUCCESS);
    bind_1({});  // to nothing
    EXPECT_EQ(ibv_dereg_mr(mr_), 0);
    mr_ = nullptr;
    EXPECT_EQ(read(mw->rkey, base() + 8, 8), IBV_WC_REM_ACCESS_ERR);
    EXPECT_EQ(ibv_dealloc_mw(mw), 0);
}

TEST_F(Windows, a_region_may_be_invalidated_from_here) {
    ASSERT_EQ(read(target_mr_->rkey, base(), 8), IBV_WC_SUCCESS);
    ASSERT_EQ(invalidate(target_mr_->rkey), IBV_WC_SUCCESS);
    EXPECT_EQ(read(target_mr_->rkey, base(), 8), IBV_WC_REM_ACCESS_ERR);
}

TEST_F(Windows, a_bad_binding_ends_the_connection) {
    const ibv_mw_bind_info beyond = info(1, target_.size());
    EXPECT_EQ(bind(mw_->rkey, beyond), IBV_WC_MW_BIND_ERR);
    EXPECT_EQ(wait_event(), RDMA_CM_EVENT_DISCONNECTED);
    EXPECT_EQ(state(server_.qp()), IBV_QPS_ERR);
}

TEST_F(Windows, a_bad_invalidation_ends_the_connection) {
    EXPECT_EQ(invalidate(ibv_inc_rkey(mw_->rkey)), IBV_WC_MW_BIND_ERR);
    EXPECT_EQ(wait_event(), RDMA_CM_EVENT_DISCONNECTED);
}

TEST_F(Windows, what_posting_refuses) {
    ibv_mw* type_1 = ibv_alloc_mw(pd(), IBV_MW_TYPE_1);
    ASSERT_TRUE(type_1);
    EXPECT_EQ(post_bind(type_1, type_1->rkey, info(0, 8)), EINVAL);
    EXPECT_EQ(post_bind(mw_, mw_->rkey ^ 0x100, info(0, 8)), EINVAL) << "another index";
    EXPECT_EQ(post_bind(mw_, mw_->rkey, info(0, 0)), EINVAL);
    EXPECT_EQ(post_bind(mw_, mw_->rkey, info(0, 8, kReadWrite | IBV_ACCESS_MW_BIND)), EINVAL);
    ibv_mw_bind_info nothing = info(0, 8);
    nothing.mr = nullptr;
    EXPECT_EQ(post_bind(mw_, mw_->rkey, nothing), EINVAL);
    ibv_mw_bind wish{.wr_id = 1, .send_flags = 0, .bind_info = info(0, 8, kReadWrite | IBV_ACCESS_ZERO_BASED)};
    const std::uint32_t before = type_1->rkey;
    EXPECT_EQ(ibv_bind_mw(server_.qp(), type_1, &wish), EINVAL);
    wish.bind_info = info(0, 8);
    wish.send_flags = IBV_SEND_INLINE;
    EXPECT_EQ(ibv_bind_mw(server_.qp(), type_1, &wish), EINVAL);
    EXPECT_EQ(type_1->rkey, before);
    EXPECT_EQ(ibv_dealloc_mw(type_1), 0);
    EXPECT_EQ(bind(mw_->rkey, info(0, 8)), IBV_WC_SUCCESS);  // all of it did no harm
}

// The same requests by ibv_wr_*(3).
class WindowsEx : public Windows {
  protected:
    bool extended() const override { return true; }
    int post_bind(ibv_mw* mw, std::uint32_t rkey, const ibv_mw_bind_info& what) override {
        ibv_qp_ex* qp = begin(11);
        ibv_wr_bind_mw(qp, mw, rkey, &what);
        return ibv_wr_complete(qp);
    }
    int post_inv(std::uint32_t rkey) override {
        ibv_qp_ex* qp = begin(12);
        ibv_wr_local_inv(qp, rkey);
        return ibv_wr_complete(qp);
    }

  private:
    ibv_qp_ex* begin(std::uint64_t id) {
        ibv_qp_ex* qp = ibv_qp_to_qp_ex(server_.qp());
        ibv_wr_start(qp);
        qp->wr_id = id;
        qp->wr_flags = IBV_SEND_SIGNALED;
        return qp;
    }
};

TEST_F(WindowsEx, bind_use_invalidate) {
    const std::uint32_t rkey = ibv_inc_rkey(mw_->rkey);
    ASSERT_EQ(bind(rkey, info(0, 8)), IBV_WC_SUCCESS);
    ASSERT_EQ(read(rkey, base(), 8), IBV_WC_SUCCESS);
    EXPECT_EQ(post_bind(mw_, rkey ^ 0x100, info(0, 8)), EINVAL);
    ASSERT_EQ(invalidate(rkey), IBV_WC_SUCCESS);
    EXPECT_EQ(read(rkey, base(), 8), IBV_WC_REM_ACCESS_ERR);
}

// A window and the Send that tells the peer of it go in one batch.
TEST_F(WindowsEx, in_a_batch_with_its_announcement) {
    ibv_recv_wr wr{};
    ibv_recv_wr* bad = nullptr;
    ASSERT_EQ(ibv_post_recv(client_.qp(), &wr, &bad), 0);
    const ibv_mw_bind_info what = info(0, 8);
    ibv_qp_ex* qp = ibv_qp_to_qp_ex(server_.qp());
    ibv_wr_start(qp);
    qp->wr_flags = 0;
    ibv_wr_bind_mw(qp, mw_, mw_->rkey, &what);
    ibv_wr_send(qp);
    ASSERT_EQ(ibv_wr_complete(qp), 0);
    ASSERT_EQ(next(client_.recv_cq).status, IBV_WC_SUCCESS);
    EXPECT_EQ(read(mw_->rkey, base(), 8), IBV_WC_SUCCESS);
}

}  // namespace
}  // namespace swrnic::test
