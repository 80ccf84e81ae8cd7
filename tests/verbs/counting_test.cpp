// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Atomics of many QPs, done by the engines of two processes, and the processor's own, on one word (RDMAP-51).
#include <sys/mman.h>

#include <array>
#include <atomic>
#include <cstdlib>
#include <thread>
#include <vector>

#include "other_process.h"
#include "wiring.h"

namespace swrnic::test {
namespace {

constexpr std::size_t kPairs = 4;  // of QPs: one in each process

// What both processes have mapped. Each engine does the other process's atomics.
struct Shared {
    alignas(64) std::uint64_t word;
};

struct Ends {
    std::array<WiredEnd, kPairs> qps;
    std::uint64_t address;
    std::uint32_t rkey;
};

// One process's QPs, with a CQ and a thread for each.
class Counters {
  public:
    bool open(Shared& shared) {
        context_ = open_device();
        if (!context_) return false;
        pd_.reset(ibv_alloc_pd(context_.get()));
        word_.reset(ibv_reg_mr(pd_.get(), &shared, sizeof shared, chosen_.access));
        results_mr_.reset(ibv_reg_mr(pd_.get(), results_.data(), sizeof results_, IBV_ACCESS_LOCAL_WRITE));
        chosen_.gid_index = ipv4_index(context_.get());
        for (std::size_t i = 0; i < kPairs; ++i) {
            cqs_[i].reset(ibv_create_cq(context_.get(), 2 * kInFlight, nullptr, nullptr, 0));
            ibv_qp_init_attr attr{};
            attr.send_cq = attr.recv_cq = cqs_[i].get();
            attr.qp_type = IBV_QPT_RC;
            attr.cap = {
                .max_send_wr = kInFlight, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1, .max_inline_data = 0};
            qps_[i].reset(ibv_create_qp(pd_.get(), &attr));
            if (!qps_[i]) return false;
        }
        return word_ && results_mr_;
    }
    Ends ends() const {
        Ends ends{{}, reinterpret_cast<std::uintptr_t>(word_->addr), word_->rkey};
        for (std::size_t i = 0; i < kPairs; ++i)
            ends.qps[i] = {gid_at(context_.get(), chosen_.gid_index), qps_[i]->qp_num};
        return ends;
    }
    bool wire(const Ends& peer) {
        for (std::size_t i = 0; i < kPairs; ++i)
            if (test::wire(qps_[i].get(), chosen_, peer.qps[i]) != 0) return false;
        return true;
    }
    // Adds 1 by each QP, so often; the number of requests that failed.
    std::uint64_t count(const Ends& peer, std::uint64_t each) {
        std::atomic<std::uint64_t> failures{0};
        std::vector<std::thread> threads;
        for (std::size_t i = 0; i < kPairs; ++i)
            threads.emplace_back([&, i] { failures += count_by(i, peer, each); });
        for (std::thread& thread : threads)
            thread.join();
        return failures;
    }

  private:
    static constexpr int kInFlight = 8;

    std::uint64_t count_by(std::size_t i, const Ends& peer, std::uint64_t each) {
        std::uint64_t posted = 0, done = 0, failures = 0;
        while (done < each && failures == 0) {
            for (; posted < each && posted - done < kInFlight; ++posted) {
                ibv_sge sge{reinterpret_cast<std::uintptr_t>(&results_[i]), sizeof results_[i], results_mr_->lkey};
                ibv_send_wr wr{}, *bad = nullptr;
                wr.opcode = IBV_WR_ATOMIC_FETCH_AND_ADD;
                wr.send_flags = IBV_SEND_SIGNALED;
                wr.sg_list = &sge;
                wr.num_sge = 1;
                wr.wr.atomic.remote_addr = peer.address;
                wr.wr.atomic.rkey = peer.rkey;
                wr.wr.atomic.compare_add = 1;
                if (ibv_post_send(qps_[i].get(), &wr, &bad) != 0) return failures + 1;
            }
            std::array<ibv_wc, kInFlight> wc;
            const int found = ibv_poll_cq(cqs_[i].get(), kInFlight, wc.data());
            for (int n = 0; n < found; ++n)
                failures += wc[static_cast<std::size_t>(n)].status != IBV_WC_SUCCESS ? 1 : 0;
            done += static_cast<std::uint64_t>(std::max(found, 0));
            if (found == 0) std::this_thread::yield();  // startup has a thread of its own
        }
        return failures;
    }

    ContextPtr context_;
    PdPtr pd_;
    MrPtr word_, results_mr_;
    std::array<CqPtr, kPairs> cqs_;
    std::array<QpPtr, kPairs> qps_;
    std::array<std::uint64_t, kPairs> results_{};
    Wiring chosen_{.timeout = 18, .access = kAllAccess | IBV_ACCESS_REMOTE_ATOMIC};
};

std::uint64_t wished() {
    const char* const wish = std::getenv("SWRNIC_TEST_ATOMICS");
    return wish != nullptr ? std::strtoull(wish, nullptr, 10) : 100'000;
}

int count_in_the_other_process(Talk& talk, Shared& shared, std::uint64_t each) {
    Counters here;
    Ends peer{};
    if (!here.open(shared) || !talk.tell(here.ends()) || !talk.hear(peer) || !here.wire(peer)) return 1;
    const std::uint64_t failures = here.count(peer, each);
    bool peer_is_done = false;
    return talk.tell(failures) && talk.hear(peer_is_done) ? 0 : 2;
}

TEST(Counting, nothing_is_lost) {
    auto* const shared =
        static_cast<Shared*>(mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
    ASSERT_NE(static_cast<void*>(shared), MAP_FAILED);
    constexpr std::uint64_t kCounting = 2 * kPairs + 1;  // the processor as well
    const std::uint64_t each = wished() / kCounting;
    OtherProcess other([&](Talk& talk) { return count_in_the_other_process(talk, *shared, each); });
    Counters here;
    Ends peer{};
    ASSERT_TRUE(other.talk.hear(peer));
    ASSERT_TRUE(here.open(*shared) && other.talk.tell(here.ends()) && here.wire(peer));
    std::thread processor([&] {
        for (std::uint64_t n = 0; n < each; ++n)
            std::atomic_ref(shared->word).fetch_add(1);
    });
    EXPECT_EQ(here.count(peer, each), 0u);
    processor.join();
    std::uint64_t failures_there = 0;
    ASSERT_TRUE(other.talk.hear(failures_there));
    EXPECT_EQ(failures_there, 0u);
    EXPECT_EQ(std::atomic_ref(shared->word).load(), each * kCounting);
    EXPECT_TRUE(other.talk.tell(true));
    EXPECT_EQ(other.wait(), 0);
    munmap(shared, sizeof *shared);
}

}  // namespace
}  // namespace swrnic::test
