// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// The memory table: STag -> region or window. Look-ups take no lock and happen anew for every segment and every
// resumption (RFC 5042 6.2.2); a pointer that they return is good until the end of the pass.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "engine/core/foreign_memory.h"
#include "engine/core/pass.h"
#include "engine/core/random.h"
#include "engine/core/types.h"

namespace swrnic::engine {

struct MemoryView {
    MemoryError error;
    std::byte* data;  // valid when error is kNone
};

struct WindowBinding;  // memory_region.h
struct DeleteBinding {
    void operator()(WindowBinding* binding) const;
};
using WindowBindingPtr = std::unique_ptr<WindowBinding, DeleteBinding>;

class MemoryTable {
  public:
    // All of them outlive the table. foreign: the table stays empty, and every
    // look-up says kForeign.
    MemoryTable(PassPool& passes, RandomSource& random, ForeignMemory* foreign = nullptr);
    ~MemoryTable();
    MemoryTable(const MemoryTable&) = delete;
    MemoryTable& operator=(const MemoryTable&) = delete;

    // The new STag: 24-bit index and 8-bit key, both random; 0 when the table is full. length is not 0.
    std::uint32_t add(std::uint32_t pd, std::byte* data, std::uint64_t length, std::uint64_t to,
                      std::uint32_t access_flags);
    // Dead at once; returns after the passes that may have looked it up. False: no such STag, or windows are bound to
    // it. Not from inside a pass.
    bool remove(std::uint32_t stag);
    // The rights of a region, under the STag that it has; a remote use that was invalidated is granted anew. Otherwise
    // as remove(). May throw std::bad_alloc, and then nothing has changed.
    bool change_access(std::uint32_t stag, std::uint32_t access_flags);

    // A window, bound to nothing. Its STag's index stays, the key is chosen anew with each binding; 0 when the table is
    // full.
    std::uint32_t add_window(std::uint32_t pd, WindowType type);
    // By index. Ends its binding. As remove().
    bool remove_window(std::uint32_t stag);
    // The windows that this QP has bound are bound no more.
    void unbind_all(std::uint32_t qpn);

    // From inside a pass, of the QP that asks. What they take away is gone for every look-up that comes; who must know
    // that none is under way any more waits for grace().
    //
    // The window goes over to `stag` and [addr, addr + length) of the region. `replaced` may be looked at until grace
    // is over.
    bool bind(std::uint32_t pd, std::uint32_t qpn, std::uint32_t stag, std::uint64_t addr, const BindWr& wish,
              WindowBindingPtr& replaced);
    // Remote access of the region, or of a window of type 2 of this QP, ends: Send with Invalidate, RFC 5040 5.3. For
    // local use a region stays what it is.
    MemoryError invalidate_remote(std::uint32_t pd, std::uint32_t stag, std::uint32_t qpn = 0);
    // The same by our own side; it does no harm where there is nothing left to take away.
    bool invalidate_local(std::uint32_t pd, std::uint32_t stag, std::uint32_t qpn);
    PassPool::Grace grace(const Pass& own) const { return passes_.grace(own); }
    // A replaced binding that nobody could wait for.
    void bury(WindowBindingPtr binding);

    // [to, to + length) of the region, if all of access_needed is granted. length is not 0. In DDP-31's order: STag,
    // PD, access, wrap, bounds. Remote bits in access_needed make it a remote access, by the QP of that number.
    MemoryView look_up(std::uint32_t pd, std::uint32_t stag, std::uint64_t to, std::uint64_t length,
                       std::uint32_t access_needed, std::uint32_t qpn = 0) const;
    // Local use of an lkey, by virtual address.
    MemoryView look_up_local(std::uint32_t pd, const Sge& sge, std::uint32_t access_needed) const;

    // Null: memory is ours.
    ForeignMemory* foreign() const { return foreign_; }

    struct Region;  // memory_region.h

  private:
    struct Slots;
    static constexpr std::uint32_t kRemoteAccess = access::kRemoteWrite | access::kRemoteRead | access::kRemoteAtomic;

    // A region by its whole STag, a window by its index.
    Region* find(std::uint32_t stag) const;
    std::uint32_t insert(std::unique_ptr<Region> region);
    bool take_out(std::uint32_t stag, bool window);
    std::atomic<Region*>* slot_of(std::uint32_t stag, bool window);
    static void unbind(Region& window);
    static bool may_bind(const Region* region, std::uint32_t pd, std::uint64_t addr, const BindWr& wish);
    MemoryError invalidate_window(Region& window, std::uint32_t pd, std::uint32_t stag, std::uint32_t qpn);
    bool grow();

    PassPool& passes_;
    RandomSource& random_;
    ForeignMemory* const foreign_;
    std::mutex writers_;  // of the slots; held while passes are waited for, so never taken inside one
    std::mutex binders_;  // leaf: what is bound to what
    std::atomic<Slots*> slots_;
    std::size_t live_ = 0;                  // regions; under writers_
    std::size_t used_ = 0;                  // regions and tombstones; under writers_
    std::vector<WindowBindingPtr> buried_;  // under binders_; freed when passes are waited for next
};

}  // namespace swrnic::engine
