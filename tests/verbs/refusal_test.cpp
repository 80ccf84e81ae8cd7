// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// What is refused is said once, as a warning, with what to do.
#include <algorithm>
#include <cerrno>
#include <functional>
#include <string>

#include "pair.h"

namespace swrnic::test {
namespace {

class Refusals : public DataPairTest {
  protected:
    // Refused twice, and told of once.
    void expect_told(const std::string& words, const std::function<bool()>& is_refused) {
        testing::internal::CaptureStderr();
        const bool first = is_refused(), second = is_refused();
        const std::string told = testing::internal::GetCapturedStderr();
        EXPECT_TRUE(first && second) << words;
        EXPECT_EQ(std::count(told.begin(), told.end(), '\n'), 1) << told;
        EXPECT_NE(told.find("warn: "), std::string::npos) << told;
        EXPECT_NE(told.find(words), std::string::npos) << told;
    }
    int post(ibv_wr_opcode opcode, std::uint32_t length, int elements, unsigned flags = 0) {
        std::array<ibv_sge, 8> sges{};
        sges.fill({.addr = address(source_.data()), .length = length, .lkey = source_mr_->lkey});
        ibv_send_wr wr{}, *bad = nullptr;
        wr.opcode = opcode;
        wr.send_flags = flags;
        wr.sg_list = sges.data();
        wr.num_sge = elements;
        return ibv_post_send(client_.qp(), &wr, &bad);
    }
    ibv_qp* make(ibv_qp_type type, std::uint32_t depth) {
        ibv_qp_init_attr attr{};
        attr.send_cq = attr.recv_cq = client_.send_cq;
        attr.qp_type = type;
        attr.cap = {.max_send_wr = depth, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1, .max_inline_data = 0};
        return ibv_create_qp(pd(), &attr);
    }
};

TEST_F(Refusals, of_posts) {
    expect_told("is not offered", [&] { return post(IBV_WR_TSO, 8, 1) == EINVAL; });
    expect_told("cap.max_send_sge", [&] { return post(IBV_WR_SEND, 8, 5) == EINVAL; });
    expect_told("cap.max_inline_data", [&] { return post(IBV_WR_SEND, 1000, 1, IBV_SEND_INLINE) == EINVAL; });
    expect_told("send_flags", [&] { return post(IBV_WR_SEND, 8, 1, 1u << 20) == EINVAL; });
}

// What stands in the place of its elements means nothing.
TEST_F(Refusals, of_a_request_without_elements) {
    ibv_send_wr wr{}, *bad = nullptr;
    wr.opcode = IBV_WR_LOCAL_INV;
    wr.send_flags = IBV_SEND_INLINE;
    wr.sg_list = reinterpret_cast<ibv_sge*>(16);
    wr.num_sge = 1;
    expect_told("send_flags", [&] { return ibv_post_send(client_.qp(), &wr, &bad) == EINVAL; });
}

TEST_F(Refusals, of_receives) {
    ibv_recv_wr wr{}, *bad = nullptr;
    std::array<ibv_sge, 8> sges{};
    wr.sg_list = sges.data();
    wr.num_sge = 5;
    expect_told("5 elements", [&] { return ibv_post_recv(server_.qp(), &wr, &bad) == EINVAL; });
}

TEST_F(Refusals, of_queues) {
    expect_told("is not offered", [&] { return make(IBV_QPT_RAW_PACKET, 1) == nullptr && errno == EOPNOTSUPP; });
    expect_told("ibv_devinfo -v", [&] { return make(IBV_QPT_RC, 1u << 30) == nullptr && errno == EINVAL; });
    ibv_srq_init_attr attr{};
    attr.attr = {.max_wr = 1u << 30, .max_sge = 1, .srq_limit = 0};
    expect_told("ibv_create_srq", [&] { return ibv_create_srq(pd(), &attr) == nullptr; });
}

// A full queue is what programs reckon with.
TEST_F(Refusals, not_of_a_full_queue) {
    testing::internal::CaptureStderr();
    ibv_recv_wr wr{}, *bad = nullptr;
    int error = 0;
    for (int i = 0; error == 0 && i < 1000; ++i)
        error = ibv_post_recv(server_.qp(), &wr, &bad);
    EXPECT_EQ(error, ENOMEM);
    EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
}

TEST_F(Refusals, of_a_connection_by_hand) {
    QpPtr qp(make(IBV_QPT_RC, 4));
    ASSERT_TRUE(qp);
    ibv_send_wr wr{}, *bad = nullptr;
    expect_told("not connected", [&] { return ibv_post_send(qp.get(), &wr, &bad) == EINVAL; });
    ibv_qp_attr attr{};
    attr.qp_state = IBV_QPS_RTS;
    expect_told("a GID that this host can reach",
                [&] { return ibv_modify_qp(qp.get(), &attr, IBV_QP_STATE) == EINVAL; });
}

}  // namespace
}  // namespace swrnic::test
