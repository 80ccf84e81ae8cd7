// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// The receives of a QP: its own, or the one that it has taken out of a shared queue, ours or foreign memory's, for the
// Send in progress.
#pragma once

#include <cstdint>

#include "engine/core/lock.h"
#include "engine/core/memory.h"
#include "engine/core/pass.h"
#include "engine/core/queues.h"
#include "engine/core/srq.h"
#include "engine/core/types.h"

namespace swrnic::engine {

class Cq;
struct Fault;

class ReceiveQueue {
  public:
    // memory outlives the queue. Throws std::bad_alloc.
    ReceiveQueue(const QpInit& init, MemoryTable& memory);

    // ---- any thread
    PostResult post(const RecvWr& wr);
    // A receive is posted, here or to the shared queue.
    bool has_any() const { return !is_empty() || (srq_ != nullptr && !srq_->empty()); }

    // ---- under the RX lock
    // Whether there is a receive for the Send in progress; takes it out of the shared queue if need be.
    bool take() { return !is_empty() || take_shared(); }
    RecvWqe& oldest() { return *ring_.peek(ring_.head()); }
    WqeRing<RecvWqe>& ring() { return ring_; }  // for who completes the oldest
    // Whose regions receives may name.
    std::uint32_t pd() const { return pd_; }
    // What the shared queue has to tell of what was taken.
    void tell(Outbox& outbox) {
        if (srq_ != nullptr) srq_->tell(outbox);
    }

    // ---- under the RX and the TX lock
    // Completes all of them: `fault`, if there is one, says what the oldest failed of.
    void flush(Fault* fault, Pass& pass);
    // No completions.
    void reset();

  private:
    bool is_empty() const { return ring_.head() == ring_.tail(); }
    bool take_shared();

    const std::uint32_t qpn_, pd_, max_sge_;
    Srq* const srq_;  // null: the queue is the QP's own
    Cq& cq_;
    MemoryTable& memory_;
    Mutex posters_;  // leaf: held while a WQE is written
    WqeRing<RecvWqe> ring_;
};

}  // namespace swrnic::engine
