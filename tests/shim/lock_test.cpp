// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Who gets the lock of the userspace shim.
#include <gtest/gtest.h>
#include <pthread.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <optional>
#include <string>
#include <thread>

#include "state.h"
#include "thread_state.h"

namespace swrnic::shim {
namespace {

using namespace std::chrono_literals;

// Another thread that wants the lock while this one has it; from the constructor on it sleeps for it.
class Waiter {
  public:
    Waiter() {
        while (number_ == 0 || !test::sleeps("/proc/self/task/" + std::to_string(number_)))
            std::this_thread::sleep_for(100us);
    }
    bool served() const { return served_; }
    void interrupt(int signal) { pthread_kill(thread_.native_handle(), signal); }
    void join() { thread_.join(); }

  private:
    std::atomic<pid_t> number_ = 0;
    std::atomic<bool> served_ = false;
    std::thread thread_{[this] {
        number_ = static_cast<pid_t>(syscall(SYS_gettid));
        const Locked locked;
        served_ = true;
    }};
};

// The other thread has to be woken when the lock is free; this one is there at once.
TEST(Lock, WhoWaitsGoesBeforeWhoComes) {
    for (int i = 0; i < 100; ++i) {
        std::optional<Locked> first(std::in_place);
        Waiter other;
        first.reset();
        bool before = false;
        {
            const Locked next;
            before = other.served();
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

// close() may be called in a handler. Where it fails the thread waits for ever, and std::thread ends the process.
TEST(Lock, AHandlerDoesNotWaitForTheThreadThatItHasInterrupted) {
#ifdef __SANITIZE_THREAD__
    GTEST_SKIP() << "ThreadSanitizer runs a handler when the thread has ceased to wait";
#endif
    struct sigaction action {};
    struct sigaction before {};
    action.sa_handler = &take_the_lock;
    ASSERT_EQ(sigaction(SIGUSR1, &action, &before), 0);
    std::optional<Locked> first(std::in_place);
    Waiter other;
    other.interrupt(SIGUSR1);
    std::this_thread::sleep_for(20ms);  // until the handler waits too
    first.reset();
    for (int i = 0; i < 5000 && !other.served(); ++i)
        std::this_thread::sleep_for(1ms);
    ASSERT_TRUE(other.served() && handled);
    other.join();
    sigaction(SIGUSR1, &before, nullptr);
}

}  // namespace
}  // namespace swrnic::shim
