// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Posting: what is accepted in which state, bad_wr, flush, and one of each operation over a real connection.
#include <sched.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "pair.h"

namespace swrnic::test {
namespace {

ibv_sge sge(const void* data, std::uint32_t length, std::uint32_t lkey) {
    return {.addr = reinterpret_cast<std::uintptr_t>(data), .length = length, .lkey = lkey};
}

ibv_send_wr send_wr(ibv_wr_opcode opcode, ibv_sge* list, int count, unsigned flags = IBV_SEND_SIGNALED) {
    ibv_send_wr wr{};
    wr.opcode = opcode;
    wr.sg_list = list;
    wr.num_sge = count;
    wr.send_flags = flags;
    return wr;
}

class PostStates : public DeviceTest {
  protected:
    void SetUp() override {
        DeviceTest::SetUp();
        if (HasFatalFailure()) return;
        cq_ = make_cq();
        qp_ = make_qp(cq_.get());
        ASSERT_TRUE(qp_);
    }
    void to(ibv_qp_state state) {
        ibv_qp_attr attr{};
        attr.qp_state = state;
        attr.port_num = 1;
        ASSERT_EQ(ibv_modify_qp(qp_.get(), &attr, IBV_QP_STATE | (state == IBV_QPS_INIT ? IBV_QP_PORT : 0)), 0);
    }
    int send(std::uint64_t id = 0) {
        ibv_send_wr wr = send_wr(IBV_WR_SEND, nullptr, 0, 0);
        wr.wr_id = id;
        ibv_send_wr* bad = nullptr;
        const int error = ibv_post_send(qp_.get(), &wr, &bad);
        if (error) {
            EXPECT_EQ(bad, &wr);
        }
        return error;
    }
    int recv(std::uint64_t id = 0) {
        ibv_recv_wr wr{};
        wr.wr_id = id;
        ibv_recv_wr* bad = nullptr;
        const int error = ibv_post_recv(qp_.get(), &wr, &bad);
        if (error) {
            EXPECT_EQ(bad, &wr);
        }
        return error;
    }
    CqPtr cq_;
    QpPtr qp_;
};

TEST_F(PostStates, reset_takes_nothing) {
    EXPECT_EQ(send(), EINVAL);
    EXPECT_EQ(recv(), EINVAL);
}

TEST_F(PostStates, init_and_rtr_take_receives) {
    to(IBV_QPS_INIT);
    EXPECT_EQ(send(), EINVAL);
    EXPECT_EQ(recv(), 0);
    to(IBV_QPS_RTR);
    EXPECT_EQ(send(), EINVAL);
    EXPECT_EQ(recv(), 0);
}

TEST_F(PostStates, error_flushes_in_order) {  // VERBS-14, 19, 23
    to(IBV_QPS_INIT);
    for (std::uint64_t i = 0; i < 3; ++i)
        ASSERT_EQ(recv(i), 0);
    to(IBV_QPS_ERR);
    EXPECT_EQ(recv(3), 0);
    EXPECT_EQ(send(100), 0);  // unsignalled, and still it yields a completion
    std::uint64_t next_recv = 0;
    int sends = 0;
    ibv_wc wc{};
    while (ibv_poll_cq(cq_.get(), 1, &wc) == 1) {
        EXPECT_EQ(wc.status, IBV_WC_WR_FLUSH_ERR);
        EXPECT_EQ(wc.qp_num, qp_->qp_num);
        if (wc.wr_id == 100)
            ++sends;
        else
            EXPECT_EQ(wc.wr_id, next_recv++);
    }
    EXPECT_EQ(next_recv, 4u);
    EXPECT_EQ(sends, 1);
}

TEST_F(PostStates, full_queue) {
    to(IBV_QPS_INIT);
    ibv_qp_attr attr{};
    ibv_qp_init_attr made{};
    ASSERT_EQ(ibv_query_qp(qp_.get(), &attr, IBV_QP_CAP, &made), 0);
    for (std::uint32_t i = 0; i < made.cap.max_recv_wr; ++i)
        ASSERT_EQ(recv(i), 0) << i;
    EXPECT_EQ(recv(), ENOMEM);
}

TEST_F(PostStates, bad_wr_of_a_receive_list) {
    to(IBV_QPS_INIT);
    std::array<ibv_sge, 3> list{};
    std::array<ibv_recv_wr, 3> wrs{};
    for (std::size_t i = 0; i < 3; ++i) {
        wrs[i].wr_id = i;
        wrs[i].next = i < 2 ? &wrs[i + 1] : nullptr;
    }
    wrs[1].sg_list = list.data();
    wrs[1].num_sge = 3;  // the QP has two
    ibv_recv_wr* bad = nullptr;
    EXPECT_EQ(ibv_post_recv(qp_.get(), wrs.data(), &bad), EINVAL);
    EXPECT_EQ(bad, &wrs[1]);
    to(IBV_QPS_ERR);
    ibv_wc wc[3];
    ASSERT_EQ(ibv_poll_cq(cq_.get(), 3, wc), 1);  // the one before it stands
    EXPECT_EQ(wc[0].wr_id, 0u);
}

class Post : public DataPairTest {
  protected:
    int post(ibv_send_wr& wr, ibv_send_wr** bad = nullptr) {
        ibv_send_wr* ignored = nullptr;
        return ibv_post_send(client_.qp(), &wr, bad ? bad : &ignored);
    }
    ibv_send_wr remote(ibv_wr_opcode opcode, ibv_sge* list, int count) {
        ibv_send_wr wr = send_wr(opcode, list, count);
        wr.wr.rdma.remote_addr = reinterpret_cast<std::uintptr_t>(target_.data());
        wr.wr.rdma.rkey = target_mr_->rkey;
        return wr;
    }
};

TEST_F(Post, send) {
    receive(7, 4096);
    ibv_sge from[2] = {sge(source_.data(), 100, source_mr_->lkey), sge(source_.data() + 100, 900, source_mr_->lkey)};
    ibv_send_wr wr = send_wr(IBV_WR_SEND, from, 2);
    wr.wr_id = 5;
    ASSERT_EQ(post(wr), 0);
    const ibv_wc sent = next(client_.send_cq);
    EXPECT_EQ(sent.status, IBV_WC_SUCCESS);
    EXPECT_EQ(sent.wr_id, 5u);
    EXPECT_EQ(sent.opcode, IBV_WC_SEND);
    EXPECT_EQ(sent.qp_num, client_.qp()->qp_num);
    const ibv_wc got = next(server_.recv_cq);
    EXPECT_EQ(got.status, IBV_WC_SUCCESS);
    EXPECT_EQ(got.wr_id, 7u);
    EXPECT_EQ(got.opcode, IBV_WC_RECV);
    EXPECT_EQ(got.byte_len, 1000u);
    EXPECT_EQ(got.wc_flags, 0u);
    EXPECT_EQ(std::memcmp(source_.data(), target_.data(), 1000), 0);
}

TEST_F(Post, send_with_invalidate) {
    std::array<char, 64> window{};
    ibv_mr* mr = reg(window.data(), window.size(), IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
    receive(1, 16);
    ibv_send_wr wr = send_wr(IBV_WR_SEND_WITH_INV, nullptr, 0);
    wr.invalidate_rkey = mr->rkey;
    ASSERT_EQ(post(wr), 0);
    EXPECT_EQ(next(client_.send_cq).status, IBV_WC_SUCCESS);
    const ibv_wc got = next(server_.recv_cq);
    EXPECT_EQ(got.status, IBV_WC_SUCCESS);
    EXPECT_TRUE(got.wc_flags & IBV_WC_WITH_INV);
    EXPECT_EQ(got.invalidated_rkey, mr->rkey);
}

TEST_F(Post, write_and_read) {
    ibv_sge from = sge(source_.data(), 5000, source_mr_->lkey);
    ibv_send_wr write = remote(IBV_WR_RDMA_WRITE, &from, 1);
    std::array<char, 8192> back{};
    ibv_mr* back_mr = reg(back.data(), back.size(), IBV_ACCESS_LOCAL_WRITE);
    ibv_sge into[2] = {sge(back.data(), 1, back_mr->lkey), sge(back.data() + 1, 4999, back_mr->lkey)};
    ibv_send_wr read = remote(IBV_WR_RDMA_READ, into, 2);
    write.next = &read;
    ASSERT_EQ(post(write), 0);
    const ibv_wc written = next(client_.send_cq);
    EXPECT_EQ(written.status, IBV_WC_SUCCESS);
    EXPECT_EQ(written.opcode, IBV_WC_RDMA_WRITE);
    const ibv_wc got = next(client_.send_cq);
    EXPECT_EQ(got.status, IBV_WC_SUCCESS);
    EXPECT_EQ(got.opcode, IBV_WC_RDMA_READ);
    EXPECT_EQ(got.byte_len, 5000u);
    EXPECT_EQ(std::memcmp(source_.data(), back.data(), 5000), 0);
}

TEST_F(Post, inline_data_needs_no_key_and_may_be_reused) {  // VERBS-7
    receive(1, 64);
    char text[64];
    std::memset(text, 'x', sizeof(text));
    ibv_sge from = sge(text, sizeof(text), 0xdeadbeef);
    ibv_send_wr wr = send_wr(IBV_WR_SEND, &from, 1, IBV_SEND_SIGNALED | IBV_SEND_INLINE);
    ASSERT_EQ(post(wr), 0);
    std::memset(text, 'y', sizeof(text));
    ASSERT_EQ(next(server_.recv_cq).status, IBV_WC_SUCCESS);
    EXPECT_EQ(target_[0], 'x');
    EXPECT_EQ(target_[63], 'x');
}

TEST_F(Post, what_post_send_refuses) {  // VERBS-2, 7
    ibv_sge from = sge(source_.data(), 65, source_mr_->lkey);
    // An atomic has one element of eight octets.
    for (const ibv_wr_opcode opcode :
         {IBV_WR_ATOMIC_CMP_AND_SWP, IBV_WR_ATOMIC_FETCH_AND_ADD, IBV_WR_BIND_MW, IBV_WR_TSO, IBV_WR_DRIVER1}) {
        ibv_send_wr wr = send_wr(opcode, &from, 1);
        EXPECT_EQ(post(wr), EINVAL) << opcode;
    }
    ibv_send_wr checksum = send_wr(IBV_WR_SEND, &from, 1, IBV_SEND_IP_CSUM);
    EXPECT_EQ(post(checksum), EINVAL);
    ibv_send_wr inline_read = remote(IBV_WR_RDMA_READ, &from, 1);
    inline_read.send_flags |= IBV_SEND_INLINE;
    EXPECT_EQ(post(inline_read), EINVAL);
    ibv_send_wr too_long = send_wr(IBV_WR_SEND, &from, 1, IBV_SEND_INLINE);
    EXPECT_EQ(post(too_long), EINVAL);
    ibv_sge many[5] = {};
    ibv_send_wr too_many = send_wr(IBV_WR_SEND, many, 5);
    EXPECT_EQ(post(too_many), EINVAL);
    ibv_send_wr negative = send_wr(IBV_WR_SEND, many, -1);
    EXPECT_EQ(post(negative), EINVAL);
    EXPECT_EQ(state(client_.qp()), IBV_QPS_RTS);  // none of it disturbs the connection
}

TEST_F(Post, bad_wr_of_a_send_list) {
    receive(1, 64);
    ibv_sge from = sge(source_.data(), 10, source_mr_->lkey);
    ibv_send_wr good = send_wr(IBV_WR_SEND, &from, 1);
    ibv_send_wr wrong = send_wr(IBV_WR_TSO, &from, 1);
    ibv_send_wr after = send_wr(IBV_WR_SEND, &from, 1);
    good.wr_id = 1;
    good.next = &wrong;
    wrong.next = &after;
    ibv_send_wr* bad = nullptr;
    EXPECT_EQ(post(good, &bad), EINVAL);
    EXPECT_EQ(bad, &wrong);
    // The one before it goes out by itself; the one after it never does.
    EXPECT_EQ(next(client_.send_cq).wr_id, 1u);
    EXPECT_EQ(next(server_.recv_cq).byte_len, 10u);
    ibv_wc wc{};
    EXPECT_EQ(ibv_poll_cq(client_.send_cq, 1, &wc), 0);
}

TEST_F(Post, unsignalled_success_is_silent_and_frees_its_slot) {  // VERBS-4, 15
    ibv_sge from = sge(source_.data(), 8, source_mr_->lkey);
    for (int round = 0; round < 8; ++round) {
        for (int i = 0; i < 15; ++i) {
            ibv_send_wr wr = remote(IBV_WR_RDMA_WRITE, &from, 1);
            wr.send_flags = 0;
            ASSERT_EQ(post(wr), 0) << round << ' ' << i;
        }
        ibv_send_wr last = remote(IBV_WR_RDMA_WRITE, &from, 1);
        last.wr_id = 99;
        ASSERT_EQ(post(last), 0) << round;
        EXPECT_EQ(next(client_.send_cq).wr_id, 99u);
    }
}

TEST_F(Post, wrong_local_key) {  // VERBS-17
    ibv_sge from = sge(source_.data(), 8, source_mr_->lkey ^ 0x5500);
    ibv_send_wr wr = send_wr(IBV_WR_SEND, &from, 1);
    ASSERT_EQ(post(wr), 0);
    EXPECT_EQ(next(client_.send_cq).status, IBV_WC_LOC_PROT_ERR);
}

TEST_F(Post, wrong_remote_key_of_a_read) {  // VERBS-17, 18
    ibv_sge into = sge(source_.data(), 8, source_mr_->lkey);
    ibv_send_wr wr = remote(IBV_WR_RDMA_READ, &into, 1);
    wr.wr.rdma.rkey ^= 0x5500;
    ASSERT_EQ(post(wr), 0);
    EXPECT_EQ(next(client_.send_cq).status, IBV_WC_REM_ACCESS_ERR);
}

TEST_F(Post, after_disconnect_all_is_flushed) {  // VERBS-23, 56
    receive(3, 16);
    disconnect();
    const ibv_wc flushed = next(server_.recv_cq);
    EXPECT_EQ(flushed.status, IBV_WC_WR_FLUSH_ERR);
    EXPECT_EQ(flushed.wr_id, 3u);
    ibv_send_wr wr = send_wr(IBV_WR_SEND, nullptr, 0);
    ASSERT_EQ(post(wr), 0);
    EXPECT_EQ(next(client_.send_cq).status, IBV_WC_WR_FLUSH_ERR);
}

// The provider's thread is kept from the one processor of this test when the server accepts, and hears of the stream
// later.
class OnceAccepted : public DataPairTest {
  protected:
    void SetUp() override {
        ASSERT_EQ(::sched_getaffinity(0, sizeof before_, &before_), 0);
        const int first = first_of(before_);
        cpu_set_t one;
        CPU_ZERO(&one);
        CPU_SET(first, &one);
        ASSERT_EQ(::sched_setaffinity(0, sizeof one, &one), 0);  // the threads to come inherit it
        DataPairTest::SetUp();
    }
    void TearDown() override {
        DataPairTest::TearDown();
        EXPECT_EQ(::sched_setaffinity(0, sizeof before_, &before_), 0);
    }
    void accepting() override {
        const sched_param none{};
        for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
            const int id = std::stoi(task.path().filename());
            if (id != ::getpid()) {
                ASSERT_EQ(::sched_setscheduler(id, SCHED_IDLE, &none), 0);
            }
        }
    }

  private:
    static int first_of(const cpu_set_t& set) {
        int cpu = 0;
        while (!CPU_ISSET(cpu, &set))
            ++cpu;
        return cpu;
    }
    cpu_set_t before_{};
};

// As perftest's servers do where both sides send.
class PostOnceAccepted : public OnceAccepted {
  protected:
    void accepted() override {
        ibv_send_wr wr = send_wr(IBV_WR_SEND, nullptr, 0);
        ibv_send_wr* bad = nullptr;
        error_ = ibv_post_send(server_.qp(), &wr, &bad);
    }
    int error_ = -1;
};

TEST_F(PostOnceAccepted, is_taken) {
    EXPECT_EQ(error_, 0);
    EXPECT_EQ(state(server_.qp()), IBV_QPS_RTS);
}

// A server that thinks better of it.
class DisconnectOnceAccepted : public OnceAccepted {
  protected:
    void accepted() override { error_ = rdma_disconnect(server_.id); }
    bool is_established() const override { return false; }
    int error_ = -1;
};

TEST_F(DisconnectOnceAccepted, ends_the_connection_on_both_sides) {
    ASSERT_EQ(error_, 0);
    std::map<rdma_cm_id*, std::vector<rdma_cm_event_type>> told;
    for (int i = 0; i < 4 && !HasFailure(); ++i) {
        rdma_cm_id* id = nullptr;
        const rdma_cm_event_type event = wait_event(&id);
        told[id].push_back(event);
    }
    const std::vector<rdma_cm_event_type> both{RDMA_CM_EVENT_ESTABLISHED, RDMA_CM_EVENT_DISCONNECTED};
    EXPECT_EQ(told[server_.id], both);
    EXPECT_EQ(told[client_.id], both);
}

}  // namespace
}  // namespace swrnic::test
