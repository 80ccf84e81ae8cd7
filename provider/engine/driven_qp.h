// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// A QP together with what its drivers need: who must look at it, and by when.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <memory_resource>

#include "engine/core/qp.h"
#include "engine/sched/poll_gate.h"
#include "engine/sched/send_gate.h"
#include "populated_pool.h"

namespace swrnic::engine {

using Clock = std::chrono::steady_clock;
using Time = Clock::time_point;

inline std::int64_t ticks(Time time) {
    return time.time_since_epoch().count();
}

// Why a driver must look at a QP: bits. What is posted stands in cache lines of its poster, who is at it just when
// something comes in: who only receives leaves them alone.
enum Reason : unsigned { kToReceive = 1, kToSend = 2 };

struct DrivenQp final : Qp {
    using Qp::Qp;

    // epoll has told of the peer's end: a short read does not show it, but from now on every real read brings data or
    // the end. Set once in a connection.
    std::atomic<bool> hung_up{false};

    std::atomic<int> fd{-1};                            // of the stream, while there is one
    std::atomic<std::uint64_t> earlier_retransmits{0};  // of streams that have ended

    // Left by whoever has work for the side and leaves it to another, or finds its lock taken (Lock::take_or_flag).
    alignas(kCacheLine) std::atomic<bool> rx_due{false};
    PollGate polls;
    // Deadlines, as Clock ticks; 0: none. Checked when the timer that was armed with them fires.
    std::atomic<std::int64_t> stalled_since{0};  // the receive queue is empty and the stream is left unread
    std::uint64_t stalls_seen = 0;               // whose stall it is; under the RX lock
    std::atomic<std::int64_t> must_end_by{0};    // closing or terminating
    // A wired QP's request waits for its peer no longer than that, a span of the ticks; 0: for ever.
    std::atomic<std::int64_t> patience{0};
    std::atomic<std::int64_t> peer_must_come_by{0};
    // A Send of its peer waits for a receive no longer than so many times that, a span of the ticks. A wired peer tells
    // its retries, rdma_cm's program its own (Connection); the timer is InfiniBand's default.
    std::atomic<std::int64_t> rnr_timer{Clock::duration(std::chrono::microseconds(655'360)).count()};
    std::atomic<std::int8_t> rnr_retry{-1};  // not wired; -1: EngineOptions::rnr_timeout
    std::int64_t timer_at = 0;               // when its one timer fires; 0: none; under the engine's timer lock

    alignas(kCacheLine) std::atomic<unsigned> ready{0};  // Reasons; not 0: stands in ReadyQueue, or will in a moment
    // Its place there, under the queue's lock.
    DrivenQp* ready_next = nullptr;
    DrivenQp* ready_prev = nullptr;
    bool ready_retired = false;

    alignas(kCacheLine) std::atomic<bool> tx_due{false};
    std::atomic<bool> tx_blocked{false};  // the socket is full: EPOLLOUT will tell
    std::atomic<bool> fin_sent{false};
    std::atomic<bool> sending_broke{false};  // what came in before is still received, until must_end_by
    SendGate sends;
};

// A QP goes back to the pool that it came from.
struct PutBack {
    PopulatedPool* pool = nullptr;
    void operator()(DrivenQp* qp) const { std::pmr::polymorphic_allocator<>(pool).delete_object(qp); }
};
using DrivenQpPtr = std::unique_ptr<DrivenQp, PutBack>;

}  // namespace swrnic::engine
