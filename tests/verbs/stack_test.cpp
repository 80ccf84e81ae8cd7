// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// ibv_poll_cq on the smallest stack that a thread may have, which is what fibres get, whatever a poll finds to do.
#include <pthread.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <thread>

#include "pair.h"

namespace swrnic::test {
namespace {

class SmallStack : public DataPairTest {
  protected:
    struct Poller {
        ibv_cq* cq;
        std::atomic<int> completions{0};
        std::atomic<bool> stop{false};
    };
    static void* poll(void* arg) {
        auto& poller = *static_cast<Poller*>(arg);
        ibv_wc wc{};
        while (!poller.stop) {
            if (ibv_poll_cq(poller.cq, 1, &wc) == 1) ++poller.completions;
        }
        return nullptr;
    }
};

TEST_F(SmallStack, is_enough_for_a_poll) {
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
    GTEST_SKIP() << "what is instrumented needs more";
#endif
    Poller poller{client_.send_cq};
    pthread_attr_t small;
    pthread_t thread;
    ASSERT_EQ(pthread_attr_init(&small), 0);
    ASSERT_EQ(pthread_attr_setstacksize(&small, static_cast<std::size_t>(sysconf(_SC_THREAD_STACK_MIN))), 0);
    ASSERT_EQ(pthread_create(&thread, &small, &poll, &poller), 0);
    pthread_attr_destroy(&small);
    ibv_sge sge{address(source_.data()), static_cast<std::uint32_t>(source_.size()), source_mr_->lkey};
    for (const ibv_wr_opcode opcode : {IBV_WR_RDMA_WRITE, IBV_WR_RDMA_READ, IBV_WR_SEND}) {
        receive(1, static_cast<std::uint32_t>(target_.size()));
        ibv_send_wr wr{}, *bad = nullptr;
        wr.opcode = opcode;
        wr.send_flags = IBV_SEND_SIGNALED;
        wr.sg_list = &sge;
        wr.num_sge = 1;
        wr.wr.rdma = {address(target_.data()), target_mr_->rkey};
        const int before = poller.completions;
        ASSERT_EQ(ibv_post_send(client_.qp(), &wr, &bad), 0);
        for (int tries = 0; poller.completions == before && tries < 5000; ++tries)
            std::this_thread::sleep_for(std::chrono::milliseconds(1));
        EXPECT_EQ(poller.completions, before + 1);
    }
    // What the server's end still receives is read by whoever drives the engine, which is the thread.
    rdma_destroy_qp(server_.id);
    EXPECT_EQ(wait_event(), RDMA_CM_EVENT_DISCONNECTED);
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    poller.stop = true;
    pthread_join(thread, nullptr);
}

}  // namespace
}  // namespace swrnic::test
