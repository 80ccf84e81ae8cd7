// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "engine/core/memory.h"

#include <bit>

#include "engine/core/memory_region.h"

namespace swrnic::engine {

// Open addressing over the index, which is random already. Readers probe while a writer works: a slot goes from empty
// to a region, maybe to another of the same STag, to the tombstone and never back, and growing makes a new array.
struct MemoryTable::Slots {
    explicit Slots(std::size_t capacity) : mask(capacity - 1), entries(capacity) {}
    std::size_t mask;
    std::vector<std::atomic<Region*>> entries;
};

namespace {

constexpr std::size_t kFirstCapacity = 64;
// What the device announces of regions and windows. The 24-bit index space stays sparse, so that guessing is hopeless.
constexpr std::size_t kMaxRegions = (std::size_t{1} << 20) + (std::size_t{1} << 16);

template <typename Region>
Region* tombstone() {
    return reinterpret_cast<Region*>(std::uintptr_t{1});
}

}  // namespace

MemoryTable::MemoryTable(PassPool& passes, RandomSource& random, ForeignMemory* foreign)
    : passes_(passes), random_(random), foreign_(foreign), slots_(new Slots(kFirstCapacity)) {}

MemoryTable::~MemoryTable() {
    Slots* slots = slots_.load();
    for (auto& entry : slots->entries) {
        if (Region* region = entry.load(); region != nullptr && region != tombstone<Region>()) delete region;
    }
    delete slots;
}

MemoryTable::Region* MemoryTable::find(std::uint32_t stag) const {
    const Slots* slots = slots_.load(std::memory_order_seq_cst);
    for (std::size_t i = stag >> 8;; ++i) {
        Region* region = slots->entries[i & slots->mask].load(std::memory_order_seq_cst);
        if (region == nullptr) return nullptr;
        if (region == tombstone<Region>() || region->stag >> 8 != stag >> 8) continue;
        return region->stag == stag || region->window ? region : nullptr;
    }
}

bool MemoryTable::grow() {
    Slots* old = slots_.load();
    if ((used_ + 1) * 2 <= old->mask + 1) return true;
    auto bigger = std::make_unique<Slots>(std::bit_ceil((live_ + 1) * 4));
    for (auto& entry : old->entries) {
        Region* region = entry.load();
        if (region == nullptr || region == tombstone<Region>()) continue;
        std::size_t i = region->stag >> 8;
        while (bigger->entries[i & bigger->mask].load() != nullptr)
            ++i;
        bigger->entries[i & bigger->mask].store(region);
    }
    used_ = live_;
    slots_.store(bigger.release(), std::memory_order_seq_cst);
    passes_.synchronize();
    delete old;
    return true;
}

std::uint32_t MemoryTable::add(std::uint32_t pd, std::byte* data, std::uint64_t length, std::uint64_t to,
                               std::uint32_t access_flags) {
    auto region = std::make_unique<Region>();
    region->pd = pd;
    region->span = {data, length, to, access_flags};
    region->remote_valid = (access_flags & kRemoteAccess) != 0;
    return insert(std::move(region));
}

std::uint32_t MemoryTable::insert(std::unique_ptr<Region> fresh) {
    const std::lock_guard hold(writers_);
    if (live_ >= kMaxRegions || !grow()) return 0;
    Slots* slots = slots_.load();
    for (;;) {
        const std::uint32_t stag = random_.next32();
        if (stag >> 8 == 0) continue;  // VERBS-28: the index is not 0, so STag 0 is never valid
        std::size_t i = stag >> 8;
        std::atomic<Region*>* free_slot = nullptr;
        bool taken = false;
        for (;; ++i) {
            std::atomic<Region*>& entry = slots->entries[i & slots->mask];
            Region* region = entry.load();
            if (region == nullptr) {
                free_slot = &entry;
                break;
            }
            if (region != tombstone<Region>() && region->stag >> 8 == stag >> 8) {
                taken = true;
                break;
            }
        }
        if (taken) continue;
        fresh->stag = stag;
        free_slot->store(fresh.release(), std::memory_order_seq_cst);
        ++live_;
        ++used_;
        return stag;
    }
}

bool MemoryTable::remove(std::uint32_t stag) {
    return take_out(stag, false);
}

bool MemoryTable::remove_window(std::uint32_t stag) {
    return take_out(stag, true);
}

// Under writers_. Null: no such region or window.
std::atomic<MemoryTable::Region*>* MemoryTable::slot_of(std::uint32_t stag, bool window) {
    Slots* slots = slots_.load();
    for (std::size_t i = stag >> 8;; ++i) {
        std::atomic<Region*>& entry = slots->entries[i & slots->mask];
        Region* region = entry.load();
        if (region == nullptr) return nullptr;
        if (region == tombstone<Region>() || region->stag >> 8 != stag >> 8) continue;
        return region->window.has_value() == window && (window || region->stag == stag) ? &entry : nullptr;
    }
}

bool MemoryTable::take_out(std::uint32_t stag, bool window) {
    std::unique_ptr<Region> dead;
    std::vector<WindowBindingPtr> buried;
    {
        const std::lock_guard hold(writers_);
        std::atomic<Region*>* entry = slot_of(stag, window);
        if (entry == nullptr) return false;
        const std::lock_guard hold_bindings(binders_);
        Region* region = entry->load();
        if (region->windows != 0) return false;
        region->gone = true;
        unbind(*region);
        buried.swap(buried_);
        dead.reset(region);
        entry->store(tombstone<Region>(), std::memory_order_seq_cst);
        --live_;
    }
    passes_.synchronize();
    return true;
}

bool MemoryTable::change_access(std::uint32_t stag, std::uint32_t access_flags) {
    auto fresh = std::make_unique<Region>();
    std::unique_ptr<Region> dead;
    {
        const std::lock_guard hold(writers_);
        std::atomic<Region*>* entry = slot_of(stag, false);
        if (entry == nullptr) return false;
        const std::lock_guard hold_bindings(binders_);
        Region* region = entry->load();
        if (region->windows != 0) return false;
        region->gone = true;
        fresh->stag = region->stag;
        fresh->pd = region->pd;
        fresh->span = region->span;
        fresh->span.access = access_flags;
        fresh->remote_valid = (access_flags & kRemoteAccess) != 0;
        dead.reset(region);
        entry->store(fresh.release(), std::memory_order_seq_cst);
    }
    passes_.synchronize();
    return true;
}

void MemoryTable::unbind_all(std::uint32_t qpn) {
    const std::lock_guard hold(writers_);
    const std::lock_guard hold_bindings(binders_);
    for (auto& entry : slots_.load()->entries) {
        Region* region = entry.load();
        if (region == nullptr || region == tombstone<Region>() || !region->window) continue;
        if (const WindowBinding* binding = region->binding.load(); binding != nullptr && binding->qpn == qpn)
            unbind(*region);
    }
}

MemoryView MemoryTable::look_up(std::uint32_t pd, std::uint32_t stag, std::uint64_t to, std::uint64_t length,
                                std::uint32_t access_needed, std::uint32_t qpn) const {
    const Region* region = find(stag);
    if (region == nullptr) return {foreign_ == nullptr ? MemoryError::kInvalidStag : MemoryError::kForeign, nullptr};
    const bool remote = (access_needed & kRemoteAccess) != 0;
    const MemorySpan* span = &region->span;
    bool foreign = region->pd != pd;
    if (region->window) {
        const WindowBinding* binding = region->binding.load(std::memory_order_seq_cst);
        // A window's STag names nothing for local use.
        if (binding == nullptr || binding->stag != stag || !binding->valid.load() || !remote)
            return {MemoryError::kInvalidStag, nullptr};
        span = &binding->span;
        foreign = foreign || (binding->qpn != 0 && binding->qpn != qpn);
    } else if (remote && (span->access & kRemoteAccess) != 0 && !region->remote_valid.load()) {
        return {MemoryError::kInvalidStag, nullptr};
    }
    if (foreign) return {MemoryError::kWrongPd, nullptr};
    if ((span->access & access_needed) != access_needed) return {MemoryError::kAccess, nullptr};
    if (to + length < to) return {MemoryError::kWrap, nullptr};  // DDP-34: wrap goes before bounds
    if (!span->holds(to, length)) return {MemoryError::kBounds, nullptr};
    return {MemoryError::kNone, span->data + (to - span->to)};
}

MemoryView MemoryTable::look_up_local(std::uint32_t pd, const Sge& sge, std::uint32_t access_needed) const {
    return look_up(pd, sge.lkey, sge.addr, sge.length, access_needed);
}

}  // namespace swrnic::engine
