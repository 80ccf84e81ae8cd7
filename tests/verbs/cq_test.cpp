// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <fcntl.h>
#include <poll.h>

#include <cerrno>

#include "device.h"

namespace swrnic::test {
namespace {

using Cq = DeviceTest;

TEST_F(Cq, sizes) {
    for (const int entries : {1, 2, 3, 100, 4096}) {
        const CqPtr cq = make_cq(entries);
        ASSERT_TRUE(cq) << entries;
        EXPECT_GE(cq->cqe, entries);
    }
    for (const int entries : {0, -1, limits_.max_cqe + 1}) {
        errno = 0;
        EXPECT_FALSE(make_cq(entries)) << entries;
        EXPECT_EQ(errno, EINVAL) << entries;
    }
    EXPECT_TRUE(make_cq(limits_.max_cqe));
    const auto cq = make_cq(10);
    ASSERT_TRUE(cq);
    EXPECT_EQ(ibv_resize_cq(cq.get(), 1000), 0);
    EXPECT_GE(cq->cqe, 1000);
    EXPECT_EQ(ibv_resize_cq(cq.get(), 0), EINVAL);
    EXPECT_EQ(ibv_resize_cq(cq.get(), limits_.max_cqe + 1), EINVAL);
    EXPECT_GE(cq->cqe, 1000);
}

TEST_F(Cq, empty) {
    const CqPtr cq = make_cq();
    ibv_wc wc{};
    EXPECT_EQ(ibv_poll_cq(cq.get(), 1, &wc), 0);
    EXPECT_EQ(ibv_req_notify_cq(cq.get(), 0), 0);  // no channel: nobody to tell
}

TEST_F(Cq, comp_vector_out_of_range) {
    errno = 0;
    EXPECT_EQ(ibv_create_cq(context_.get(), 4, nullptr, nullptr, context_->num_comp_vectors), nullptr);
    EXPECT_EQ(errno, EINVAL);
}

TEST_F(Cq, in_use_stays) {
    const CqPtr cq = make_cq();
    const QpPtr qp = make_qp(cq.get());
    ASSERT_TRUE(qp);
    EXPECT_EQ(ibv_destroy_cq(cq.get()), EBUSY);
}

TEST_F(Cq, armed_channel_tells_once) {
    const ChannelPtr channel(ibv_create_comp_channel(context_.get()));
    ASSERT_TRUE(channel);
    int cookie = 0;
    const CqPtr cq(ibv_create_cq(context_.get(), 16, &cookie, channel.get(), 0));
    ASSERT_TRUE(cq);
    const QpPtr qp = make_qp(cq.get());
    ASSERT_TRUE(qp);
    ASSERT_EQ(ibv_req_notify_cq(cq.get(), 0), 0);
    pollfd waiting{.fd = channel->fd, .events = POLLIN, .revents = 0};
    EXPECT_EQ(::poll(&waiting, 1, 0), 0);

    // Receives posted to a QP in ERR are flushed at once (VERBS-23): completions without a peer.
    ibv_qp_attr error{};
    error.qp_state = IBV_QPS_ERR;
    ASSERT_EQ(ibv_modify_qp(qp.get(), &error, IBV_QP_STATE), 0);
    for (int i = 0; i < 2; ++i) {
        ibv_recv_wr wr{};
        ibv_recv_wr* bad = nullptr;
        ASSERT_EQ(ibv_post_recv(qp.get(), &wr, &bad), 0);
    }
    ASSERT_EQ(::poll(&waiting, 1, 5000), 1);
    ibv_cq* told = nullptr;
    void* told_cookie = nullptr;
    ASSERT_EQ(ibv_get_cq_event(channel.get(), &told, &told_cookie), 0);
    EXPECT_EQ(told, cq.get());
    EXPECT_EQ(told_cookie, &cookie);
    EXPECT_EQ(::poll(&waiting, 1, 50), 0);  // once per arming
    ibv_ack_cq_events(cq.get(), 1);
    ibv_wc wc[4];
    EXPECT_EQ(ibv_poll_cq(cq.get(), 4, wc), 2);
}

}  // namespace
}  // namespace swrnic::test
