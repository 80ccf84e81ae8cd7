// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// What the background thread of one engine does until its next turn: docs/PROGRESS.md, "The thread". It decides; the
// waiting, and the handshakes with those who wake the thread, are Engine::Impl's.
#pragma once

#include <chrono>
#include <cstdint>
#include <string_view>

#include "engine/sched/times.h"

namespace swrnic::engine {

// The thread's own: nobody else reads it.
class ThreadGate {
  public:
    enum class State : std::uint8_t {
        kSleep,     // until it is woken
        kBusyPoll,  // looks again and again, and sleeps if nothing comes
        kYield,     // leaves the queue pairs to a program that polls, or posts in bursts
    };
    // What callers have left, at one moment.
    struct Callers {
        std::uint64_t polls_done, polls;  // empty ones, that ended and that began: read in this order
        std::uint64_t arms;               // req_notify calls, and polls that need no other: nobody may poll now
        Cycles deferred_at;               // the last post that was left for somebody else to flush
        bool are_inside_poll() const { return polls_done != polls; }  // one that moves much takes its time
        // Its poster flushes a burst, or polls; the thread would only be in the way.
        bool are_inside_burst(const Times& times, Cycles now) const {
            return (now - deferred_at).is_within(times.burst_goes_on);
        }
    };

    // Before each wait.
    State look(const Times& times, const Callers& callers, Cycles now);
    std::uint64_t arms_seen() const { return seen_arms_; }

    // ---- kYield
    std::chrono::nanoseconds yields_for() const { return tuning::kYield * yields_for_; }
    // It ended, and whether by a kick. True: others did meanwhile what there was to do.
    bool is_driven_by(const Times& times, const Callers& callers, Cycles now, bool kicked) const;

    // ---- kBusyPoll
    bool keeps_looking(const Times& times, Cycles began, Cycles now) const {
        return now >= busy_polls_from_ && now - began < times.busy_poll;
    }
    // It had yielded its processor between two looks, and runs again. A yield that took long met somebody with work.
    void on_run_again(const Times& times, Cycles yielded_at, Cycles now);

    // Behind kBusyPoll and kSleep: there is something to do.
    void on_waited(const Times& times, Cycles began, Cycles now) {
        waits_shortly_ = (now - began).is_within(times.busy_poll * 2);
    }

  private:
    bool waits_shortly_ = false;  // the last time
    // At the last look.
    std::uint64_t seen_done_ = 0, seen_polls_ = 0, seen_arms_ = 0;
    std::uint32_t looks_inside_ = 0;  // since a poll ended
    std::uint32_t yields_for_ = 1;    // in units of the shortest time
    Cycles cooldown_;                 // how long it did not busy-poll, the last time
    Cycles busy_polls_from_;          // it does not before
};

std::string_view name(ThreadGate::State state);

}  // namespace swrnic::engine
