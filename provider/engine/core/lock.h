// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Locks that a callee can prove: a function that needs one takes the guard as a parameter.
// Order: RX, TX, then the leaves (send queue, receive queue, completions that wait, fault), then CQ. RX never waits for
// TX while it holds a leaf.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>

namespace swrnic::engine {

// A mutex whose free case stands in line. A small message takes and leaves a dozen, and behind a system call each call
// into the C library is a cold one.
class Mutex {
  public:
    void lock() {
        if (!try_lock()) [[unlikely]]
            wait();
    }
    // seq_cst, also where it fails: see Lock::take_or_flag().
    bool try_lock() {
        std::uint32_t expected = kFree;
        return state_.compare_exchange_strong(expected, kTaken);
    }
    void unlock() {
        if (state_.exchange(kFree) == kAwaited) [[unlikely]]
            state_.notify_one();
    }

  private:
    static constexpr std::uint32_t kFree = 0, kTaken = 1, kAwaited = 2;

    // Who has waited leaves the flag that others may wait too: one wake-up too many, but none too few.
    [[gnu::noinline]] void wait() {
        while (state_.exchange(kAwaited, std::memory_order_acquire) != kFree)
            state_.wait(kAwaited, std::memory_order_relaxed);
    }

    std::atomic<std::uint32_t> state_{kFree};
};

template <typename Tag>
class Lock {
  public:
    class Guard {
      public:
        explicit Guard(Lock& lock) : hold_(lock.mutex_) {}
        Guard(Lock& lock, std::try_to_lock_t) : hold_(lock.mutex_, std::try_to_lock) {}
        bool owns() const { return hold_.owns_lock(); }
        void unlock() { hold_.unlock(); }

      private:
        friend class Lock;
        std::unique_lock<Mutex> hold_;
    };

    // Does not wait: a guard without the lock has left the flag for its holder, who looks for it behind unlocking. Who
    // gets the lock takes the flag, and sees what was written before it was left. Mostly there is none.
    Guard take_or_flag(std::atomic<bool>& due) {
        Guard guard(*this, std::try_to_lock);
        if (!guard.owns()) {
            due = true;
            if (!guard.hold_.try_lock()) return guard;
        }
        // An exchange: what was written before a flag that came since the look is seen too.
        if (due.load(std::memory_order_acquire)) due.exchange(false);
        return guard;
    }

  private:
    Mutex mutex_;
};

using RxLock = Lock<struct RxTag>;  // held while one thread reads the stream and places
using TxLock = Lock<struct TxTag>;  // held while one thread builds FPDUs and writes the stream
using RxGuard = RxLock::Guard;
using TxGuard = TxLock::Guard;

}  // namespace swrnic::engine
