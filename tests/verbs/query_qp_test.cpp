// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// ibv_query_qp(3): every attribute, against what was asked for and what was agreed on, in each part of a QP's life.
#include "pair.h"

namespace swrnic::test {
namespace {

constexpr int kEverything = 0x1fffff;

struct Answer {
    ibv_qp_attr attr{};
    ibv_qp_init_attr init{};
};

Answer ask(ibv_qp* qp) {
    Answer answer;
    EXPECT_EQ(ibv_query_qp(qp, &answer.attr, kEverything, &answer.init), 0);
    return answer;
}

void expect_cap(const ibv_qp_cap& has, const ibv_qp_cap& least) {
    EXPECT_GE(has.max_send_wr, least.max_send_wr);
    EXPECT_GE(has.max_recv_wr, least.max_recv_wr);
    EXPECT_GE(has.max_send_sge, least.max_send_sge);
    EXPECT_GE(has.max_recv_sge, least.max_recv_sge);
    EXPECT_GE(has.max_inline_data, least.max_inline_data);
}

// What holds at any time. All that InfiniBand alone has is 0.
void expect_always(const Answer& answer, ibv_qp* qp, ibv_qp_state state) {
    const ibv_qp_attr& attr = answer.attr;
    EXPECT_EQ(attr.qp_state, state);
    EXPECT_EQ(attr.cur_qp_state, state);
    EXPECT_EQ(attr.port_num, 1);
    ibv_port_attr port{};
    EXPECT_EQ(ibv_query_port(qp->context, 1, &port), 0);
    EXPECT_EQ(attr.path_mtu, port.active_mtu);
    EXPECT_EQ(attr.dest_qp_num | attr.rq_psn | attr.sq_psn | attr.qkey, 0u);
    EXPECT_EQ(attr.pkey_index | attr.alt_pkey_index | attr.timeout | attr.retry_cnt | attr.rnr_retry, 0);
    EXPECT_EQ(attr.alt_port_num | attr.alt_timeout | attr.min_rnr_timer, 0);
    EXPECT_EQ(attr.ah_attr.dlid, 0);
    EXPECT_EQ(answer.init.qp_type, IBV_QPT_RC);
    EXPECT_EQ(answer.init.send_cq, qp->send_cq);
    EXPECT_EQ(answer.init.recv_cq, qp->recv_cq);
    EXPECT_EQ(answer.init.srq, qp->srq);
    EXPECT_EQ(answer.init.qp_context, qp->qp_context);
    EXPECT_EQ(answer.init.cap.max_send_wr, attr.cap.max_send_wr);
    EXPECT_EQ(answer.init.cap.max_recv_wr, attr.cap.max_recv_wr);
    EXPECT_EQ(answer.init.cap.max_send_sge, attr.cap.max_send_sge);
    EXPECT_EQ(answer.init.cap.max_recv_sge, attr.cap.max_recv_sge);
    EXPECT_EQ(answer.init.cap.max_inline_data, attr.cap.max_inline_data);
}

using QueryQp = DeviceTest;

TEST_F(QueryQp, before_a_connection) {
    const CqPtr cq = make_cq();
    for (const int sig_all : {0, 1}) {
        ibv_qp_init_attr wish = qp_attr(cq.get());
        const ibv_qp_cap asked = wish.cap;
        wish.sq_sig_all = sig_all;
        wish.qp_context = this;
        const QpPtr qp(ibv_create_qp(pd_.get(), &wish));
        ASSERT_TRUE(qp);
        Answer answer = ask(qp.get());
        expect_always(answer, qp.get(), IBV_QPS_RESET);
        expect_cap(answer.attr.cap, asked);
        EXPECT_EQ(answer.attr.cap.max_send_wr, wish.cap.max_send_wr) << "what was granted";
        EXPECT_EQ(answer.init.sq_sig_all, sig_all);
        EXPECT_EQ(answer.attr.max_rd_atomic, 0);
        EXPECT_EQ(answer.attr.max_dest_rd_atomic, 0);

        ibv_qp_attr change{};
        change.qp_state = IBV_QPS_INIT;
        change.port_num = 1;
        change.qp_access_flags = IBV_ACCESS_REMOTE_READ;
        change.max_rd_atomic = 5;
        change.max_dest_rd_atomic = 7;
        ASSERT_EQ(ibv_modify_qp(qp.get(), &change,
                                IBV_QP_STATE | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS | IBV_QP_MAX_QP_RD_ATOMIC |
                                    IBV_QP_MAX_DEST_RD_ATOMIC),
                  0);
        answer = ask(qp.get());
        expect_always(answer, qp.get(), IBV_QPS_INIT);
        EXPECT_EQ(answer.attr.qp_access_flags, static_cast<unsigned>(IBV_ACCESS_REMOTE_READ));
        EXPECT_EQ(answer.attr.max_rd_atomic, 5);
        EXPECT_EQ(answer.attr.max_dest_rd_atomic, 7);

        change.qp_access_flags = 0;
        ASSERT_EQ(ibv_modify_qp(qp.get(), &change, IBV_QP_ACCESS_FLAGS), 0);
        EXPECT_EQ(ask(qp.get()).attr.qp_access_flags, 0u);
    }
}

// Asked for by the pair: 4 and 4.
class QueryConnectedQp : public PairTest, public testing::WithParamInterface<bool> {
  protected:
    bool shares(const Side& side) const override { return GetParam() && &side == &server_; }
};

TEST_P(QueryConnectedQp, connected_and_after) {
    for (const Side* side : {&client_, &server_}) {
        const Answer answer = ask(side->qp());
        expect_always(answer, side->qp(), IBV_QPS_RTS);
        EXPECT_EQ(answer.attr.max_rd_atomic, 4);
        EXPECT_EQ(answer.attr.max_dest_rd_atomic, 4);
        EXPECT_EQ(answer.attr.sq_draining, 0);
        EXPECT_EQ(answer.init.srq, side->srq);
        EXPECT_EQ(answer.init.sq_sig_all, 0);
        const bool shared = side->srq != nullptr;
        expect_cap(answer.attr.cap, {.max_send_wr = 16,
                                     .max_recv_wr = shared ? 0u : 16u,
                                     .max_send_sge = 4,
                                     .max_recv_sge = shared ? 0u : 4u,
                                     .max_inline_data = 64});
    }
    disconnect();
    for (const Side* side : {&client_, &server_}) {
        const Answer answer = ask(side->qp());
        expect_always(answer, side->qp(), IBV_QPS_ERR);
        EXPECT_EQ(answer.attr.max_rd_atomic, 4) << "of the stream that has ended";
        EXPECT_EQ(answer.attr.max_dest_rd_atomic, 4);
        ASSERT_EQ(modify(side->qp(), IBV_QPS_RESET), 0);
        const Answer idle = ask(side->qp());
        expect_always(idle, side->qp(), IBV_QPS_RESET);
        EXPECT_EQ(idle.attr.max_rd_atomic, 0);
    }
}
INSTANTIATE_TEST_SUITE_P(SharedQueue, QueryConnectedQp, testing::Bool());

// A peer of another depth: each side may ask for what the other holds, and no more.
class Depths : public PairTest {
  protected:
    void parameters(const Side& side, rdma_conn_param& wish) const override {
        const bool client = &side == &client_;
        wish.initiator_depth = client ? 9 : 3;
        wish.responder_resources = client ? 6 : 2;
    }
};

TEST_F(Depths, are_what_was_agreed_on) {
    const ibv_qp_attr client = ask(client_.qp()).attr, server = ask(server_.qp()).attr;
    EXPECT_LE(client.max_rd_atomic, server.max_dest_rd_atomic);
    EXPECT_LE(server.max_rd_atomic, client.max_dest_rd_atomic);
    EXPECT_EQ(client.max_rd_atomic, 2);
    EXPECT_EQ(server.max_rd_atomic, 3);
}

}  // namespace
}  // namespace swrnic::test
