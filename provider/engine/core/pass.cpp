// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "engine/core/pass.h"

namespace swrnic::engine {

std::byte* PassPool::Pass::staging() {
    if (!slot_->staging) {
        slot_->staging = std::make_unique_for_overwrite<std::byte[]>(kRxStaging + kTxStaging + kTxScratch);
    }
    return slot_->staging.get();
}

void PassPool::Pass::end() {
    slot_->sequence.fetch_add(1, std::memory_order_seq_cst);
    slot_->sequence.notify_all();  // a look at the waiter count when nobody synchronizes
}

PassPool::Pass PassPool::begin(std::size_t first) {
    for (std::size_t i = first;; ++i) {
        Slot& slot = slots_[i % kSlots];
        std::uint64_t sequence = slot.sequence.load(std::memory_order_relaxed);
        // seq_cst: ordered before every look-up of the pass, against unlink-then-synchronize on the other side.
        if (sequence % 2 == 0 &&
            slot.sequence.compare_exchange_strong(sequence, sequence + 1, std::memory_order_seq_cst)) {
            return Pass(&slot);
        }
    }
}

PassPool::Grace PassPool::grace(const Pass& own) const {
    Grace grace;
    grace.pool_ = this;
    for (std::size_t i = 0; i < kSlots; ++i) {
        const std::uint64_t sequence = slots_[i].sequence.load(std::memory_order_seq_cst);
        grace.running_[i] = sequence % 2 != 0 && &slots_[i] != own.slot_ ? sequence : 0;
    }
    return grace;
}

bool PassPool::Grace::over() const {
    for (std::size_t i = 0; i < kSlots; ++i) {
        if (running_[i] != 0 && pool_->slots_[i].sequence.load(std::memory_order_seq_cst) == running_[i]) return false;
    }
    return true;
}

void PassPool::synchronize() {
    for (Slot& slot : slots_) {
        const std::uint64_t seen = slot.sequence.load(std::memory_order_seq_cst);
        if (seen % 2 == 0) continue;
        while (slot.sequence.load(std::memory_order_seq_cst) == seen)
            slot.sequence.wait(seen, std::memory_order_seq_cst);
    }
}

}  // namespace swrnic::engine
