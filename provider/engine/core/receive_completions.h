// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Completions of a QP's receives on their way to the CQ. Most go there at once; one waits, and those behind it,
//  - while a send of ours is inside its call: TCP may have taken the Send that the peer has answered already, and
//    programs rely on it that the completion of their Send comes before the receive of the answer;
//  - if it says that the peer has invalidated an STag, while others may still be placing through it (SEC-6, SEC-10).
#pragma once

#include <atomic>
#include <memory>
#include <vector>

#include "engine/core/cq.h"
#include "engine/core/lock.h"
#include "engine/core/pass.h"
#include "engine/core/queues.h"
#include "engine/core/types.h"

namespace swrnic::engine {

class ReceiveCompletions {
  public:
    explicit ReceiveCompletions(Cq& cq) : cq_(cq) {}

    // ---- under the TX lock
    void send_begins() { sending_.store(true, std::memory_order_relaxed); }  // seen by whoever sees what was sent
    // The Sends that were taken are completed. False: a completion is lost.
    [[nodiscard]] bool send_ended(Pass& pass) {
        sending_.store(false, std::memory_order_seq_cst);
        return !waiting_.load(std::memory_order_seq_cst) || publish(pass);
    }

    // ---- under the RX lock
    // Gives the receive back to its queue. False: a completion is lost. Throws std::bad_alloc before anything has
    // changed.
    [[nodiscard]] bool push(const WorkCompletion& done, bool solicited, WqeRing<RecvWqe>& from, Pass& pass) {
        if (sending_.load(std::memory_order_acquire) || waiting_.load(std::memory_order_acquire)) [[unlikely]]
            return wait(done, solicited, from, nullptr, pass);
        from.release();  // first: who sees the completion may post at once
        return Cq::Producer(cq_, pass).push(done, solicited);
    }
    // The same, of one that says that the peer has invalidated an STag: behind those who may still use it.
    [[nodiscard]] bool push_behind(const PassPool::Grace& users, const WorkCompletion& done, bool solicited,
                                   WqeRing<RecvWqe>& from, Pass& pass) {
        return users.over() ? push(done, solicited, from, pass) : wait(done, solicited, from, &users, pass);
    }
    bool any_waits() const { return waiting_.load(std::memory_order_acquire); }
    // One of them waits for passes of others, and nobody says when they are over: who receives must come again. He
    // receives nothing more meanwhile, since the end of the stream would flush it.
    bool waits_for_passes();
    // What need not wait any longer. False: a completion is lost. Also under the TX lock.
    [[nodiscard]] bool publish(Pass& pass);

    // ---- under both: the stream is over. What cannot be said any more, that nobody uses the STag, is not said.
    [[nodiscard]] bool end(Pass& pass);
    // Nothing is said of what still waits.
    void forget();

  private:
    struct Waiting {
        WorkCompletion done;
        bool solicited;
        std::unique_ptr<PassPool::Grace> users;  // null: it waits for none
        bool is_ready() const { return users == nullptr || users->over(); }
    };

    [[gnu::cold]] bool wait(const WorkCompletion& done, bool solicited, WqeRing<RecvWqe>& from,
                            const PassPool::Grace* users, Pass& pass);
    bool publish_ready(Pass& pass);

    Cq& cq_;
    std::atomic<bool> sending_{false};  // TX is inside the call that sends
    // There are some. seq_cst against send_ended(): either TX sees it, or who set it sees that TX has come back.
    std::atomic<bool> waiting_{false};
    Mutex mutex_;                 // a leaf
    std::vector<Waiting> queue_;  // oldest first
};

}  // namespace swrnic::engine
