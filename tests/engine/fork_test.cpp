// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// What fork() finds of an engine, and what a child may hold of it afterwards.
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <thread>
#include <utility>

#include "side.h"
#include "thread_state.h"

namespace swrnic::engine::test {

namespace {

bool is_open(int fd) {
    return ::fcntl(fd, F_GETFD) >= 0;
}

class EngineForkTest : public testing::Test {
  protected:
    ~EngineForkTest() override {
        if (peer_ >= 0) ::close(peer_);
    }
    // A stream that its QP has left, and its peer has not: the engine holds the socket for a second. The socket.
    int make_lingering() {
        const std::array<int, 2> ends = connected_sockets();
        peer_ = ends[0];
        Qp* qp = side_.engine->create_qp(qp_init(301, side_.cq));
        side_.engine->modify_state(*qp, QpState::kInit);
        Connection connection{};
        connection.fd = ends[1];
        connection.initiator = true;
        side_.engine->connect(301, connection);
        side_.engine->destroy_qp(qp);
        EXPECT_TRUE(is_open(ends[1]));
        return ends[1];
    }

    Side side_{300};
    int peer_ = -1;
};

// A child that finds a table in the middle of a change dies in the handler that is to close its sockets.
TEST_F(EngineForkTest, QueuePairsAreMadeBeforeOrAfterwards) {
    side_.engine->before_fork();
    std::atomic<Qp*> made{nullptr};
    std::thread maker([&] { made = side_.engine->create_qp(qp_init(302, side_.cq)); });
    std::this_thread::sleep_for(50ms);
    EXPECT_EQ(made, nullptr);
    side_.engine->after_fork_in_parent();
    maker.join();
    ASSERT_NE(made, nullptr);
    side_.engine->destroy_qp(made);
}

TEST_F(EngineForkTest, AChildHoldsNoSocketThatLingers) {
    const int socket = make_lingering();
    side_.engine->before_fork();
    const pid_t child = ::fork();
    if (child == 0) {
        side_.engine->abandon_after_fork();
        ::_exit(is_open(socket) ? 1 : 0);
    }
    side_.engine->after_fork_in_parent();
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
}

// One that ran no handlers has the socket, and would keep it in the parent's epoll set.
TEST_F(EngineForkTest, AChildThatHoldsASocketKeepsNobodyAwake) {
    for (const bool answers : {true, false}) {
        SCOPED_TRACE(answers ? "the peer closes" : "the peer is silent");
        const int socket = make_lingering();
        const pid_t child = ::_Fork();
        if (child == 0) {
            for (;;)
                ::pause();
        }
        ASSERT_GT(child, 0);
        if (answers) ::shutdown(peer_, SHUT_WR);
        EXPECT_TRUE(soon([&] { return !is_open(socket); }));
        if (!answers) ::shutdown(peer_, SHUT_WR);  // news for a set that has it still
        EXPECT_TRUE(soon(swrnic::test::engine_threads_sleep));
        ::kill(child, SIGKILL);
        ASSERT_EQ(::waitpid(child, nullptr, 0), child);
        ::close(std::exchange(peer_, -1));
    }
}

}  // namespace

}  // namespace swrnic::engine::test
