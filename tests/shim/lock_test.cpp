// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Who gets the lock of the userspace shim.
#include <gtest/gtest.h>
#include <pthread.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <fstream>
#include <optional>
#include <string>
#include <thread>

#include "state.h"

namespace swrnic::shim {
namespace {

using namespace std::chrono_literals;

bool sleeps(pid_t thread) {
    std::ifstream status("/proc/self/task/" + std::to_string(thread) + "/status");
    for (std::string line; std::getline(status, line);) {
        if (line.starts_with("State:")) return line.find("S (sleeping)") != std::string::npos;
    }
    return false;
}

// The other thread has to be woken when the lock is free; this one is there at once.
TEST(Lock, WhoWaitsGoesBeforeWhoComes) {
    for (int i = 0; i < 100; ++i) {
        std::atomic<pid_t> thread = 0;
        std::atomic<bool> served = false;
        std::optional<Locked> first(std::in_place);
        std::thread other([&] {
            thread = static_cast<pid_t>(syscall(SYS_gettid));
            const Locked locked;
            served = true;
        });
        while (thread == 0 || !sleeps(thread))
            std::this_thread::sleep_for(100us);
        first.reset();
        bool before = false;
        {
            const Locked next;
            before = served;
        }
        other.join();
        ASSERT_TRUE(before) << "after " << i << " times";
    }
}

std::atomic<bool> handled;
void take_the_lock(int) {
    const Locked locked;
    handled = true;
}

// close() may be called in a handler.
TEST(Lock, AHandlerDoesNotWaitForTheThreadThatItHasInterrupted) {
#ifdef __SANITIZE_THREAD__
    GTEST_SKIP() << "ThreadSanitizer runs a handler when the thread has ceased to wait";
#endif
    struct sigaction action {};
    struct sigaction before {};
    action.sa_handler = &take_the_lock;
    ASSERT_EQ(sigaction(SIGUSR1, &action, &before), 0);
    std::atomic<pid_t> thread = 0;
    std::atomic<bool> served = false;
    std::optional<Locked> first(std::in_place);
    std::thread other([&] {
        thread = static_cast<pid_t>(syscall(SYS_gettid));
        const Locked locked;
        served = true;
    });
    while (thread == 0 || !sleeps(thread))
        std::this_thread::sleep_for(100us);
    ASSERT_EQ(pthread_kill(other.native_handle(), SIGUSR1), 0);
    std::this_thread::sleep_for(20ms);  // until the handler waits too
    first.reset();
    for (int i = 0; i < 5000 && !served; ++i)
        std::this_thread::sleep_for(1ms);
    if (!served) other.detach();
    ASSERT_TRUE(served && handled);
    other.join();
    sigaction(SIGUSR1, &before, nullptr);
}

}  // namespace
}  // namespace swrnic::shim
