// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// The rings of a QP. Indices are free-running; the slot is index modulo the ring's size. Operations are named by role:
// a producer reserves and publishes, the consumer peeks and releases.
#pragma once

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <new>
#include <span>

#include "engine/core/types.h"

namespace swrnic::engine {

struct SendWqe {
    std::uint64_t wr_id;
    std::uint64_t remote_to;  // Writes, kRead, atomics, kBind; Sends: their MSN, of kSendImm that of its Immediate Data
    std::uint32_t
        remote_stag;  // Writes, kRead, atomics: STag at the peer; kSendInv, kLocalInv: to invalidate; kBind: the window
    std::uint32_t length;        // octets of payload: of the whole message, or of an atomic's result
    std::uint32_t reads_before;  // requests that await a Response, posted before this one: its place in read order, and
                                 // what a fence waits for
    std::uint32_t sink_stag;  // kRead, atomics: TX's own note of what the Request says (of an atomic its identifier);
                              // kWriteImm: MSN of its Immediate Data
    WrOpcode opcode;
    std::uint8_t flags;       // send_flag
    std::uint16_t sge_count;  // 0 with kInline
    std::uint32_t imm_data;   // kWriteImm, kSendImm

    bool has(std::uint32_t flag) const { return (flags & flag) != 0; }
    Sge* sges() { return reinterpret_cast<Sge*>(this + 1); }
    const Sge* sges() const { return reinterpret_cast<const Sge*>(this + 1); }
    std::byte* inline_data() { return reinterpret_cast<std::byte*>(this + 1); }
    BindWr& bind() { return *reinterpret_cast<BindWr*>(this + 1); }          // kBind
    AtomicWr& atomic() { return *reinterpret_cast<AtomicWr*>(sges() + 1); }  // behind its only element
    static constexpr std::size_t kLeastRoom = sizeof(Sge) + sizeof(AtomicWr);
    static_assert(sizeof(BindWr) <= kLeastRoom);
};

struct RecvWqe {
    std::uint64_t wr_id;
    std::uint64_t length;  // octets that the elements hold together, as far as a message can fill them
    std::uint32_t sge_count;
    std::uint32_t reserved;

    Sge* sges() { return reinterpret_cast<Sge*>(this + 1); }
    const Sge* sges() const { return reinterpret_cast<const Sge*>(this + 1); }
};

inline constexpr std::uint64_t kMaxMessage = 0xffffffff;  // RFC 5041 5.2

inline std::uint64_t total_length(std::span<const Sge> sges) {
    std::uint64_t total = 0;
    for (const Sge& sge : sges)
        total += sge.length;
    return total;
}

// A receive as it is posted; the slot has room for its elements.
inline void fill(RecvWqe& wqe, const RecvWr& wr) {
    wqe.wr_id = wr.wr_id;
    wqe.length = std::min(total_length(wr.sges), kMaxMessage);
    wqe.sge_count = static_cast<std::uint32_t>(wr.sges.size());
    std::copy(wr.sges.begin(), wr.sges.end(), wqe.sges());
}

inline WorkCompletion make_completion(std::uint32_t qpn, std::uint64_t wr_id, WcStatus status, WcOpcode opcode) {
    return {wr_id, status, opcode, 0, qpn, 0, {0}, 0, 0, 0, 0};
}

// Single consumer, producers serialised by the caller. Slots of one size: a fixed part and room behind it.
template <typename Wqe>
class WqeRing {
  public:
    WqeRing(std::uint32_t max_outstanding, std::size_t room)
        : max_outstanding_(max_outstanding),
          mask_(std::bit_ceil(max_outstanding) - 1),
          stride_((sizeof(Wqe) + room + alignof(Wqe) - 1) / alignof(Wqe) * alignof(Wqe)),
          // calloc: pages that no request ever reached stay untouched
          slots_(static_cast<std::byte*>(std::calloc(std::size_t{mask_} + 1, stride_)), &std::free) {
        if (!slots_) throw std::bad_alloc();
    }

    // The slot for the next request, nullptr when max_outstanding are not released yet.
    Wqe* reserve() {
        // acquire: the slot's former request is read no more once its release is seen
        if (written_ - head_.load(std::memory_order_acquire) >= max_outstanding_) return nullptr;
        return slot(written_);
    }
    // For the producer: how many requests it may publish now.
    std::size_t room() const { return max_outstanding_ - (written_ - head_.load(std::memory_order_acquire)); }
    // release: the consumer sees a whole request
    void publish() {
        ++written_;
        if (!holds_) [[likely]]
            tail_.store(written_, std::memory_order_release);
    }
    // For the producer: what is published meanwhile is not seen before it ends.
    void hold(bool holds) {
        holds_ = holds;
        if (!holds) tail_.store(written_, std::memory_order_release);
    }

    std::uint64_t head() const { return head_.load(std::memory_order_acquire); }
    std::uint64_t tail() const { return tail_.load(std::memory_order_acquire); }
    Wqe* peek(std::uint64_t index) { return slot(index); }
    // release: see reserve()
    void release() { head_.store(head_.load(std::memory_order_relaxed) + 1, std::memory_order_release); }

  private:
    Wqe* slot(std::uint64_t index) { return reinterpret_cast<Wqe*>(slots_.get() + (index & mask_) * stride_); }

    const std::uint32_t max_outstanding_;
    const std::uint64_t mask_;
    const std::size_t stride_;
    std::unique_ptr<std::byte, void (*)(void*)> slots_;
    std::uint64_t written_ = 0;  // the producer's
    bool holds_ = false;         // the same
    std::atomic<std::uint64_t> head_{0}, tail_{0};
};

// A small ring between one producer and one consumer that hold different locks (IRQ: RX to TX; ORQ: TX to RX).
template <typename Entry>
class SpscRing {
  public:
    void resize(std::uint32_t capacity) {  // while neither side runs
        capacity_ = capacity;
        entries_ = std::make_unique<Entry[]>(std::max(capacity, 1u));
        head_ = tail_ = 0;
    }
    bool publish(const Entry& entry) {
        const std::uint64_t tail = tail_.load(std::memory_order_relaxed);
        if (tail - head_.load(std::memory_order_acquire) >= capacity_) return false;
        entries_[tail % capacity_] = entry;
        tail_.store(tail + 1, std::memory_order_release);
        return true;
    }
    bool empty() const { return head_.load(std::memory_order_relaxed) == tail_.load(std::memory_order_acquire); }
    std::uint32_t size() const {
        return static_cast<std::uint32_t>(tail_.load(std::memory_order_acquire) -
                                          head_.load(std::memory_order_acquire));
    }
    std::uint32_t capacity() const { return capacity_; }
    // Producer's count of all entries ever published, modulo 2^32.
    std::uint32_t published() const { return static_cast<std::uint32_t>(tail_.load(std::memory_order_relaxed)); }
    // Consumer's view; index counts from the oldest entry and is below size().
    const Entry& peek(std::uint32_t index = 0) const {
        return entries_[(head_.load(std::memory_order_relaxed) + index) % capacity_];
    }
    // The consumer's own notes in an entry.
    Entry& take_up(std::uint32_t index) {
        return entries_[(head_.load(std::memory_order_relaxed) + index) % capacity_];
    }
    void release() { head_.store(head_.load(std::memory_order_relaxed) + 1, std::memory_order_release); }

  private:
    std::uint32_t capacity_ = 0;
    std::unique_ptr<Entry[]> entries_;
    std::atomic<std::uint64_t> head_{0}, tail_{0};
};

}  // namespace swrnic::engine
