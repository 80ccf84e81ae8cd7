// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// A program that closes all descriptors it does not know, as daemons do, under a connection.
#include <arpa/inet.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <chrono>
#include <thread>

#include "pair.h"
#include "thread_state.h"

namespace swrnic::test {
namespace {

constexpr int kFirst = 3, kHighest = 512;

enum class Way { kRange, kUpwards, kDownwards };

const char* name_of(Way way) {
    constexpr const char* kNames[] = {"range", "upwards", "downwards"};
    return kNames[static_cast<int>(way)];
}

void close_everything(Way way) {
    if (way == Way::kRange) ::close_range(kFirst, ~0u, 0);
    for (int fd = kFirst; way == Way::kUpwards && fd <= kHighest; ++fd)
        ::close(fd);
    for (int fd = kHighest; way == Way::kDownwards && fd >= kFirst; --fd)
        ::close(fd);
}

class ClosedByTheProgram : public PairTest, public testing::WithParamInterface<Way> {
  protected:
    // What is left is left to the end of the process: the numbers that libibverbs would close are the files' now.
    void TearDown() override {}
};

TEST_P(ClosedByTheProgram, is_quiet_writes_nothing_and_may_begin_anew) {
    close_everything(GetParam());
    // On all the numbers that are free: the program's own files.
    std::vector<int> files;
    for (int i = 0; i < 64; ++i)
        files.push_back(::memfd_create("the program's", MFD_CLOEXEC));
    ibv_send_wr wr{};
    wr.opcode = IBV_WR_SEND;
    wr.send_flags = IBV_SEND_SIGNALED;
    ibv_send_wr* bad = nullptr;
    for (int i = 0; i < 4; ++i)
        ibv_post_send(client_.qp(), &wr, &bad);
    ibv_wc wc{};
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(5);
    bool quiet = false;
    while (!quiet && std::chrono::steady_clock::now() < deadline) {
        ibv_poll_cq(client_.send_cq, 1, &wc);
        quiet = engine_threads_sleep();
    }
    EXPECT_TRUE(quiet);

    const ContextPtr fresh = open_device();
    ASSERT_TRUE(fresh);
    EXPECT_TRUE(PdPtr(ibv_alloc_pd(fresh.get())));
    rdma_event_channel* channel = rdma_create_event_channel();
    ASSERT_TRUE(channel);
    rdma_cm_id* listener = nullptr;
    ASSERT_EQ(rdma_create_id(channel, &listener, nullptr, RDMA_PS_TCP), 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    ASSERT_EQ(rdma_bind_addr(listener, reinterpret_cast<sockaddr*>(&address)), 0);
    EXPECT_EQ(rdma_listen(listener, 1), 0);
    for (const int file : files)
        EXPECT_EQ(::lseek(file, 0, SEEK_END), 0) << "file " << file;
}
INSTANTIATE_TEST_SUITE_P(Ways, ClosedByTheProgram, testing::Values(Way::kRange, Way::kUpwards, Way::kDownwards),
                         [](const auto& way) { return name_of(way.param); });

}  // namespace
}  // namespace swrnic::test
