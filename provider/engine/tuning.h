// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Each number that decides who drives a queue pair, and when: its value with its unit, why it is there, and what
// defends it. "11-23" and the like are the trials of that day in bench/history (of 2026). They were made while three
// cycles were taken for a nanosecond, on processors whose counter makes 2.4, so that times lasted a fourth longer than
// they said. The rules: docs/PROGRESS.md.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>

namespace swrnic::engine::tuning {

using namespace std::chrono_literals;
using std::chrono::nanoseconds;

// ---- bursts of posts: flush, gather, cork ----

// Posts that follow one another faster than this, without a poll in between, are a burst. (11-22: the time between
// posts, not from the last flush, halves the calls.)
inline constexpr nanoseconds kBurstGap = 2us;
// So many posts make a long burst: a program that keeps its queue full, and polls only for room. What it posts within
// the gap behind such a poll belongs to the burst still; flushed alone, small FPDUs would cost as much as full packets.
// (11-23: 4 KiB 1.14 to 1.41, 64 octets 1.29. Not for large posts: 0.81, and 11-24 1.39 of 1.43.)
inline constexpr std::uint32_t kLongBurst = 16;
inline constexpr nanoseconds kLongBurstGap = 20us;
// A burst's poster flushes this often itself. (11-23: 40 us, 20 before, in the same trial as the two above.)
inline constexpr nanoseconds kGather = 40us;
// The time between two deferrals of one burst at most, the flush between them included. (11-22: the thread leaves a
// burst to its poster, 4 KiB 2,561 to 3,082 MiB/s.)
inline constexpr nanoseconds kBurstGoesOn = 200us;
// Octets that may wait for somebody else to flush them, where payloads are copied and where each is a slice of its own.
// The kernel copies faster in few large sends than in many small ones. (11-23: 500 KiB, with 120 4 KiB Writes 0.60 and
// not 0.70; 190 and 260 0.77 and not 0.83; 11-26: 190 again behind. Large: 11-22 256; 11-23 120 and 11-24 900 behind.)
inline constexpr std::uint64_t kDeferredSmall = 500 * 1024;
inline constexpr std::uint64_t kDeferredLarge = 256 * 1024;

// ---- polls: look now, or back off ----

// A turn that brings either makes a stream of its QP, until one brings less. (11-23: 16 KiB, 32 before, 4 KiB 0.63 to
// 0.67; 16 FPDUs: calls of 64-octet Sends 0.066 to 0.04.)
inline constexpr std::size_t kBulkOctets = 16 * 1024;
inline constexpr std::uint64_t kBulkFpdus = 16;
// After a turn of a stream polls leave it alone for the one, or up to the other where its sender flushes so seldom. For
// the rest of a large FPDU, which cannot have come yet, a part of the one: 64 KiB take it whole. (11-23: 8 us; 16, 32
// and 64 no better or behind; 11-26: up to 24 between small messages, calls 0.060 to 0.048; for bulk 16 and 24 no
// better. The rest of a large FPDU: 11-22, 1 MiB Reads 3,837 to 3,930 MiB/s.)
inline constexpr nanoseconds kBulkBackoff = 8us;
inline constexpr nanoseconds kLongestBackoff = 24us;
// Between two receive calls while a stream comes in, and behind a long burst of the program's own; no longer than so
// long after the last of either. (11-23 and 11-26, in the trials of the two above.)
inline constexpr nanoseconds kEarlyBackoff = 4us;
inline constexpr nanoseconds kStreamGoesOn = 1ms;
// A poll that flushes tries its stream this often: its program has something to do, and does not wait for what comes.
// (11-23, in the trial of kBulkFpdus.)
inline constexpr nanoseconds kFlushGap = 20us;
// A poll tries the QP that moved last, at the price of one receive call. It asks epoll for the others at once while
// they have news, and after at most so long when they had none. (11-22: seldom, ib_send_lat 1.24 to 1.11 of TCP; 11-23:
// 80 us, 40 before.)
inline constexpr nanoseconds kLongestGap = 80us;
// QPs get their turns for so long, so that a poll of many which move much ends, and brings completions, before its
// program is taken for one that has lost its processor. (11-24: 64 QPs beside one 0.68 to 0.93.)
inline constexpr nanoseconds kLongTurn = 100us;
// Steps of one side in a turn, before other QPs get theirs. (11-26: four times as many no better.)
inline constexpr int kTurnSteps = 16;

// ---- the thread: drive, busy-poll, yield to a poller, sleep ----

// How long the thread yields to a poller before it looks again: bounds how late a target whose poller fell silent is
// served. Each look takes a processor from the poller, so a poller that goes on is looked after less and less: not
// before it has polled as long again, or the longest time (so many times the first). A poster of bursts that does not
// poll gets the shortest time each time: what its peer sends is received by the thread alone. (11-22: intervals that
// double, 150 us each before, 64 octets 1.26 to 1.37.)
inline constexpr nanoseconds kYield = 150us;
inline constexpr std::uint32_t kLongestYield = 32;
// So many empty polls in that time make a poller. (11-26: one is too few, 64 QPs 4,350 to 3,050 MB/s.)
inline constexpr std::uint64_t kPollerPolls = 4;
// So many looks of the thread a poll may take: a bound as above, for a poller that was stopped inside. (11-22: a poll
// that moves much is not taken for one that has ended, 3,477 to 4,857 MiB/s. How many looks was not tried.)
inline constexpr std::uint32_t kLooksInside = 4;
// A thread whose last wait was short, no longer than two busy-polls, busy-polls before it sleeps: to be woken costs a
// processor that halts many times what a message does. It yields the processor between two looks; a yield that took
// longer than a busy-poll met somebody who has work for it, and would be run again only when the scheduler takes it
// from him: then the thread sleeps at once, for a cooldown, since who sleeps is run when he is woken. A host that took
// the processor away looks the same, so the cooldown is short at first, and longer while it happens again soon. (11-23:
// 100 us, ib_send_lat -e 84 to 33 us; 11-24: yields count as long from 500 us on, behind. 11-26: 2 ms, 100 ms
// before, 1.82 to 1.41 of TCP; the longest is about what it was before.)
inline constexpr nanoseconds kBusyPoll = 100us;
inline constexpr nanoseconds kCooldown = 2ms;
inline constexpr nanoseconds kLongestCooldown = 64 * kCooldown;
// Turns in a row on its poster's processor, before the thread leaves it; so many times as many before it leaves again.
// To leave takes as long as some messages, and does not always last. (11-26: p99 of ib_write_lat 387 and 733 us to 251
// and 264, and no run above 1.44 of TCP.)
inline constexpr std::uint32_t kTogether = 32;

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
