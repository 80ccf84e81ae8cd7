// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Registered memory that the program unmaps or protects: who uses it loses the connection, and the process lives.
#include <signal.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>
#include <string>
#include <tuple>
#include <utility>

#include "pair.h"

namespace swrnic::test {
namespace {

enum class Use { kWriteTo, kReadFrom, kSendInto, kSendIntoShared, kSendOut, kWriteOut };

std::string name_of(Use use) {
    switch (use) {
        case Use::kWriteTo:
            return "write_to";
        case Use::kReadFrom:
            return "read_from";
        case Use::kSendInto:
            return "send_into";
        case Use::kSendIntoShared:
            return "send_into_shared";
        case Use::kSendOut:
            return "send_out";
        case Use::kWriteOut:
            return "write_out";
    }
    return {};
}

constexpr int kAll = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;

class MappedMemory {
  public:
    explicit MappedMemory(std::size_t length)
        : length_(length),
          at_(static_cast<char*>(mmap(nullptr, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0))) {}
    ~MappedMemory() { unmap(); }
    MappedMemory(const MappedMemory&) = delete;
    MappedMemory& operator=(const MappedMemory&) = delete;
    void unmap() {
        if (at_ != nullptr) munmap(std::exchange(at_, nullptr), length_);
    }
    char* data() const { return at_; }
    std::size_t size() const { return length_; }

  private:
    const std::size_t length_;
    char* at_;
};

class MemoryPair : public PairTest {
  protected:
    void check_crc(bool crc) { ASSERT_EQ(::setenv("SWRNIC_CRC", crc ? "on" : "off", 1), 0); }
    // The client's.
    void post(ibv_wr_opcode opcode, const ibv_mr& local, std::uint32_t length, const ibv_mr& remote) {
        ibv_sge sge{address(local.addr), length, local.lkey};
        ibv_send_wr wr{}, *bad = nullptr;
        wr.opcode = opcode;
        wr.send_flags = IBV_SEND_SIGNALED;
        wr.sg_list = &sge;
        wr.num_sge = 1;
        wr.wr.rdma = {address(remote.addr), remote.rkey};
        ASSERT_EQ(ibv_post_send(client_.qp(), &wr, &bad), 0);
    }
    void receive(const ibv_mr& into, std::uint32_t length) {
        ibv_sge sge{address(into.addr), length, into.lkey};
        ibv_recv_wr wr{}, *bad = nullptr;
        wr.sg_list = &sge;
        wr.num_sge = 1;
        if (server_.srq != nullptr) {
            ASSERT_EQ(ibv_post_srq_recv(server_.srq, &wr, &bad), 0);
        } else {
            ASSERT_EQ(ibv_post_recv(server_.qp(), &wr, &bad), 0);
        }
    }
    static std::uint64_t address(const void* of) { return reinterpret_cast<std::uintptr_t>(of); }
};

class GoneMemory : public MemoryPair, public testing::WithParamInterface<std::tuple<Use, std::uint32_t, bool>> {
  protected:
    void SetUp() override {
        check_crc(std::get<2>(GetParam()));
        PairTest::SetUp();
    }
    bool shares(const Side& side) const override {
        return &side == &server_ && std::get<0>(GetParam()) == Use::kSendIntoShared;
    }
};

TEST_P(GoneMemory, ends_the_stream_and_not_the_process) {
    const auto [use, length, crc] = GetParam();
    const MappedMemory good(length);
    MappedMemory gone(length);
    ibv_mr* const here = reg(good.data(), length, kAll);
    ibv_mr* const victim = reg(gone.data(), length, kAll);
    ASSERT_TRUE(here && victim);
    gone.unmap();
    switch (use) {
        case Use::kWriteTo:
            post(IBV_WR_RDMA_WRITE, *here, length, *victim);
            next(client_.send_cq);
            break;
        case Use::kReadFrom:
            post(IBV_WR_RDMA_READ, *here, length, *victim);
            EXPECT_EQ(next(client_.send_cq).status, IBV_WC_REM_ACCESS_ERR);
            break;
        case Use::kSendInto:
        case Use::kSendIntoShared:
            receive(*victim, length);
            post(IBV_WR_SEND, *here, length, *here);
            EXPECT_EQ(next(server_.recv_cq).status, IBV_WC_LOC_PROT_ERR);
            break;
        case Use::kSendOut:
            receive(*here, length);
            post(IBV_WR_SEND, *victim, length, *here);
            EXPECT_EQ(next(client_.send_cq).status, IBV_WC_LOC_PROT_ERR);
            break;
        case Use::kWriteOut:
            post(IBV_WR_RDMA_WRITE, *victim, length, *here);
            EXPECT_EQ(next(client_.send_cq).status, IBV_WC_LOC_PROT_ERR);
            break;
    }
    EXPECT_EQ(wait_event(), RDMA_CM_EVENT_DISCONNECTED);
    EXPECT_EQ(wait_event(), RDMA_CM_EVENT_DISCONNECTED);
    EXPECT_EQ(state(client_.qp()), IBV_QPS_ERR);
    EXPECT_EQ(state(server_.qp()), IBV_QPS_ERR);
}

// Copied from staging, in pieces and as a whole; read to its place, in one FPDU and in many.
constexpr std::uint32_t kSizes[] = {64, 4096, 65536, 300000};

std::string gone_name(const testing::TestParamInfo<GoneMemory::ParamType>& test) {
    const auto [use, length, crc] = test.param;
    return name_of(use) + "_" + std::to_string(length) + (crc ? "_crc" : "");
}
INSTANTIATE_TEST_SUITE_P(, GoneMemory,
                         testing::Combine(testing::Values(Use::kWriteTo, Use::kReadFrom, Use::kSendInto,
                                                          Use::kSendIntoShared, Use::kSendOut, Use::kWriteOut),
                                          testing::ValuesIn(kSizes), testing::Bool()),
                         gone_name);

// A collector of garbage learns by it what has changed.
char* barrier;
std::size_t barrier_length;
volatile sig_atomic_t lifted;
void lift(int, siginfo_t* info, void*) {
    const auto at = reinterpret_cast<std::uintptr_t>(info->si_addr);
    const auto start = reinterpret_cast<std::uintptr_t>(barrier);
    if (at < start || at >= start + barrier_length) _Exit(1);
    lifted = lifted + 1;
    mprotect(barrier, barrier_length, PROT_READ | PROT_WRITE);
}

class WriteBarrier : public MemoryPair, public testing::WithParamInterface<std::tuple<std::uint32_t, bool>> {
  protected:
    void SetUp() override {
        check_crc(std::get<1>(GetParam()));
        PairTest::SetUp();
    }
};

TEST_P(WriteBarrier, runs_for_what_the_peer_writes) {
    const std::uint32_t length = std::get<0>(GetParam());
    const MappedMemory from(length), to(length);
    ibv_mr* const here = reg(from.data(), length, kAll);
    ibv_mr* const there = reg(to.data(), length, kAll);
    ASSERT_TRUE(here && there);
    std::fill_n(from.data(), length, 'x');
    barrier = to.data();
    barrier_length = to.size();
    struct sigaction action {};
    struct sigaction before {};
    action.sa_sigaction = &lift;
    action.sa_flags = SA_SIGINFO;
    ASSERT_EQ(sigaction(SIGSEGV, &action, &before), 0);
    for (int round = 1; round <= 3; ++round) {
        ASSERT_EQ(mprotect(to.data(), to.size(), PROT_READ), 0);
        post(IBV_WR_RDMA_WRITE, *here, length, *there);
        EXPECT_EQ(next(client_.send_cq).status, IBV_WC_SUCCESS);
        receive(*here, 0);
        post(IBV_WR_SEND, *here, 0, *here);
        EXPECT_EQ(next(client_.send_cq).status, IBV_WC_SUCCESS);
        EXPECT_EQ(next(server_.recv_cq).status, IBV_WC_SUCCESS);
        EXPECT_EQ(lifted, round);
        EXPECT_EQ(std::count(to.data(), to.data() + length, 'x'), static_cast<std::ptrdiff_t>(length));
        std::fill_n(to.data(), length, '-');
    }
    EXPECT_EQ(sigaction(SIGSEGV, &before, nullptr), 0);
}

std::string barrier_name(const testing::TestParamInfo<WriteBarrier::ParamType>& test) {
    const auto [length, crc] = test.param;
    return "octets_" + std::to_string(length) + (crc ? "_crc" : "");
}
INSTANTIATE_TEST_SUITE_P(, WriteBarrier, testing::Combine(testing::ValuesIn(kSizes), testing::Bool()), barrier_name);

}  // namespace
}  // namespace swrnic::test
