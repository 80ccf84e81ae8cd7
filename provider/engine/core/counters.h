// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// What a QP counts. The memory is the caller's, and may be shared with readers in other processes.
//
// One writer at a time: TX counters under the TX lock, RX counters under the RX lock; each kind has its cache line. So
// a plain load and store will do, and no locked instruction is spent. Readers load without a lock, any time.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

namespace swrnic::engine {

// Bytes are ULP payload; messages are counted when their last FPDU is with TCP, or is placed.
enum class Count : std::uint32_t {
    kTxBytes = 0,
    kTxFpdus,
    kTxSends,
    kTxWrites,
    kTxReadRequests,
    kTxReadResponses,
    kTxTerminates,
    kTxCalls,  // send system calls
    kRxBytes = 8,
    kRxFpdus,
    kRxSends,
    kRxWrites,
    kRxReadRequests,
    kRxReadResponses,
    kRxTerminates,
    kRxCalls,           // receive system calls
    kRxCrcErrors = 16,  // at most one in a connection: it ends it
    kRxStalls,          // a Send met an empty receive queue, and the stream was left unread
    kRxStallNs,         // how long
    kRetransmits,       // TCP segments sent again; this, kRttUs and kRttVarUs by the driver, from the socket
    kRxDrops,           // of UD and UC, what was of no use: no receive, too long, another Q_Key, a stranger's
    kRttUs,
    kRttVarUs,
    kState,              // QpState, as of now
    kTxTerminated = 24,  // four cells each: a Terminate's code and how many of it
    kRxTerminated = 28,
    kEnd = 32,
};

class Counters {
  public:
    static constexpr std::size_t kCells = static_cast<std::size_t>(Count::kEnd);
    static constexpr std::size_t kCodes = 4;  // codes told apart; the last cell takes all others

    void add(Count what, std::uint64_t by) {
        std::atomic<std::uint64_t>& at = cell(what);
        at.store(at.load(std::memory_order_relaxed) + by, std::memory_order_relaxed);
    }
    void set(Count what, std::uint64_t value) { cell(what).store(value, std::memory_order_relaxed); }
    std::uint64_t get(Count what) const {
        return cells_[static_cast<std::size_t>(what)].load(std::memory_order_relaxed);
    }

    // A Terminate's code as layer << 12 | type << 8 | code. A cell: 1 << 48 | code << 32 | how many.
    void add_terminate(Count first, std::uint32_t code) {
        const std::uint64_t name = std::uint64_t{1} << 48 | std::uint64_t{code & 0xffff} << 32;
        for (std::size_t i = 0; i < kCodes; ++i) {
            std::atomic<std::uint64_t>& at = cells_[static_cast<std::size_t>(first) + i];
            const std::uint64_t now = at.load(std::memory_order_relaxed);
            if (now != 0 && now >> 32 != name >> 32 && i != kCodes - 1) continue;
            at.store((now != 0 ? now : name) + 1, std::memory_order_relaxed);
            return;
        }
    }

  private:
    std::atomic<std::uint64_t>& cell(Count what) { return cells_[static_cast<std::size_t>(what)]; }

    std::array<std::atomic<std::uint64_t>, kCells> cells_{};
};
static_assert(sizeof(Counters) == Counters::kCells * 8 && std::atomic<std::uint64_t>::is_always_lock_free);

// What one engine counts beside its QPs. Written by the threads named, read by anybody.
struct EngineCounters {
    std::atomic<std::uint64_t> thread_ns{0};    // CPU time of the background thread
    std::atomic<std::uint64_t> poller_ns{0};    // spent driving in polls that found nothing; an estimate from samples
    std::atomic<std::uint64_t> empty_polls{0};  // such polls
};

}  // namespace swrnic::engine
