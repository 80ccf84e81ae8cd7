// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// What RX and TX share of RDMA Reads and atomics: those of the peer that wait for their Responses, ours that are
// outstanding, and how deep both may go.
#pragma once

#include <atomic>
#include <cstdint>

#include "engine/core/memory.h"
#include "engine/core/qp_status.h"
#include "engine/core/queues.h"
#include "engine/core/types.h"
#include "wire/rdmap.h"

namespace swrnic::engine {

// An inbound Read or Atomic Request that waits for its Response: RX publishes, TX releases (RFC 5040 5.2).
struct InboundRead {
    enum class State : std::uint8_t { kRead, kAtomic, kExecuted };

    wire::ReadRequest request;  // size 0 if it is an atomic
    std::uint32_t msn;          // quoted when the source turns out to be gone
    State state = State::kRead;
    std::uint32_t response_msn = 0;  // TX's, kExecuted, as the next one
    std::uint64_t original = 0;
    wire::AtomicRequest atomic{};

    bool is_atomic() const { return state != State::kRead; }
};

// An outbound Read or atomic whose Response is due: TX publishes before the request can leave, RX releases.
struct OutboundRead {
    std::uint64_t send_index;  // kNoWqe for an RTR or a question
    std::uint32_t sink_stag;  // ephemeral: names the WQE's scatter list, where TO counts from 0; an atomic's identifier
    std::uint32_t length;
    std::uint32_t msn;
    std::uint64_t confirms = 0;  // a question's: the peer has placed all requests before this index when it answers
    static constexpr std::uint64_t kNoWqe = ~std::uint64_t{0};
};

class ReadState {
  public:
    ReadState(std::uint32_t pd, std::uint32_t qpn, const MemoryTable& memory, const QpStatus& status)
        : pd_(pd), qpn_(qpn), memory_(memory), status_(status) {}

    // Under the RX and the TX lock. Throws std::bad_alloc.
    void start(const StreamParameters& parameters);

    // Whether the peer may send one more Request: IRD.
    bool takes_request() const {
        const std::uint32_t unanswered = irq.published() - responses_given.load(std::memory_order_acquire);
        return unanswered < depth_ && irq.size() != irq.capacity();
    }
    // Whether the source of an inbound Read may be read as a whole. Its size is not 0. RFC 5040 5.2.1.
    MemoryError check_source(const wire::ReadRequest& request) const;
    // The eight octets of an inbound atomic.
    MemoryView find_target(const wire::AtomicRequest& request) const;

    std::atomic<std::uint32_t> completed{0};  // RX: Responses delivered
    // Twice IRD: a slot is free again when its Response is handed to TCP (RFC 5040 6.1), and the peer's next Request
    // may be here before TX has come back from that call and released the entry.
    SpscRing<InboundRead> irq;
    std::atomic<std::uint32_t> responses_given{0};  // TX: Responses in or before the send that is under way
    SpscRing<OutboundRead> orq;
    std::atomic<std::uint32_t> answered{0};  // RX: questions

  private:
    std::uint32_t depth_ = 0;  // IRD
    const std::uint32_t pd_, qpn_;
    const MemoryTable& memory_;
    const QpStatus& status_;
};

}  // namespace swrnic::engine
