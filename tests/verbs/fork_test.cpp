// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// A forked child finds its parent's objects dead, may open the device afresh, and disturbs nothing.
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
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

}  // namespace
}  // namespace swrnic::test
