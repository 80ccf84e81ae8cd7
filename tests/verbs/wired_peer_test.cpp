// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// What becomes of a wired QP whose peer is killed or stopped, and of one at whose door strangers crowd.
#include <arpa/inet.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <array>
#include <chrono>
#include <fstream>
#include <thread>
#include <vector>

#include "other_process.h"
#include "wiring.h"

namespace swrnic::test {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

struct Peer {
    WiredEnd end;
    std::uint64_t address;
    std::uint32_t rkey;
};

constexpr std::size_t kLength = 65536;

// Wires itself to whom it is told of, and does nothing more. Its process ends when the other one says no more.
int be_there(Talk& talk) {
    std::vector<char> memory(kLength);
    Station here;
    WiredEnd peer{};
    if (!here.open(memory.data(), memory.size())) return 1;
    const Peer own{here.end(), reinterpret_cast<std::uintptr_t>(memory.data()), here.region->rkey};
    if (!talk.tell(own) || !talk.hear(peer) || wire(here.qp.get(), here.chosen, peer) != 0 || !talk.tell(true))
        return 2;
    talk.hear(peer);
    return 0;
}

class WiredPeer : public testing::Test {
  protected:
    void SetUp() override { ASSERT_TRUE(here_.open(memory_.data(), memory_.size())); }
    // 4.096 us * 2^14 * 7: the peer is given up after 470 ms, in which two processes find each other on a busy machine.
    void connect(OtherProcess& other) {
        bool wired = false;
        here_.chosen.timeout = 14;
        ASSERT_TRUE(other.talk.hear(peer_));
        ASSERT_EQ(wire(here_.qp.get(), here_.chosen, peer_.end), 0);
        ASSERT_TRUE(other.talk.tell(here_.end()) && other.talk.hear(wired));
        ASSERT_EQ(write(0), 0);
        ASSERT_EQ(next(here_.cq.get()).status, IBV_WC_SUCCESS);
    }
    int write(std::uint64_t id) {
        ibv_sge sge{reinterpret_cast<std::uintptr_t>(memory_.data()), kLength, here_.region->lkey};
        ibv_send_wr wr{}, *bad = nullptr;
        wr.wr_id = id;
        wr.sg_list = &sge;
        wr.num_sge = 1;
        wr.opcode = IBV_WR_RDMA_WRITE;
        wr.send_flags = IBV_SEND_SIGNALED;
        wr.wr.rdma.remote_addr = peer_.address;
        wr.wr.rdma.rkey = peer_.rkey;
        return ibv_post_send(here_.qp.get(), &wr, &bad);
    }
    void is_quiet(milliseconds time) {
        ibv_wc wc{};
        for (const auto end = Clock::now() + time; Clock::now() < end;)
            ASSERT_EQ(ibv_poll_cq(here_.cq.get(), 1, &wc), 0) << ibv_wc_status_str(wc.status);
    }
    // The peer is given up in its time: the oldest request says why, the others are flushed.
    void gives_up(Clock::time_point since, std::uint64_t oldest, std::uint64_t newest) {
        for (std::uint64_t id = oldest; id <= newest; ++id) {
            const ibv_wc wc = next(here_.cq.get());
            EXPECT_EQ(wc.wr_id, id);
            EXPECT_EQ(wc.status, id == oldest ? IBV_WC_RETRY_EXC_ERR : IBV_WC_WR_FLUSH_ERR);
        }
        EXPECT_GE(Clock::now() - since, milliseconds(460));
        EXPECT_LT(Clock::now() - since, milliseconds(4000));
    }

    // Forked before this process has the device.
    OtherProcess other_{be_there}, spare_{be_there};
    std::vector<char> memory_ = std::vector<char>(kLength);
    Station here_;
    Peer peer_{};
};

TEST_F(WiredPeer, KilledWhileNothingIsPosted) {
    ASSERT_NO_FATAL_FAILURE(connect(other_));
    other_.kill();
    ASSERT_NO_FATAL_FAILURE(is_quiet(milliseconds(300)));
    const auto begin = Clock::now();
    ASSERT_EQ(write(1), 0);
    ASSERT_EQ(write(2), 0);
    gives_up(begin, 1, 2);
}

// Stopped first, so that it cannot answer any more.
TEST_F(WiredPeer, KilledUnderRequests) {
    ASSERT_NO_FATAL_FAILURE(connect(other_));
    ASSERT_NO_FATAL_FAILURE(other_.stop());
    for (std::uint64_t id = 1; id <= 8; ++id)
        ASSERT_EQ(write(id), 0);
    ASSERT_NO_FATAL_FAILURE(is_quiet(milliseconds(50)));
    const auto begin = Clock::now();
    other_.kill();
    gives_up(begin, 1, 8);
}

TEST_F(WiredPeer, KilledAndAnotherTakesItsPlace) {
    ASSERT_NO_FATAL_FAILURE(connect(other_));
    other_.kill();
    ASSERT_EQ(write(1), 0);
    EXPECT_EQ(next(here_.cq.get()).status, IBV_WC_RETRY_EXC_ERR);
    ASSERT_EQ(to_reset(here_.qp.get()), 0);
    ASSERT_NO_FATAL_FAILURE(connect(spare_));
}

// An adapter goes on without its process; here the peer waits instead, however long that is beyond its patience, since
// the peer's host answers.
TEST_F(WiredPeer, StoppedIsWaitedFor) {
    ASSERT_NO_FATAL_FAILURE(connect(other_));
    ASSERT_NO_FATAL_FAILURE(other_.stop());
    for (std::uint64_t id = 1; id <= 12; ++id)
        ASSERT_EQ(write(id), 0);
    ASSERT_NO_FATAL_FAILURE(is_quiet(milliseconds(1000)));
    ASSERT_NO_FATAL_FAILURE(other_.go_on());
    for (std::uint64_t id = 1; id <= 12; ++id) {
        const ibv_wc wc = next(here_.cq.get());
        EXPECT_EQ(wc.wr_id, id);
        EXPECT_EQ(wc.status, IBV_WC_SUCCESS);
    }
}

// ---- RESET and wired anew, without end ----

std::size_t resident_pages() {
    std::size_t size = 0, resident = 0;
    std::ifstream("/proc/self/statm") >> size >> resident;
    return resident;
}

class WiredAnew : public testing::Test {
  protected:
    void SetUp() override {
        for (Station* each : {&a_, &b_})
            ASSERT_TRUE(each->open(memory_.data(), memory_.size()));
    }
    void carries(const Station& from, const Station& to) {
        ibv_sge sge{reinterpret_cast<std::uintptr_t>(memory_.data()), 64, to.region->lkey};
        ibv_recv_wr receive{}, *bad_receive = nullptr;
        receive.sg_list = &sge;
        receive.num_sge = 1;
        ASSERT_EQ(ibv_post_recv(to.qp.get(), &receive, &bad_receive), 0);
        ibv_send_wr wr{}, *bad = nullptr;
        wr.opcode = IBV_WR_SEND;
        wr.send_flags = IBV_SEND_SIGNALED;
        ASSERT_EQ(ibv_post_send(from.qp.get(), &wr, &bad), 0);
        ASSERT_EQ(next(from.cq.get()).status, IBV_WC_SUCCESS);
        ASSERT_EQ(next(to.cq.get()).status, IBV_WC_SUCCESS);
    }

    std::array<char, 4096> memory_{};
    Station a_, b_;
};

// What a sanitizer notes of memory counts as the process's own.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kSanitized = true;
#else
constexpr bool kSanitized = false;
#endif

TEST_F(WiredAnew, LeavesNothingBehind) {
    constexpr int kWarm = 100;
    const int count = rounds(1'000, 10'000) + kWarm;
    std::size_t descriptors = 0, pages = 0;
    for (int round = 0; round < count; ++round) {
        SCOPED_TRACE(round);
        if (round == kWarm) pages = resident_pages();
        ASSERT_EQ(wire(a_.qp.get(), a_.chosen, b_.end()), 0);
        ASSERT_EQ(wire(b_.qp.get(), b_.chosen, a_.end()), 0);
        ASSERT_NO_FATAL_FAILURE(round % 2 == 0 ? carries(a_, b_) : carries(b_, a_));
        if (round == 0) descriptors = open_descriptors();  // with what is made once, on first use
        ASSERT_EQ(to_reset((round % 3 == 0 ? b_ : a_).qp.get()), 0);
        ASSERT_EQ(to_reset((round % 3 == 0 ? a_ : b_).qp.get()), 0);
    }
    if (!kSanitized) {
        EXPECT_LT(resident_pages(), pages + 256);  // 1 MiB
    }
    // What is closed lingers for a second at most.
    for (const auto end = Clock::now() + milliseconds(5000); open_descriptors() > descriptors && Clock::now() < end;)
        std::this_thread::sleep_for(milliseconds(20));
    EXPECT_LE(open_descriptors(), descriptors);
}

// ---- strangers ----

// Where they crowd, and whom they guess at.
struct Door {
    WiredEnd called, caller;
};

// Again and again as many connections as there may be half-open ones, thrice: with whole Requests that name guessed
// QPs, with half of one, and with nothing.
int crowd(Talk& talk) {
    constexpr std::uint32_t kMany = 400;
    Door door{};
    if (!talk.hear(door)) return 1;
    sockaddr_in to{};
    to.sin_family = AF_INET;
    to.sin_port = htons(static_cast<std::uint16_t>(door.called.qpn >> 8));
    std::memcpy(&to.sin_addr, door.called.gid.raw + 12, 4);
    const auto guess = [](WiredEnd end, std::uint32_t by) { return WiredEnd{end.gid, end.qpn ^ by}; };
    for (bool more = true; more;) {
        std::vector<int> fds;
        for (std::uint32_t i = 0; i < kMany; ++i) {
            const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
            if (fd < 0 || connect(fd, reinterpret_cast<const sockaddr*>(&to), sizeof to) != 0) return 2;
            fds.push_back(fd);
            // The right QP with a wrong caller, and the other way round.
            const std::string request = wired_request(guess(door.caller, i % 2 == 0 ? 1 + i : 0),
                                                      guess(door.called, i % 2 == 0 ? 0 : 1 + i % 255));
            const std::size_t length = i % 3 == 0 ? request.size() : i % 3 == 1 ? request.size() / 2 : 0;
            if (length != 0 && send(fd, request.data(), length, MSG_NOSIGNAL) < 0 && errno != EPIPE &&
                errno != ECONNRESET)
                return 3;
        }
        if (!talk.tell(true) || !talk.hear(more)) return 4;
        for (const int fd : fds)
            close(fd);
    }
    return 0;
}

class WiredAmongStrangers : public WiredAnew {
  protected:
    OtherProcess strangers_{crowd};
};

TEST_F(WiredAmongStrangers, CarriesOnAndIsFoundByItsPeer) {
    constexpr std::size_t kHalfOpen = 128;  // SWR_MAX_HALF_OPEN
    ASSERT_TRUE(a_.make_qp() && b_.make_qp());
    Station* const caller = a_.qp->qp_num < b_.qp->qp_num ? &a_ : &b_;
    Station* const called = caller == &a_ ? &b_ : &a_;
    // A pair that is connected, at the same port, and one of which only the end that is called is there.
    QpPtr first_caller = std::move(caller->qp), first_called = std::move(called->qp);
    do {
        ASSERT_TRUE(caller->make_qp() && called->make_qp());
    } while (caller->qp->qp_num > called->qp->qp_num);
    std::swap(first_caller, caller->qp);
    std::swap(first_called, called->qp);
    ASSERT_EQ(wire(caller->qp.get(), caller->chosen, called->end()), 0);
    ASSERT_EQ(wire(called->qp.get(), called->chosen, caller->end()), 0);
    ASSERT_NO_FATAL_FAILURE(carries(*caller, *called));
    const std::size_t descriptors = open_descriptors();

    const WiredEnd late_caller{caller->end().gid, first_caller->qp_num};
    const WiredEnd late_called{called->end().gid, first_called->qp_num};
    ASSERT_EQ(wire(first_called.get(), called->chosen, late_caller), 0);
    ASSERT_TRUE(strangers_.talk.tell(Door{late_called, late_caller}));
    for (int round = 0; round < 5; ++round) {
        SCOPED_TRACE(round);
        bool crowded = false;
        std::jthread watch([&] { crowded = strangers_.talk.hear(crowded) && crowded; });
        for (int i = 0; i < 100; ++i)
            ASSERT_NO_FATAL_FAILURE(i % 2 == 0 ? carries(*caller, *called) : carries(*called, *caller));
        watch.join();
        ASSERT_TRUE(crowded);
        EXPECT_LE(open_descriptors(), descriptors + kHalfOpen + 8);
        if (round == 3) {  // among them comes the right one
            ASSERT_EQ(wire(first_caller.get(), caller->chosen, late_called), 0);
            std::swap(first_caller, caller->qp);
            std::swap(first_called, called->qp);
            ASSERT_NO_FATAL_FAILURE(carries(*caller, *called));
        }
        ASSERT_TRUE(strangers_.talk.tell(round < 4));
    }
    EXPECT_EQ(strangers_.wait(), 0);
    for (const auto end = Clock::now() + milliseconds(5000);
         open_descriptors() > descriptors + 2 && Clock::now() < end;)
        std::this_thread::sleep_for(milliseconds(20));
    EXPECT_LE(open_descriptors(), descriptors + 2);  // the late pair's own
}

}  // namespace
}  // namespace swrnic::test
