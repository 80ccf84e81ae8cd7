// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// modify_qp over all pairs of states (docs/spec/verbs.md section 6).
#include <array>
#include <cerrno>
#include <functional>
#include <string>

#include "pair.h"

namespace swrnic::test {
namespace {

constexpr std::array<const char*, 7> kNames{"RESET", "INIT", "RTR", "RTS", "SQD", "SQE", "ERR"};

// What ibv_modify_qp(to) must answer in each state: 0 or EINVAL.
constexpr int no = EINVAL;
constexpr int kExpected[7][7] = {
    //           RESET INIT RTR RTS SQD SQE ERR
    /* RESET */ {0, 0, no, no, no, no, 0},
    /* INIT  */ {0, 0, 0, no, no, no, 0},
    /* RTR   */ {0, no, 0, no, no, no, 0},
    /* RTS   */ {no, no, no, 0, 0, 0, 0},
    /* SQD   */ {no, no, no, no, 0, 0, 0},
    /* SQE   */ {no, no, no, no, 0, 0, 0},
    /* ERR   */ {0, no, no, no, 0, 0, 0},
};

class IdleStates : public DeviceTest {
  protected:
    int modify(ibv_qp* qp, int to) {
        ibv_qp_attr attr{};
        attr.qp_state = static_cast<ibv_qp_state>(to);
        attr.port_num = 1;
        return ibv_modify_qp(qp, &attr, IBV_QP_STATE | (to == IBV_QPS_INIT ? IBV_QP_PORT : 0));
    }
    void reach(ibv_qp* qp, int from) {
        if (from == IBV_QPS_ERR) {
            ASSERT_EQ(modify(qp, IBV_QPS_ERR), 0);
        }
        if (from == IBV_QPS_INIT || from == IBV_QPS_RTR) {
            ASSERT_EQ(modify(qp, IBV_QPS_INIT), 0);
        }
        if (from == IBV_QPS_RTR) {
            ASSERT_EQ(modify(qp, IBV_QPS_RTR), 0);
        }
    }
};

TEST_F(IdleStates, all_pairs_without_connection) {  // VERBS-20, 26, 56
    const CqPtr cq = make_cq();
    for (const int from : {IBV_QPS_RESET, IBV_QPS_INIT, IBV_QPS_RTR, IBV_QPS_ERR}) {
        for (int to = IBV_QPS_RESET; to <= IBV_QPS_ERR; ++to) {
            SCOPED_TRACE(std::string(kNames[from]) + " to " + kNames[to]);
            const QpPtr qp = make_qp(cq.get());
            ASSERT_TRUE(qp);
            ASSERT_NO_FATAL_FAILURE(reach(qp.get(), from));
            EXPECT_EQ(modify(qp.get(), to), kExpected[from][to]);
            ibv_qp_attr attr{};
            ibv_qp_init_attr made{};
            ASSERT_EQ(ibv_query_qp(qp.get(), &attr, IBV_QP_STATE, &made), 0);
            // ERR keeps an end that comes once more.
            const int expected = kExpected[from][to] || from == IBV_QPS_ERR ? (to == IBV_QPS_RESET ? to : from) : to;
            EXPECT_EQ(attr.qp_state, expected);
        }
    }
}

TEST_F(IdleStates, mask_without_state) {  // VERBS-21: librdmacm's port-only modify
    const CqPtr cq = make_cq();
    const QpPtr qp = make_qp(cq.get());
    ASSERT_EQ(modify(qp.get(), IBV_QPS_INIT), 0);
    ibv_qp_attr attr{};
    attr.port_num = 1;
    EXPECT_EQ(ibv_modify_qp(qp.get(), &attr, IBV_QP_PORT), 0);
    ibv_qp_init_attr made{};
    ASSERT_EQ(ibv_query_qp(qp.get(), &attr, IBV_QP_STATE, &made), 0);
    EXPECT_EQ(attr.qp_state, IBV_QPS_INIT);
}

class ConnectedStates : public PairTest, public testing::WithParamInterface<int> {};

TEST_P(ConnectedStates, from_rts) {
    const int to = GetParam();
    ASSERT_EQ(state(client_.qp()), IBV_QPS_RTS);
    EXPECT_EQ(modify(client_.qp(), static_cast<ibv_qp_state>(to)), kExpected[IBV_QPS_RTS][to]);
    const ibv_qp_state after = state(client_.qp());
    if (kExpected[IBV_QPS_RTS][to] || to == IBV_QPS_RTS)
        EXPECT_EQ(after, IBV_QPS_RTS);
    else  // an end goes on to ERR by itself, as fast as the peer answers
        EXPECT_TRUE(after == to || after == IBV_QPS_ERR) << after;
}
INSTANTIATE_TEST_SUITE_P(To, ConnectedStates, testing::Range(0, 7),
                         [](const auto& to) { return kNames[static_cast<std::size_t>(to.param)]; });

using Ends = PairTest;

TEST_F(Ends, graceful_end_may_be_repeated_and_ends_in_err) {  // VERBS-55, 56
    ASSERT_EQ(modify(client_.qp(), IBV_QPS_SQD), 0);
    EXPECT_EQ(modify(client_.qp(), IBV_QPS_SQD), 0);
    disconnect();
    EXPECT_EQ(state(client_.qp()), IBV_QPS_ERR);
    EXPECT_EQ(state(server_.qp()), IBV_QPS_ERR);
    EXPECT_EQ(modify(client_.qp(), IBV_QPS_SQD), 0);
    EXPECT_EQ(modify(client_.qp(), IBV_QPS_RESET), 0);
    EXPECT_EQ(state(client_.qp()), IBV_QPS_RESET);
}

TEST_F(Ends, abort_reaches_the_peer) {
    ASSERT_EQ(modify(client_.qp(), IBV_QPS_ERR), 0);
    EXPECT_EQ(state(client_.qp()), IBV_QPS_ERR);
    for (int i = 0; i < 500 && state(server_.qp()) != IBV_QPS_ERR; ++i) {
        timespec ten_ms{.tv_sec = 0, .tv_nsec = 10'000'000};
        ::nanosleep(&ten_ms, nullptr);
    }
    EXPECT_EQ(state(server_.qp()), IBV_QPS_ERR);
}

TEST_F(Ends, destroying_a_connected_qp_ends_the_connection) {  // VERBS-27
    rdma_destroy_qp(client_.id);
    rdma_cm_id* id = nullptr;
    do {
        ASSERT_EQ(wait_event(&id), RDMA_CM_EVENT_DISCONNECTED);
    } while (id != server_.id);
    EXPECT_EQ(state(server_.qp()), IBV_QPS_ERR);
}

TEST_F(Ends, completions_of_a_destroyed_qp_do_not_dangle) {  // VERBS-27
    for (int i = 0; i < 4; ++i) {
        ibv_recv_wr wr{};
        ibv_recv_wr* bad = nullptr;
        ASSERT_EQ(ibv_post_recv(client_.qp(), &wr, &bad), 0);
    }
    ASSERT_EQ(modify(client_.qp(), IBV_QPS_ERR), 0);
    rdma_destroy_qp(client_.id);
    ibv_wc wc[4];
    EXPECT_EQ(ibv_poll_cq(client_.recv_cq, 4, wc), 0);
}

}  // namespace
}  // namespace swrnic::test
