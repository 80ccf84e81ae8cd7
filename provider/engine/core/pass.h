// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// A pass is one stretch of work of one driving thread. It owns staging memory, collects what has to be told to the host
// once the locks are gone, and is what destruction waits for: whoever unlinks an object calls synchronize() and then
// owns it alone.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "engine/core/types.h"
#include "wire/terminate.h"

namespace swrnic::engine {

class Cq;

// Host calls owed; made by the driver after unlocking and before the pass ends.
struct Outbox {
    struct Event {
        AsyncEvent event;
        std::uint32_t id;
    };
    struct Closed {
        std::uint32_t qpn;
        CloseReason reason;
        std::optional<wire::TerminateCode> terminate;  // with kError; 0/0/0 is a code like any other
        bool sent;                                     // by us, else by the peer
    };
    std::vector<std::uint32_t> notify;  // CQ handles
    std::vector<Event> events;
    std::vector<std::uint32_t> ready;  // QPNs
    std::vector<Closed> closed;
    bool empty() const { return notify.empty() && events.empty() && ready.empty() && closed.empty(); }
};

class PassPool {
    struct alignas(kCacheLine) Slot {
        std::atomic<std::uint64_t> sequence{0};  // odd while a pass runs
        std::unique_ptr<std::byte[]> staging;
        Outbox outbox;
    };

  public:
    static constexpr std::size_t kSlots = 64;
    // Of one read; what is carried over is the QP's. Not a whole number of pages: reads of a full socket are as long as
    // this, and where one meets a distance at which the kernel's copy is slow (copy.h), so would all behind it.
    static constexpr std::size_t kRxStaging = 192 * 1024 - 1088;
    static_assert(kRxStaging % 4096 >= 64 && kRxStaging % 4096 <= 4096 - 64);
    // Of one send. Least: holds the largest FPDU twice, with and without markers.
    static constexpr std::size_t kLeastTxStaging = 160 * 1024, kTxStaging = 8 * kLeastTxStaging;
    static constexpr std::size_t kTxScratch = 64 * 1024;  // slices and records of one send

    // Movable, ends with its scope. Belongs to the thread that began it.
    class Pass {
      public:
        Pass(Pass&& other) noexcept : slot_(other.slot_) { other.slot_ = nullptr; }
        Pass(const Pass&) = delete;
        Pass& operator=(const Pass&) = delete;
        Pass& operator=(Pass&&) = delete;
        ~Pass() {
            if (slot_ != nullptr) end();
        }
        std::span<std::byte> rx_staging() { return {staging(), kRxStaging}; }
        std::span<std::byte> tx_staging() { return {staging() + kRxStaging, kTxStaging}; }
        std::span<std::byte> tx_scratch() { return {staging() + kRxStaging + kTxStaging, kTxScratch}; }
        Outbox& outbox() { return slot_->outbox; }

      private:
        friend class PassPool;
        explicit Pass(Slot* slot) : slot_(slot) {}
        std::byte* staging();
        void end();
        Slot* slot_;
    };

    // For those who may not wait: the passes that ran at one moment, but the caller's own.
    class Grace {
      public:
        bool over() const;

      private:
        friend class PassPool;
        const PassPool* pool_;
        std::array<std::uint64_t, kSlots> running_;  // sequence; 0: none
    };
    Grace grace(const Pass& own) const;

    // Waits (spins) in the unlikely case that all slots are in use: passes are short. Looks for a free one from `first`
    // on: who asks for another than others do finds it, and its staging, warm.
    Pass begin(std::size_t first = 0);
    // Returns when every pass that was running at the call has ended. Not from inside a pass.
    void synchronize();

  private:
    std::array<Slot, kSlots> slots_;
};

using Pass = PassPool::Pass;

}  // namespace swrnic::engine
