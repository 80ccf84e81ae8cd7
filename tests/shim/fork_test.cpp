// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// After fork only what was opened before it is dead in the child, and the parent's connections do not notice.
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <string>

#include "joined_pair.h"

namespace swrnic::test {
namespace {

bool all_others_sleep() {
    for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
        if (task.path().filename() == std::to_string(getpid())) continue;
        std::ifstream status(task.path() / "status");
        std::string line;
        while (!line.starts_with("State:") && std::getline(status, line)) {
        }
        if (line.find("S (sleeping)") == std::string::npos) return false;
    }
    return true;
}

// Runs check in a child; its result (0: fine) is the exit status.
// It waits for the other threads first: AddressSanitizer's allocator stays locked in the child for ever if one of them
// was in it, as one that has just begun is.
int in_child(const std::function<int()>& check) {
    while (!all_others_sleep())
        usleep(1000);
    const pid_t child = fork();
    if (child == 0) _exit(check());
    int status = 0;
    EXPECT_EQ(waitpid(child, &status, 0), child);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

TEST(Fork, FilesOfTheParentAreDeadInTheChild) {
    const Context context;
    const Cm cm;
    ASSERT_TRUE(context.ok());
    EXPECT_EQ(in_child([&] {
                  std::uint32_t pd = 0;
                  swrnic_down order;
                  rdma_ucm_event_resp event{};
                  if (context.alloc_pd(pd) != EIO) return 1;
                  if (read(context.events.get(), &order, sizeof(order)) != -1 || errno != EIO) return 2;
                  if (cm.get_event(event) != EIO) return 3;
                  if (context.report(SWRNIC_UP_QP_READY, 1) != EIO) return 4;
                  return close(context.cmd.get()) == 0 ? 0 : 5;
              }),
              0);
    std::uint32_t pd = 0;
    EXPECT_EQ(context.alloc_pd(pd), 0);
}

TEST(Fork, ChildMayOpenTheDeviceAfreshAndListen) {
#ifdef __SANITIZE_THREAD__
    GTEST_SKIP() << "ThreadSanitizer ends a process that starts threads after a fork";
#endif
    JoinedPair before;
    ASSERT_TRUE(before.ready());
    EXPECT_EQ(in_child([] {
                  JoinedPair pair;
                  return pair.ready() && pair.establish() ? 0 : 1;
              }),
              0);
    EXPECT_TRUE(before.establish()) << "the parent's thread and listener serve on";
}

TEST(Fork, ChildNeitherHoldsNorShutsTheParentsStreams) {
    JoinedPair pair;
    ASSERT_TRUE(pair.ready() && pair.request());
    EXPECT_EQ(in_child([&] {
                  pair.active.context.cmd.reset();
                  pair.active.cm.fd.reset();
                  return 0;
              }),
              0);
    ASSERT_EQ(pair.passive.cm.accept(pair.passive.id, 1, pair.passive.qp.qpn), 0);
    ASSERT_TRUE(pair.take_streams());
    ASSERT_EQ(send(pair.active.stream.get(), "x", 1, 0), 1);
    char octet = 0;
    ASSERT_TRUE(readable(pair.passive.stream.get(), 2000));
    EXPECT_EQ(recv(pair.passive.stream.get(), &octet, 1, 0), 1);
}

TEST(Fork, ListenersPortIsFreeWhenTheParentCloses) {
    int to_child[2], from_child[2];
    ASSERT_EQ(pipe(to_child), 0);
    ASSERT_EQ(pipe(from_child), 0);
    auto cm = std::make_unique<Cm>();
    const std::uint16_t port = cm->listen_on_loopback(cm->create_id(1));
    const pid_t child = fork();
    if (child == 0) {
        char octet = 0;
        close(to_child[1]);
        _exit(write(from_child[1], "r", 1) == 1 && read(to_child[0], &octet, 1) == 0 ? 0 : 1);
    }
    char octet = 0;
    ASSERT_EQ(read(from_child[0], &octet, 1), 1);
    cm.reset();
    Fd client(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    const sockaddr_in to = loopback(port);
    EXPECT_EQ(connect(client.get(), reinterpret_cast<const sockaddr*>(&to), sizeof(to)), -1)
        << "no copy lives in the child";
    close(to_child[1]);
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
    for (const int fd : {to_child[0], from_child[0], from_child[1]})
        close(fd);
}

}  // namespace
}  // namespace swrnic::test
