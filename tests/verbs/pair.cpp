// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "pair.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>

namespace swrnic::test {

rdma_cm_event_type PairTest::wait_event(rdma_cm_id** id) {
    pollfd waiting{.fd = channel_->fd, .events = POLLIN, .revents = 0};
    if (::poll(&waiting, 1, 5000) != 1) {
        ADD_FAILURE() << "no rdma_cm event within 5 s";
        return RDMA_CM_EVENT_TIMEWAIT_EXIT;
    }
    rdma_cm_event* event = nullptr;
    if (rdma_get_cm_event(channel_, &event) != 0) {
        ADD_FAILURE() << "rdma_get_cm_event";
        return RDMA_CM_EVENT_TIMEWAIT_EXIT;
    }
    const rdma_cm_event_type type = event->event;
    if (id) *id = event->id;
    rdma_ack_cm_event(event);
    return type;
}

ibv_cq* PairTest::make_cq(const Side& side, ibv_comp_channel* channel) const {
    if (!extended()) return ibv_create_cq(side.id->verbs, 64, nullptr, channel, 0);
    ibv_cq_init_attr_ex attr{};
    attr.cqe = 64;
    attr.channel = channel;
    attr.wc_flags = std::uint64_t{IBV_WC_STANDARD_FLAGS} | std::uint64_t{IBV_WC_EX_WITH_COMPLETION_TIMESTAMP} |
                    std::uint64_t{IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK};
    ibv_cq_ex* cq = ibv_create_cq_ex(side.id->verbs, &attr);
    return cq ? ibv_cq_ex_to_cq(cq) : nullptr;
}

void PairTest::give_qp(Side& side) {
    side.send_cq = make_cq(side, nullptr);
    side.channel = ibv_create_comp_channel(side.id->verbs);
    ASSERT_TRUE(side.channel);
    side.recv_cq = make_cq(side, side.channel);
    ASSERT_TRUE(side.send_cq && side.recv_cq);
    if (shares(side)) {
        ibv_srq_init_attr shared{};
        shared.attr = {.max_wr = 8, .max_sge = 1, .srq_limit = 0};
        side.srq = ibv_create_srq(side.id->pd, &shared);
        ASSERT_TRUE(side.srq);
    }
    ibv_qp_init_attr_ex attr{};
    attr.srq = side.srq;
    attr.comp_mask = IBV_QP_INIT_ATTR_PD;
    if (extended()) attr.comp_mask |= IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
    attr.send_ops_flags = IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_INV | IBV_QP_EX_WITH_RDMA_WRITE |
                          IBV_QP_EX_WITH_RDMA_READ | IBV_QP_EX_WITH_BIND_MW | IBV_QP_EX_WITH_LOCAL_INV;
    attr.pd = side.id->pd;
    attr.send_cq = side.send_cq;
    attr.recv_cq = side.recv_cq;
    attr.qp_type = IBV_QPT_RC;
    attr.cap = {.max_send_wr = 16, .max_recv_wr = 16, .max_send_sge = 4, .max_recv_sge = 4, .max_inline_data = 64};
    ASSERT_EQ(rdma_create_qp_ex(side.id, &attr), 0);
}

void PairTest::SetUp() {
    channel_ = rdma_create_event_channel();
    ASSERT_TRUE(channel_);
    ASSERT_EQ(rdma_create_id(channel_, &listener_, nullptr, RDMA_PS_TCP), 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    ASSERT_EQ(rdma_bind_addr(listener_, reinterpret_cast<sockaddr*>(&address)), 0);
    ASSERT_EQ(rdma_listen(listener_, 1), 0);
    address.sin_port = rdma_get_src_port(listener_);

    ASSERT_EQ(rdma_create_id(channel_, &client_.id, nullptr, RDMA_PS_TCP), 0);
    ASSERT_EQ(rdma_resolve_addr(client_.id, nullptr, reinterpret_cast<sockaddr*>(&address), 2000), 0);
    ASSERT_EQ(wait_event(), RDMA_CM_EVENT_ADDR_RESOLVED);
    ASSERT_EQ(rdma_resolve_route(client_.id, 2000), 0);
    ASSERT_EQ(wait_event(), RDMA_CM_EVENT_ROUTE_RESOLVED);
    ASSERT_NO_FATAL_FAILURE(give_qp(client_));
    rdma_conn_param asked{}, answered{};
    parameters(client_, asked);
    parameters(server_, answered);
    ASSERT_EQ(rdma_connect(client_.id, &asked), 0);
    ASSERT_EQ(wait_event(&server_.id), RDMA_CM_EVENT_CONNECT_REQUEST);
    ASSERT_NO_FATAL_FAILURE(give_qp(server_));
    accepting();
    ASSERT_EQ(rdma_accept(server_.id, &answered), 0);
    accepted();
    if (!is_established()) return;
    ASSERT_EQ(wait_event(), RDMA_CM_EVENT_ESTABLISHED);
    ASSERT_EQ(wait_event(), RDMA_CM_EVENT_ESTABLISHED);
}

void PairTest::TearDown() {
    regions_.clear();
    for (Side* side : {&client_, &server_}) {
        if (!side->id) continue;
        if (side->id->qp) rdma_destroy_qp(side->id);
        if (side->srq) {
            EXPECT_EQ(ibv_destroy_srq(side->srq), 0);
        }
        if (side->send_cq) {
            EXPECT_EQ(ibv_destroy_cq(side->send_cq), 0);
        }
        if (side->recv_cq) {
            EXPECT_EQ(ibv_destroy_cq(side->recv_cq), 0);
        }
        if (side->channel) {
            EXPECT_EQ(ibv_destroy_comp_channel(side->channel), 0);
        }
        rdma_destroy_id(side->id);
    }
    if (listener_) rdma_destroy_id(listener_);
    if (channel_) rdma_destroy_event_channel(channel_);
}

void PairTest::disconnect() {
    EXPECT_EQ(rdma_disconnect(client_.id), 0);
    EXPECT_EQ(wait_event(), RDMA_CM_EVENT_DISCONNECTED);
    EXPECT_EQ(wait_event(), RDMA_CM_EVENT_DISCONNECTED);
}

ibv_qp_state PairTest::state(ibv_qp* qp) {
    ibv_qp_attr attr{};
    ibv_qp_init_attr made{};
    EXPECT_EQ(ibv_query_qp(qp, &attr, IBV_QP_STATE, &made), 0);
    return attr.qp_state;
}

int PairTest::modify(ibv_qp* qp, ibv_qp_state to) {
    ibv_qp_attr attr{};
    attr.qp_state = to;
    return ibv_modify_qp(qp, &attr, IBV_QP_STATE);
}

ibv_mr* PairTest::reg(void* addr, std::size_t length, int access) {
    regions_.emplace_back(ibv_reg_mr(pd(), addr, length, access));
    EXPECT_TRUE(regions_.back());
    return regions_.back().get();
}

void DataPairTest::SetUp() {
    PairTest::SetUp();
    if (HasFatalFailure()) return;
    for (std::size_t i = 0; i < source_.size(); ++i)
        source_[i] = static_cast<char>(i * 7 + 1);
    const int all = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;
    source_mr_ = reg(source_.data(), source_.size(), all);
    target_mr_ = reg(target_.data(), target_.size(), all);
    ASSERT_TRUE(source_mr_ && target_mr_);
}

void DataPairTest::receive(std::uint64_t id, std::uint32_t length) {
    ibv_sge into{.addr = address(target_.data()), .length = length, .lkey = target_mr_->lkey};
    ibv_recv_wr wr{};
    wr.wr_id = id;
    wr.sg_list = &into;
    wr.num_sge = 1;
    ibv_recv_wr* bad = nullptr;
    ASSERT_EQ(ibv_post_recv(server_.qp(), &wr, &bad), 0);
}

}  // namespace swrnic::test
