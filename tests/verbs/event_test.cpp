// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Completion channels and asynchronous events over a real connection.
#include <fcntl.h>
#include <poll.h>

#include <cerrno>
#include <set>
#include <thread>

#include "pair.h"

namespace swrnic::test {
namespace {

class Events : public PairTest {
  protected:
    bool readable(int fd, int timeout_ms) {
        pollfd waiting{.fd = fd, .events = POLLIN, .revents = 0};
        return ::poll(&waiting, 1, timeout_ms) == 1;
    }
    void receive() {
        ibv_recv_wr wr{};
        ibv_recv_wr* bad = nullptr;
        ASSERT_EQ(ibv_post_recv(server_.qp(), &wr, &bad), 0);
    }
    void send(unsigned flags) {
        ibv_send_wr wr{};
        wr.opcode = IBV_WR_SEND;
        wr.send_flags = flags;
        ibv_send_wr* bad = nullptr;
        ASSERT_EQ(ibv_post_send(client_.qp(), &wr, &bad), 0);
    }
    void take_event() {
        ibv_cq* cq = nullptr;
        void* cookie = nullptr;
        ASSERT_EQ(ibv_get_cq_event(server_.channel, &cq, &cookie), 0);
        EXPECT_EQ(cq, server_.recv_cq);
        ibv_ack_cq_events(cq, 1);
    }
};

TEST_F(Events, any_completion) {  // VERBS-8
    receive();
    ASSERT_EQ(ibv_req_notify_cq(server_.recv_cq, 0), 0);
    EXPECT_FALSE(readable(server_.channel->fd, 0));
    send(0);
    ASSERT_TRUE(readable(server_.channel->fd, 5000));
    take_event();
    EXPECT_EQ(next(server_.recv_cq).status, IBV_WC_SUCCESS);
}

TEST_F(Events, solicited_only) {  // VERBS-8
    receive();
    receive();
    ASSERT_EQ(ibv_req_notify_cq(server_.recv_cq, 1), 0);
    send(0);
    EXPECT_EQ(next(server_.recv_cq).status, IBV_WC_SUCCESS);
    EXPECT_FALSE(readable(server_.channel->fd, 50));
    send(IBV_SEND_SOLICITED);
    ASSERT_TRUE(readable(server_.channel->fd, 5000));
    take_event();
    EXPECT_EQ(next(server_.recv_cq).status, IBV_WC_SUCCESS);
}

TEST_F(Events, an_error_counts_as_solicited) {  // VERBS-8
    receive();
    ASSERT_EQ(ibv_req_notify_cq(server_.recv_cq, 1), 0);
    ASSERT_EQ(modify(server_.qp(), IBV_QPS_ERR), 0);
    ASSERT_TRUE(readable(server_.channel->fd, 5000));
    take_event();
    EXPECT_EQ(next(server_.recv_cq).status, IBV_WC_WR_FLUSH_ERR);
}

// Arm, poll once more, sleep: no completion may fall between.
TEST_F(Events, none_is_lost_between_arming_and_sleeping) {
    constexpr int kRounds = 2000;
    for (int i = 0; i < 8; ++i)
        receive();
    std::thread sender([this] {
        for (int i = 0; i < kRounds; ++i) {
            ibv_send_wr wr{};
            wr.opcode = IBV_WR_SEND;
            wr.send_flags = IBV_SEND_SIGNALED;
            ibv_send_wr* bad = nullptr;
            while (ibv_post_send(client_.qp(), &wr, &bad) == ENOMEM)
                std::this_thread::yield();
            ibv_wc wc{};
            while (ibv_poll_cq(client_.send_cq, 1, &wc) == 0)
                std::this_thread::yield();
        }
    });
    int received = 0;
    while (received < kRounds) {
        ASSERT_EQ(ibv_req_notify_cq(server_.recv_cq, 0), 0);
        ibv_wc wc{};
        bool any = false;
        while (received < kRounds && ibv_poll_cq(server_.recv_cq, 1, &wc) == 1) {
            if (wc.status != IBV_WC_SUCCESS) {
                ADD_FAILURE() << "status " << wc.status << " after " << received;
                received = kRounds;
                break;
            }
            ++received;
            any = true;
            receive();
        }
        if (any || received == kRounds) continue;
        if (!readable(server_.channel->fd, 5000)) {
            ADD_FAILURE() << "asleep after " << received;
            break;
        }
        take_event();
    }
    sender.join();
    while (readable(server_.channel->fd, 0))
        take_event();
}

TEST_F(Events, a_fault_is_told_on_both_sides) {  // VERBS-17
    const int fd = client_.id->verbs->async_fd;
    ibv_sge from{.addr = 0x1000, .length = 8, .lkey = 0x12345678};
    ibv_send_wr wr{};
    wr.opcode = IBV_WR_SEND;
    wr.sg_list = &from;
    wr.num_sge = 1;
    ibv_send_wr* bad = nullptr;
    ASSERT_EQ(ibv_post_send(client_.qp(), &wr, &bad), 0);
    EXPECT_EQ(next(client_.send_cq).status, IBV_WC_LOC_PROT_ERR);
    std::set<ibv_qp*> told;
    while (told.size() < 2 && readable(fd, 5000)) {
        ibv_async_event event{};
        ASSERT_EQ(ibv_get_async_event(client_.id->verbs, &event), 0);
        EXPECT_EQ(event.event_type, IBV_EVENT_QP_FATAL);
        told.insert(event.element.qp);
        ibv_ack_async_event(&event);
    }
    EXPECT_EQ(told, (std::set<ibv_qp*>{client_.qp(), server_.qp()}));
}

}  // namespace
}  // namespace swrnic::test
