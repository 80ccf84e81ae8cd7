// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <cerrno>
#include <cstring>
#include <set>
#include <thread>
#include <vector>

#include "device.h"

namespace swrnic::test {
namespace {

constexpr int kNumbersOfAPort = 256;  // docs/ARCHITECTURE.md: a QP number names a TCP port and one of so many slots

class Qp : public DeviceTest {
  protected:
    QpPtr make(ibv_qp_init_attr& attr) {
        errno = 0;
        return QpPtr(ibv_create_qp(pd_.get(), &attr));
    }
    void SetUp() override {
        DeviceTest::SetUp();
        if (HasFatalFailure()) return;
        cq_ = make_cq();
        ASSERT_TRUE(cq_);
    }
    CqPtr cq_;
};

TEST_F(Qp, numbers_are_24_bits_and_unique) {
    std::set<std::uint32_t> numbers;
    std::vector<QpPtr> qps;
    for (int i = 0; i < 64; ++i) {
        qps.push_back(make_qp(cq_.get()));
        ASSERT_TRUE(qps.back());
        EXPECT_GT(qps.back()->qp_num, 1u);
        EXPECT_LT(qps.back()->qp_num, 1u << 24);
        EXPECT_TRUE(numbers.insert(qps.back()->qp_num).second);
    }
}

// All but two of a port's numbers are taken, so that two threads meet in what is left.
TEST_F(Qp, a_number_may_come_back_while_its_last_QP_is_destroyed) {
    std::vector<QpPtr> others;
    for (int i = 0; i < kNumbersOfAPort - 2; ++i)
        others.push_back(make_qp(cq_.get()));
    const auto make_and_destroy = [this] {
        for (int i = 0; i < 20000; ++i) {
            const QpPtr qp = make_qp(cq_.get());
            ASSERT_TRUE(qp) << std::strerror(errno);
            ibv_qp_attr attr{};
            attr.qp_state = IBV_QPS_ERR;
            ASSERT_EQ(ibv_modify_qp(qp.get(), &attr, IBV_QP_STATE), 0);
        }
    };
    std::thread other(make_and_destroy);
    make_and_destroy();
    other.join();
}

TEST_F(Qp, no_type_but_rc_uc_ud) {  // VERBS-46
    for (const ibv_qp_type type : {IBV_QPT_RAW_PACKET, IBV_QPT_XRC_SEND, IBV_QPT_DRIVER}) {
        ibv_qp_init_attr attr = qp_attr(cq_.get());
        attr.qp_type = type;
        EXPECT_FALSE(make(attr)) << type;
        EXPECT_EQ(errno, EOPNOTSUPP) << type;
    }
}

TEST_F(Qp, grants_at_least_what_was_asked) {
    ibv_qp_init_attr attr = qp_attr(cq_.get());
    attr.cap = {.max_send_wr = 37, .max_recv_wr = 5, .max_send_sge = 3, .max_recv_sge = 1, .max_inline_data = 100};
    const QpPtr qp = make(attr);
    ASSERT_TRUE(qp);
    EXPECT_GE(attr.cap.max_send_wr, 37u);
    EXPECT_GE(attr.cap.max_recv_wr, 5u);
    EXPECT_GE(attr.cap.max_send_sge, 3u);
    EXPECT_GE(attr.cap.max_recv_sge, 1u);
    EXPECT_GE(attr.cap.max_inline_data, 100u);

    ibv_qp_attr now{};
    ibv_qp_init_attr made{};
    ASSERT_EQ(ibv_query_qp(qp.get(), &now, IBV_QP_STATE | IBV_QP_CAP, &made), 0);
    EXPECT_EQ(now.qp_state, IBV_QPS_RESET);
    EXPECT_EQ(made.cap.max_send_wr, attr.cap.max_send_wr);
    EXPECT_EQ(now.cap.max_inline_data, attr.cap.max_inline_data);
    EXPECT_EQ(made.send_cq, cq_.get());
    EXPECT_EQ(made.qp_type, IBV_QPT_RC);
}

TEST_F(Qp, nothing_asked_is_granted_something) {
    ibv_qp_init_attr attr = qp_attr(cq_.get());
    attr.cap = {};
    const QpPtr qp = make(attr);
    ASSERT_TRUE(qp);
    EXPECT_GE(attr.cap.max_inline_data, 64u);
}

TEST_F(Qp, limits) {
    const auto max_wr = static_cast<std::uint32_t>(limits_.max_qp_wr);
    const auto max_sge = static_cast<std::uint32_t>(limits_.max_sge);
    const ibv_qp_cap most{.max_send_wr = max_wr,
                          .max_recv_wr = max_wr,
                          .max_send_sge = max_sge,
                          .max_recv_sge = max_sge,
                          .max_inline_data = 512};
    ibv_qp_init_attr attr = qp_attr(cq_.get());
    attr.cap = most;
    EXPECT_TRUE(make(attr)) << errno;
    for (std::uint32_t ibv_qp_cap::*member :
         {&ibv_qp_cap::max_send_wr, &ibv_qp_cap::max_recv_wr, &ibv_qp_cap::max_send_sge, &ibv_qp_cap::max_recv_sge,
          &ibv_qp_cap::max_inline_data}) {
        attr.cap = most;
        attr.cap.*member += 1;
        EXPECT_FALSE(make(attr));
        EXPECT_EQ(errno, EINVAL);
    }
}

TEST_F(Qp, access_flags_are_kept) {
    const QpPtr qp = make_qp(cq_.get());
    ibv_qp_attr attr{};
    attr.qp_state = IBV_QPS_INIT;
    attr.port_num = 1;
    attr.qp_access_flags = IBV_ACCESS_REMOTE_READ;
    ASSERT_EQ(ibv_modify_qp(qp.get(), &attr, IBV_QP_STATE | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS), 0);
    ibv_qp_init_attr made{};
    ASSERT_EQ(ibv_query_qp(qp.get(), &attr, IBV_QP_ACCESS_FLAGS, &made), 0);
    EXPECT_EQ(attr.qp_access_flags, static_cast<unsigned>(IBV_ACCESS_REMOTE_READ));
}

TEST_F(Qp, wrong_attributes_are_refused) {
    const QpPtr qp = make_qp(cq_.get());
    ibv_qp_attr attr{};
    attr.qp_state = IBV_QPS_INIT;
    attr.port_num = 2;
    EXPECT_EQ(ibv_modify_qp(qp.get(), &attr, IBV_QP_STATE | IBV_QP_PORT), EINVAL);
    attr.port_num = 1;
    attr.pkey_index = 1;
    EXPECT_EQ(ibv_modify_qp(qp.get(), &attr, IBV_QP_STATE | IBV_QP_PORT | IBV_QP_PKEY_INDEX), EINVAL);
    attr.cur_qp_state = IBV_QPS_RTS;
    EXPECT_EQ(ibv_modify_qp(qp.get(), &attr, IBV_QP_STATE | IBV_QP_CUR_STATE), EINVAL);
    ibv_qp_init_attr made{};
    ASSERT_EQ(ibv_query_qp(qp.get(), &attr, IBV_QP_STATE, &made), 0);
    EXPECT_EQ(attr.qp_state, IBV_QPS_RESET);
}

}  // namespace
}  // namespace swrnic::test
