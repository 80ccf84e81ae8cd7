// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// When polls look at what came in: docs/PROGRESS.md, "Polls". They decide, and do nothing themselves.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "engine/sched/times.h"

namespace swrnic::engine {

// Of one queue pair: when a receive call is worth its price. One that comes too early takes the socket's lock, and the
// sender's acknowledgements wait behind it.
class PollGate {
  public:
    enum class State : std::uint8_t {
        kSingle,  // what comes in is answered one by one
        kStream,  // much of it comes at a time
    };
    // What one turn at receiving brought, that found the socket empty at its end.
    struct Turn {
        std::size_t octets;
        std::uint64_t fpdus;
        std::size_t rest;  // octets of the large FPDU in progress that are still to come
        bool brings_much() const { return octets >= tuning::kBulkOctets || fpdus >= tuning::kBulkFpdus; }
    };

    // ---- under the RX lock
    State state() const { return streamed_at_ == Cycles() ? State::kSingle : State::kStream; }
    // True: there is nothing to back off for, and no need to know the time, which would be a good part of an empty
    // poll. Else on_turn() is to follow. When was tried last matters behind a burst alone.
    bool is_open_after(const Turn& turn, bool behind_burst) {
        if (!turn.brings_much() && turn.octets != 0) streamed_at_ = {};
        if (turn.brings_much() || turn.rest != 0 || state() == State::kStream || behind_burst) return false;
        backoff_until_.store({}, std::memory_order_relaxed);
        return true;
    }
    void on_turn(const Times& times, const Turn& turn, Cycles now);

    // A poll before that leaves unread what may have come. `flushes`: it has something to send, and does not wait for
    // what comes; `waits_for_peer`: SendGate's.
    Cycles next_look(const Times& times, bool flushes, bool waits_for_peer) const {
        const Cycles tried = tried_at_.load(std::memory_order_relaxed);
        if (flushes) return tried + times.flush_gap;
        return std::max(backoff_until_.load(std::memory_order_relaxed),
                        waits_for_peer ? tried + times.early_backoff : Cycles());
    }

  private:
    std::atomic<Cycles> backoff_until_{}, tried_at_{};
    Cycles streamed_at_;  // the last turn that brought much; 0: what comes in is no stream
};

// Of one engine: when a poll asks epoll for news of other queue pairs than the one that received last. At once while
// they have some, and after more and more time while they have none.
class NewsGate {
  public:
    enum class State : std::uint8_t {
        kNews,    // others had some
        kQuiet,   // none, for a time
        kSilent,  // none, for as long as is waited
    };

    State state(const Times& times) const {
        const Cycles gap = gap_.load(std::memory_order_relaxed);
        if (gap == Cycles()) return State::kNews;
        return gap == times.longest_gap ? State::kSilent : State::kQuiet;
    }
    bool is_due(Cycles now) const {
        const Cycles gap = gap_.load(std::memory_order_relaxed);
        return gap == Cycles() || !(now - asked_at_.load(std::memory_order_relaxed)).is_within(gap);
    }
    void on_asked(const Times& times, Cycles now, bool others) {
        const Cycles gap = gap_.load(std::memory_order_relaxed);
        gap_.store(others ? Cycles() : std::clamp(gap * 2, times.longest_gap / kFirst, times.longest_gap),
                   std::memory_order_relaxed);
        asked_at_.store(now, std::memory_order_relaxed);
    }

  private:
    static constexpr std::int64_t kFirst = 64;  // of the longest gap the first is that part

    std::atomic<Cycles> asked_at_{};
    std::atomic<Cycles> gap_{};  // until the next time
};

std::string_view name(PollGate::State state);
std::string_view name(NewsGate::State state);

}  // namespace swrnic::engine
