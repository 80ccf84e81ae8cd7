// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// A completion queue. The innermost lock of the order; held for copies only.
#pragma once

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstdint>
#include <memory>
#include <mutex>
#include <utility>

#include "engine/core/lock.h"
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
        // False: the completion is lost, and with it the stream whose QP it was. Inline: a small message would pay for
        // the call.
        [[gnu::always_inline]] bool push(const WorkCompletion& completion, bool solicited) {
            SWRNIC_PROBE(completion, completion.qpn, completion.wr_id, static_cast<int>(completion.status),
                         static_cast<int>(completion.opcode), completion.byte_len);
            const std::uint64_t tail = cq_.tail_.load(std::memory_order_relaxed);
            if (tail - cq_.head_.load(std::memory_order_relaxed) == cq_.capacity_) {
                // CQ_ERR, once.
                if (!std::exchange(cq_.overflowed_, true))
                    pass_.outbox().events.push_back({AsyncEvent::kCqErr, cq_.handle_});
                return false;
            }
            WorkCompletion& slot = cq_.ring_[tail & (cq_.capacity_ - 1)];
            slot = completion;
            if (cq_.clock_ != nullptr) slot.timestamp = cq_.clock_();
            cq_.tail_.store(tail + 1, std::memory_order_release);
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
        std::lock_guard<Mutex> hold_;
    };

    // Hands up to max completions to sink(const WorkCompletion&), oldest first; returns how many.
    template <typename Sink>
    int poll(int max, Sink&& sink) {
        if (is_empty()) return 0;
        const std::lock_guard hold(mutex_);
        const std::uint64_t head = head_.load(std::memory_order_relaxed);
        const auto found = static_cast<std::int64_t>(tail_.load(std::memory_order_relaxed) - head);
        const auto count = std::clamp<std::int64_t>(max, 0, found);
        const std::uint64_t end = head + static_cast<std::uint64_t>(count);
        for (std::uint64_t i = head; i != end; ++i)
            sink(static_cast<const WorkCompletion&>(ring_[i & (capacity_ - 1)]));
        head_.store(end, std::memory_order_release);
        return static_cast<int>(count);
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

    // At the second look: tail_ is never behind head_. Most polls find it so, and need no lock.
    bool is_empty() const {
        const std::uint64_t head = head_.load(std::memory_order_acquire);
        return tail_.load(std::memory_order_acquire) == head;
    }

    std::uint32_t capacity_;
    const std::uint32_t handle_;
    const CompletionClock clock_;
    mutable Mutex mutex_;
    std::atomic<std::uint64_t> head_{0}, tail_{0};  // free-running; written under the lock
    Armed armed_ = Armed::kNo;
    bool overflowed_ = false;
    std::unique_ptr<WorkCompletion[]> ring_;
};

}  // namespace swrnic::engine
