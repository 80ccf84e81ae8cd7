// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// When the posts of one queue pair leave: docs/PROGRESS.md, "Posts". It decides, and does nothing itself.
#pragma once

#include <atomic>
#include <cstdint>
#include <string_view>

#include "engine/core/tx.h"
#include "engine/sched/times.h"

namespace swrnic::engine {

// Written by posters, and by whoever flushes what was gathered; a guess that two of them make at once may be wrong, so
// all of it is relaxed.
class SendGate {
  public:
    // Where the last post stands in its burst.
    enum class State : std::uint8_t {
        kFirst,   // no other came closely before it
        kSecond,  // a program may write, send and then look at memory alone
        kBurst,   // more follow
        kLong,    // their program keeps its queue full, and polls for room
    };
    enum class Decision : std::uint8_t {
        kFlush,   // its caller sends all that is there
        kGather,  // it waits for the poster's next post, for a poll or for the thread
        kCork,    // its caller sends whole packets of what is there
    };

    State state() const {
        const std::uint32_t posts = posts_.load(std::memory_order_relaxed);
        if (is_burst(posts)) return is_long(posts) ? State::kLong : State::kBurst;
        return posts == 0 ? State::kFirst : State::kSecond;
    }

    // `posted`: octets ever posted. `epoch` counts empty polls and req_notify calls: each ends all that is gathered.
    Decision on_post(const Times& times, Cycles now, std::uint64_t posted, std::uint64_t epoch) {
        const bool large = posted - rung_octets_.load(std::memory_order_relaxed) > Tx::kCopy;
        rung_octets_.store(posted, std::memory_order_relaxed);
        large_.store(large, std::memory_order_relaxed);
        const Cycles gap = now - posted_at_.load(std::memory_order_relaxed);
        const std::uint32_t before = posts_.load(std::memory_order_relaxed);
        const bool polled = flushed_in_epoch_.load(std::memory_order_relaxed) != epoch;
        const bool paused = is_long(before) && !large ? gap > times.long_burst_gap : polled || gap > times.burst_gap;
        const std::uint32_t posts = paused ? 0 : before + 1;
        posts_.store(posts, std::memory_order_relaxed);
        posted_at_.store(now, std::memory_order_relaxed);
        if (is_burst(posts) && now - flushed_at_.load(std::memory_order_relaxed) <= times.gather &&
            posted - flushed_octets_.load(std::memory_order_relaxed) <=
                (large ? tuning::kDeferredLarge : tuning::kDeferredSmall))
            return Decision::kGather;
        flushed_in_epoch_.store(epoch, std::memory_order_relaxed);
        flushed_octets_.store(posted, std::memory_order_relaxed);
        return is_long(posts) ? Decision::kCork : Decision::kFlush;
    }
    // Somebody else drives it. False: nothing was gathered.
    bool take_gathered(std::uint64_t posted) {
        return flushed_octets_.exchange(posted, std::memory_order_relaxed) != posted;
    }
    // The gaps of a burst count from the end of its flush, which takes longer than any of them.
    void on_flushed(Cycles now) {
        posted_at_.store(now, std::memory_order_relaxed);
        flushed_at_.store(now, std::memory_order_relaxed);
    }
    // What was posted last is large.
    bool ends_large() const { return large_.load(std::memory_order_relaxed); }
    // Its program has kept the queue full just now: it waits for room, or for the peer to say that it may go on.
    bool waits_for_peer(const Times& times, Cycles now) const {
        return state() == State::kLong && now - posted_at_.load(std::memory_order_relaxed) < times.stream_goes_on;
    }

  private:
    static constexpr bool is_burst(std::uint32_t posts) { return posts >= 2; }
    static constexpr bool is_long(std::uint32_t posts) { return posts >= tuning::kLongBurst; }

    std::atomic<std::uint64_t> rung_octets_{0};  // posted by the last post
    std::atomic<bool> large_{false};             // the last post
    std::atomic<std::uint64_t> flushed_octets_{0};
    std::atomic<std::uint64_t> flushed_in_epoch_{~std::uint64_t{0}};
    std::atomic<Cycles> flushed_at_{}, posted_at_{};
    std::atomic<std::uint32_t> posts_{0};  // behind the first of the burst
};

std::string_view name(SendGate::State state);
std::string_view name(SendGate::Decision decision);

}  // namespace swrnic::engine
