// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// The other end of a wired QP in a process of its own, which may be stopped and killed.
#pragma once

#include <gtest/gtest.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <utility>

#include "wiring.h"

namespace swrnic::test {

// The ends of a pair of sockets, by which two processes tell each other what they must.
class Talk {
  public:
    explicit Talk(int fd) : fd_(fd) {}
    ~Talk() { close(fd_); }
    Talk(const Talk&) = delete;

    template <typename T>
    bool tell(const T& what) {
        return write(fd_, &what, sizeof what) == sizeof what;
    }
    template <typename T>
    bool hear(T& what) {
        return recv(fd_, &what, sizeof what, MSG_WAITALL) == sizeof what;
    }
    // Looks again and again, as a busy program does, instead of sleeping.
    template <typename T>
    bool hear_busily(T& what) {
        ssize_t got = -1;
        while ((got = recv(fd_, &what, sizeof what, MSG_DONTWAIT)) < 0 && (errno == EAGAIN || errno == EINTR)) {
        }
        return got == sizeof what;
    }

  private:
    int fd_;
};

// To be forked before this process has opened the device.
class OtherProcess {
  public:
    // run(Talk&) is the child's life, and what it returns the exit status. It uses no expectations of gtest's.
    template <typename Run>
    explicit OtherProcess(Run run) : OtherProcess(run, sockets()) {}
    ~OtherProcess() { kill(); }
    OtherProcess(const OtherProcess&) = delete;

    Talk talk;

    void stop() {
        int status = 0;
        ASSERT_EQ(::kill(pid_, SIGSTOP), 0);
        ASSERT_EQ(waitpid(pid_, &status, WUNTRACED), pid_);
        ASSERT_TRUE(WIFSTOPPED(status));
    }
    void go_on() { ASSERT_EQ(::kill(pid_, SIGCONT), 0); }
    void kill() {
        if (pid_ <= 0) return;
        ::kill(pid_, SIGKILL);
        waitpid(pid_, nullptr, 0);
        pid_ = 0;
    }
    // The exit status; -1: a signal has ended it.
    int wait() {
        int status = 0;
        EXPECT_EQ(waitpid(pid_, &status, 0), pid_);
        pid_ = 0;
        return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    }

  private:
    using Sockets = std::array<int, 2>;
    static Sockets sockets() {
        Sockets ends{-1, -1};
        EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()), 0);
        return ends;
    }
    template <typename Run>
    OtherProcess(Run& run, const Sockets& ends) : talk(ends[0]), pid_(fork()) {
        if (pid_ == 0) {
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            close(ends[0]);
            Talk parent(ends[1]);
            _exit(run(parent));
        }
        close(ends[1]);
    }

    pid_t pid_;
};

}  // namespace swrnic::test
