// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Each number that decides who drives a queue pair, and when: its value with its unit, why it is there, and what
// defends it. "2026-11-23" and the like are the measurement of that day in bench/history; those were taken while three
// cycles were taken for a nanosecond, on processors whose counter makes 2.4, so that what was a time then lasts a fifth
// less now.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>

namespace swrnic::engine::tuning {

using namespace std::chrono_literals;
using std::chrono::nanoseconds;

// ---- bursts of posts: flush, gather, cork ----

// Posts that follow one another faster than this, without a poll in between, are a burst.
inline constexpr nanoseconds kBurstGap = 2us;
// So many posts make a long burst: a program that keeps its queue full, and polls only for room. What it posts within
// the gap behind such a poll belongs to the burst still; flushed alone, small FPDUs would cost as much as full packets.
inline constexpr std::uint32_t kLongBurst = 16;
inline constexpr nanoseconds kLongBurstGap = 20us;
// A burst's poster flushes this often itself.
inline constexpr nanoseconds kGather = 40us;
// The time between two deferrals of one burst at most, the flush between them included.
inline constexpr nanoseconds kBurstGoesOn = 200us;
// Octets that may wait for somebody else to flush them, where payloads are copied and where each is a slice of its own.
// The kernel copies faster in few large sends than in many small ones.
inline constexpr std::uint64_t kDeferredSmall = 500 * 1024;
inline constexpr std::uint64_t kDeferredLarge = 256 * 1024;

// ---- polls: look now, or back off ----

// A turn that brings either makes a stream of its QP, until one brings less.
inline constexpr std::size_t kBulkOctets = 16 * 1024;
inline constexpr std::uint64_t kBulkFpdus = 16;
// After a turn of a stream polls leave it alone for the one, or up to the other where its sender flushes so seldom. For
// the rest of a large FPDU, which cannot have come yet, a part of the one: 64 KiB take it whole.
inline constexpr nanoseconds kBulkBackoff = 8us;
inline constexpr nanoseconds kLongestBackoff = 24us;
// Between two receive calls while a stream comes in, and behind a long burst of the program's own; no longer than so
// long after the last of either.
inline constexpr nanoseconds kEarlyBackoff = 4us;
inline constexpr nanoseconds kStreamGoesOn = 1ms;
// A poll that flushes tries its stream this often: its program has something to do, and does not wait for what comes.
inline constexpr nanoseconds kFlushGap = 20us;
// A poll tries the QP that moved last, at the price of one receive call. It asks epoll for the others at once while
// they have news, and after at most so long when they had none.
inline constexpr nanoseconds kLongestGap = 80us;
// QPs get their turns for so long, so that a poll of many which move much ends, and brings completions, before its
// program is taken for one that has lost its processor.
inline constexpr nanoseconds kLongTurn = 100us;
inline constexpr std::size_t kReadyBudget = 64;  // QPs
inline constexpr int kRxBudget = 16;             // steps of one side before other QPs get their turn
inline constexpr int kTxBudget = 16;

// ---- the thread: drive, busy-poll, yield to a poller, sleep ----

// How long the thread yields to a poller before it looks again: bounds how late a target whose poller fell silent is
// served. Each look takes a processor from the poller, so a poller that goes on is looked after less and less: not
// before it has polled as long again, or the longest time (so many times the first). A poster of bursts that does not
// poll gets the shortest time each time: what its peer sends is received by the thread alone.
inline constexpr nanoseconds kYield = 150us;
inline constexpr std::uint32_t kLongestYield = 32;
// So many empty polls in that time make a poller.
inline constexpr std::uint64_t kPollerPolls = 4;
// So many looks of the thread a poll may take: a bound as above, for a poller that was stopped inside.
inline constexpr std::uint32_t kLooksInside = 4;
// A thread whose last wait was short, no longer than two busy-polls, busy-polls before it sleeps: to be woken costs a
// processor that halts many times what a message does. It yields the processor between two looks; a yield that took
// longer than a busy-poll met somebody who has work for it, and would be run again only when the scheduler takes it
// from him: then the thread sleeps at once, for a cooldown, since who sleeps is run when he is woken. A host that took
// the processor away looks the same, so the cooldown is short at first, and longer while it happens again soon.
inline constexpr nanoseconds kBusyPoll = 100us;
inline constexpr nanoseconds kCooldown = 2ms;
inline constexpr nanoseconds kLongestCooldown = 64 * kCooldown;
// Turns in a row on its poster's processor, before the thread leaves it. To leave takes as long as some messages; where
// it does not last, it is seldom tried.
inline constexpr std::uint32_t kTogether = 32;
inline constexpr std::uint32_t kTogetherAgain = 1024;

// ---- ends and reports ----

inline constexpr std::chrono::seconds kLinger = 1s;  // for the peer's FIN after ours, and for a Terminate to get out
// A timer that comes so late tells of a process that was stopped, by a debugger say: it had no time to post receives
// either.
inline constexpr std::chrono::milliseconds kStopped = 100ms;
// What is counted is told this often while it moves, and of so many sockets the kernel is asked each time.
inline constexpr std::chrono::milliseconds kReportEvery = 250ms;
inline constexpr std::size_t kSocketsPerReport = 256;
// One empty poll in so many is timed, for all of them.
inline constexpr std::uint64_t kTimedPolls = 64;

}  // namespace swrnic::engine::tuning
