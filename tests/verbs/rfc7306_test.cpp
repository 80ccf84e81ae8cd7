// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Immediate data and atomics, between QPs of rdma_cm and between QPs that are wired by hand. The sequences of calls are
// those of programs.

#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>

#include "page_that_goes.h"
#include "pair.h"

namespace swrnic::test {
namespace {

constexpr int kAll =
    IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
constexpr __be32 kImm = 0xbebafeca;

// Takes a QP through INIT, RTR and RTS.
class Wiring {
  public:
    explicit Wiring(ibv_context* context) {
        for (; ibv_query_gid(context, 1, index_, &gid_) == 0; ++index_)
            if (gid_.raw[10] == 0xff && gid_.raw[11] == 0xff && gid_.raw[0] == 0) return;
        ADD_FAILURE() << "no GID of an IPv4 address";
    }
    void wire(ibv_qp* qp, std::uint32_t dest_qpn, unsigned access = kAll) const {
        ibv_qp_attr attr{};
        attr.qp_state = IBV_QPS_INIT;
        attr.port_num = 1;
        attr.qp_access_flags = access;
        ASSERT_EQ(ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS), 0);
        attr.qp_state = IBV_QPS_RTR;
        attr.path_mtu = IBV_MTU_1024;
        attr.dest_qp_num = dest_qpn;
        attr.max_dest_rd_atomic = 16;
        attr.ah_attr.is_global = 1;
        attr.ah_attr.port_num = 1;
        attr.ah_attr.grh.dgid = gid_;
        attr.ah_attr.grh.sgid_index = static_cast<std::uint8_t>(index_);
        attr.ah_attr.grh.hop_limit = 1;
        ASSERT_EQ(ibv_modify_qp(qp, &attr,
                                IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                                    IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER),
                  0);
        attr.qp_state = IBV_QPS_RTS;
        attr.timeout = 20;  // half a minute, seven times 4 s: machines may be busy
        attr.retry_cnt = attr.rnr_retry = 7;
        attr.max_rd_atomic = 16;
        ASSERT_EQ(ibv_modify_qp(qp, &attr,
                                IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
                                    IBV_QP_MAX_QP_RD_ATOMIC),
                  0);
    }

  private:
    ibv_gid gid_{};
    int index_ = 0;
};

enum class Way { kRdmaCm, kWired, kWiredToItself };

class Rfc7306 : public DataPairTest, public testing::WithParamInterface<Way> {
  protected:
    void SetUp() override {
        DataPairTest::SetUp();
        if (HasFatalFailure()) return;
        source_mr_ = reg(source_.data(), source_.size(), kAll);
        target_mr_ = reg(target_.data(), target_.size(), kAll);
        word_mr_ = reg(&word_, sizeof word_, kAll);
        ASSERT_TRUE(word_mr_);
        if (GetParam() == Way::kRdmaCm) return;
        const Wiring wiring(client_.id->verbs);
        a_ = make_qp();
        ASSERT_TRUE(a_);
        if (GetParam() == Way::kWiredToItself) {
            wiring.wire(a_.get(), a_->qp_num);
            return;
        }
        b_ = make_qp();
        ASSERT_TRUE(b_);
        wiring.wire(a_.get(), b_->qp_num);
        wiring.wire(b_.get(), a_->qp_num);
    }
    void TearDown() override {
        a_.reset();
        b_.reset();
        DataPairTest::TearDown();
    }

    ibv_qp* from() const { return a_ ? a_.get() : client_.qp(); }
    ibv_qp* to() const { return b_ ? b_.get() : a_ ? a_.get() : server_.qp(); }
    ibv_cq* sends() const { return client_.send_cq; }
    ibv_cq* receives() const { return server_.recv_cq; }

    ibv_send_wr request(ibv_wr_opcode opcode, ibv_sge* sge, std::uint64_t id = 1) const {
        ibv_send_wr wr{};
        wr.wr_id = id;
        wr.opcode = opcode;
        wr.send_flags = IBV_SEND_SIGNALED;
        wr.sg_list = sge;
        wr.num_sge = sge != nullptr ? 1 : 0;
        wr.imm_data = kImm;
        if (opcode == IBV_WR_ATOMIC_CMP_AND_SWP || opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
            wr.wr.atomic.remote_addr = address(&word_);
            wr.wr.atomic.rkey = word_mr_->rkey;
        } else {
            wr.wr.rdma.remote_addr = address(target_.data());
            wr.wr.rdma.rkey = target_mr_->rkey;
        }
        return wr;
    }
    static int post(ibv_qp* qp, ibv_send_wr& wr) {
        ibv_send_wr* bad = nullptr;
        return ibv_post_send(qp, &wr, &bad);
    }
    // Without memory, as NCCL does.
    int post_empty_receive(std::uint64_t id) const {
        ibv_recv_wr wr{}, *bad = nullptr;
        wr.wr_id = id;
        return ibv_post_recv(to(), &wr, &bad);
    }
    ibv_sge source(std::uint32_t length) const { return {address(source_.data()), length, source_mr_->lkey}; }

    ibv_mr* word_mr_ = nullptr;
    alignas(8) std::uint64_t word_ = 0;

  private:
    QpPtr make_qp() {
        ibv_qp_init_attr attr{};
        attr.send_cq = client_.send_cq;
        attr.recv_cq = server_.recv_cq;
        attr.qp_type = IBV_QPT_RC;
        attr.cap = {.max_send_wr = 16, .max_recv_wr = 16, .max_send_sge = 1, .max_recv_sge = 1, .max_inline_data = 64};
        return QpPtr(ibv_create_qp(pd(), &attr));
    }
    QpPtr a_, b_;
};

// The data are there when the receive completes. NCCL: Writes, a last one with immediate data, receives without memory,
// a Read as a flush, an atomic.
TEST_P(Rfc7306, writes_with_immediate) {
    ibv_sge sge = source(4096);
    for (int round = 0; round < 50; ++round) {
        std::memset(source_.data(), round + 1, source_.size());
        ASSERT_EQ(post_empty_receive(7), 0);
        ibv_send_wr write = request(IBV_WR_RDMA_WRITE, &sge);
        write.send_flags = 0;
        ASSERT_EQ(post(from(), write), 0);
        ibv_send_wr last = request(IBV_WR_RDMA_WRITE_WITH_IMM, &sge, 2);
        last.wr.rdma.remote_addr += 4096;
        ASSERT_EQ(post(from(), last), 0);
        const ibv_wc received = next(receives());
        ASSERT_EQ(received.status, IBV_WC_SUCCESS);
        ASSERT_EQ(target_[0], round + 1);
        ASSERT_EQ(target_[8191], round + 1);
        EXPECT_EQ(received.opcode, IBV_WC_RECV_RDMA_WITH_IMM);
        EXPECT_EQ(received.wr_id, 7u);
        EXPECT_EQ(received.byte_len, 4096u);
        EXPECT_EQ(received.wc_flags, static_cast<unsigned>(IBV_WC_WITH_IMM));
        EXPECT_EQ(received.imm_data, kImm);
        const ibv_wc sent = next(sends());
        ASSERT_EQ(sent.status, IBV_WC_SUCCESS);
        EXPECT_EQ(sent.opcode, IBV_WC_RDMA_WRITE);
        EXPECT_EQ(sent.wr_id, 2u);
        ibv_sge one = source(1);
        ibv_send_wr flush = request(IBV_WR_RDMA_READ, &one, 3);
        ASSERT_EQ(post(from(), flush), 0);
        EXPECT_EQ(next(sends()).wr_id, 3u);
        ibv_sge eight = source(8);
        ibv_send_wr add = request(IBV_WR_ATOMIC_FETCH_AND_ADD, &eight, 4);
        add.wr.atomic.compare_add = 3;
        ASSERT_EQ(post(from(), add), 0);
        const ibv_wc added = next(sends());
        ASSERT_EQ(added.status, IBV_WC_SUCCESS);
        EXPECT_EQ(added.opcode, IBV_WC_FETCH_ADD);
        EXPECT_EQ(added.byte_len, 8u);
        std::uint64_t before = 0;
        std::memcpy(&before, source_.data(), sizeof before);
        EXPECT_EQ(before, static_cast<std::uint64_t>(round) * 3);
    }
    EXPECT_EQ(word_, 150u);
}

// brpc uses nothing else.
TEST_P(Rfc7306, sends_with_immediate) {
    for (std::uint32_t round = 0; round < 50; ++round) {
        ibv_sge into{address(target_.data()), 64, target_mr_->lkey};
        ibv_recv_wr wr{}, *bad = nullptr;
        wr.sg_list = &into;
        wr.num_sge = 1;
        ASSERT_EQ(ibv_post_recv(to(), &wr, &bad), 0);
        const std::uint32_t length = round % 65;
        ibv_sge sge = source(length);
        ibv_send_wr send = request(IBV_WR_SEND_WITH_IMM, length != 0 ? &sge : nullptr);
        send.imm_data = round;
        if (round % 2 != 0) send.send_flags |= IBV_SEND_INLINE;
        ASSERT_EQ(post(from(), send), 0);
        const ibv_wc received = next(receives()), sent = next(sends());
        ASSERT_EQ(received.status, IBV_WC_SUCCESS);
        EXPECT_EQ(received.opcode, IBV_WC_RECV);
        EXPECT_EQ(received.byte_len, length);
        EXPECT_EQ(received.wc_flags, static_cast<unsigned>(IBV_WC_WITH_IMM));
        EXPECT_EQ(received.imm_data, round);
        EXPECT_EQ(std::memcmp(source_.data(), target_.data(), length), 0);
        ASSERT_EQ(sent.status, IBV_WC_SUCCESS);
        EXPECT_EQ(sent.opcode, IBV_WC_SEND);
    }
}

TEST_P(Rfc7306, a_request_with_immediate_is_one_of_the_queue) {
    ibv_sge sge = source(8);
    for (int i = 0; i < 16; ++i)
        ASSERT_EQ(post_empty_receive(7), 0);
    for (int i = 0; i < 16; ++i) {
        ibv_send_wr wr = request(IBV_WR_RDMA_WRITE_WITH_IMM, &sge);
        ASSERT_EQ(post(from(), wr), 0) << i;
    }
    for (int i = 0; i < 16; ++i)
        EXPECT_EQ(next(receives()).status, IBV_WC_SUCCESS);
}

TEST_P(Rfc7306, compares_and_swaps) {
    word_ = 5;
    ibv_sge sge = source(8);
    for (const std::uint64_t expected : {5u, 5u}) {
        ibv_send_wr wr = request(IBV_WR_ATOMIC_CMP_AND_SWP, &sge);
        wr.wr.atomic.compare_add = expected;
        wr.wr.atomic.swap = 0x1122334455667788;
        const std::uint64_t was = word_;
        ASSERT_EQ(post(from(), wr), 0);
        const ibv_wc done = next(sends());
        ASSERT_EQ(done.status, IBV_WC_SUCCESS);
        EXPECT_EQ(done.opcode, IBV_WC_COMP_SWAP);
        EXPECT_EQ(std::memcmp(source_.data(), &was, sizeof was), 0);
        EXPECT_EQ(word_, 0x1122334455667788u);
    }
}

TEST_P(Rfc7306, atomics_need_alignment) {
    ibv_sge sge = source(8);
    ibv_send_wr odd = request(IBV_WR_ATOMIC_FETCH_AND_ADD, &sge);
    odd.wr.atomic.remote_addr = address(target_.data()) + 4;
    odd.wr.atomic.rkey = target_mr_->rkey;
    ASSERT_EQ(post(from(), odd), 0);
    EXPECT_EQ(next(sends()).status, IBV_WC_REM_INV_REQ_ERR);
}

TEST_P(Rfc7306, atomics_need_their_right) {
    const ibv_mr* const plain =
        reg(target_.data(), target_.size(), IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE);
    ibv_sge sge = source(8);
    ibv_send_wr wr = request(IBV_WR_ATOMIC_FETCH_AND_ADD, &sge);
    wr.wr.atomic.remote_addr = address(target_.data());
    wr.wr.atomic.rkey = plain->rkey;
    ASSERT_EQ(post(from(), wr), 0);
    EXPECT_EQ(next(sends()).status, IBV_WC_REM_ACCESS_ERR);
}

TEST_P(Rfc7306, an_atomic_on_memory_that_is_gone_ends_the_stream_and_not_the_process) {
    const PageThatGoes page;
    const ibv_mr* const victim = reg(page.data(), page.size(), kAll);
    page.unmap();
    ibv_sge sge = source(8);
    ibv_send_wr wr = request(IBV_WR_ATOMIC_FETCH_AND_ADD, &sge);
    wr.wr.atomic.remote_addr = address(page.data());
    wr.wr.atomic.rkey = victim->rkey;
    ASSERT_EQ(post(from(), wr), 0);
    EXPECT_EQ(next(sends()).status, IBV_WC_REM_ACCESS_ERR);
}

const char* name_of(Way way) {
    return way == Way::kRdmaCm ? "rdma_cm" : way == Way::kWired ? "wired" : "wired_to_itself";
}

INSTANTIATE_TEST_SUITE_P(Way, Rfc7306, testing::Values(Way::kRdmaCm, Way::kWired, Way::kWiredToItself),
                         [](const auto& one) { return name_of(one.param); });

// ---- ibv_wr_*(3), and the readers of extended CQs

class Rfc7306Extended : public DataPairTest {
  protected:
    bool extended() const override { return true; }
};

TEST_F(Rfc7306Extended, every_request) {
    alignas(8) std::uint64_t words[2] = {40, 0};  // target, result
    const ibv_mr* const mr = reg(words, sizeof words, kAll);
    for (std::uint64_t id = 1; id <= 2; ++id)
        receive(id, 64);
    ibv_qp_ex* const qp = ibv_qp_to_qp_ex(client_.qp());
    ibv_wr_start(qp);
    qp->wr_flags = IBV_SEND_SIGNALED;
    qp->wr_id = 1;
    ibv_wr_rdma_write_imm(qp, target_mr_->rkey, address(target_.data()), kImm);
    ibv_wr_set_sge(qp, source_mr_->lkey, address(source_.data()), 100);
    qp->wr_id = 2;
    ibv_wr_send_imm(qp, kImm + 1);
    ibv_wr_set_inline_data(qp, source_.data(), 8);
    qp->wr_id = 3;
    ibv_wr_atomic_fetch_add(qp, mr->rkey, address(words), 2);
    ibv_wr_set_sge(qp, mr->lkey, address(&words[1]), 8);
    qp->wr_id = 4;
    ibv_wr_atomic_cmp_swp(qp, mr->rkey, address(words), 42, 7);
    ibv_wr_set_sge(qp, mr->lkey, address(&words[1]), 8);
    ASSERT_EQ(ibv_wr_complete(qp), 0);
    constexpr ibv_wc_opcode kOpcodes[] = {IBV_WC_RDMA_WRITE, IBV_WC_SEND, IBV_WC_FETCH_ADD, IBV_WC_COMP_SWAP};
    for (const ibv_wc_opcode opcode : kOpcodes) {
        const ibv_wc done = next(client_.send_cq);
        ASSERT_EQ(done.status, IBV_WC_SUCCESS);
        EXPECT_EQ(done.opcode, opcode);
    }
    EXPECT_EQ(words[0], 7u);
    EXPECT_EQ(words[1], 42u);
    ibv_cq_ex* const cq = reinterpret_cast<ibv_cq_ex*>(server_.recv_cq);
    ibv_poll_cq_attr attr{};
    ASSERT_EQ(ibv_start_poll(cq, &attr), 0);
    EXPECT_EQ(ibv_wc_read_opcode(cq), IBV_WC_RECV_RDMA_WITH_IMM);
    EXPECT_EQ(ibv_wc_read_imm_data(cq), kImm);
    EXPECT_EQ(ibv_wc_read_byte_len(cq), 100u);
    ASSERT_EQ(ibv_next_poll(cq), 0);
    EXPECT_EQ(ibv_wc_read_opcode(cq), IBV_WC_RECV);
    EXPECT_EQ(ibv_wc_read_imm_data(cq), kImm + 1);
    EXPECT_EQ(ibv_wc_read_wc_flags(cq), static_cast<unsigned>(IBV_WC_WITH_IMM));
    ibv_end_poll(cq);
}

// ---- a solicited event, and a shared queue

class Rfc7306Shared : public DataPairTest {
  protected:
    bool shares(const Side& side) const override { return &side == &server_; }
};

TEST_F(Rfc7306Shared, receives_come_from_the_shared_queue) {
    for (std::uint64_t id = 1; id <= 2; ++id) {
        ibv_recv_wr wr{}, *bad = nullptr;
        wr.wr_id = id;
        ASSERT_EQ(ibv_post_srq_recv(server_.srq, &wr, &bad), 0);
    }
    ASSERT_EQ(ibv_req_notify_cq(server_.recv_cq, 1), 0);
    for (const ibv_wr_opcode opcode : {IBV_WR_RDMA_WRITE_WITH_IMM, IBV_WR_SEND_WITH_IMM}) {
        ibv_send_wr wr{}, *bad = nullptr;
        wr.opcode = opcode;
        wr.send_flags = IBV_SEND_SIGNALED | IBV_SEND_SOLICITED;
        wr.imm_data = kImm;
        ASSERT_EQ(ibv_post_send(client_.qp(), &wr, &bad), 0);
        ibv_cq* told = nullptr;
        void* context = nullptr;
        ASSERT_EQ(ibv_get_cq_event(server_.channel, &told, &context), 0);
        ibv_ack_cq_events(told, 1);
        ASSERT_EQ(ibv_req_notify_cq(server_.recv_cq, 1), 0);
        const ibv_wc done = next(server_.recv_cq);
        EXPECT_EQ(done.status, IBV_WC_SUCCESS);
        EXPECT_EQ(done.imm_data, kImm);
    }
}

// ---- an older end

// Under a shim of an older version, as tests/shim/abi_test.sh starts it, nothing is agreed on.
class OlderEnd : public DataPairTest {
  protected:
    void SetUp() override {
        if (std::getenv("SWRNIC_TEST_OLDER_END") == nullptr) GTEST_SKIP() << "the shim is of this version";
        DataPairTest::SetUp();
    }
};

TEST_F(OlderEnd, is_sent_nothing_that_it_does_not_know) {
    testing::internal::CaptureStderr();
    for (const ibv_wr_opcode opcode :
         {IBV_WR_RDMA_WRITE_WITH_IMM, IBV_WR_SEND_WITH_IMM, IBV_WR_ATOMIC_CMP_AND_SWP, IBV_WR_ATOMIC_FETCH_AND_ADD}) {
        ibv_sge sge{address(source_.data()), 8, source_mr_->lkey};
        ibv_send_wr wr{}, *bad = nullptr;
        wr.opcode = opcode;
        wr.sg_list = &sge;
        wr.num_sge = 1;
        EXPECT_EQ(ibv_post_send(client_.qp(), &wr, &bad), EOPNOTSUPP) << opcode;
        EXPECT_EQ(bad, &wr);
    }
    const std::string told = testing::internal::GetCapturedStderr();
    EXPECT_NE(told.find("immediate data and atomics need"), told.npos) << told;
    EXPECT_EQ(told.find("refused", told.find("refused") + 1), told.npos) << "more than one warning: " << told;
    receive(7, 8);
    ibv_send_wr wr{}, *bad = nullptr;
    wr.opcode = IBV_WR_SEND;
    ASSERT_EQ(ibv_post_send(client_.qp(), &wr, &bad), 0);
    EXPECT_EQ(next(server_.recv_cq).wr_id, 7u);
}

class Rfc7306Wired : public DeviceTest {};

// Of a QP that is wired by hand the flags mean what they say.
TEST_F(Rfc7306Wired, a_wired_qp_grants_what_was_asked) {
    alignas(8) std::uint64_t words[2] = {};
    const MrPtr memory(ibv_reg_mr(pd_.get(), words, sizeof words, kAll));
    const CqPtr cq = make_cq();
    const QpPtr from = make_qp(cq.get()), to = make_qp(cq.get());
    const Wiring wiring(context_.get());
    wiring.wire(from.get(), to->qp_num);
    wiring.wire(to.get(), from->qp_num, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ);
    ibv_sge sge{reinterpret_cast<std::uintptr_t>(&words[1]), 8, memory->lkey};
    ibv_send_wr wr{}, *bad = nullptr;
    wr.opcode = IBV_WR_ATOMIC_FETCH_AND_ADD;
    wr.sg_list = &sge;
    wr.num_sge = 1;
    wr.wr.atomic.remote_addr = reinterpret_cast<std::uintptr_t>(words);
    wr.wr.atomic.rkey = memory->rkey;
    ASSERT_EQ(ibv_post_send(from.get(), &wr, &bad), 0);
    ibv_wc wc{};
    while (ibv_poll_cq(cq.get(), 1, &wc) == 0) {
    }
    EXPECT_EQ(wc.status, IBV_WC_REM_ACCESS_ERR);
    EXPECT_EQ(words[0], 0u);
}

}  // namespace
}  // namespace swrnic::test
