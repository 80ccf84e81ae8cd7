// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// A forked child finds its parent's objects dead, may open the device afresh, and disturbs nothing.
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "pair.h"

namespace swrnic::test {
namespace {

// The child's verdict as an exit code: 0, or the number of the check that failed. No gtest in the child.
int child_of(ibv_qp* qp, ibv_cq* cq) {
    ibv_send_wr wr{};
    ibv_send_wr* bad = nullptr;
    ibv_wc wc{};
    if (ibv_post_send(qp, &wr, &bad) != EIO || bad != &wr) return 1;
    if (ibv_poll_cq(cq, 1, &wc) >= 0) return 2;
    if (ibv_alloc_pd(qp->context) != nullptr || errno != EIO) return 3;
    ibv_device** list = ibv_get_device_list(nullptr);
    if (!list || !list[0]) return 4;
    ibv_context* fresh = ibv_open_device(list[0]);
    if (!fresh) return 5;
    ibv_pd* pd = ibv_alloc_pd(fresh);
    if (!pd) return 6;
    if (ibv_dealloc_pd(pd) != 0 || ibv_close_device(fresh) != 0) return 7;
    return 0;
}

using Fork = PairTest;

// Half a page is registered. A child may use all of it: nothing is pinned, so that nothing has to be kept from it.
TEST_F(Fork, child_has_a_copy_of_registered_pages) {
    if (std::getenv("LD_PRELOAD") == nullptr) GTEST_SKIP() << "over the kernel libibverbs decides alone";
    EXPECT_EQ(ibv_fork_init(), 0);
    EXPECT_EQ(ibv_is_fork_initialized(), IBV_FORK_UNNEEDED);
    constexpr std::size_t kPage = 4096;
    void* const page = ::mmap(nullptr, kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ASSERT_NE(page, MAP_FAILED);
    auto* const octets = static_cast<char*>(page);
    ibv_mr* const mr = ibv_reg_mr(client_.id->pd, octets + kPage / 2, kPage / 2, IBV_ACCESS_LOCAL_WRITE);
    ASSERT_NE(mr, nullptr);
    octets[0] = octets[kPage - 1] = 'p';
    const pid_t child = ::fork();
    if (child == 0) {
        const bool copied = octets[0] == 'p' && octets[kPage - 1] == 'p';
        octets[0] = octets[kPage - 1] = 'c';
        ::_exit(copied ? 0 : 1);
    }
    ASSERT_GT(child, 0);
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << "status " << status;
    EXPECT_EQ(octets[0], 'p');
    EXPECT_EQ(octets[kPage - 1], 'p');
    EXPECT_EQ(ibv_dereg_mr(mr), 0);
    ::munmap(page, kPage);
}

TEST_F(Fork, child_is_cut_off_and_parent_goes_on) {
    const pid_t child = ::fork();
    if (child == 0) ::_exit(child_of(client_.qp(), client_.send_cq));
    ASSERT_GT(child, 0);
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFEXITED(status));
    EXPECT_EQ(WEXITSTATUS(status), 0);

    EXPECT_EQ(state(client_.qp()), IBV_QPS_RTS);
    ibv_recv_wr receive{};
    ibv_recv_wr* bad_receive = nullptr;
    ASSERT_EQ(ibv_post_recv(server_.qp(), &receive, &bad_receive), 0);
    ibv_send_wr wr{};
    wr.opcode = IBV_WR_SEND;
    wr.send_flags = IBV_SEND_SIGNALED;
    ibv_send_wr* bad = nullptr;
    ASSERT_EQ(ibv_post_send(client_.qp(), &wr, &bad), 0);
    EXPECT_EQ(next(client_.send_cq).status, IBV_WC_SUCCESS);
    EXPECT_EQ(next(server_.recv_cq).status, IBV_WC_SUCCESS);
}

// The keys of eight regions that a child registers; empty if it could not.
std::vector<std::uint32_t> keys_of_a_child() {
    std::array<int, 2> ends{};
    if (::pipe(ends.data()) != 0) return {};
    const pid_t child = ::fork();
    if (child == 0) {
        std::array<std::uint32_t, 8> keys{};
        static std::array<char, 64> memory;
        ibv_device** list = ibv_get_device_list(nullptr);
        ibv_context* context = list && list[0] ? ibv_open_device(list[0]) : nullptr;
        ibv_pd* pd = context ? ibv_alloc_pd(context) : nullptr;
        for (std::uint32_t& key : keys) {
            ibv_mr* mr = pd ? ibv_reg_mr(pd, memory.data(), memory.size(), IBV_ACCESS_REMOTE_READ) : nullptr;
            if (!mr) ::_exit(1);
            key = mr->rkey;
        }
        ::_exit(::write(ends[1], keys.data(), sizeof(keys)) == sizeof(keys) ? 0 : 1);
    }
    ::close(ends[1]);
    std::vector<std::uint32_t> keys(8);
    const ssize_t got = ::read(ends[0], keys.data(), 8 * sizeof(std::uint32_t));
    ::close(ends[0]);
    int status = 0;
    const bool good = child > 0 && ::waitpid(child, &status, 0) == child && status == 0;
    return good && got == 8 * static_cast<ssize_t>(sizeof(std::uint32_t)) ? keys : std::vector<std::uint32_t>{};
}

// SEC-4: as like one another as two processes can be, and yet nobody learns the keys of one from the other.
TEST_F(Fork, processes_that_start_alike_have_other_keys) {
    std::vector<std::uint32_t> first = keys_of_a_child(), second = keys_of_a_child();
    ASSERT_EQ(first.size(), 8u);
    ASSERT_EQ(second.size(), 8u);
    std::sort(first.begin(), first.end());
    int common = 0;
    for (const std::uint32_t key : second)
        common += std::binary_search(first.begin(), first.end(), key);
    EXPECT_LT(common, 2);  // one may be chance
}

struct Verb {
    const char* name;
    std::function<bool()> answers_eio;
};

// What a child does with everything that its parent has made. Each in a child of its own: none may end it by a signal.
class ForkedChild : public PairTest {
  protected:
    bool extended() const override { return true; }
    bool shares(const Side& side) const override { return &side == &server_; }
};

TEST_F(ForkedChild, every_verb_answers_eio) {
    ibv_context* const context = client_.id->verbs;
    ibv_pd* const domain = pd();
    std::array<char, 64> memory{};
    ibv_mr* const mr = reg(memory.data(), memory.size(), IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND);
    ibv_mw* const mw = ibv_alloc_mw(domain, IBV_MW_TYPE_1);
    ibv_td_init_attr td_attr{};
    ibv_td* const td = ibv_alloc_td(context, &td_attr);
    ASSERT_TRUE(mr && mw && td);
    ibv_cq_ex* const cq = reinterpret_cast<ibv_cq_ex*>(client_.send_cq);
    ibv_qp_ex* const qp = ibv_qp_to_qp_ex(client_.qp());
    ASSERT_TRUE(qp);
    const auto none = [](const void* made) { return made == nullptr && errno == EIO; };
    const Verb verbs[] = {
        {"alloc_mw", [&] { return none(ibv_alloc_mw(domain, IBV_MW_TYPE_1)); }},
        {"dealloc_mw", [&] { return ibv_dealloc_mw(mw) == EIO; }},
        {"bind_mw",
         [&] {
             ibv_mw_bind bind{};
             bind.bind_info.mr = mr;
             return ibv_bind_mw(client_.qp(), mw, &bind) == EIO;
         }},
        {"alloc_td",
         [&] {
             ibv_td_init_attr attr{};
             return none(ibv_alloc_td(context, &attr));
         }},
        {"dealloc_td", [&] { return ibv_dealloc_td(td) == EIO; }},
        {"alloc_parent_domain",
         [&] {
             ibv_parent_domain_init_attr attr{};
             attr.pd = domain;
             return none(ibv_alloc_parent_domain(context, &attr));
         }},
        {"create_srq",
         [&] {
             ibv_srq_init_attr attr{};
             attr.attr = {.max_wr = 1, .max_sge = 1, .srq_limit = 0};
             return none(ibv_create_srq(domain, &attr));
         }},
        {"modify_srq",
         [&] {
             ibv_srq_attr attr{};
             return ibv_modify_srq(server_.srq, &attr, IBV_SRQ_LIMIT) == EIO;
         }},
        {"query_srq",
         [&] {
             ibv_srq_attr attr{};
             return ibv_query_srq(server_.srq, &attr) == EIO;
         }},
        {"destroy_srq", [&] { return ibv_destroy_srq(server_.srq) == EIO; }},
        {"post_srq_recv",
         [&] {
             ibv_recv_wr wr{}, *bad = nullptr;
             return ibv_post_srq_recv(server_.srq, &wr, &bad) == EIO && bad == &wr;
         }},
        {"create_cq_ex",
         [&] {
             ibv_cq_init_attr_ex attr{};
             attr.cqe = 4;
             return none(ibv_create_cq_ex(context, &attr));
         }},
        {"resize_cq", [&] { return ibv_resize_cq(client_.send_cq, 128) == EIO; }},
        {"create_qp_ex",
         [&] {
             ibv_qp_init_attr_ex attr{};
             attr.comp_mask = IBV_QP_INIT_ATTR_PD;
             attr.pd = domain;
             attr.send_cq = attr.recv_cq = client_.send_cq;
             attr.qp_type = IBV_QPT_RC;
             attr.cap = {
                 .max_send_wr = 1, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1, .max_inline_data = 0};
             return none(ibv_create_qp_ex(context, &attr));
         }},
        {"query_qp",
         [&] {
             ibv_qp_attr attr{};
             ibv_qp_init_attr made{};
             return ibv_query_qp(client_.qp(), &attr, IBV_QP_STATE, &made) == EIO;
         }},
        {"rereg_mr",
         [&] {
             return ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_ACCESS, nullptr, nullptr, 0, IBV_ACCESS_LOCAL_WRITE) != 0 &&
                    errno == EIO;
         }},
        {"start_poll",
         [&] {
             ibv_poll_cq_attr attr{};
             return ibv_start_poll(cq, &attr) == EIO;
         }},
        {"wr_complete",
         [&] {
             ibv_wr_start(qp);
             ibv_wr_send(qp);
             ibv_wr_set_sge(qp, mr->lkey, 0, 0);
             return ibv_wr_complete(qp) == EIO;
         }},
        {"wr_abort",
         [&] {
             ibv_wr_start(qp);
             ibv_wr_rdma_write(qp, 1, 1);
             ibv_wr_set_inline_data(qp, memory.data(), 1);
             ibv_wr_abort(qp);
             return true;
         }},
    };
    for (const Verb& verb : verbs) {
        const pid_t child = ::fork();
        if (child == 0) ::_exit(verb.answers_eio() ? 0 : 1);
        int status = 0;
        ASSERT_EQ(::waitpid(child, &status, 0), child);
        EXPECT_EQ(status, 0) << verb.name;
    }
    EXPECT_EQ(ibv_dealloc_mw(mw), 0);
    EXPECT_EQ(ibv_dealloc_td(td), 0);
}

TEST_F(ForkedChild, says_why_once) {
    std::array<int, 2> ends{};
    ASSERT_EQ(::pipe(ends.data()), 0);
    const pid_t child = ::fork();
    if (child == 0) {
        ::dup2(ends[1], STDERR_FILENO);
        for (int i = 0; i < 3; ++i)
            static_cast<void>(ibv_alloc_pd(client_.id->verbs));
        ::_exit(ibv_resize_cq(client_.send_cq, 4) == EIO ? 0 : 1);
    }
    ::close(ends[1]);
    std::string said;
    std::array<char, 512> piece;
    for (ssize_t got; (got = ::read(ends[0], piece.data(), piece.size())) > 0;)
        said.append(piece.data(), static_cast<std::size_t>(got));
    ::close(ends[0]);
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
    EXPECT_NE(said.find("forked child"), std::string::npos) << said;
    EXPECT_EQ(std::count(said.begin(), said.end(), '\n'), 1) << said;
}

// As servers do that start a program for each request. What a child finds must be whole, whatever other threads make.
TEST_F(Fork, children_live_while_other_threads_make_queue_pairs) {
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
    GTEST_SKIP() << "a sanitizer's own fork is too slow for so many";
#endif
    std::atomic<bool> stop{false};
    const auto make = [&] {
        CqPtr cq(ibv_create_cq(client_.id->verbs, 16, nullptr, nullptr, 0));
        std::array<QpPtr, 64> made;
        ibv_qp_init_attr attr{};
        attr.send_cq = attr.recv_cq = cq.get();
        attr.qp_type = IBV_QPT_RC;
        attr.cap = {.max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1, .max_inline_data = 0};
        for (std::size_t i = 0; !stop; i = (i * 5 + 1) % made.size()) {
            if (!made[i])
                made[i].reset(ibv_create_qp(pd(), &attr));
            else
                made[i].reset();
        }
    };
    std::thread one(make), other(make);
    int died = 0;
    for (int i = 0; i < 300; ++i) {
        const pid_t child = ::fork();
        if (child == 0) ::_exit(0);
        int status = 0;
        died += ::waitpid(child, &status, 0) == child && status == 0 ? 0 : 1;
    }
    stop = true;
    one.join();
    other.join();
    EXPECT_EQ(died, 0);
}

}  // namespace
}  // namespace swrnic::test
