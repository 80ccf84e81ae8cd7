// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Every asynchronous event of verbs.h: when it comes, or why it never does. What can be provoked here, is.
#include <poll.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "pair.h"

namespace swrnic::test {
namespace {

// "here": by a test below. Else where it is shown, or why there is none.
const std::map<ibv_event_type, std::string> kTable = {
    {IBV_EVENT_CQ_ERR, "here: a CQ overflows"},
    {IBV_EVENT_QP_FATAL, "here: a local error, or a Terminate came in"},
    {IBV_EVENT_QP_REQ_ERR,
     "the peer's request is malformed: Requirements.TheFirstCheckSpeaks, DDP-E and RDMAP-E vectors"},
    {IBV_EVENT_QP_ACCESS_ERR, "here: the peer's request fails the checks of its STag"},
    {IBV_EVENT_COMM_EST, "never: rdma_cm's ESTABLISHED comes with the first FPDU where a QP waits for it"},
    {IBV_EVENT_SQ_DRAINED, "here: modify_qp(SQD) with en_sqd_async_notify, and all of the queue is out"},
    {IBV_EVENT_PATH_MIG, "never: iWARP has no alternate paths"},
    {IBV_EVENT_PATH_MIG_ERR, "never: the same"},
    {IBV_EVENT_DEVICE_FATAL,
     "the module's device is deleted: vm.6.1.port; the userspace shim's lives as long as the process"},
    {IBV_EVENT_PORT_ACTIVE, "the module's interface: vm.6.1.port; the userspace shim's port is always active"},
    {IBV_EVENT_PORT_ERR, "the same"},
    {IBV_EVENT_LID_CHANGE, "never: no LIDs"},
    {IBV_EVENT_PKEY_CHANGE, "never: no partitions"},
    {IBV_EVENT_SM_CHANGE, "never: no subnet manager"},
    {IBV_EVENT_SRQ_ERR, "never: nothing makes a shared receive queue unusable"},
    {IBV_EVENT_SRQ_LIMIT_REACHED, "here: fewer receives than the armed limit"},
    {IBV_EVENT_QP_LAST_WQE_REACHED, "here: a QP with a shared queue has ended"},
    {IBV_EVENT_CLIENT_REREGISTER,
     "the module, when addresses change (vm.6.1.port), since the core keeps GID_CHANGE of iWARP ports to itself"},
    {IBV_EVENT_GID_CHANGE, "never: see above; the userspace shim reads its GIDs anew at each query"},
    {IBV_EVENT_WQ_FATAL, "never: no work queues of their own"},
};

TEST(AsyncEventTable, is_complete) {
    for (int type = IBV_EVENT_CQ_ERR; type <= IBV_EVENT_WQ_FATAL; ++type)
        EXPECT_EQ(kTable.count(static_cast<ibv_event_type>(type)), 1u)
            << ibv_event_type_str(static_cast<ibv_event_type>(type));
    EXPECT_EQ(kTable.size(), static_cast<std::size_t>(IBV_EVENT_WQ_FATAL) + 1);
}

class AsyncEvents : public DataPairTest {
  protected:
    // Whether this event has come, or does within 5 s. Each side tells its own in their order, but between the two
    // sides there is none: what comes meanwhile is kept.
    testing::AssertionResult comes(ibv_event_type type, const void* element) {
        pollfd waiting{.fd = client_.id->verbs->async_fd, .events = POLLIN, .revents = 0};
        for (;;) {
            const auto found = std::find(seen_.begin(), seen_.end(), std::pair{type, element});
            if (found != seen_.end()) {
                seen_.erase(found);
                return testing::AssertionSuccess();
            }
            ibv_async_event event{};
            if (::poll(&waiting, 1, 5000) != 1 || ibv_get_async_event(client_.id->verbs, &event) != 0) break;
            ibv_ack_async_event(&event);
            seen_.emplace_back(event.event_type, event.element.qp);  // a union of pointers
        }
        testing::AssertionResult missing = testing::AssertionFailure()
                                           << "no " << ibv_event_type_str(type) << "; seen:";
        for (const auto& [other, of] : seen_)
            missing << " " << ibv_event_type_str(other) << (of == element ? "" : " of another");
        return missing;
    }
    int post(const Side& side, ibv_wr_opcode opcode, std::uint32_t rkey = 0) {
        ibv_sge local{.addr = address(source_.data()), .length = 8, .lkey = source_mr_->lkey};
        ibv_send_wr wr{};
        wr.opcode = opcode;
        wr.send_flags = IBV_SEND_SIGNALED;
        wr.sg_list = &local;
        wr.num_sge = 1;
        wr.wr.rdma.remote_addr = address(target_.data());
        wr.wr.rdma.rkey = rkey;
        ibv_send_wr* bad = nullptr;
        return ibv_post_send(side.qp(), &wr, &bad);
    }
    int drain(bool notify) {
        ibv_qp_attr attr{};
        attr.qp_state = IBV_QPS_SQD;
        attr.en_sqd_async_notify = notify;
        return ibv_modify_qp(client_.qp(), &attr, IBV_QP_STATE | IBV_QP_EN_SQD_ASYNC_NOTIFY);
    }

    std::vector<std::pair<ibv_event_type, const void*>> seen_;
};

TEST_F(AsyncEvents, qp_access_err_and_qp_fatal) {
    ASSERT_EQ(post(client_, IBV_WR_RDMA_WRITE, 0x1234500), 0);
    EXPECT_TRUE(comes(IBV_EVENT_QP_ACCESS_ERR, server_.qp()));
    EXPECT_TRUE(comes(IBV_EVENT_QP_FATAL, client_.qp()));
}

TEST_F(AsyncEvents, cq_err) {
    // Both sides' CQs hold 64. 16 requests may be outstanding, and nobody polls.
    int posted = 0;
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(5);
    while (state(client_.qp()) == IBV_QPS_RTS && std::chrono::steady_clock::now() < deadline) {
        if (post(client_, IBV_WR_RDMA_WRITE, target_mr_->rkey) == 0)
            ++posted;
        else
            std::this_thread::yield();  // the queue is full
    }
    EXPECT_GT(posted, 64);
    EXPECT_TRUE(comes(IBV_EVENT_CQ_ERR, client_.send_cq));
    EXPECT_TRUE(comes(IBV_EVENT_QP_FATAL, client_.qp()));
}

TEST_F(AsyncEvents, sq_drained) {
    receive(1, 8);
    ASSERT_EQ(post(client_, IBV_WR_SEND), 0);
    ASSERT_EQ(drain(true), 0);
    EXPECT_TRUE(comes(IBV_EVENT_SQ_DRAINED, client_.qp()));
    EXPECT_EQ(next(client_.send_cq).status, IBV_WC_SUCCESS);
    EXPECT_EQ(next(server_.recv_cq).status, IBV_WC_SUCCESS);
}

TEST_F(AsyncEvents, sq_drained_only_on_request) {
    ASSERT_EQ(drain(false), 0);
    EXPECT_EQ(wait_event(), RDMA_CM_EVENT_DISCONNECTED);
    pollfd waiting{.fd = client_.id->verbs->async_fd, .events = POLLIN, .revents = 0};
    EXPECT_EQ(::poll(&waiting, 1, 50), 0);
}

// The server's QP takes its receives from a shared queue.
class SharedQueueEvents : public AsyncEvents {
  protected:
    bool shares(const Side& side) const override { return &side == &server_; }
    void receive_shared() {
        ibv_sge into{.addr = address(target_.data()), .length = 8, .lkey = target_mr_->lkey};
        ibv_recv_wr wr{};
        wr.sg_list = &into;
        wr.num_sge = 1;
        ibv_recv_wr* bad = nullptr;
        ASSERT_EQ(ibv_post_srq_recv(server_.srq, &wr, &bad), 0);
    }
};

TEST_F(SharedQueueEvents, srq_limit_reached) {
    for (int i = 0; i < 4; ++i)
        receive_shared();
    ibv_srq_attr attr{.max_wr = 0, .max_sge = 0, .srq_limit = 3};
    ASSERT_EQ(ibv_modify_srq(server_.srq, &attr, IBV_SRQ_LIMIT), 0);
    ASSERT_EQ(post(client_, IBV_WR_SEND), 0);
    EXPECT_EQ(next(server_.recv_cq).status, IBV_WC_SUCCESS);
    ASSERT_EQ(post(client_, IBV_WR_SEND), 0);
    EXPECT_EQ(next(server_.recv_cq).status, IBV_WC_SUCCESS);
    EXPECT_TRUE(comes(IBV_EVENT_SRQ_LIMIT_REACHED, server_.srq));
}

TEST_F(SharedQueueEvents, srq_limit_reached_at_arming) {
    receive_shared();
    ibv_srq_attr attr{.max_wr = 0, .max_sge = 0, .srq_limit = 1};
    ASSERT_EQ(ibv_modify_srq(server_.srq, &attr, IBV_SRQ_LIMIT), 0);
    ASSERT_EQ(ibv_query_srq(server_.srq, &attr), 0);
    EXPECT_EQ(attr.srq_limit, 1u);
    attr.srq_limit = 2;
    ASSERT_EQ(ibv_modify_srq(server_.srq, &attr, IBV_SRQ_LIMIT), 0);
    EXPECT_TRUE(comes(IBV_EVENT_SRQ_LIMIT_REACHED, server_.srq)) << "though nobody takes a receive";
    ASSERT_EQ(ibv_query_srq(server_.srq, &attr), 0);
    EXPECT_EQ(attr.srq_limit, 0u);
}

TEST_F(SharedQueueEvents, qp_last_wqe_reached) {
    receive_shared();
    ASSERT_EQ(modify(server_.qp(), IBV_QPS_ERR), 0);
    EXPECT_TRUE(comes(IBV_EVENT_QP_LAST_WQE_REACHED, server_.qp()));
    ibv_wc wc{};
    EXPECT_EQ(ibv_poll_cq(server_.recv_cq, 1, &wc), 0) << "what stands in the queue is not this QP's";
}

}  // namespace
}  // namespace swrnic::test
