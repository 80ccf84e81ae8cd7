// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// A completion queue. The innermost lock of the order; held for copies only.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <memory>
#include <mutex>
#include <utility>

#include "engine/core/pass.h"
#include "engine/core/probes.h"
#include "engine/core/types.h"

namespace swrnic::engine {

class Cq {
  public:
    // clock: stamps every completion; null: none is stamped.
    Cq(std::uint32_t min_entries, std::uint32_t handle, CompletionClock clock = nullptr)
        : capacity_(std::bit_ceil(std::max(min_entries, 1u))),
          handle_(handle),
          clock_(clock),
          ring_(std::make_unique_for_overwrite<WorkCompletion[]>(capacity_)) {}

    std::uint32_t entries() const {
        const std::lock_guard hold(mutex_);
        return capacity_;
    }

    // False: more completions than that stand in it. Throws std::bad_alloc.
    bool resize(std::uint32_t min_entries) {
        const std::uint32_t capacity = std::bit_ceil(std::max(min_entries, 1u));
        auto ring = std::make_unique_for_overwrite<WorkCompletion[]>(capacity);
        const std::lock_guard hold(mutex_);
        if (tail_ - head_ > min_entries) return false;
        for (std::uint64_t i = head_; i != tail_; ++i)
            ring[i & (capacity - 1)] = ring_[i & (capacity_ - 1)];
        std::swap(ring_, ring);
        capacity_ = capacity;
        return true;
    }

    // Appends completions under one hold of the lock; what the host must hear goes into the pass's outbox.
    class Producer {
      public:
        Producer(Cq& cq, Pass& pass) : cq_(cq), pass_(pass), hold_(cq.mutex_) {}
        // False: the completion is lost, and with it the stream whose QP it was.
        bool push(const WorkCompletion& completion, bool solicited) {
            SWRNIC_PROBE(completion, completion.qpn, completion.wr_id, static_cast<int>(completion.status),
                         static_cast<int>(completion.opcode), completion.byte_len);
            if (cq_.tail_ - cq_.head_ == cq_.capacity_) {
                // CQ_ERR, once.
                if (!std::exchange(cq_.overflowed_, true))
                    pass_.outbox().events.push_back({AsyncEvent::kCqErr, cq_.handle_});
                return false;
            }
            WorkCompletion& slot = cq_.ring_[cq_.tail_++ & (cq_.capacity_ - 1)];
            slot = completion;
            if (cq_.clock_ != nullptr) slot.timestamp = cq_.clock_();
            const bool matches = solicited || completion.status != WcStatus::kSuccess;  // VERBS-8
            if (cq_.armed_ == Armed::kAny || (cq_.armed_ == Armed::kSolicited && matches)) {
                cq_.armed_ = Armed::kNo;
                pass_.outbox().notify.push_back(cq_.handle_);
            }
            return true;
        }

      private:
        Cq& cq_;
        Pass& pass_;
        std::lock_guard<std::mutex> hold_;
    };

    // Hands up to max completions to sink(const WorkCompletion&), oldest first; returns how many.
    template <typename Sink>
    int poll(int max, Sink&& sink) {
        const std::lock_guard hold(mutex_);
        int count = 0;
        while (count < max && head_ != tail_) {
            sink(static_cast<const WorkCompletion&>(ring_[head_++ & (capacity_ - 1)]));
            ++count;
        }
        return count;
    }

    // The next completion after this call raises one event. An arming for any completion is not weakened by a later
    // solicited-only.
    void arm(bool solicited_only) {
        const std::lock_guard hold(mutex_);
        if (!solicited_only) {
            armed_ = Armed::kAny;
        } else if (armed_ == Armed::kNo) {
            armed_ = Armed::kSolicited;
        }
    }

    // Forgets the completions of a QP that is being destroyed; its number may come again.
    void purge(std::uint32_t qpn) {
        const std::lock_guard hold(mutex_);
        std::uint64_t keep = head_;
        for (std::uint64_t i = head_; i != tail_; ++i) {
            const WorkCompletion completion = ring_[i & (capacity_ - 1)];
            if (completion.qpn != qpn) ring_[keep++ & (capacity_ - 1)] = completion;
        }
        tail_ = keep;
    }

  private:
    enum class Armed : std::uint8_t { kNo, kSolicited, kAny };

    std::uint32_t capacity_;
    const std::uint32_t handle_;
    const CompletionClock clock_;
    mutable std::mutex mutex_;
    std::uint64_t head_ = 0, tail_ = 0;  // free-running
    Armed armed_ = Armed::kNo;
    bool overflowed_ = false;
    std::unique_ptr<WorkCompletion[]> ring_;
};

}  // namespace swrnic::engine
