// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// A shared receive queue. A QP that has one takes a receive out of it when the first segment of a Send comes, into a
// queue of its own with one place; from there on that receive is like any other of the QP.
//
// Lock: below RX and TX, above CQ. Any thread may post; takers hold their QP's RX lock.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "engine/core/pass.h"
#include "engine/core/queues.h"
#include "engine/core/types.h"

namespace swrnic::engine {

class Qp;

class Srq {
  public:
    // Throws std::bad_alloc.
    Srq(std::uint32_t pd, std::uint32_t max_wr, std::uint32_t max_sge, std::uint32_t handle);

    // Whose regions its receives may name (verbs: the SRQ's domain, not the QP's).
    std::uint32_t pd() const { return pd_; }
    std::uint32_t max_sge() const { return max_sge_; }
    SrqAttributes attributes() const;

    PostResult post(const RecvWr& wr);
    // Moves the oldest receive to `into`, which has room for max_sge elements. False: there is none.
    bool take(RecvWqe& into);
    bool empty() const;

    // Once there are fewer than `limit` receives, now or when one is taken, kSrqLimitReached is raised, and nothing is
    // armed any more; 0: never. False: above max_wr.
    bool arm_limit(std::uint32_t limit);
    // False: more receives than that are outstanding. Throws std::bad_alloc.
    bool resize(std::uint32_t max_wr);
    // Puts the event that is due, if any, where the host will hear of it.
    void tell(Outbox& outbox);

    // QPs whose stream is left unread until a receive is posted. A QP looks for receives once more after wait().
    void wait(Qp& qp);
    void forget(const Qp& qp);
    bool has_waiters() const { return has_waiters_.load(std::memory_order_relaxed); }
    // All that wait, which are to look for receives in this order. Of QPs that wait again and again each is first once.
    std::vector<Qp*> take_waiters();

  private:
    using Ring = WqeRing<RecvWqe>;
    std::unique_ptr<Ring> make_ring(std::uint32_t max_wr) const;
    void look_at_limit();  // under the lock

    const std::uint32_t pd_, max_sge_, handle_;
    mutable std::mutex mutex_;
    std::uint32_t max_wr_;
    std::unique_ptr<Ring> ring_;
    std::uint32_t limit_ = 0;
    std::atomic<bool> limit_reached_{false};
    std::vector<Qp*> waiters_;
    std::atomic<bool> has_waiters_{false};  // written under the lock; whoever posted under it since reads it right
};

}  // namespace swrnic::engine
