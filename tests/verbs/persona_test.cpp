// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Queue pairs of rdma_cm in the persona roce: what fails is told as an adapter of InfiniBand tells it.
#include <poll.h>

#include <cstdlib>

#include "pair.h"

namespace swrnic::test {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

// The persona is a process's; each test has one of its own.
template <typename Base>
class InRoce : public Base {
  protected:
    void SetUp() override {
        ASSERT_EQ(setenv("SWRNIC_PERSONA", "roce", 1), 0);
        Base::SetUp();
    }
};

class RnrOfRdmaCm : public InRoce<DataPairTest> {
  protected:
    // How often the peer may come again is the receiver's to say (rdma_connect(3)).
    void parameters(const Side& side, rdma_conn_param& wish) const override {
        DataPairTest::parameters(side, wish);
        wish.rnr_retry_count = &side == &server_ ? retries() : 5;
    }
    virtual std::uint8_t retries() const = 0;
    void set_timer(ibv_qp* qp, std::uint8_t code) {
        ibv_qp_attr attr{};
        attr.min_rnr_timer = code;
        ASSERT_EQ(ibv_modify_qp(qp, &attr, IBV_QP_MIN_RNR_TIMER), 0);
    }
    int send() {
        ibv_send_wr wr{}, *bad = nullptr;
        wr.opcode = IBV_WR_SEND;
        wr.send_flags = IBV_SEND_SIGNALED;
        return ibv_post_send(client_.qp(), &wr, &bad);
    }
};

class ThreeRetries : public RnrOfRdmaCm {
    std::uint8_t retries() const override { return 3; }
};

TEST_F(ThreeRetries, EndWithTheirOwnStatusInTheirOwnTime) {
    constexpr std::uint8_t kOf82Ms = 26;
    ASSERT_NO_FATAL_FAILURE(set_timer(server_.qp(), kOf82Ms));
    const auto begin = Clock::now();
    ASSERT_EQ(send(), 0);
    EXPECT_EQ(next(client_.send_cq).status, IBV_WC_RNR_RETRY_EXC_ERR);
    EXPECT_GE(Clock::now() - begin, milliseconds(3 * 81));
    EXPECT_EQ(state(client_.qp()), IBV_QPS_ERR);
}

class NoRetries : public RnrOfRdmaCm {
    std::uint8_t retries() const override { return 0; }
};

TEST_F(NoRetries, EndAtOnce) {
    const auto begin = Clock::now();
    ASSERT_EQ(send(), 0);
    EXPECT_EQ(next(client_.send_cq).status, IBV_WC_RNR_RETRY_EXC_ERR);
    EXPECT_LT(Clock::now() - begin, milliseconds(600))
        << "the default of the timer, and of SWRNIC_RNR_TIMEOUT, is longer";
}

class RetriesForEver : public RnrOfRdmaCm {
    std::uint8_t retries() const override { return 7; }
};

TEST_F(RetriesForEver, OutlastTheTimerAndTheSetting) {
    ASSERT_NO_FATAL_FAILURE(set_timer(server_.qp(), 1));  // 10 us
    ASSERT_EQ(send(), 0);
    ibv_wc wc{};
    for (const auto end = Clock::now() + milliseconds(1500); Clock::now() < end;)
        ASSERT_EQ(ibv_poll_cq(client_.send_cq, 1, &wc), 0);
    ASSERT_NO_FATAL_FAILURE(receive(1, 64));
    EXPECT_EQ(next(client_.send_cq).status, IBV_WC_SUCCESS);
    EXPECT_EQ(next(server_.recv_cq).status, IBV_WC_SUCCESS);
}

// An RNIC's program does not say it: 0 is what it has left there.
class RnrOfAnRnic : public DataPairTest {};

TEST_F(RnrOfAnRnic, IsTheSettings) {
    const auto begin = Clock::now();
    ibv_send_wr wr{}, *bad = nullptr;
    wr.opcode = IBV_WR_SEND;
    ASSERT_EQ(ibv_post_send(client_.qp(), &wr, &bad), 0);
    ASSERT_EQ(wait_event(), RDMA_CM_EVENT_DISCONNECTED);
    EXPECT_GE(Clock::now() - begin, milliseconds(900));
}

using ErrorsInRoce = InRoce<DataPairTest>;

// Without an asynchronous event: the request says all there is to say.
TEST_F(ErrorsInRoce, AreOfTheRequest) {
    ibv_sge sge{address(source_.data()), 64, source_mr_->lkey};
    std::array<ibv_send_wr, 3> wrs{};
    ibv_send_wr* bad = nullptr;
    for (std::size_t i = 0; i < wrs.size(); ++i) {
        wrs[i].wr_id = i;
        wrs[i].sg_list = &sge;
        wrs[i].num_sge = 1;
        wrs[i].opcode = IBV_WR_RDMA_WRITE;
        wrs[i].send_flags = IBV_SEND_SIGNALED;
        wrs[i].wr.rdma.remote_addr = address(target_.data());
        wrs[i].wr.rdma.rkey = i == 1 ? target_mr_->rkey ^ 0x100 : target_mr_->rkey;
        ASSERT_EQ(ibv_post_send(client_.qp(), &wrs[i], &bad), 0);
    }
    EXPECT_EQ(next(client_.send_cq).status, IBV_WC_SUCCESS);
    EXPECT_EQ(next(client_.send_cq).status, IBV_WC_REM_ACCESS_ERR);
    EXPECT_EQ(next(client_.send_cq).status, IBV_WC_WR_FLUSH_ERR);
}

// rdma_disconnect() begins with ERROR on an adapter, which the peer is not to take for a failure.
TEST_F(ErrorsInRoce, AnEndIsNone) {
    ASSERT_NO_FATAL_FAILURE(receive(1, 64));
    ibv_send_wr wr{}, *bad = nullptr;
    wr.opcode = IBV_WR_SEND;
    wr.send_flags = IBV_SEND_SIGNALED;
    ASSERT_EQ(ibv_post_send(client_.qp(), &wr, &bad), 0);
    ASSERT_EQ(next(server_.recv_cq).status, IBV_WC_SUCCESS);
    ASSERT_EQ(rdma_disconnect(server_.id), 0);
    EXPECT_EQ(next(client_.send_cq).status, IBV_WC_SUCCESS);
    ASSERT_EQ(wait_event(), RDMA_CM_EVENT_DISCONNECTED);
    ASSERT_EQ(wait_event(), RDMA_CM_EVENT_DISCONNECTED);
    pollfd events{client_.id->verbs->async_fd, POLLIN, 0};
    EXPECT_EQ(poll(&events, 1, 0), 0) << "no asynchronous event";
}

}  // namespace
}  // namespace swrnic::test
