// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Queue pairs of datagrams (UD): address handles, Q_Keys, GRH, what is lost, groups, and what strangers send.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "device.h"
#include "wiring.h"

namespace swrnic::test {
namespace {

using Clock = std::chrono::steady_clock;
using AhPtr = std::unique_ptr<ibv_ah, Destroyer<ibv_destroy_ah>>;
using SrqPtr = std::unique_ptr<ibv_srq, Destroyer<ibv_destroy_srq>>;

constexpr std::uint32_t kQkey = 0x11111111;
constexpr std::uint32_t kGrh = 40;
constexpr int kUdInitMask = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY;

class Ud : public DeviceTest {
  protected:
    void SetUp() override {
        DeviceTest::SetUp();
        cq_ = make_cq(1024);
        region_.reset(ibv_reg_mr(pd_.get(), memory_.data(), memory_.size(), IBV_ACCESS_LOCAL_WRITE));
        ASSERT_TRUE(region_);
        index_ = ipv4_index(context_.get());
        gid_ = gid_at(context_.get(), index_);
    }
    void TearDown() override {
        region_.reset();
        cq_.reset();
    }

    ibv_qp_init_attr ud_attr() {
        ibv_qp_init_attr attr = qp_attr(cq_.get());
        attr.qp_type = IBV_QPT_UD;
        attr.cap = {.max_send_wr = 8, .max_recv_wr = 32, .max_send_sge = 2, .max_recv_sge = 2, .max_inline_data = 128};
        return attr;
    }
    QpPtr make_ud() {
        ibv_qp_init_attr attr = ud_attr();
        return QpPtr(ibv_create_qp(pd_.get(), &attr));
    }
    static int modify(ibv_qp* qp, ibv_qp_state to, int more = 0, std::uint32_t q_key = kQkey) {
        ibv_qp_attr attr;
        std::memset(&attr, 0xa5, sizeof attr);
        attr.qp_state = to;
        attr.pkey_index = 0;
        attr.port_num = 1;
        attr.qkey = q_key;
        attr.sq_psn = 77;
        return ibv_modify_qp(qp, &attr, IBV_QP_STATE | more);
    }
    static int start(ibv_qp* qp, std::uint32_t q_key = kQkey) {
        if (const int error = modify(qp, IBV_QPS_INIT, kUdInitMask, q_key)) return error;
        if (const int error = modify(qp, IBV_QPS_RTR)) return error;
        return modify(qp, IBV_QPS_RTS, IBV_QP_SQ_PSN);
    }
    QpPtr started(std::uint32_t q_key = kQkey) {
        QpPtr qp = make_ud();
        EXPECT_TRUE(qp) << std::strerror(errno);
        if (qp) {
            EXPECT_EQ(start(qp.get(), q_key), 0);
        }
        return qp;
    }
    AhPtr way_to(const ibv_gid& gid, std::optional<int> index = {}) {
        ibv_ah_attr attr{};
        attr.is_global = 1;
        attr.port_num = 1;
        attr.grh.dgid = gid;
        attr.grh.sgid_index = static_cast<std::uint8_t>(index.value_or(index_));
        attr.grh.hop_limit = 1;
        return AhPtr(ibv_create_ah(pd_.get(), &attr));
    }
    int receive(ibv_qp* qp, std::uint64_t id, std::size_t at = 8192, std::uint32_t length = kGrh + 4096) {
        ibv_sge sge{address(at), length, region_->lkey};
        ibv_recv_wr wr{}, *bad = nullptr;
        wr.wr_id = id;
        wr.sg_list = &sge;
        wr.num_sge = 1;
        return ibv_post_recv(qp, &wr, &bad);
    }
    ibv_send_wr request(const AhPtr& ah, std::uint32_t qpn, ibv_sge* sge, std::uint64_t id = 1) const {
        ibv_send_wr wr{};
        wr.wr_id = id;
        wr.sg_list = sge;
        wr.num_sge = 1;
        wr.opcode = IBV_WR_SEND;
        wr.send_flags = IBV_SEND_SIGNALED;
        wr.wr.ud.ah = ah.get();
        wr.wr.ud.remote_qpn = qpn;
        wr.wr.ud.remote_qkey = kQkey;
        return wr;
    }
    int send(const QpPtr& qp, const AhPtr& ah, std::uint32_t qpn, std::uint32_t length = 64, std::uint64_t id = 1) {
        ibv_sge sge{address(0), length, region_->lkey};
        ibv_send_wr wr = request(ah, qpn, &sge, id), *bad = nullptr;
        return ibv_post_send(qp.get(), &wr, &bad);
    }
    // Sends first: a message may be received before the call that sends it comes back.
    ibv_wc next(std::chrono::milliseconds within = std::chrono::seconds(5)) {
        ibv_wc wc{};
        const auto end = Clock::now() + within;
        do {
            while (ibv_poll_cq(cq_.get(), 1, &wc) == 1)
                found_.push_back(wc);
        } while (found_.empty() && Clock::now() < end);
        if (found_.empty()) {
            ADD_FAILURE() << "no completion";
            wc.status = IBV_WC_GENERAL_ERR;
            return wc;
        }
        auto at = std::find_if(found_.begin(), found_.end(), [](const ibv_wc& each) {
            return each.opcode == IBV_WC_SEND && each.status == IBV_WC_SUCCESS;
        });
        if (at == found_.end()) at = found_.begin();
        wc = *at;
        found_.erase(at);
        return wc;
    }
    bool is_quiet(std::chrono::milliseconds time = std::chrono::milliseconds(100)) {
        ibv_wc wc{};
        for (const auto end = Clock::now() + time; Clock::now() < end;)
            if (!found_.empty() || ibv_poll_cq(cq_.get(), 1, &wc) != 0) return false;
        return true;
    }
    // The receive's, of a message that the same CQ tells of twice.
    ibv_wc received() {
        ibv_wc wc = next();
        if (wc.opcode == IBV_WC_SEND) {
            EXPECT_EQ(wc.status, IBV_WC_SUCCESS);
            wc = next();
        }
        EXPECT_EQ(wc.opcode, IBV_WC_RECV);
        return wc;
    }
    std::uint64_t address(std::size_t offset) const {
        return reinterpret_cast<std::uintptr_t>(memory_.data() + offset);
    }
    static ibv_qp_state state(const QpPtr& qp) {
        ibv_qp_attr attr{};
        ibv_qp_init_attr made{};
        EXPECT_EQ(ibv_query_qp(qp.get(), &attr, IBV_QP_STATE, &made), 0);
        return attr.qp_state;
    }

    CqPtr cq_;
    MrPtr region_;
    ibv_gid gid_{};
    int index_ = 0;
    std::deque<ibv_wc> found_;
    std::array<char, 65536> memory_{};
};

TEST_F(Ud, CarriesAMessage) {
    const QpPtr a = started(), b = started();
    ASSERT_TRUE(a && b);
    const AhPtr ah = way_to(gid_);
    ASSERT_TRUE(ah);
    std::strcpy(memory_.data(), "a datagram");
    ASSERT_EQ(receive(b.get(), 7), 0);
    ASSERT_EQ(send(a, ah, b->qp_num), 0);
    const ibv_wc wc = received();
    EXPECT_EQ(wc.status, IBV_WC_SUCCESS);
    EXPECT_EQ(wc.wr_id, 7u);
    EXPECT_EQ(wc.qp_num, b->qp_num);
    EXPECT_EQ(wc.src_qp, a->qp_num);
    EXPECT_EQ(wc.sl, 10);  // of IPv4, as adapters for RoCE say it
    EXPECT_EQ(wc.byte_len, kGrh + 64);
    EXPECT_EQ(wc.wc_flags, static_cast<unsigned>(IBV_WC_GRH));
    EXPECT_EQ(wc.slid, 0);
    EXPECT_EQ(wc.pkey_index, 0);
    EXPECT_STREQ(memory_.data() + 8192 + kGrh, "a datagram");
}

// Q_Keys: the request's, or the QP's own where that is a controlled one; a datagram with another is lost.
TEST_F(Ud, QkeysDecide) {
    const QpPtr a = started(0x80000042), b = started(kQkey), c = started(0x80000042);
    const AhPtr ah = way_to(gid_);
    const auto send_with = [&](const QpPtr& to, std::uint32_t q_key, std::uint64_t id) {
        ibv_sge sge{address(0), 8, region_->lkey};
        ibv_send_wr wr = request(ah, to->qp_num, &sge, id), *bad = nullptr;
        wr.wr.ud.remote_qkey = q_key;
        EXPECT_EQ(ibv_post_send(a.get(), &wr, &bad), 0);
        EXPECT_EQ(next().wr_id, id);
    };
    ASSERT_EQ(receive(b.get(), 10), 0);
    ASSERT_EQ(receive(c.get(), 20), 0);
    send_with(b, kQkey + 1, 1);
    send_with(b, 0x80000000, 2);  // goes as 0x80000042
    EXPECT_TRUE(is_quiet());
    send_with(c, 0xffffffff, 3);
    EXPECT_EQ(next().wr_id, 20u);
    send_with(b, kQkey, 4);
    EXPECT_EQ(next().wr_id, 10u);
}

// rdma-core makes the handle for an answer of completion and GRH alone. Every GID of the device that is an address.
TEST_F(Ud, AnAnswerGoesWhereTheGrhSays) {
    const QpPtr a = started(), b = started();
    ibv_gid gid{};
    int tried = 0;
    for (int index = 1; ibv_query_gid(context_.get(), 1, index, &gid) == 0; ++index) {
        if (gid.raw[0] == 0xfe) continue;
        SCOPED_TRACE(index);
        const AhPtr ah = way_to(gid, index);
        ASSERT_TRUE(ah) << std::strerror(errno);
        ASSERT_EQ(receive(b.get(), 1), 0);
        ASSERT_EQ(send(a, ah, b->qp_num, 100), 0);
        ibv_wc wc = received();
        ASSERT_EQ(wc.status, IBV_WC_SUCCESS);
        auto* grh = reinterpret_cast<ibv_grh*>(memory_.data() + 8192);
        ibv_ah_attr attr{};
        ASSERT_EQ(ibv_init_ah_from_wc(context_.get(), 1, &wc, grh, &attr), 0) << std::strerror(errno);
        EXPECT_EQ(std::memcmp(attr.grh.dgid.raw, gid.raw, 16), 0);
        EXPECT_EQ(attr.grh.sgid_index, index);
        const AhPtr back(ibv_create_ah_from_wc(pd_.get(), &wc, grh, 1));
        ASSERT_TRUE(back) << std::strerror(errno);
        ASSERT_EQ(receive(a.get(), 2), 0);
        ASSERT_EQ(send(b, back, wc.src_qp), 0);
        EXPECT_EQ(received().qp_num, a->qp_num);
        ++tried;
    }
    EXPECT_GT(tried, 0);
}

TEST_F(Ud, WhatFindsNoRoomIsLostAsAWhole) {
    const QpPtr a = started(), b = started();
    const AhPtr ah = way_to(gid_);
    ASSERT_EQ(send(a, ah, b->qp_num, 64, 1), 0);  // no receive
    EXPECT_EQ(next().wr_id, 1u);
    EXPECT_TRUE(is_quiet());
    std::memset(memory_.data(), 'x', 256);
    std::memset(memory_.data() + 8192, '-', 256);
    ASSERT_EQ(receive(b.get(), 10, 8192, kGrh + 64), 0);
    ASSERT_EQ(send(a, ah, b->qp_num, 65, 2), 0);  // one octet too long for it
    EXPECT_EQ(next().wr_id, 2u);
    EXPECT_TRUE(is_quiet());
    EXPECT_EQ(std::string(memory_.data() + 8192, 256), std::string(256, '-'));
    ASSERT_EQ(send(a, ah, b->qp_num, 64, 3), 0);
    EXPECT_EQ(received().wr_id, 10u);
    EXPECT_EQ(state(b), IBV_QPS_RTS);
}

TEST_F(Ud, SizesAndElements) {
    const QpPtr a = started(), b = started();
    const AhPtr ah = way_to(gid_);
    for (std::size_t i = 0; i < 4096; ++i)
        memory_[i] = static_cast<char>(i * 7 + i / 256);
    for (const std::uint32_t length : {0u, 1u, 1023u, 1472u, 4095u, 4096u}) {
        SCOPED_TRACE(length);
        std::memset(memory_.data() + 8192, 0, 4200);
        ibv_sge to[2] = {{address(8192), 41, region_->lkey}, {address(8192 + 41), 4095, region_->lkey}};
        ibv_recv_wr receive_wr{}, *bad_receive = nullptr;
        receive_wr.sg_list = to;
        receive_wr.num_sge = 2;
        ASSERT_EQ(ibv_post_recv(b.get(), &receive_wr, &bad_receive), 0);
        ibv_sge from[2] = {{address(0), length / 3, region_->lkey},
                           {address(length / 3), length - length / 3, region_->lkey}};
        ibv_send_wr wr = request(ah, b->qp_num, from), *bad = nullptr;
        wr.num_sge = 2;
        ASSERT_EQ(ibv_post_send(a.get(), &wr, &bad), 0);
        EXPECT_EQ(received().byte_len, kGrh + length);
        EXPECT_EQ(std::memcmp(memory_.data() + 8192 + kGrh, memory_.data(), length), 0);
    }
}

TEST_F(Ud, ImmediateDataAndInline) {
    const QpPtr a = started(), b = started();
    const AhPtr ah = way_to(gid_);
    ASSERT_EQ(receive(b.get(), 10), 0);
    char text[] = "inline";
    ibv_sge sge{reinterpret_cast<std::uintptr_t>(text), sizeof text, 0};
    ibv_send_wr wr = request(ah, b->qp_num, &sge), *bad = nullptr;
    wr.opcode = IBV_WR_SEND_WITH_IMM;
    wr.imm_data = htonl(0xcafe0001);
    wr.send_flags = IBV_SEND_INLINE | IBV_SEND_SOLICITED;  // unsignaled: no completion of its own
    ASSERT_EQ(ibv_post_send(a.get(), &wr, &bad), 0);
    const ibv_wc wc = next();
    EXPECT_EQ(wc.opcode, IBV_WC_RECV);
    EXPECT_EQ(wc.wc_flags, static_cast<unsigned>(IBV_WC_GRH) | IBV_WC_WITH_IMM);
    EXPECT_EQ(wc.imm_data, htonl(0xcafe0001));
    EXPECT_STREQ(memory_.data() + 8192 + kGrh, "inline");
    EXPECT_TRUE(is_quiet());
}

TEST_F(Ud, RequestsThatAreRefused) {
    const QpPtr a = started(), fresh = make_ud();
    const AhPtr ah = way_to(gid_);
    const auto error = [&](const QpPtr& qp, auto change) {
        ibv_sge sge{address(0), 64, region_->lkey};
        ibv_send_wr wr = request(ah, a->qp_num, &sge), *bad = nullptr;
        change(wr);
        return ibv_post_send(qp.get(), &wr, &bad);
    };
    EXPECT_EQ(error(a, [](ibv_send_wr& wr) { wr.sg_list->length = 4097; }), EINVAL);
    EXPECT_EQ(error(a, [](ibv_send_wr& wr) { wr.opcode = IBV_WR_RDMA_WRITE; }), EINVAL);
    EXPECT_EQ(error(a, [](ibv_send_wr& wr) { wr.wr.ud.ah = nullptr; }), EINVAL);
    EXPECT_EQ(error(a, [](ibv_send_wr& wr) { wr.wr.ud.remote_qpn = 1u << 24; }), EINVAL);
    EXPECT_EQ(error(a, [](ibv_send_wr& wr) { wr.wr.ud.remote_qpn = 0xffffff; }), EINVAL) << "no group";
    EXPECT_EQ(error(a, [](ibv_send_wr& wr) { wr.num_sge = 3; }), EINVAL);
    EXPECT_EQ(error(fresh, [](ibv_send_wr&) {}), EINVAL) << "RESET";
    ASSERT_EQ(modify(fresh.get(), IBV_QPS_INIT, kUdInitMask), 0);
    ASSERT_EQ(modify(fresh.get(), IBV_QPS_RTR), 0);
    EXPECT_EQ(error(fresh, [](ibv_send_wr&) {}), EINVAL) << "RTR";
    EXPECT_TRUE(is_quiet());
}

TEST_F(Ud, StatesAndTheirAttributes) {
    const QpPtr qp = make_ud();
    EXPECT_EQ(receive(qp.get(), 1), EINVAL) << "RESET";
    EXPECT_EQ(modify(qp.get(), IBV_QPS_INIT, kUdInitMask & ~IBV_QP_QKEY), EINVAL);
    EXPECT_EQ(modify(qp.get(), IBV_QPS_RTR), EINVAL);
    ASSERT_EQ(modify(qp.get(), IBV_QPS_INIT, kUdInitMask), 0);
    EXPECT_EQ(modify(qp.get(), IBV_QPS_RTS, IBV_QP_SQ_PSN), EINVAL);
    EXPECT_EQ(modify(qp.get(), IBV_QPS_RTR, IBV_QP_DEST_QPN), EINVAL);
    ASSERT_EQ(modify(qp.get(), IBV_QPS_RTR), 0);
    EXPECT_EQ(modify(qp.get(), IBV_QPS_RTS), EINVAL) << "without a PSN";
    ASSERT_EQ(modify(qp.get(), IBV_QPS_RTS, IBV_QP_SQ_PSN), 0);
    ibv_qp_attr attr{};
    ibv_qp_init_attr made{};
    ASSERT_EQ(ibv_query_qp(qp.get(), &attr, IBV_QP_QKEY | IBV_QP_SQ_PSN, &made), 0);
    EXPECT_EQ(attr.qkey, kQkey);
    EXPECT_EQ(attr.sq_psn, 77u);
    EXPECT_EQ(attr.qp_state, IBV_QPS_RTS);
    EXPECT_EQ(made.qp_type, IBV_QPT_UD);
    ASSERT_EQ(modify(qp.get(), IBV_QPS_RTS, IBV_QP_QKEY, 5), 0);
    ASSERT_EQ(ibv_query_qp(qp.get(), &attr, IBV_QP_QKEY, &made), 0);
    EXPECT_EQ(attr.qkey, 5u);
}

TEST_F(Ud, ErrorFlushesAndResetForgets) {
    const QpPtr a = started();
    const AhPtr ah = way_to(gid_);
    ASSERT_EQ(receive(a.get(), 1), 0);
    ASSERT_EQ(modify(a.get(), IBV_QPS_ERR), 0);
    ASSERT_EQ(receive(a.get(), 2), 0);
    ASSERT_EQ(send(a, ah, a->qp_num, 64, 3), 0);
    for (const std::uint64_t id : {1, 2, 3}) {
        const ibv_wc wc = next();
        EXPECT_EQ(wc.wr_id, id);
        EXPECT_EQ(wc.status, IBV_WC_WR_FLUSH_ERR);
    }
    ASSERT_EQ(modify(a.get(), IBV_QPS_RESET), 0);
    ASSERT_EQ(start(a.get()), 0);
    ASSERT_EQ(receive(a.get(), 4), 0);
    ASSERT_EQ(modify(a.get(), IBV_QPS_RESET), 0);
    EXPECT_TRUE(is_quiet());
    ASSERT_EQ(start(a.get()), 0);
    ASSERT_EQ(receive(a.get(), 5), 0);
    ASSERT_EQ(send(a, ah, a->qp_num), 0);  // to itself
    EXPECT_EQ(received().wr_id, 5u);
}

// A request of bad memory brings the send queue into SQE; receives go on, and RTS repairs it.
TEST_F(Ud, BadMemory) {
    const QpPtr a = started(), b = started();
    const AhPtr ah = way_to(gid_);
    ibv_sge sge{address(0), 64, region_->lkey + 0x100};
    ibv_send_wr wr = request(ah, b->qp_num, &sge), *bad = nullptr;
    ASSERT_EQ(ibv_post_send(a.get(), &wr, &bad), 0);
    EXPECT_EQ(next().status, IBV_WC_LOC_PROT_ERR);
    EXPECT_EQ(state(a), IBV_QPS_SQE);
    ASSERT_EQ(send(a, ah, b->qp_num), 0);
    EXPECT_EQ(next().status, IBV_WC_WR_FLUSH_ERR);
    ASSERT_EQ(receive(a.get(), 1), 0);
    ASSERT_EQ(send(b, ah, a->qp_num), 0);
    EXPECT_EQ(received().wr_id, 1u);
    ASSERT_EQ(modify(a.get(), IBV_QPS_RTS), 0);
    ASSERT_EQ(receive(b.get(), 2), 0);
    ASSERT_EQ(send(a, ah, b->qp_num), 0);
    EXPECT_EQ(received().wr_id, 2u);
    sge = {address(8192), 256, region_->lkey + 0x100};
    ibv_recv_wr bad_receive{}, *refused = nullptr;
    bad_receive.sg_list = &sge;
    bad_receive.num_sge = 1;
    ASSERT_EQ(ibv_post_recv(b.get(), &bad_receive, &refused), 0);
    ASSERT_EQ(send(a, ah, b->qp_num), 0);
    EXPECT_EQ(received().status, IBV_WC_LOC_PROT_ERR);
    EXPECT_EQ(state(b), IBV_QPS_ERR);
}

TEST_F(Ud, SharedReceives) {
    ibv_srq_init_attr shared{};
    shared.attr = {.max_wr = 8, .max_sge = 1, .srq_limit = 0};
    const SrqPtr srq(ibv_create_srq(pd_.get(), &shared));
    ASSERT_TRUE(srq);
    ibv_qp_init_attr attr = ud_attr();
    attr.srq = srq.get();
    const QpPtr a = started(), b(ibv_create_qp(pd_.get(), &attr)), c(ibv_create_qp(pd_.get(), &attr));
    ASSERT_TRUE(b && c);
    ASSERT_EQ(start(b.get()), 0);
    ASSERT_EQ(start(c.get()), 0);
    const AhPtr ah = way_to(gid_);
    for (const QpPtr* to : {&b, &c, &b}) {
        ibv_sge sge{address(8192), 256, region_->lkey};
        ibv_recv_wr wr{}, *bad = nullptr;
        wr.sg_list = &sge;
        wr.num_sge = 1;
        ASSERT_EQ(ibv_post_srq_recv(srq.get(), &wr, &bad), 0);
        ASSERT_EQ(send(a, ah, (*to)->qp_num), 0);
        EXPECT_EQ(received().qp_num, (*to)->qp_num);
    }
}

TEST_F(Ud, ExtendedPosting) {
    ibv_qp_init_attr_ex attr{};
    const ibv_qp_init_attr plain = ud_attr();
    attr.send_cq = plain.send_cq;
    attr.recv_cq = plain.recv_cq;
    attr.cap = plain.cap;
    attr.qp_type = IBV_QPT_UD;
    attr.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
    attr.pd = pd_.get();
    attr.send_ops_flags = IBV_QP_EX_WITH_RDMA_WRITE;
    EXPECT_EQ(ibv_create_qp_ex(context_.get(), &attr), nullptr);
    attr.send_ops_flags = IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM;
    const QpPtr a(ibv_create_qp_ex(context_.get(), &attr)), b = started();
    ASSERT_TRUE(a) << std::strerror(errno);
    ASSERT_EQ(start(a.get()), 0);
    const AhPtr ah = way_to(gid_);
    ASSERT_EQ(receive(b.get(), 10), 0);
    ASSERT_EQ(receive(b.get(), 11, 16384), 0);
    ibv_qp_ex* ex = ibv_qp_to_qp_ex(a.get());
    ibv_wr_start(ex);
    ex->wr_id = 1;
    ex->wr_flags = 0;
    ibv_wr_send_imm(ex, htonl(7));
    ibv_wr_set_ud_addr(ex, ah.get(), b->qp_num, kQkey);
    ibv_wr_set_sge(ex, region_->lkey, address(0), 16);
    ibv_wr_send(ex);
    ibv_wr_set_ud_addr(ex, ah.get(), b->qp_num, kQkey);
    char text[] = "inline";
    ibv_wr_set_inline_data(ex, text, sizeof text);
    ASSERT_EQ(ibv_wr_complete(ex), 0);
    const ibv_wc first = next(), second = next();
    EXPECT_EQ(first.imm_data, htonl(7));
    EXPECT_EQ(first.byte_len, kGrh + 16);
    EXPECT_EQ(second.wc_flags, static_cast<unsigned>(IBV_WC_GRH));
    EXPECT_STREQ(memory_.data() + 16384 + kGrh, "inline");
}

// Whoever can reach the port can send to it; nothing of that is taken, and no octet of it reaches a receive.
TEST_F(Ud, StrangersChangeNothing) {
    const QpPtr a = started(), b = started();
    ASSERT_EQ(receive(b.get(), 10), 0);
    std::memset(memory_.data() + 8192, '-', 256);
    const int stranger = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    sockaddr_in to{};
    to.sin_family = AF_INET;
    to.sin_port = htons(static_cast<std::uint16_t>(b->qp_num >> 8));
    std::memcpy(&to.sin_addr, gid_.raw + 12, 4);
    const auto say = [&](const std::vector<unsigned char>& octets) {
        EXPECT_GE(sendto(stranger, octets.data(), octets.size(), 0, reinterpret_cast<sockaddr*>(&to), sizeof to), 0);
    };
    say({});
    say({'x'});
    say(std::vector<unsigned char>(60000, 0xff));
    // All is right, but that the number of the source does not name the stranger's port.
    std::vector<unsigned char> forged = {'S', 'W', 'U', 'D', 1, 0, 0, 4};
    for (const std::uint32_t field : {b->qp_num, a->qp_num, kQkey, 0u})
        for (int shift = 24; shift >= 0; shift -= 8)
            forged.push_back(static_cast<unsigned char>(field >> shift));
    forged.insert(forged.end(), {'e', 'v', 'i', 'l'});
    say(forged);
    close(stranger);
    EXPECT_TRUE(is_quiet());
    EXPECT_EQ(std::string(memory_.data() + 8192, 256), std::string(256, '-'));
    ASSERT_EQ(send(a, way_to(gid_), b->qp_num), 0);
    EXPECT_EQ(received().wr_id, 10u);
}

// IPv4 groups by both forms of GID, and one of IPv6.
TEST_F(Ud, Groups) {
    const QpPtr a = started(), b = started(), c = started(), other = started();
    for (const char* text : {"::ffff:239.192.7.9", "ff0e::ffff:239.192.7.10", "ff15::7:9"}) {
        SCOPED_TRACE(text);
        ibv_gid group{};
        inet_pton(AF_INET6, text, group.raw);
        AhPtr ah = way_to(group);
        // A host without an IPv6 address at its first interface has no group of IPv6.
        if (!ah && group.raw[1] == 0x15) continue;
        ASSERT_TRUE(ah) << std::strerror(errno);
        ASSERT_EQ(ibv_attach_mcast(b.get(), &group, 0), 0);
        ASSERT_EQ(ibv_attach_mcast(b.get(), &group, 0), 0) << "twice is once";
        ASSERT_EQ(ibv_attach_mcast(c.get(), &group, 0), 0);
        std::size_t at = 8192;  // each has memory of its own: both receive at the same time
        for (const QpPtr* qp : {&b, &c, &other}) {
            ASSERT_EQ(receive(qp->get(), 10, at), 0);
            at += 8192;
        }
        ASSERT_EQ(send(a, ah, 0xffffff), 0);
        std::vector<std::uint32_t> numbers;
        for (int i = 0; i < 3; ++i) {
            const ibv_wc wc = next();
            ASSERT_EQ(wc.status, IBV_WC_SUCCESS);
            if (wc.opcode != IBV_WC_RECV) continue;
            EXPECT_EQ(wc.src_qp, a->qp_num);
            numbers.push_back(wc.qp_num);
        }
        ASSERT_EQ(numbers.size(), 2u);
        EXPECT_NE(numbers[0], numbers[1]);
        EXPECT_NE(std::find(numbers.begin(), numbers.end(), b->qp_num), numbers.end());
        EXPECT_TRUE(is_quiet());
        // What was sent to a group says so.
        if (group.raw[0] == 0) {
            EXPECT_EQ(std::memcmp(memory_.data() + 8192 + 32, gid_.raw + 12, 4), 0);
            EXPECT_EQ(std::memcmp(memory_.data() + 8192 + 36, group.raw + 12, 4), 0);
        }
        ASSERT_EQ(ibv_detach_mcast(b.get(), &group, 0), 0);
        ASSERT_EQ(ibv_detach_mcast(c.get(), &group, 0), 0);
        EXPECT_EQ(ibv_detach_mcast(c.get(), &group, 0), EINVAL);
        for (const QpPtr* qp : {&b, &c})
            ASSERT_EQ(receive(qp->get(), 11), 0);
        ASSERT_EQ(send(a, ah, 0xffffff), 0);
        EXPECT_EQ(next().opcode, IBV_WC_SEND);
        EXPECT_TRUE(is_quiet());
        for (const QpPtr* qp : {&b, &c, &other}) {
            ASSERT_EQ(modify(qp->get(), IBV_QPS_RESET), 0);
            ASSERT_EQ(start(qp->get()), 0);
        }
    }
    EXPECT_EQ(ibv_attach_mcast(a.get(), &gid_, 0), EINVAL) << "no group";
}

TEST_F(Ud, DescriptorsComeAndGo) {
    ibv_gid group{};
    inet_pton(AF_INET6, "::ffff:239.192.7.9", group.raw);
    started().reset();
    const std::size_t before = open_descriptors();
    {
        const QpPtr a = started(), b = started();
        ASSERT_EQ(ibv_attach_mcast(a.get(), &group, 0), 0);
        EXPECT_EQ(open_descriptors(), before + 3);
    }
    EXPECT_EQ(open_descriptors(), before);
}

// A child has no copy of the socket: the port ends with the parent's QP, whoever lives on.
TEST_F(Ud, AChildHoldsNoPort) {
    QpPtr qp = started();
    const auto port = static_cast<std::uint16_t>(qp->qp_num >> 8);
    int gate[2], there[2];
    char octet = 0;
    ASSERT_EQ(pipe(gate), 0);
    ASSERT_EQ(pipe(there), 0);
    const pid_t child = fork();
    if (child == 0) {
        close(gate[1]);
        _exit(write(there[1], &octet, 1) != 1 ? 2 : read(gate[0], &octet, 1) == 0 ? 0 : 1);
    }
    ASSERT_EQ(read(there[0], &octet, 1), 1);
    qp.reset();
    const int probe = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    sockaddr_in any{};
    any.sin_family = AF_INET;
    any.sin_port = htons(port);
    EXPECT_EQ(bind(probe, reinterpret_cast<sockaddr*>(&any), sizeof any), 0) << std::strerror(errno);
    close(probe);
    for (const int fd : {gate[0], gate[1], there[0], there[1]})
        close(fd);
    int status = 0;
    EXPECT_EQ(waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
}

}  // namespace
}  // namespace swrnic::test
