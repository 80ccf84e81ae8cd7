// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Which devices have workers, as devices come and go and workers die. Here are no devices: what lists them and what
// starts a worker are the test's, and a worker is a process that waits for its line's end.
#include "supervisor.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace swrnic::daemon {

namespace {

std::vector<UverbsNode> present;
std::map<std::string, int> refuses;  // an errno for each device that does
using Started = std::pair<std::string, unsigned>;
std::vector<Started> asked;        // for a worker, in order
std::map<Started, pid_t> started;  // the last of each

}  // namespace

std::vector<UverbsNode> list_uverbs() {
    return present;
}

int start_worker(const Settings&, const UverbsNode& node, unsigned group, Worker& worker) {
    asked.emplace_back(node.device, group);
    if (const auto found = refuses.find(node.device); found != refuses.end()) return found->second;
    std::array<int, 2> ends{};
    if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends.data()) != 0) return errno;
    worker.line = Fd(ends[0]);
    const Fd its(ends[1]);
    worker.process = ::fork();
    if (worker.process == 0) {
        ::close(ends[0]);
        char octet = 0;
        ::_exit(::read(its.get(), &octet, 1) == 0 ? 0 : 1);
    }
    started[{node.device, group}] = worker.process;
    return 0;
}

namespace {

class SupervisorTest : public testing::Test {
  protected:
    static constexpr unsigned kWorkers = 2;

    void SetUp() override {
        present = {{"uverbs0", "swr0"}, {"uverbs1", "swr1"}};
        refuses.clear();
        asked.clear();
        started.clear();
    }
    static Settings settings() { return {.config = {}, .busy_poll = {}, .workers = kWorkers}; }
    // Until it can be reaped, and no further: that is the supervisor's.
    static void wait_for_end(pid_t process) {
        siginfo_t info{};
        ASSERT_EQ(::waitid(P_PID, static_cast<id_t>(process), &info, WEXITED | WNOWAIT), 0);
    }
    static void kill_worker(const std::string& device, unsigned group) {
        const pid_t process = started[{device, group}];
        ASSERT_EQ(::kill(process, SIGKILL), 0);
        wait_for_end(process);
    }
};

TEST_F(SupervisorTest, StartsAWorkerForEachGroupOfEachDevice) {
    Supervisor supervisor(settings(), {});
    supervisor.look();
    EXPECT_EQ(asked, (std::vector<Started>{{"swr0", 0}, {"swr0", 1}, {"swr1", 0}, {"swr1", 1}}));
    EXPECT_EQ(supervisor.served(), 2u);
    EXPECT_FALSE(supervisor.look_again());
    supervisor.look();
    EXPECT_EQ(asked.size(), 4u) << "they are there already";
}

TEST_F(SupervisorTest, ServesOnlyWhatIsWanted) {
    Supervisor supervisor(settings(), {"swr1"});
    supervisor.look();
    EXPECT_EQ(asked, (std::vector<Started>{{"swr1", 0}, {"swr1", 1}}));
    EXPECT_EQ(supervisor.served(), 1u);
}

// Another driver's, and one that this process may not serve, stay what they are until they go.
TEST_F(SupervisorTest, DoesNotAskAgainWhatWillNotChange) {
    for (const int error : {EPROTONOSUPPORT, EXDEV, EPERM, ENOTTY, EPROTO}) {
        SetUp();
        refuses["swr0"] = error;
        Supervisor supervisor(settings(), {"swr0"});
        supervisor.look();
        supervisor.look();
        EXPECT_EQ(asked.size(), 1u) << error;
        EXPECT_FALSE(supervisor.look_again()) << error;
        const std::vector<UverbsNode> all = std::exchange(present, {});
        supervisor.look();
        present = all;
        refuses.clear();
        supervisor.look();
        EXPECT_EQ(supervisor.served(), 1u) << "a new device of the same name, " << error;
    }
}

TEST_F(SupervisorTest, AsksAgainWhereAnotherDaemonServes) {
    refuses["swr0"] = EBUSY;
    Supervisor supervisor(settings(), {"swr0"});
    supervisor.look();
    EXPECT_EQ(supervisor.served(), 0u);
    ASSERT_TRUE(supervisor.look_again());
    EXPECT_GT(*supervisor.look_again(), std::chrono::milliseconds(0));
    refuses.clear();
    supervisor.look();
    EXPECT_EQ(supervisor.served(), 1u);
    EXPECT_FALSE(supervisor.look_again());
}

TEST_F(SupervisorTest, PutsAnotherInTheDeadOnesPlaceThoughNotAtOnce) {
    Supervisor supervisor(settings(), {});
    supervisor.look();
    asked.clear();
    kill_worker("swr0", 1);
    supervisor.look();
    EXPECT_TRUE(asked.empty()) << "whatever killed it may do so again";
    EXPECT_EQ(supervisor.served(), 1u) << "one of its groups has no worker";
    ASSERT_TRUE(supervisor.look_again());
    supervisor.look();
    EXPECT_EQ(asked, (std::vector<Started>{{"swr0", 1}})) << "the others stay";
    EXPECT_EQ(supervisor.served(), 2u);
    EXPECT_FALSE(supervisor.look_again());
}

TEST_F(SupervisorTest, ADeadWorkerOfADeviceThatHasGoneIsNotWaitedFor) {
    Supervisor supervisor(settings(), {});
    supervisor.look();
    asked.clear();
    kill_worker("swr0", 0);
    kill_worker("swr0", 1);
    supervisor.look();
    ASSERT_TRUE(supervisor.look_again());
    present.erase(present.begin());
    supervisor.look();
    EXPECT_TRUE(asked.empty());
    EXPECT_EQ(supervisor.served(), 1u);
    EXPECT_FALSE(supervisor.look_again());
}

TEST_F(SupervisorTest, EndsItsWorkersAndReapsThem) {
    {
        Supervisor supervisor(settings(), {});
        supervisor.look();
        ASSERT_EQ(started.size(), 2 * kWorkers);
    }
    for (const auto& [what, process] : started)
        EXPECT_EQ(::kill(process, 0), -1) << what.first << ", " << what.second;
}

}  // namespace

}  // namespace swrnic::daemon
