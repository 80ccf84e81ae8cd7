// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Extended CQs, the ibv_wr_*(3) functions, ibv_rereg_mr(3), parent and thread domains.
#include <time.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <limits>

#include "pair.h"

namespace swrnic::test {
namespace {

class Extended : public DataPairTest {
  protected:
    bool extended() const override { return true; }
    void SetUp() override {
        DataPairTest::SetUp();
        if (HasFatalFailure()) return;
        qp_ = ibv_qp_to_qp_ex(client_.qp());
        ASSERT_TRUE(qp_);
    }
    void next_request(std::uint64_t id, unsigned flags = IBV_SEND_SIGNALED) {
        qp_->wr_id = id;
        qp_->wr_flags = flags;
    }
    // True with a completion at hand; end_poll() is due then.
    static bool start(ibv_cq_ex* cq) {
        ibv_poll_cq_attr attr{};
        for (int i = 0; i < 5'000'000; ++i) {
            const int error = ibv_start_poll(cq, &attr);
            if (error == 0) return true;
            if (error != ENOENT) break;
        }
        return false;
    }
    static ibv_cq_ex* ex(ibv_cq* cq) { return reinterpret_cast<ibv_cq_ex*>(cq); }

    ibv_qp_ex* qp_ = nullptr;
};

TEST_F(Extended, batch_of_every_kind) {
    receive(7, 4096);
    receive(8, 64);
    std::array<char, 1000> back{};
    ibv_mr* back_mr = reg(back.data(), back.size(), IBV_ACCESS_LOCAL_WRITE);
    char words[] = "inline";
    const ibv_data_buf parts[2] = {{.addr = words, .length = 2}, {.addr = words + 2, .length = 4}};
    const ibv_sge list[2] = {{.addr = address(source_.data()), .length = 100, .lkey = source_mr_->lkey},
                             {.addr = address(source_.data() + 100), .length = 900, .lkey = source_mr_->lkey}};
    ibv_wr_start(qp_);
    next_request(1);
    ibv_wr_rdma_write(qp_, target_mr_->rkey, address(target_.data() + 4096));
    ibv_wr_set_sge_list(qp_, 2, list);
    next_request(2, 0);
    ibv_wr_send(qp_);
    ibv_wr_set_sge(qp_, source_mr_->lkey, address(source_.data()), 500);
    next_request(3, IBV_SEND_SIGNALED | IBV_SEND_SOLICITED);
    ibv_wr_send(qp_);
    ibv_wr_set_inline_data_list(qp_, 2, parts);
    next_request(4);
    ibv_wr_rdma_read(qp_, target_mr_->rkey, address(target_.data() + 4096));
    ibv_wr_set_sge(qp_, back_mr->lkey, address(back.data()), 1000);
    std::memset(words, 'x', sizeof(words));
    ASSERT_EQ(ibv_wr_complete(qp_), 0);
    for (const std::uint64_t id : {1, 3, 4}) {
        ASSERT_TRUE(start(ex(client_.send_cq)));
        EXPECT_EQ(ex(client_.send_cq)->wr_id, id);
        EXPECT_EQ(ex(client_.send_cq)->status, IBV_WC_SUCCESS);
        EXPECT_EQ(ibv_wc_read_qp_num(ex(client_.send_cq)), client_.qp()->qp_num);
        EXPECT_EQ(ibv_wc_read_opcode(ex(client_.send_cq)), id == 1   ? IBV_WC_RDMA_WRITE
                                                           : id == 3 ? IBV_WC_SEND
                                                                     : IBV_WC_RDMA_READ);
        ibv_end_poll(ex(client_.send_cq));
    }
    EXPECT_EQ(std::memcmp(back.data(), source_.data(), back.size()), 0);
    ASSERT_TRUE(start(ex(server_.recv_cq)));
    EXPECT_EQ(ex(server_.recv_cq)->wr_id, 7u);
    EXPECT_EQ(ibv_wc_read_byte_len(ex(server_.recv_cq)), 500u);
    EXPECT_EQ(ibv_wc_read_opcode(ex(server_.recv_cq)), IBV_WC_RECV);
    while (ibv_next_poll(ex(server_.recv_cq)) == ENOENT) {
    }
    EXPECT_EQ(ex(server_.recv_cq)->wr_id, 8u);
    EXPECT_EQ(ibv_wc_read_byte_len(ex(server_.recv_cq)), 6u);
    ibv_end_poll(ex(server_.recv_cq));
    EXPECT_EQ(std::memcmp(target_.data(), "inline", 6), 0);
}

TEST_F(Extended, send_with_invalidate) {
    std::array<char, 64> window{};
    ibv_mr* mr = reg(window.data(), window.size(), IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
    receive(1, 16);
    ibv_wr_start(qp_);
    next_request(5);
    ibv_wr_send_inv(qp_, mr->rkey);
    ASSERT_EQ(ibv_wr_complete(qp_), 0);
    ASSERT_TRUE(start(ex(server_.recv_cq)));
    EXPECT_TRUE(ibv_wc_read_wc_flags(ex(server_.recv_cq)) & IBV_WC_WITH_INV);
    EXPECT_EQ(ibv_wc_read_invalidated_rkey(ex(server_.recv_cq)), mr->rkey);
    ibv_end_poll(ex(server_.recv_cq));
}

// A batch with one bad request, or one too many, posts nothing; an aborted one too.
TEST_F(Extended, all_or_none) {
    ibv_wr_start(qp_);
    next_request(1);
    ibv_wr_rdma_write(qp_, target_mr_->rkey, address(target_.data()));
    ibv_wr_set_sge(qp_, source_mr_->lkey, address(source_.data()), 16);
    ibv_wr_abort(qp_);

    char long_data[65] = {};
    ibv_wr_start(qp_);
    next_request(2);
    ibv_wr_rdma_write(qp_, target_mr_->rkey, address(target_.data()));
    ibv_wr_set_sge(qp_, source_mr_->lkey, address(source_.data()), 16);
    next_request(3);
    ibv_wr_rdma_write(qp_, target_mr_->rkey, address(target_.data()));
    ibv_wr_set_inline_data(qp_, long_data, sizeof(long_data));
    EXPECT_EQ(ibv_wr_complete(qp_), EINVAL);

    ibv_wr_start(qp_);
    for (std::uint64_t i = 0; i < 17; ++i) {  // the QP holds 16
        next_request(i);
        ibv_wr_rdma_write(qp_, target_mr_->rkey, address(target_.data()));
        ibv_wr_set_sge(qp_, source_mr_->lkey, address(source_.data()), 16);
    }
    EXPECT_EQ(ibv_wr_complete(qp_), ENOMEM);

    ibv_wr_start(qp_);
    ibv_wr_set_sge(qp_, source_mr_->lkey, address(source_.data()), 16);  // of no request
    EXPECT_EQ(ibv_wr_complete(qp_), EINVAL);

    ibv_wr_start(qp_);
    next_request(4, IBV_SEND_SIGNALED | IBV_SEND_IP_CSUM);
    ibv_wr_send(qp_);
    EXPECT_EQ(ibv_wr_complete(qp_), EINVAL);

    ibv_wr_start(qp_);
    EXPECT_EQ(ibv_wr_complete(qp_), 0);

    ibv_wr_start(qp_);
    next_request(9);
    ibv_wr_rdma_read(qp_, target_mr_->rkey, address(target_.data()));
    ibv_wr_set_sge(qp_, source_mr_->lkey, address(source_.data()), 16);
    ASSERT_EQ(ibv_wr_complete(qp_), 0);
    EXPECT_EQ(next(client_.send_cq).wr_id, 9u) << "the first that was posted at all";
    EXPECT_EQ(target_[0], 0);
    EXPECT_EQ(source_[0], 0) << "read back";
}

TEST_F(Extended, timestamps) {
    ibv_device_attr_ex limits{};
    ASSERT_EQ(ibv_query_device_ex(client_.id->verbs, nullptr, &limits), 0);
    EXPECT_EQ(limits.hca_core_clock, 1'000'000u);
    EXPECT_EQ(limits.completion_timestamp_mask, std::numeric_limits<std::uint64_t>::max());
    const auto now = [&] {
        ibv_values_ex values{};
        values.comp_mask = IBV_VALUES_MASK_RAW_CLOCK;
        EXPECT_EQ(ibv_query_rt_values_ex(client_.id->verbs, &values), 0);
        EXPECT_EQ(values.comp_mask, std::uint32_t{IBV_VALUES_MASK_RAW_CLOCK});
        return static_cast<std::uint64_t>(values.raw_clock.tv_sec) * 1'000'000'000 +
               static_cast<std::uint64_t>(values.raw_clock.tv_nsec);
    };
    std::uint64_t before = now();
    for (int i = 0; i < 10; ++i) {
        ibv_wr_start(qp_);
        next_request(1);
        ibv_wr_rdma_write(qp_, target_mr_->rkey, address(target_.data()));
        ibv_wr_set_sge(qp_, source_mr_->lkey, address(source_.data()), 16);
        ASSERT_EQ(ibv_wr_complete(qp_), 0);
        ASSERT_TRUE(start(ex(client_.send_cq)));
        const std::uint64_t stamp = ibv_wc_read_completion_ts(ex(client_.send_cq));
        EXPECT_GE(stamp, before);
        EXPECT_LE(stamp, now());
        before = stamp;
        timespec real{};
        ::clock_gettime(CLOCK_REALTIME, &real);
        const std::int64_t wall = real.tv_sec * 1'000'000'000 + real.tv_nsec;
        const auto made = static_cast<std::int64_t>(ibv_wc_read_completion_wallclock_ns(ex(client_.send_cq)));
        EXPECT_NEAR(static_cast<double>(wall - made), 0, 2e9);
        ibv_end_poll(ex(client_.send_cq));
    }
}

TEST_F(Extended, end_of_the_poll_lets_others_in) {
    ibv_poll_cq_attr attr{};
    EXPECT_EQ(ibv_start_poll(ex(client_.send_cq), &attr), ENOENT);  // and no end_poll()
    EXPECT_EQ(ibv_start_poll(ex(client_.send_cq), &attr), ENOENT);
    attr.comp_mask = 1;
    EXPECT_EQ(ibv_start_poll(ex(client_.send_cq), &attr), EINVAL);
}

class ExtendedAttributes : public DeviceTest {
  protected:
    int cq_error(const ibv_cq_init_attr_ex& asked) {
        ibv_cq_init_attr_ex attr = asked;
        errno = 0;
        ibv_cq_ex* cq = ibv_create_cq_ex(context_.get(), &attr);
        if (cq == nullptr) return errno;
        EXPECT_EQ(ibv_destroy_cq(ibv_cq_ex_to_cq(cq)), 0);
        return 0;
    }
};

TEST_F(ExtendedAttributes, of_a_cq) {
    ibv_cq_init_attr_ex attr{};
    attr.cqe = 16;
    EXPECT_EQ(cq_error(attr), 0);
    attr.wc_flags = IBV_WC_STANDARD_FLAGS;
    EXPECT_EQ(cq_error(attr), 0);
    attr.wc_flags = IBV_WC_EX_WITH_CVLAN;
    EXPECT_EQ(cq_error(attr), EOPNOTSUPP);
    attr.wc_flags = 0;
    attr.comp_mask = IBV_CQ_INIT_ATTR_MASK_FLAGS;
    attr.flags = IBV_CREATE_CQ_ATTR_SINGLE_THREADED;
    EXPECT_EQ(cq_error(attr), 0);
    attr.flags = IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN;
    EXPECT_EQ(cq_error(attr), EOPNOTSUPP);
    attr.comp_mask = IBV_CQ_INIT_ATTR_MASK_PD;
    attr.parent_domain = pd_.get();
    EXPECT_EQ(cq_error(attr), EINVAL) << "a protection domain is no parent domain";
    attr = {};
    EXPECT_EQ(cq_error(attr), EINVAL) << "no entries";
    attr.cqe = static_cast<std::uint32_t>(limits_.max_cqe) + 1;
    EXPECT_EQ(cq_error(attr), EINVAL);
}

TEST_F(ExtendedAttributes, of_a_qp) {
    const CqPtr cq = make_cq();
    const ibv_qp_init_attr plain = qp_attr(cq.get());
    ibv_qp_init_attr_ex attr{};
    std::memcpy(&attr, &plain, offsetof(ibv_qp_init_attr, sq_sig_all) + sizeof(plain.sq_sig_all));
    const auto error = [&] {
        ibv_qp_init_attr_ex asked = attr;
        errno = 0;
        ibv_qp* qp = ibv_create_qp_ex(context_.get(), &asked);
        if (qp == nullptr) return errno;
        EXPECT_EQ(ibv_qp_to_qp_ex(qp) != nullptr, (attr.comp_mask & IBV_QP_INIT_ATTR_SEND_OPS_FLAGS) != 0);
        EXPECT_EQ(ibv_destroy_qp(qp), 0);
        return 0;
    };
    attr.pd = pd_.get();
    attr.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
    attr.send_ops_flags = IBV_QP_EX_WITH_SEND;
    EXPECT_EQ(error(), 0);
    attr.send_ops_flags = IBV_QP_EX_WITH_SEND_WITH_IMM | IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM |
                          IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP | IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD;
    EXPECT_EQ(error(), 0);
    attr.send_ops_flags = IBV_QP_EX_WITH_TSO;
    EXPECT_EQ(error(), EOPNOTSUPP);
    attr.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_CREATE_FLAGS;
    EXPECT_EQ(error(), 0);
    attr.create_flags = 1;
    EXPECT_EQ(error(), EOPNOTSUPP);
    attr.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_MAX_TSO_HEADER;
    EXPECT_EQ(error(), EOPNOTSUPP);
}

TEST_F(ExtendedAttributes, domains) {
    ibv_td_init_attr td_attr{};
    ibv_td* td = ibv_alloc_td(context_.get(), &td_attr);
    ASSERT_TRUE(td);
    ibv_parent_domain_init_attr attr{};
    attr.pd = pd_.get();
    attr.td = td;
    ibv_pd* parent = ibv_alloc_parent_domain(context_.get(), &attr);
    ASSERT_TRUE(parent);
    EXPECT_EQ(ibv_dealloc_td(td), EBUSY);
    EXPECT_EQ(ibv_dealloc_pd(pd_.get()), EBUSY);
    // Objects of both work together: it is one protection domain.
    const CqPtr cq = make_cq();
    ibv_qp_init_attr qp = qp_attr(cq.get());
    {
        const QpPtr made(ibv_create_qp(parent, &qp));
        EXPECT_TRUE(made);
        char data[8];
        const MrPtr mr(ibv_reg_mr(parent, data, sizeof(data), IBV_ACCESS_LOCAL_WRITE));
        EXPECT_TRUE(mr);
    }
    ibv_cq_init_attr_ex cq_attr{};
    cq_attr.cqe = 4;
    cq_attr.comp_mask = IBV_CQ_INIT_ATTR_MASK_PD;
    cq_attr.parent_domain = parent;
    EXPECT_EQ(cq_error(cq_attr), 0);
    attr.pd = parent;
    errno = 0;
    EXPECT_EQ(ibv_alloc_parent_domain(context_.get(), &attr), nullptr);
    EXPECT_EQ(errno, EINVAL);
    attr.pd = pd_.get();
    attr.comp_mask = IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS;
    EXPECT_EQ(ibv_alloc_parent_domain(context_.get(), &attr), nullptr);
    EXPECT_EQ(errno, EOPNOTSUPP);
    td_attr.comp_mask = 1;
    EXPECT_EQ(ibv_alloc_td(context_.get(), &td_attr), nullptr);
    EXPECT_EQ(errno, EOPNOTSUPP);
    EXPECT_EQ(ibv_dealloc_pd(parent), 0);
    EXPECT_EQ(ibv_dealloc_td(td), 0);
}

// ---- ibv_rereg_mr(3)

TEST_F(Extended, another_range_of_a_region) {
    std::array<char, 64> first{}, second{};
    MrPtr mr(ibv_reg_mr(server_.id->pd, first.data(), first.size(), IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE));
    ASSERT_TRUE(mr);
    const std::uint32_t old_key = mr->rkey;
    ASSERT_EQ(ibv_rereg_mr(mr.get(), IBV_REREG_MR_CHANGE_TRANSLATION, nullptr, second.data(), second.size(), 0), 0);
    EXPECT_EQ(mr->addr, second.data());
    EXPECT_EQ(mr->length, second.size());
    EXPECT_NE(mr->rkey, old_key);
    EXPECT_EQ(mr->rkey, mr->lkey);
    const auto write = [&](std::uint32_t rkey, void* to) {
        ibv_wr_start(qp_);
        next_request(1);
        ibv_wr_rdma_write(qp_, rkey, address(to));
        ibv_wr_set_sge(qp_, source_mr_->lkey, address(source_.data()), 16);
        next_request(2);
        ibv_wr_rdma_read(qp_, target_mr_->rkey,
                         address(target_.data()));  // the Write has been placed when this is done
        ibv_wr_set_sge(qp_, source_mr_->lkey, address(source_.data() + 4096), 1);
        ASSERT_EQ(ibv_wr_complete(qp_), 0);
    };
    write(mr->rkey, second.data());
    EXPECT_EQ(next(client_.send_cq).status, IBV_WC_SUCCESS);
    EXPECT_EQ(next(client_.send_cq).status, IBV_WC_SUCCESS);
    EXPECT_EQ(std::memcmp(second.data(), source_.data(), 16), 0);
    EXPECT_EQ(first[0], 0);
    // The old key is dead.
    write(old_key, first.data());
    ibv_wc done = next(client_.send_cq);
    if (done.status == IBV_WC_SUCCESS) done = next(client_.send_cq);
    EXPECT_NE(done.status, IBV_WC_SUCCESS);
    EXPECT_EQ(first[0], 0);
}

TEST_F(ExtendedAttributes, rereg_of_a_region) {
    std::array<char, 64> data{};
    const MrPtr mr(ibv_reg_mr(pd_.get(), data.data(), data.size(), IBV_ACCESS_LOCAL_WRITE));
    ASSERT_TRUE(mr);
    const ibv_mr before = *mr;
    // Refused: all stays as it was.
    EXPECT_NE(ibv_rereg_mr(mr.get(), IBV_REREG_MR_CHANGE_ACCESS, nullptr, nullptr, 0, IBV_ACCESS_REMOTE_WRITE), 0);
    EXPECT_NE(ibv_rereg_mr(mr.get(), IBV_REREG_MR_CHANGE_TRANSLATION, nullptr, reinterpret_cast<void*>(8), 64, 0), 0);
    EXPECT_EQ(mr->lkey, before.lkey);
    EXPECT_EQ(mr->handle, before.handle);
    EXPECT_EQ(mr->addr, before.addr);
    // Granted: access, then the domain.
    EXPECT_EQ(ibv_rereg_mr(mr.get(), IBV_REREG_MR_CHANGE_ACCESS, nullptr, nullptr, 0,
                           IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ),
              0);
    EXPECT_EQ(mr->lkey, before.lkey) << "rights alone change no key";
    EXPECT_EQ(mr->rkey, before.rkey);
    EXPECT_NE(ibv_rereg_mr(mr.get(), IBV_REREG_MR_CHANGE_ACCESS, nullptr, nullptr, 0, IBV_ACCESS_ON_DEMAND), 0);
    EXPECT_EQ(errno, EOPNOTSUPP);
    const PdPtr other(ibv_alloc_pd(context_.get()));
    EXPECT_EQ(ibv_rereg_mr(mr.get(), IBV_REREG_MR_CHANGE_PD, other.get(), nullptr, 0, 0), 0);
    EXPECT_EQ(mr->pd, other.get());
    EXPECT_EQ(ibv_dealloc_pd(other.get()), EBUSY) << "the region is of that domain now";
    EXPECT_EQ(ibv_rereg_mr(mr.get(), IBV_REREG_MR_CHANGE_PD, pd_.get(), nullptr, 0, 0), 0);
}

}  // namespace
}  // namespace swrnic::test
