// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// The page of counters, as another process would find it: through /proc, by its name.
#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <string>

#include "pair.h"
#include "stat_page.h"

namespace swrnic::test {
namespace {

// Descriptors of this process that are such pages.
std::vector<int> pages() {
    std::vector<int> found;
    DIR* directory = ::opendir("/proc/self/fd");
    while (const dirent* entry = ::readdir(directory)) {
        char target[256] = {};
        const std::string path = std::string("/proc/self/fd/") + entry->d_name;
        if (::readlink(path.c_str(), target, sizeof target - 1) < 0) continue;
        if (std::string(target) == std::string("/memfd:") + kStatName + " (deleted)")
            found.push_back(std::atoi(entry->d_name));
    }
    ::closedir(directory);
    return found;
}

StatHeader header_of(int fd) {
    StatHeader header{};
    EXPECT_EQ(::pread(fd, &header, sizeof header, 0), static_cast<ssize_t>(sizeof header));
    return header;
}

StatSlot slot_of(int fd, std::uint32_t qpn) {
    StatSlot slot{};
    for (std::uint32_t i = 0; i < header_of(fd).slots; ++i) {
        const off_t at = static_cast<off_t>(sizeof(StatHeader) + i * sizeof(StatSlot));
        EXPECT_EQ(::pread(fd, &slot, sizeof slot, at), static_cast<ssize_t>(sizeof slot));
        if (slot.qpn == qpn) return slot;
    }
    return StatSlot{};
}

std::uint64_t cell(const StatSlot& slot, StatCell which) {
    return slot.cells[static_cast<std::size_t>(which)];
}

class Statistics : public PairTest {
  protected:
    void SetUp() override {
        PairTest::SetUp();
        if (HasFatalFailure()) return;
        const auto found = pages();
        ASSERT_EQ(found.size(), 1u) << "librdmacm opens the device once";
        page_ = found.front();
    }
    void write(std::uint32_t length) {
        ibv_mr* source = reg(source_, sizeof source_, 0);
        ibv_mr* target = reg(target_, sizeof target_, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
        ibv_sge sge{reinterpret_cast<std::uintptr_t>(source_), length, source->lkey};
        ibv_send_wr wr{};
        wr.opcode = IBV_WR_RDMA_WRITE;
        wr.sg_list = &sge;
        wr.num_sge = 1;
        wr.send_flags = IBV_SEND_SIGNALED;
        wr.wr.rdma.remote_addr = reinterpret_cast<std::uintptr_t>(target_);
        wr.wr.rdma.rkey = target->rkey;
        ibv_send_wr* bad = nullptr;
        ASSERT_EQ(ibv_post_send(client_.qp(), &wr, &bad), 0);
        EXPECT_EQ(next(client_.send_cq).status, IBV_WC_SUCCESS);
    }
    int page_ = -1;
    char source_[8192] = {}, target_[8192] = {};
};

TEST_F(Statistics, the_page_says_what_it_is) {
    const StatHeader header = header_of(page_);
    EXPECT_EQ(header.magic, kStatMagic);
    EXPECT_EQ(header.version, kStatVersion);
    EXPECT_EQ(header.header_size, sizeof(StatHeader));
    EXPECT_EQ(header.slot_size, sizeof(StatSlot));
    EXPECT_EQ(header.pid, static_cast<std::uint32_t>(::getpid()));
    EXPECT_GE(header.slots, 2u);
    EXPECT_EQ(header.sequence % 2, 0u);
    EXPECT_STREQ(header.device, client_.id->verbs->device->name);
    struct stat status {};
    ASSERT_EQ(::fstat(page_, &status), 0);
    EXPECT_EQ(status.st_mode & 0777, 0600u);
    EXPECT_EQ(static_cast<std::size_t>(status.st_size), kStatSize);
    EXPECT_LT(status.st_blocks * 512, 100'000) << "only what is used takes memory";
}

TEST_F(Statistics, both_ends_see_the_same_traffic) {
    for (int i = 0; i < 10; ++i)
        write(5000);
    const StatSlot client = slot_of(page_, client_.qp()->qp_num);
    const auto deadline = ::time(nullptr) + 5;
    StatSlot server;
    // A segment's message is counted behind its octets: who reads in between sees the octets alone.
    do {
        server = slot_of(page_, server_.qp()->qp_num);
    } while (cell(server, StatCell::kRxWrites) < cell(client, StatCell::kTxWrites) && ::time(nullptr) < deadline);
    EXPECT_EQ(cell(client, StatCell::kTxBytes), 50'000u);
    EXPECT_EQ(cell(server, StatCell::kRxBytes), 50'000u);
    EXPECT_EQ(cell(client, StatCell::kTxFpdus), cell(server, StatCell::kRxFpdus));
    // The Initiator's first message may be the RTR, which is one of the three kinds.
    const std::uint64_t rtr_writes = cell(client, StatCell::kTxWrites) - 10;
    EXPECT_LE(rtr_writes, 1u);
    EXPECT_EQ(cell(server, StatCell::kRxWrites), 10 + rtr_writes);
    EXPECT_GE(cell(client, StatCell::kTxCalls), 1u);
    EXPECT_GE(cell(server, StatCell::kRxCalls), 1u);
    EXPECT_EQ(cell(client, StatCell::kState), static_cast<std::uint64_t>(IBV_QPS_RTS));
    EXPECT_EQ(client.local.version, 4u);
    EXPECT_EQ(std::memcmp(&client.local, &server.peer, sizeof client.local), 0);
    EXPECT_EQ(std::memcmp(&client.peer, &server.local, sizeof client.peer), 0);
}

TEST_F(Statistics, what_a_destroyed_qp_counted_is_kept) {
    write(100);
    const std::uint32_t qpn = client_.qp()->qp_num;
    disconnect();
    const StatSlot before = slot_of(page_, qpn);
    const StatHeader earlier = header_of(page_);
    rdma_destroy_qp(client_.id);
    EXPECT_EQ(slot_of(page_, qpn).qpn, 0u);
    const StatHeader header = header_of(page_);
    EXPECT_EQ(header.gone_qps, earlier.gone_qps + 1);
    for (std::size_t i = 0; i < kStatSums; ++i)
        EXPECT_EQ(header.gone[i], earlier.gone[i] + before.cells[i]) << "cell " << i;
    EXPECT_EQ(cell(before, StatCell::kTxBytes), 100u);
}

TEST_F(Statistics, the_socket_is_asked_while_traffic_moves) {
    const auto deadline = ::time(nullptr) + 5;
    std::uint64_t rtt = 0, empty_polls = 0;
    while ((rtt == 0 || empty_polls == 0) && ::time(nullptr) < deadline) {
        write(8000);
        ibv_wc nothing;
        EXPECT_EQ(ibv_poll_cq(client_.send_cq, 1, &nothing), 0);
        rtt = cell(slot_of(page_, client_.qp()->qp_num), StatCell::kRttUs);
        empty_polls = header_of(page_).engine.empty_polls;
    }
    EXPECT_GT(rtt, 0u);
    EXPECT_GT(header_of(page_).engine.thread_ns, 0u);
    EXPECT_GT(empty_polls, 0u);
}

TEST_F(Statistics, a_child_has_no_page) {
    const pid_t child = ::fork();
    if (child == 0) ::_exit(static_cast<int>(pages().size()));
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
    write(10);
    EXPECT_EQ(cell(slot_of(page_, client_.qp()->qp_num), StatCell::kTxBytes), 10u);
}

TEST(StatisticsPage, ends_with_its_context) {
    const std::size_t before = pages().size();
    {
        const ContextPtr one = open_device(), two = open_device();
        ASSERT_TRUE(one && two);
        EXPECT_EQ(pages().size(), before + 2);
    }
    EXPECT_EQ(pages().size(), before);
}

}  // namespace
}  // namespace swrnic::test
