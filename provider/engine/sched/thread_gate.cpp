// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "engine/sched/thread_gate.h"

#include <algorithm>
#include <array>

namespace swrnic::engine {

ThreadGate::State ThreadGate::look(const Times& times, const Callers& callers, Cycles now) {
    // One that does not end for many looks may have lost its processor.
    looks_inside_ = callers.polls_done == seen_done_ ? looks_inside_ + 1 : 0;
    const bool inside = callers.are_inside_poll() && looks_inside_ < tuning::kLooksInside;
    const bool goes_on =
        callers.polls - seen_polls_ >= tuning::kPollerPolls * yields_for_ || (inside && looks_inside_ == 0);
    const bool active = (goes_on || inside || callers.are_inside_burst(times, now)) && callers.arms == seen_arms_;
    yields_for_ = active && goes_on ? std::min(yields_for_ * 2, tuning::kLongestYield) : 1;
    seen_done_ = callers.polls_done;
    seen_polls_ = callers.polls;
    seen_arms_ = callers.arms;
    if (active) return State::kYield;
    const bool busy = times.busy_poll > Cycles() && waits_shortly_ && now >= busy_polls_from_;
    return busy ? State::kBusyPoll : State::kSleep;
}

bool ThreadGate::is_driven_by(const Times& times, const Callers& callers, Cycles now, bool kicked) const {
    return !kicked && (callers.polls - seen_polls_ >= tuning::kPollerPolls || callers.are_inside_poll() ||
                       callers.are_inside_burst(times, now));
}

void ThreadGate::on_run_again(const Times& times, Cycles yielded_at, Cycles now) {
    if (now - yielded_at <= times.busy_poll) return;
    const bool again = now - busy_polls_from_ < cooldown_;
    cooldown_ = again ? std::min(cooldown_ * 2, times.longest_cooldown) : times.cooldown;
    busy_polls_from_ = now + cooldown_;
}

std::string_view name(ThreadGate::State state) {
    constexpr std::array<std::string_view, 3> kNames{"sleep", "busy-poll", "yield"};
    return kNames[static_cast<std::size_t>(state)];
}

}  // namespace swrnic::engine
