// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Queue pairs wired by hand: GID, QP number and modify_qp instead of rdma_cm. The sequences of calls are those of
// programs that do so.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <random>
#include <set>
#include <string>
#include <thread>

#include "pair.h"
#include "wiring.h"

namespace swrnic::test {
namespace {

using Clock = std::chrono::steady_clock;

class Wired : public DeviceTest {
  protected:
    void SetUp() override {
        DeviceTest::SetUp();
        cq_ = make_cq(1024);
        region_.reset(ibv_reg_mr(pd_.get(), memory_.data(), memory_.size(), kAllAccess));
        ASSERT_TRUE(region_);
        index_ = ipv4_index(context_.get());
        gid_ = gid_at(context_.get(), index_);
    }
    void TearDown() override {
        region_.reset();
        cq_.reset();
    }

    static int modify(const QpPtr& qp, ibv_qp_state to) {
        ibv_qp_attr attr = attributes(to);
        return ibv_modify_qp(qp.get(), &attr, IBV_QP_STATE);
    }
    static int to_init(const QpPtr& qp, unsigned access = kAllAccess) {
        ibv_qp_attr attr = attributes(IBV_QPS_INIT);
        attr.pkey_index = 0;
        attr.port_num = 1;
        attr.qp_access_flags = access;
        return ibv_modify_qp(qp.get(), &attr, kInitMask);
    }
    ibv_qp_attr rtr_attr(std::uint32_t dest_qpn, const ibv_gid& dest_gid) const {
        ibv_qp_attr attr = attributes(IBV_QPS_RTR);
        attr.path_mtu = IBV_MTU_1024;
        attr.dest_qp_num = dest_qpn;
        attr.rq_psn = 7;
        attr.max_dest_rd_atomic = 16;
        attr.min_rnr_timer = 12;
        attr.ah_attr = {};
        attr.ah_attr.is_global = 1;
        attr.ah_attr.port_num = 1;
        attr.ah_attr.grh.dgid = dest_gid;
        attr.ah_attr.grh.sgid_index = static_cast<std::uint8_t>(index_);
        attr.ah_attr.grh.hop_limit = 1;
        return attr;
    }
    int to_rtr(const QpPtr& qp, std::uint32_t dest_qpn, std::uint8_t min_rnr_timer = 12) const {
        ibv_qp_attr attr = rtr_attr(dest_qpn, gid_);
        attr.min_rnr_timer = min_rnr_timer;
        return ibv_modify_qp(qp.get(), &attr, kRtrMask);
    }
    // 4.096 us * 2^timeout * retries
    static int to_rts(const QpPtr& qp, std::uint8_t timeout = 18, std::uint8_t retries = 7,
                      std::uint8_t rnr_retry = 7) {
        ibv_qp_attr attr = attributes(IBV_QPS_RTS);
        attr.timeout = timeout;
        attr.retry_cnt = retries;
        attr.rnr_retry = rnr_retry;
        attr.sq_psn = 9;
        attr.max_rd_atomic = 16;
        return ibv_modify_qp(qp.get(), &attr, kRtsMask);
    }
    void wire(const QpPtr& qp, std::uint32_t dest_qpn, std::uint8_t timeout = 18) {
        ASSERT_EQ(to_init(qp), 0);
        ASSERT_EQ(to_rtr(qp, dest_qpn), 0);
        ASSERT_EQ(to_rts(qp, timeout), 0);
    }
    void wire(const QpPtr& a, const QpPtr& b) {
        ASSERT_NO_FATAL_FAILURE(wire(a, b->qp_num));
        ASSERT_NO_FATAL_FAILURE(wire(b, a->qp_num));
    }
    // What programs leave outside the mask.

    int receive(const QpPtr& qp, std::uint64_t id, std::size_t at = 4096, std::uint32_t length = 64) {
        return receive(qp, id, at, length, region_->lkey);
    }
    int receive(const QpPtr& qp, std::uint64_t id, std::size_t at, std::uint32_t length, std::uint32_t lkey) {
        ibv_sge sge{address(at), length, lkey};
        ibv_recv_wr wr{}, *bad = nullptr;
        wr.wr_id = id;
        wr.sg_list = &sge;
        wr.num_sge = 1;
        return ibv_post_recv(qp.get(), &wr, &bad);
    }
    int post(const QpPtr& qp, ibv_wr_opcode opcode, std::uint64_t id, std::uint32_t length = 64, std::size_t to = 4096,
             std::size_t from = 0) {
        return post(qp, opcode, id, length, to, from, region_->rkey);
    }
    int post(const QpPtr& qp, ibv_wr_opcode opcode, std::uint64_t id, std::uint32_t length, std::size_t to,
             std::size_t from, std::uint32_t rkey) {
        ibv_sge sge{address(from), length, region_->lkey};
        ibv_send_wr wr{}, *bad = nullptr;
        wr.wr_id = id;
        wr.sg_list = &sge;
        wr.num_sge = 1;
        wr.opcode = opcode;
        wr.send_flags = IBV_SEND_SIGNALED;
        wr.wr.rdma.remote_addr = address(to);
        wr.wr.rdma.rkey = rkey;
        return ibv_post_send(qp.get(), &wr, &bad);
    }
    ibv_wc next(std::chrono::milliseconds within = std::chrono::seconds(5)) {
        ibv_wc wc{};
        const auto end = Clock::now() + within;
        while (ibv_poll_cq(cq_.get(), 1, &wc) == 0) {
            if (Clock::now() < end) continue;
            ADD_FAILURE() << "no completion";
            wc.status = IBV_WC_GENERAL_ERR;
            break;
        }
        return wc;
    }
    // Both ends of one message from a to b, whichever completes first.
    void carries(const QpPtr& a, const QpPtr& b) {
        ASSERT_EQ(receive(b, 1), 0);
        ASSERT_EQ(post(a, IBV_WR_SEND, 2), 0);
        std::array<std::uint64_t, 2> ids{};
        for (std::uint64_t& id : ids) {
            const ibv_wc wc = next();
            ASSERT_EQ(wc.status, IBV_WC_SUCCESS);
            EXPECT_EQ(wc.qp_num, wc.wr_id == 1 ? b->qp_num : a->qp_num);
            id = wc.wr_id;
        }
        std::sort(ids.begin(), ids.end());
        EXPECT_EQ(ids, (std::array<std::uint64_t, 2>{1, 2}));
    }
    bool is_quiet(std::chrono::milliseconds time) {
        ibv_wc wc{};
        for (const auto end = Clock::now() + time; Clock::now() < end;)
            if (ibv_poll_cq(cq_.get(), 1, &wc) != 0) return false;
        return true;
    }
    ibv_qp_state state(const QpPtr& qp) {
        ibv_qp_attr attr{};
        ibv_qp_init_attr made{};
        EXPECT_EQ(ibv_query_qp(qp.get(), &attr, IBV_QP_STATE, &made), 0);
        return attr.qp_state;
    }
    // The asynchronous events of a QP, so far and within that time.
    std::multiset<ibv_event_type> events_of(const QpPtr& qp, int within_ms = 0) {
        std::multiset<ibv_event_type> seen;
        pollfd waiting{.fd = context_->async_fd, .events = POLLIN, .revents = 0};
        while (::poll(&waiting, 1, within_ms) == 1) {
            ibv_async_event event{};
            EXPECT_EQ(ibv_get_async_event(context_.get(), &event), 0);
            if (event.element.qp == qp.get()) seen.insert(event.event_type);
            ibv_ack_async_event(&event);
        }
        return seen;
    }
    std::uint64_t address(std::size_t offset) const {
        return reinterpret_cast<std::uintptr_t>(memory_.data() + offset);
    }

    CqPtr cq_;
    MrPtr region_;
    ibv_gid gid_{};
    int index_ = 0;
    std::array<char, 16384> memory_{};
};

TEST_F(Wired, CarriesEveryOperation) {
    const QpPtr a = make_qp(cq_.get()), b = make_qp(cq_.get());
    ASSERT_NO_FATAL_FAILURE(wire(a, b));
    ASSERT_NO_FATAL_FAILURE(carries(a, b));
    ASSERT_NO_FATAL_FAILURE(carries(b, a));
    for (const auto& [from, opcode] : {std::pair{&a, IBV_WR_RDMA_WRITE}, {&b, IBV_WR_RDMA_READ}}) {
        ASSERT_EQ(post(*from, opcode, 3), 0);
        EXPECT_EQ(next().status, IBV_WC_SUCCESS);
    }
}

// UCX and unit tests take both ends through RTR and RTS in one thread, and what they post waits for the other end.
TEST_F(Wired, RequestsWaitForAPeerThatIsNotThereYet) {
    for (const bool first_calls : {true, false}) {
        QpPtr a = make_qp(cq_.get()), b = make_qp(cq_.get());
        if ((a->qp_num < b->qp_num) != first_calls) std::swap(a, b);
        ASSERT_NO_FATAL_FAILURE(wire(a, b->qp_num));
        EXPECT_EQ(state(a), IBV_QPS_RTS);
        ASSERT_EQ(post(a, IBV_WR_SEND, 1), 0);
        ASSERT_EQ(post(a, IBV_WR_SEND, 2), 0);
        EXPECT_TRUE(is_quiet(std::chrono::milliseconds(100)));
        ASSERT_EQ(to_init(b), 0);
        ASSERT_EQ(receive(b, 11), 0);  // ggml's RPC posts its receives in INIT
        ASSERT_EQ(receive(b, 12), 0);
        ASSERT_EQ(to_rtr(b, a->qp_num), 0);
        std::array<std::uint64_t, 4> ids{};
        for (std::uint64_t& id : ids) {  // b receives though it never leaves RTR
            const ibv_wc wc = next();
            ASSERT_EQ(wc.status, IBV_WC_SUCCESS);
            id = wc.wr_id;
        }
        std::sort(ids.begin(), ids.end());
        EXPECT_EQ(ids, (std::array<std::uint64_t, 4>{1, 2, 11, 12}));
    }
}

TEST_F(Wired, ToItself) {
    const QpPtr qp = make_qp(cq_.get());
    ASSERT_NO_FATAL_FAILURE(wire(qp, qp->qp_num));
    memory_[0] = 'x';
    ASSERT_NO_FATAL_FAILURE(carries(qp, qp));
    EXPECT_EQ(memory_[4096], 'x');
    ASSERT_EQ(post(qp, IBV_WR_RDMA_WRITE, 3, 64, 8192), 0);
    ASSERT_EQ(post(qp, IBV_WR_RDMA_READ, 4, 64, 8192, 12288), 0);
    EXPECT_EQ(next().status, IBV_WC_SUCCESS);
    EXPECT_EQ(next().status, IBV_WC_SUCCESS);
    EXPECT_EQ(memory_[8192], 'x');
    EXPECT_EQ(memory_[12288], 'x');
}

TEST_F(Wired, QueryTellsWhatWasSet) {
    const QpPtr a = make_qp(cq_.get()), b = make_qp(cq_.get());
    ASSERT_NO_FATAL_FAILURE(wire(a, b->qp_num));
    ibv_qp_attr attr{};
    ibv_qp_init_attr made{};
    ASSERT_EQ(ibv_query_qp(a.get(), &attr, kInitMask | kRtrMask | kRtsMask, &made), 0);
    EXPECT_EQ(attr.qp_state, IBV_QPS_RTS);
    EXPECT_EQ(attr.dest_qp_num, b->qp_num);
    EXPECT_EQ(attr.path_mtu, IBV_MTU_1024);
    EXPECT_EQ(attr.rq_psn, 7u);
    EXPECT_EQ(attr.sq_psn, 9u);
    EXPECT_EQ(attr.max_dest_rd_atomic, 16);
    EXPECT_EQ(attr.max_rd_atomic, 16);
    EXPECT_EQ(attr.min_rnr_timer, 12);
    EXPECT_EQ(attr.timeout, 18);
    EXPECT_EQ(attr.retry_cnt, 7);
    EXPECT_EQ(attr.rnr_retry, 7);
    EXPECT_EQ(attr.ah_attr.grh.sgid_index, index_);
    EXPECT_EQ(std::memcmp(&attr.ah_attr.grh.dgid, &gid_, sizeof gid_), 0);
}

TEST_F(Wired, WhatCannotBeReachedIsRefused) {
    const QpPtr qp = make_qp(cq_.get());
    ASSERT_EQ(to_init(qp), 0);
    const auto refused = [&](auto change) {
        ibv_qp_attr attr = rtr_attr(qp->qp_num, gid_);
        change(attr);
        return ibv_modify_qp(qp.get(), &attr, kRtrMask);
    };
    EXPECT_EQ(refused([](ibv_qp_attr& attr) { attr.ah_attr.is_global = 0; }), EINVAL);
    EXPECT_EQ(refused([](ibv_qp_attr& attr) { attr.ah_attr.grh.sgid_index = 200; }), EINVAL);
    EXPECT_EQ(refused([](ibv_qp_attr& attr) { attr.ah_attr.grh.dgid = {}; }), EINVAL);
    EXPECT_EQ(refused([](ibv_qp_attr& attr) { attr.ah_attr.grh.dgid.raw[0] = 0xff; }), EINVAL);  // multicast
    EXPECT_EQ(refused([](ibv_qp_attr& attr) { attr.dest_qp_num = 1 << 24; }), EINVAL);
    EXPECT_EQ(state(qp), IBV_QPS_INIT);
    ibv_qp_attr attr = rtr_attr(qp->qp_num, gid_);
    EXPECT_EQ(ibv_modify_qp(qp.get(), &attr, kRtrMask & ~IBV_QP_AV), EINVAL);
    EXPECT_EQ(ibv_modify_qp(qp.get(), &attr, kRtrMask), 0);
}

// 4.096 us * 2^13 * 3: a tenth of a second.
TEST_F(Wired, APeerThatNeverComesEndsTheOldestRequest) {
    for (const bool calls : {true, false}) {
        const QpPtr qp = make_qp(cq_.get());
        ASSERT_EQ(to_init(qp), 0);
        ASSERT_EQ(receive(qp, 9), 0);
        ASSERT_EQ(to_rtr(qp, calls ? qp->qp_num + 1 : qp->qp_num - 1), 0);
        ASSERT_EQ(to_rts(qp, 13, 3), 0);
        EXPECT_TRUE(is_quiet(std::chrono::milliseconds(300))) << "without a request nothing ends";
        EXPECT_EQ(state(qp), IBV_QPS_RTS);
        const auto begin = Clock::now();
        ASSERT_EQ(post(qp, IBV_WR_SEND, 1), 0);
        ASSERT_EQ(post(qp, IBV_WR_RDMA_WRITE, 2), 0);
        const ibv_wc first = next();
        EXPECT_GE(Clock::now() - begin, std::chrono::milliseconds(100));
        EXPECT_EQ(first.wr_id, 1u);
        EXPECT_EQ(first.status, IBV_WC_RETRY_EXC_ERR);
        EXPECT_EQ(next().status, IBV_WC_WR_FLUSH_ERR);
        EXPECT_EQ(next().status, IBV_WC_WR_FLUSH_ERR);
        EXPECT_EQ(state(qp), IBV_QPS_ERR);
    }
}

// 4.096 us * 2^5 * 4 are half a millisecond, in which no peer can be reached by TCP.
TEST_F(Wired, APeerMayComeWithinTheShortestTime) {
    const QpPtr a = make_qp(cq_.get()), b = make_qp(cq_.get());
    ASSERT_EQ(to_init(a), 0);
    ASSERT_EQ(to_rtr(a, b->qp_num), 0);
    ASSERT_EQ(to_rts(a, 5, 4), 0);
    ASSERT_EQ(post(a, IBV_WR_RDMA_WRITE, 1), 0);
    EXPECT_TRUE(is_quiet(std::chrono::milliseconds(50)));
    ASSERT_NO_FATAL_FAILURE(wire(b, a->qp_num));
    EXPECT_EQ(next().status, IBV_WC_SUCCESS);
}

TEST_F(Wired, APeerThatHasGoneIsNoticedByTheNextRequest) {
    for (const bool resets : {true, false}) {
        const QpPtr a = make_qp(cq_.get());
        QpPtr b = make_qp(cq_.get());
        ASSERT_NO_FATAL_FAILURE(wire(a, b->qp_num, 12));  // 4.096 us * 2^12 * 7: 117 ms
        ASSERT_NO_FATAL_FAILURE(wire(b, a->qp_num));
        ASSERT_NO_FATAL_FAILURE(carries(a, b));
        ASSERT_EQ(receive(a, 9), 0);
        if (resets) {
            ASSERT_EQ(modify(b, IBV_QPS_RESET), 0);
        } else {
            b.reset();
        }
        EXPECT_TRUE(is_quiet(std::chrono::milliseconds(200)));
        EXPECT_EQ(state(a), IBV_QPS_RTS);
        const auto begin = Clock::now();
        ASSERT_EQ(post(a, IBV_WR_SEND, 1), 0);
        const ibv_wc first = next();
        EXPECT_GE(Clock::now() - begin, std::chrono::milliseconds(100));
        EXPECT_EQ(first.wr_id, 1u);
        EXPECT_EQ(first.status, IBV_WC_RETRY_EXC_ERR);
        EXPECT_EQ(next().status, IBV_WC_WR_FLUSH_ERR);
        EXPECT_EQ(state(a), IBV_QPS_ERR);
    }
}

// A QP in ERROR, or gone, leaves its peer's port alone, whoever has put it there.
TEST_F(Wired, NobodyCallsInErrorAnyMore) {
    enum class End { kGivesUp, kIsSetToError, kIsDestroyed };
    for (const End end : {End::kGivesUp, End::kIsSetToError, End::kIsDestroyed}) {
        SCOPED_TRACE(static_cast<int>(end));
        QpPtr qp = make_qp(cq_.get());
        const int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        sockaddr_in at{};
        at.sin_family = AF_INET;
        std::memcpy(&at.sin_addr, gid_.raw + 12, 4);
        std::uint32_t port = qp->qp_num >> 8;  // the smaller number calls
        do {
            ASSERT_LT(++port, 65536U);
            at.sin_port = htons(static_cast<std::uint16_t>(port));
        } while (bind(listener, reinterpret_cast<const sockaddr*>(&at), sizeof at) != 0);
        ASSERT_EQ(listen(listener, 64), 0);
        const auto calls_within = [&](std::chrono::milliseconds time) {
            int calls = 0;
            for (const auto until = Clock::now() + time; Clock::now() < until;) {
                const int call = accept(listener, nullptr, nullptr);
                if (call < 0) {
                    std::this_thread::sleep_for(std::chrono::milliseconds(1));
                } else {
                    ++calls;
                    close(call);
                }
            }
            return calls;
        };
        ASSERT_NO_FATAL_FAILURE(wire(qp, port << 8, 12));  // 4.096 us * 2^12 * 7: 117 ms
        EXPECT_GT(calls_within(std::chrono::milliseconds(200)), 1);
        if (end == End::kGivesUp) {
            ASSERT_EQ(post(qp, IBV_WR_SEND, 1), 0);
            EXPECT_EQ(next().status, IBV_WC_RETRY_EXC_ERR);
        } else if (end == End::kIsSetToError) {
            ASSERT_EQ(modify(qp, IBV_QPS_ERR), 0);
        } else {
            qp.reset();
        }
        calls_within(std::chrono::milliseconds(20));  // what was under way
        EXPECT_EQ(calls_within(std::chrono::milliseconds(500)), 0);
        close(listener);
    }
}

// Whoever shares the queue learns that no receive of it is this QP's any more, in whatever way it comes to ERROR.
TEST_F(Wired, TheLastReceiveOfASharedQueueIsToldInError) {
    ibv_srq_init_attr shared{};
    shared.attr = {.max_wr = 4, .max_sge = 1, .srq_limit = 0};
    const std::unique_ptr<ibv_srq, Destroyer<ibv_destroy_srq>> srq(ibv_create_srq(pd_.get(), &shared));
    ASSERT_TRUE(srq);
    enum class End { kGivesUp, kIsSetToError, kHasAStreamAndIsSetToError };
    for (const End end : {End::kGivesUp, End::kIsSetToError, End::kHasAStreamAndIsSetToError}) {
        SCOPED_TRACE(static_cast<int>(end));
        ibv_qp_init_attr attr = qp_attr(cq_.get());
        attr.srq = srq.get();
        const QpPtr qp(ibv_create_qp(pd_.get(), &attr)), peer = make_qp(cq_.get());
        ASSERT_TRUE(qp);
        ASSERT_NO_FATAL_FAILURE(wire(qp, peer->qp_num, 10));
        if (end == End::kHasAStreamAndIsSetToError) {
            ASSERT_NO_FATAL_FAILURE(wire(peer, qp->qp_num));
            ASSERT_EQ(post(qp, IBV_WR_RDMA_WRITE, 1), 0);
            EXPECT_EQ(next().status, IBV_WC_SUCCESS);
        }
        EXPECT_EQ(events_of(qp).size(), 0U);
        if (end == End::kGivesUp) {
            ASSERT_EQ(post(qp, IBV_WR_SEND, 1), 0);
            EXPECT_EQ(next().status, IBV_WC_RETRY_EXC_ERR);
        } else {
            ASSERT_EQ(modify(qp, IBV_QPS_ERR), 0);
            ASSERT_EQ(modify(qp, IBV_QPS_ERR), 0);
        }
        EXPECT_EQ(events_of(qp, 100), (std::multiset<ibv_event_type>{IBV_EVENT_QP_LAST_WQE_REACHED}));
    }
}

// Programs tell their peer by other ways that the data is there, as soon as they have the completion.
TEST_F(Wired, ACompletionMeansPlaced) {
    const QpPtr a = make_qp(cq_.get()), b = make_qp(cq_.get());
    ASSERT_NO_FATAL_FAILURE(wire(a, b));
    for (int round = 1; round <= 20'000; ++round) {
        std::memcpy(&memory_[0], &round, sizeof round);
        ASSERT_EQ(post(a, IBV_WR_RDMA_WRITE, 1), 0);
        ASSERT_EQ(next().status, IBV_WC_SUCCESS);
        int there = 0;
        std::memcpy(&there, &memory_[4096], sizeof there);
        ASSERT_EQ(there, round);
    }
}

// Nothing completes before the peer has a receive for it.
TEST_F(Wired, ASendCompletesWithItsReceive) {
    const QpPtr a = make_qp(cq_.get()), b = make_qp(cq_.get());
    ASSERT_NO_FATAL_FAILURE(wire(a, b));
    ASSERT_EQ(post(a, IBV_WR_SEND, 1), 0);
    EXPECT_TRUE(is_quiet(std::chrono::milliseconds(100)));
    ASSERT_EQ(receive(b, 2), 0);
    EXPECT_EQ(next().wr_id, 2u);
    EXPECT_EQ(next().wr_id, 1u);
}

// More than the queues hold, of all kinds: each completes, in order.
TEST_F(Wired, CompletionsKeepTheirOrder) {
    const QpPtr a = make_qp(cq_.get()), b = make_qp(cq_.get());
    ASSERT_NO_FATAL_FAILURE(wire(a, b));
    std::uint64_t posted = 0, completed = 0;
    while (completed < 20'000) {
        while (posted < completed + 8) {
            // Writes and Reads have memory of their own.
            const std::uint32_t length = posted % 5 == 0 ? 4096 : 64;
            ASSERT_EQ(posted % 3 == 1 ? post(a, IBV_WR_RDMA_READ, posted, length, 12288, 8192)
                                      : post(a, IBV_WR_RDMA_WRITE, posted, length, 4096, 0),
                      0);
            ++posted;
        }
        const ibv_wc wc = next();
        ASSERT_EQ(wc.status, IBV_WC_SUCCESS);
        ASSERT_EQ(wc.wr_id, completed);
        ++completed;
    }
}

// A refusal of the peer's hits the request that it is for.
TEST_F(Wired, ARemoteErrorHasItsRequest) {
    const QpPtr a = make_qp(cq_.get()), b = make_qp(cq_.get());
    ASSERT_NO_FATAL_FAILURE(wire(a, b));
    ASSERT_EQ(post(a, IBV_WR_RDMA_WRITE, 1), 0);
    ASSERT_EQ(post(a, IBV_WR_RDMA_WRITE, 2, 64, 1 << 20), 0);  // beyond the region
    ASSERT_EQ(post(a, IBV_WR_RDMA_WRITE, 3), 0);
    EXPECT_EQ(next().status, IBV_WC_SUCCESS);
    const ibv_wc failed = next();
    EXPECT_EQ(failed.wr_id, 2u);
    EXPECT_EQ(failed.status, IBV_WC_REM_ACCESS_ERR);
    EXPECT_EQ(next().status, IBV_WC_WR_FLUSH_ERR);
}

// The region would allow it.
TEST_F(Wired, AQpGrantsWhatItsProgramSays) {
    const QpPtr a = make_qp(cq_.get()), b = make_qp(cq_.get());
    ASSERT_NO_FATAL_FAILURE(wire(a, b->qp_num));
    ASSERT_EQ(to_init(b, IBV_ACCESS_LOCAL_WRITE), 0);
    ASSERT_EQ(to_rtr(b, a->qp_num), 0);
    ASSERT_EQ(to_rts(b), 0);
    ASSERT_NO_FATAL_FAILURE(carries(a, b));
    ASSERT_EQ(post(a, IBV_WR_RDMA_WRITE, 1), 0);
    EXPECT_EQ(next().status, IBV_WC_REM_ACCESS_ERR);
}

// What an InfiniBand program would see of each refusal, at both ends.
TEST_F(Wired, ErrorsAreInfiniBands) {
    const MrPtr no_rights(ibv_reg_mr(pd_.get(), memory_.data(), memory_.size(), IBV_ACCESS_LOCAL_WRITE));
    ASSERT_TRUE(no_rights);
    const std::uint32_t good = region_->rkey, closed = no_rights->rkey, none = region_->rkey ^ 1;
    constexpr auto kSend = IBV_WR_SEND;
    constexpr auto kWrite = IBV_WR_RDMA_WRITE;
    constexpr auto kRead = IBV_WR_RDMA_READ;
    const struct {
        ibv_wr_opcode opcode;
        std::uint32_t length;
        std::size_t to;
        std::uint32_t rkey;
        std::uint32_t receives_into;  // lkey
        ibv_wc_status status, receive;
    } cases[]{
        {kSend, 64, 0, 0, none, IBV_WC_REM_OP_ERR, IBV_WC_LOC_PROT_ERR},
        {kSend, 128, 0, 0, region_->lkey, IBV_WC_REM_INV_REQ_ERR, IBV_WC_LOC_LEN_ERR},
        {kWrite, 64, 4096, none, region_->lkey, IBV_WC_REM_ACCESS_ERR, IBV_WC_WR_FLUSH_ERR},
        {kWrite, 64, 4096, closed, region_->lkey, IBV_WC_REM_ACCESS_ERR, IBV_WC_WR_FLUSH_ERR},
        {kWrite, 64, 4096, 0, region_->lkey, IBV_WC_REM_ACCESS_ERR, IBV_WC_WR_FLUSH_ERR},
        {kWrite, 64, 1 << 20, good, region_->lkey, IBV_WC_REM_ACCESS_ERR, IBV_WC_WR_FLUSH_ERR},
        {kRead, 64, 4096, none, region_->lkey, IBV_WC_REM_ACCESS_ERR, IBV_WC_WR_FLUSH_ERR},
        {kRead, 64, 4096, closed, region_->lkey, IBV_WC_REM_ACCESS_ERR, IBV_WC_WR_FLUSH_ERR},
        {kRead, 64, 1 << 20, good, region_->lkey, IBV_WC_REM_ACCESS_ERR, IBV_WC_WR_FLUSH_ERR},
    };
    for (const bool to_itself : {false, true}) {
        for (const auto& each : cases) {
            SCOPED_TRACE(testing::Message() << &each - cases << (to_itself ? " to itself" : ""));
            const CqPtr receives = make_cq(8);
            ibv_qp_init_attr init = qp_attr(cq_.get());
            init.recv_cq = receives.get();
            const QpPtr a(ibv_create_qp(pd_.get(), &init)), other(ibv_create_qp(pd_.get(), &init));
            const QpPtr& b = to_itself ? a : other;
            if (to_itself) {
                ASSERT_NO_FATAL_FAILURE(wire(a, a->qp_num));
            } else {
                ASSERT_NO_FATAL_FAILURE(wire(a, b));
            }
            ASSERT_EQ(receive(b, 100), 0);
            ASSERT_EQ(receive(b, 101, 8192, 64, each.receives_into), 0);
            ASSERT_EQ(post(a, IBV_WR_SEND, 1), 0);
            EXPECT_EQ(next().status, IBV_WC_SUCCESS);
            ASSERT_EQ(post(a, IBV_WR_RDMA_WRITE, 2), 0);
            ASSERT_EQ(post(a, each.opcode, 3, each.length, each.to, 0, each.rkey), 0);
            ASSERT_EQ(post(a, IBV_WR_SEND, 4), 0);
            ASSERT_EQ(post(a, IBV_WR_RDMA_READ, 5), 0);
            const std::array statuses{IBV_WC_SUCCESS, each.status, IBV_WC_WR_FLUSH_ERR, IBV_WC_WR_FLUSH_ERR};
            for (std::uint64_t id = 2; id <= 5; ++id) {
                const ibv_wc wc = next();
                EXPECT_EQ(wc.wr_id, id);
                EXPECT_EQ(wc.status, statuses[id - 2]) << id;
            }
            ibv_wc wc[2]{};
            int got = 0;
            for (const auto end = Clock::now() + std::chrono::seconds(5); got < 2 && Clock::now() < end;)
                got += ibv_poll_cq(receives.get(), 2 - got, wc + got);
            EXPECT_EQ(wc[0].status, IBV_WC_SUCCESS);
            EXPECT_EQ(wc[1].wr_id, 101U);
            EXPECT_EQ(wc[1].status, each.receive);
            EXPECT_EQ(state(a), IBV_QPS_ERR);
            EXPECT_EQ(state(b), IBV_QPS_ERR);
            if (!to_itself) {
                EXPECT_EQ(events_of(a).size(), 0U) << "the request says it";
            }
        }
    }
}

// What a peer has failed of by itself is no news but that it has gone.
TEST_F(Wired, APeersOwnFailureIsItsEnd) {
    const QpPtr a = make_qp(cq_.get()), b = make_qp(cq_.get());
    ASSERT_NO_FATAL_FAILURE(wire(a, b->qp_num, 12));  // 4.096 us * 2^12 * 7: 117 ms
    ASSERT_NO_FATAL_FAILURE(wire(b, a->qp_num));
    ASSERT_NO_FATAL_FAILURE(carries(a, b));
    ibv_sge sge{address(0), 64, region_->lkey ^ 1};
    ibv_send_wr wr{}, *bad = nullptr;
    wr.sg_list = &sge;
    wr.num_sge = 1;
    wr.opcode = IBV_WR_SEND;
    ASSERT_EQ(ibv_post_send(b.get(), &wr, &bad), 0);
    EXPECT_EQ(next().status, IBV_WC_LOC_PROT_ERR);
    EXPECT_TRUE(is_quiet(std::chrono::milliseconds(200)));
    EXPECT_EQ(state(a), IBV_QPS_RTS);
    EXPECT_EQ(events_of(a).size(), 0U);
    ASSERT_EQ(post(a, IBV_WR_RDMA_WRITE, 1), 0);
    EXPECT_EQ(next().status, IBV_WC_RETRY_EXC_ERR);
}

// The sender's retries, each as long as the receiver's timer says. The sender comes to RTS before or after its stream.
TEST_F(Wired, ASendWithoutAReceiveEndsAfterItsRetries) {
    constexpr std::uint8_t k10ms = 20, k82ms = 26;
    for (const bool calls : {true, false}) {
        for (const bool late : {true, false}) {
            SCOPED_TRACE(testing::Message() << calls << late);
            QpPtr a = make_qp(cq_.get()), b = make_qp(cq_.get());
            if ((a->qp_num < b->qp_num) != calls) std::swap(a, b);
            ASSERT_EQ(to_init(a), 0);
            ASSERT_EQ(to_init(b), 0);
            ASSERT_EQ(to_rtr(a, b->qp_num), 0);
            ASSERT_EQ(to_rtr(b, a->qp_num, k10ms), 0);
            ASSERT_EQ(to_rts(b, 15), 0);  // 4.096 us * 2^15 * 7: 0.9 s
            if (late) {
                ASSERT_NO_FATAL_FAILURE(carries(b, a));
            }
            ASSERT_EQ(to_rts(a, 18, 7, 3), 0);
            ASSERT_NO_FATAL_FAILURE(carries(a, b));
            const auto begin = Clock::now();
            ASSERT_EQ(post(a, IBV_WR_SEND, 1), 0);
            ASSERT_EQ(post(a, IBV_WR_RDMA_WRITE, 2), 0);
            const ibv_wc failed = next();
            EXPECT_GE(Clock::now() - begin, std::chrono::milliseconds(30));
            EXPECT_EQ(failed.wr_id, 1U);
            EXPECT_EQ(failed.status, IBV_WC_RNR_RETRY_EXC_ERR);
            EXPECT_EQ(next().status, IBV_WC_WR_FLUSH_ERR);
            // It is the sender's end alone. What the other one sends then finds nobody.
            EXPECT_TRUE(is_quiet(std::chrono::milliseconds(50)));
            EXPECT_EQ(state(b), IBV_QPS_RTS);
            EXPECT_EQ(events_of(b).size(), 0U);
            ASSERT_EQ(post(b, IBV_WR_RDMA_WRITE, 3), 0);
            EXPECT_EQ(next(std::chrono::seconds(20)).status, IBV_WC_RETRY_EXC_ERR);
        }
    }
    const QpPtr a = make_qp(cq_.get()), b = make_qp(cq_.get());
    ASSERT_EQ(to_init(a), 0);
    ASSERT_EQ(to_init(b), 0);
    ASSERT_EQ(to_rtr(a, b->qp_num), 0);
    ASSERT_EQ(to_rtr(b, a->qp_num, k82ms), 0);
    ASSERT_EQ(to_rts(b), 0);
    ASSERT_EQ(to_rts(a, 18, 7, 6), 0);
    ASSERT_EQ(post(a, IBV_WR_SEND, 1), 0);
    EXPECT_TRUE(is_quiet(std::chrono::milliseconds(100)));
    ASSERT_EQ(receive(b, 2), 0);
    EXPECT_EQ(next().status, IBV_WC_SUCCESS);
    EXPECT_EQ(next().status, IBV_WC_SUCCESS);
}

TEST_F(Wired, InSqdOldRequestsDrainAndNewOnesWait) {
    const QpPtr a = make_qp(cq_.get()), b = make_qp(cq_.get());
    ASSERT_NO_FATAL_FAILURE(wire(a, b));
    const auto to_sqd = [&](bool notify) {
        ibv_qp_attr attr = attributes(IBV_QPS_SQD);
        attr.en_sqd_async_notify = 1;
        return ibv_modify_qp(a.get(), &attr, IBV_QP_STATE | (notify ? IBV_QP_EN_SQD_ASYNC_NOTIFY : 0));
    };
    const auto drains = [&] {
        ibv_qp_attr attr{};
        ibv_qp_init_attr made{};
        EXPECT_EQ(ibv_query_qp(a.get(), &attr, IBV_QP_STATE, &made), 0);
        EXPECT_EQ(attr.qp_state, IBV_QPS_SQD);
        return attr.sq_draining == 1;
    };
    const std::multiset<ibv_event_type> none, drained{IBV_EVENT_SQ_DRAINED};
    ASSERT_EQ(post(a, IBV_WR_SEND, 1), 0);
    ASSERT_EQ(to_sqd(true), 0);
    ASSERT_EQ(post(a, IBV_WR_SEND, 2), 0);
    EXPECT_TRUE(is_quiet(std::chrono::milliseconds(100)));
    EXPECT_TRUE(drains());
    EXPECT_EQ(events_of(a), none);
    ASSERT_EQ(receive(b, 11), 0);
    ASSERT_EQ(receive(b, 12), 0);
    EXPECT_EQ(next().wr_id, 11U);
    EXPECT_EQ(next().wr_id, 1U);
    EXPECT_EQ(events_of(a, 100), drained);
    EXPECT_FALSE(drains());
    ASSERT_NO_FATAL_FAILURE(carries(b, a));  // the other direction goes on
    EXPECT_TRUE(is_quiet(std::chrono::milliseconds(50)));
    ASSERT_EQ(to_rts(a), 0);
    EXPECT_EQ(next().status, IBV_WC_SUCCESS);
    EXPECT_EQ(next().status, IBV_WC_SUCCESS);
    ASSERT_EQ(to_sqd(true), 0);
    EXPECT_EQ(events_of(a, 100), drained) << "there was nothing to drain";
    ASSERT_EQ(modify(a, IBV_QPS_RTS), 0);
    ASSERT_EQ(to_sqd(false), 0);
    EXPECT_EQ(events_of(a, 50), none);
    ASSERT_EQ(post(a, IBV_WR_RDMA_WRITE, 3), 0);
    ASSERT_EQ(modify(a, IBV_QPS_ERR), 0);
    EXPECT_EQ(next().status, IBV_WC_WR_FLUSH_ERR);
    EXPECT_EQ(to_sqd(false), EINVAL);
}

// Before there is a stream, too: what waits in SQD waits for no peer.
TEST_F(Wired, InSqdNobodyIsGivenUp) {
    const QpPtr a = make_qp(cq_.get()), b = make_qp(cq_.get());
    ASSERT_NO_FATAL_FAILURE(wire(a, b->qp_num, 10));  // 4.096 us * 2^10 * 7: 29 ms
    ASSERT_EQ(modify(a, IBV_QPS_SQD), 0);
    ASSERT_EQ(post(a, IBV_WR_RDMA_WRITE, 1), 0);
    EXPECT_TRUE(is_quiet(std::chrono::milliseconds(150)));
    ASSERT_NO_FATAL_FAILURE(wire(b, a->qp_num));
    ASSERT_NO_FATAL_FAILURE(carries(b, a));
    ASSERT_EQ(modify(a, IBV_QPS_RTS), 0);
    EXPECT_EQ(next().status, IBV_WC_SUCCESS);
}

// Mooncake reconnects so: RESET, whatever the state, then INIT, RTR and RTS at once.
TEST_F(Wired, ResetAndWiredAnew) {
    std::array<QpPtr, 3> qps{make_qp(cq_.get()), make_qp(cq_.get()), make_qp(cq_.get())};
    ASSERT_NO_FATAL_FAILURE(wire(qps[0], qps[1]));
    ASSERT_NO_FATAL_FAILURE(carries(qps[0], qps[1]));
    const std::size_t before = open_descriptors();
    for (std::size_t round = 0; round < 100; ++round) {
        SCOPED_TRACE(round);
        const QpPtr &a = qps[round % 3], &b = qps[(round + 1) % 3];
        ASSERT_EQ(receive(a, 77), round == 0 ? 0 : EINVAL) << "of a QP that was reset the receives are forgotten";
        for (const QpPtr& qp : qps)
            ASSERT_EQ(modify(qp, IBV_QPS_RESET), 0);
        ASSERT_NO_FATAL_FAILURE(wire(a, b));
        ASSERT_NO_FATAL_FAILURE(carries(a, b));
        ASSERT_NO_FATAL_FAILURE(carries(b, a));
        for (const QpPtr& qp : qps)
            ASSERT_EQ(modify(qp, IBV_QPS_RESET), 0);
    }
    // What is closed lingers for a second at most.
    const auto end = Clock::now() + std::chrono::seconds(5);
    while (open_descriptors() > before && Clock::now() < end)
        std::this_thread::sleep_for(std::chrono::milliseconds(50));
    EXPECT_LE(open_descriptors(), before);
}

TEST_F(Wired, WhatWasPostedBeforeResetIsForgotten) {
    const QpPtr a = make_qp(cq_.get()), b = make_qp(cq_.get());
    ASSERT_NO_FATAL_FAILURE(wire(a, b->qp_num));
    ASSERT_EQ(receive(a, 8), 0);
    ASSERT_EQ(post(a, IBV_WR_SEND, 9), 0);
    ASSERT_EQ(modify(a, IBV_QPS_RESET), 0);
    EXPECT_TRUE(is_quiet(std::chrono::milliseconds(50)));
    ASSERT_NO_FATAL_FAILURE(wire(a, b));
    ASSERT_NO_FATAL_FAILURE(carries(a, b));
    ASSERT_NO_FATAL_FAILURE(carries(b, a));
}

TEST_F(Wired, ManyByManyThreads) {
    constexpr std::size_t kThreads = 8, kEach = 8;
    std::vector<QpPtr> a, b;
    for (std::size_t i = 0; i < kThreads * kEach; ++i) {
        a.push_back(make_qp(cq_.get()));
        b.push_back(make_qp(cq_.get()));
        ASSERT_TRUE(a.back() && b.back());
    }
    std::vector<std::thread> threads;
    for (std::size_t t = 0; t < kThreads; ++t) {
        threads.emplace_back([&, t] {
            for (std::size_t i = t * kEach; i < (t + 1) * kEach; ++i) {
                wire(a[i], b[i]->qp_num);
                wire(b[kThreads * kEach - 1 - i], a[kThreads * kEach - 1 - i]->qp_num);
                EXPECT_EQ(receive(a[i], 1, 4096 + i * 64), 0);  // each into memory of its own
            }
        });
    }
    for (std::thread& thread : threads)
        thread.join();
    for (const QpPtr& qp : b)
        EXPECT_EQ(post(qp, IBV_WR_SEND, 2), 0);
    for (std::size_t i = 0; i < 2 * kThreads * kEach; ++i)
        ASSERT_EQ(next().status, IBV_WC_SUCCESS);
}

// A number can be guessed or seen; whoever is not the peer gets nothing, and disturbs nobody.
TEST_F(Wired, StrangersAreRefused) {
    QpPtr a = make_qp(cq_.get()), b = make_qp(cq_.get());
    if (a->qp_num > b->qp_num) std::swap(a, b);  // a connects
    ASSERT_NO_FATAL_FAILURE(wire(b, a->qp_num));
    const auto ask = [&](std::uint32_t caller, std::uint32_t called, char version) {
        const std::string request = wired_request({gid_, caller}, {gid_, called}, version);
        const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        sockaddr_in to{};
        to.sin_family = AF_INET;
        to.sin_port = htons(static_cast<std::uint16_t>(b->qp_num >> 8));
        std::memcpy(&to.sin_addr, gid_.raw + 12, 4);
        EXPECT_EQ(connect(fd, reinterpret_cast<const sockaddr*>(&to), sizeof to), 0);
        EXPECT_EQ(write(fd, request.data(), request.size()), static_cast<ssize_t>(request.size()));
        std::array<char, 20> reply{};
        const ssize_t got = recv(fd, reply.data(), reply.size(), MSG_WAITALL);
        close(fd);
        return got == 20 && (reply[16] & 0x20) != 0;  // R: rejected
    };
    EXPECT_TRUE(ask(a->qp_num ^ 1, b->qp_num, 1)) << "not the number that b is wired to";
    EXPECT_TRUE(ask(a->qp_num, b->qp_num ^ 1, 1)) << "no such QP, or one that is not wired";
    EXPECT_TRUE(ask(a->qp_num, b->qp_num, 0)) << "no such version";
    ASSERT_NO_FATAL_FAILURE(wire(a, b->qp_num));
    ASSERT_NO_FATAL_FAILURE(carries(a, b));
    EXPECT_TRUE(ask(a->qp_num, b->qp_num, 1)) << "it has its peer";
    ASSERT_NO_FATAL_FAILURE(carries(b, a));
}

// QPs of rdma_cm and wired ones in one process, on one CQ.
class WiredBesideRdmaCm : public DataPairTest {};

TEST_F(WiredBesideRdmaCm, OnOneCq) {
    ibv_cq* cq = client_.send_cq;
    ibv_qp_init_attr init{};
    init.send_cq = init.recv_cq = cq;
    init.qp_type = IBV_QPT_RC;
    init.cap = {.max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1, .max_inline_data = 0};
    const QpPtr qp(ibv_create_qp(pd(), &init));
    ASSERT_TRUE(qp);
    ibv_qp_attr attr{};
    attr.qp_state = IBV_QPS_INIT;
    attr.port_num = 1;
    ASSERT_EQ(ibv_modify_qp(qp.get(), &attr, kInitMask), 0);
    attr.qp_state = IBV_QPS_RTR;
    attr.dest_qp_num = qp->qp_num;
    attr.ah_attr.is_global = 1;
    attr.ah_attr.grh.sgid_index = 1;
    ASSERT_EQ(ibv_query_gid(qp->context, 1, 1, &attr.ah_attr.grh.dgid), 0);
    ASSERT_EQ(ibv_modify_qp(qp.get(), &attr, kRtrMask), 0);
    attr.qp_state = IBV_QPS_RTS;
    ASSERT_EQ(ibv_modify_qp(qp.get(), &attr, kRtsMask), 0);
    ibv_send_wr wr{}, *bad = nullptr;
    wr.opcode = IBV_WR_RDMA_WRITE;
    wr.send_flags = IBV_SEND_SIGNALED;
    ASSERT_EQ(ibv_post_send(qp.get(), &wr, &bad), 0);
    ASSERT_EQ(ibv_post_send(client_.qp(), &wr, &bad), 0);
    std::array<std::uint32_t, 2> from{};
    for (std::uint32_t& qpn : from) {
        const ibv_wc wc = next(cq);
        EXPECT_EQ(wc.status, IBV_WC_SUCCESS);
        qpn = wc.qp_num;
    }
    EXPECT_NE(from[0], from[1]);
}

// UC: the same wires, but nobody is told what became of a message.
class Uc : public Wired {
  protected:
    QpPtr make_uc() {
        ibv_qp_init_attr attr = qp_attr(cq_.get());
        attr.qp_type = IBV_QPT_UC;
        return QpPtr(ibv_create_qp(pd_.get(), &attr));
    }
    // The masks that InfiniBand has for UC.
    void wire_uc(const QpPtr& qp, std::uint32_t dest_qpn) {
        ASSERT_EQ(to_init(qp), 0);
        ibv_qp_attr attr = rtr_attr(dest_qpn, gid_);
        ASSERT_EQ(ibv_modify_qp(qp.get(), &attr,
                                IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN),
                  0);
        attr.qp_state = IBV_QPS_RTS;
        attr.sq_psn = 9;
        ASSERT_EQ(ibv_modify_qp(qp.get(), &attr, IBV_QP_STATE | IBV_QP_SQ_PSN), 0);
    }
    void wire_uc(const QpPtr& a, const QpPtr& b) {
        ASSERT_NO_FATAL_FAILURE(wire_uc(a, b->qp_num));
        ASSERT_NO_FATAL_FAILURE(wire_uc(b, a->qp_num));
    }
};

TEST_F(Uc, CarriesSendsAndWrites) {
    const QpPtr a = make_uc(), b = make_uc();
    ASSERT_TRUE(a && b) << std::strerror(errno);
    ASSERT_NO_FATAL_FAILURE(wire_uc(a, b));
    ASSERT_NO_FATAL_FAILURE(carries(a, b));
    ASSERT_NO_FATAL_FAILURE(carries(b, a));
    memory_[0] = 'w';
    ASSERT_EQ(post(a, IBV_WR_RDMA_WRITE, 3, 64, 12288), 0);
    EXPECT_EQ(next().status, IBV_WC_SUCCESS);
    ASSERT_NO_FATAL_FAILURE(carries(a, b));  // behind it
    EXPECT_EQ(memory_[12288], 'w');
    EXPECT_EQ(post(a, IBV_WR_RDMA_READ, 4), EINVAL);
}

// A Send without a receive, or too long for it, and a Write to nowhere are lost; what follows comes.
TEST_F(Uc, WhatCannotBePlacedIsLost) {
    const QpPtr a = make_uc(), b = make_uc();
    ASSERT_NO_FATAL_FAILURE(wire_uc(a, b));
    ASSERT_NO_FATAL_FAILURE(carries(a, b));
    const auto lose = [&](auto send) {
        ASSERT_EQ(send(), 0);
        EXPECT_EQ(next().status, IBV_WC_SUCCESS);
        EXPECT_TRUE(is_quiet(std::chrono::milliseconds(50)));
    };
    ASSERT_NO_FATAL_FAILURE(lose([&] { return post(a, IBV_WR_SEND, 5, 4000); }));
    ASSERT_NO_FATAL_FAILURE(carries(a, b));
    ASSERT_EQ(receive(b, 6, 4096, 32), 0);
    ASSERT_NO_FATAL_FAILURE(lose([&] { return post(a, IBV_WR_SEND, 7, 33); }));
    ASSERT_EQ(post(a, IBV_WR_SEND, 8, 32), 0);
    const std::uint64_t first = next().wr_id, second = next().wr_id;
    EXPECT_EQ(first + second, 6u + 8u);
    ASSERT_NO_FATAL_FAILURE(lose([&] {
        ibv_sge sge{address(0), 64, region_->lkey};
        ibv_send_wr wr{}, *bad = nullptr;
        wr.sg_list = &sge;
        wr.num_sge = 1;
        wr.opcode = IBV_WR_RDMA_WRITE;
        wr.send_flags = IBV_SEND_SIGNALED;
        wr.wr.rdma.remote_addr = address(4096);
        wr.wr.rdma.rkey = region_->rkey + 0x100;
        return ibv_post_send(a.get(), &wr, &bad);
    }));
    ASSERT_NO_FATAL_FAILURE(carries(a, b));
    EXPECT_EQ(state(a), IBV_QPS_RTS);
    EXPECT_EQ(state(b), IBV_QPS_RTS);
}

// Neither a peer that never comes nor one that has gone is an error.
TEST_F(Uc, NobodyThere) {
    const QpPtr a = make_uc();
    QpPtr b = make_uc();
    ASSERT_NO_FATAL_FAILURE(wire_uc(a, b->qp_num));
    ASSERT_EQ(post(a, IBV_WR_SEND, 1), 0);
    EXPECT_EQ(next().status, IBV_WC_SUCCESS);  // after a while
    ASSERT_NO_FATAL_FAILURE(wire_uc(b, a->qp_num));
    ASSERT_NO_FATAL_FAILURE(carries(a, b));  // its stream begins with this Send
    b.reset();
    const auto gone = Clock::now();
    for (std::uint64_t id = 2; id < 20; ++id) {
        ASSERT_EQ(post(a, IBV_WR_SEND, id), 0);
        const ibv_wc wc = next();
        EXPECT_EQ(wc.status, IBV_WC_SUCCESS);
        EXPECT_EQ(wc.wr_id, id);
    }
    EXPECT_LT(Clock::now() - gone, std::chrono::seconds(5)) << "nobody is waited for who has been there";
    EXPECT_EQ(state(a), IBV_QPS_RTS);
}

}  // namespace
}  // namespace swrnic::test
