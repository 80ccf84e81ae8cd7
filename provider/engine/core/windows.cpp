// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Memory windows: binding, and the ends of what may be used from afar.
#include <mutex>
#include <new>

#include "engine/core/memory.h"
#include "engine/core/memory_region.h"

namespace swrnic::engine {

void DeleteBinding::operator()(WindowBinding* binding) const {
    delete binding;
}

std::uint32_t MemoryTable::add_window(std::uint32_t pd, WindowType type) {
    auto window = std::make_unique<Region>();
    window->pd = pd;
    window->window = type;
    return insert(std::move(window));
}

// Under binders_.
void MemoryTable::unbind(Region& window) {
    WindowBinding* binding = window.binding.load();
    if (binding != nullptr && binding->valid.exchange(false)) --binding->region->windows;
}

bool MemoryTable::may_bind(const Region* region, std::uint32_t pd, std::uint64_t addr, const BindWr& wish) {
    if (region == nullptr || region->window || region->gone || region->pd != pd) return false;
    const std::uint32_t rights = region->span.access;
    if ((rights & access::kMwBind) == 0) return false;
    // What the peer may change is what we may change ourselves (VERBS-31).
    const bool changes = (wish.access & (access::kRemoteWrite | access::kRemoteAtomic)) != 0;
    if (changes && (rights & access::kLocalWrite) == 0) return false;
    // A region that was invalidated is not for remote use until it is registered anew.
    if ((rights & kRemoteAccess) != 0 && !region->remote_valid.load()) return false;
    return addr + wish.length >= addr && region->span.holds(addr, wish.length);
}

bool MemoryTable::bind(std::uint32_t pd, std::uint32_t qpn, std::uint32_t stag, std::uint64_t addr, const BindWr& wish,
                       WindowBindingPtr& replaced) {
    Region* window = find(stag);
    Region* region = find(wish.region);
    if (window == nullptr || !window->window || window->pd != pd) return false;
    const bool type_2 = window->window == WindowType::kType2;
    WindowBindingPtr fresh(new (std::nothrow)
                               WindowBinding{.stag = stag, .qpn = type_2 ? qpn : 0, .span = {}, .region = region});
    if (!fresh) return false;

    const std::lock_guard hold(binders_);
    if (window->gone) return false;
    const WindowBinding* last = window->binding.load();
    // Type 2 is invalidated before it is bound again; type 1 goes from one binding to the next.
    if (type_2 && ((last != nullptr && last->valid.load()) || wish.length == 0)) return false;
    if (wish.length == 0) {
        unbind(*window);
        return true;
    }
    if (!may_bind(region, pd, addr, wish)) return false;
    const MemorySpan& whole = region->span;
    fresh->span = {whole.data + (addr - whole.to), wish.length, (wish.access & access::kZeroBased) != 0 ? 0 : addr,
                   wish.access & kRemoteAccess};
    unbind(*window);
    ++region->windows;
    replaced.reset(window->binding.exchange(fresh.release(), std::memory_order_seq_cst));
    return true;
}

MemoryError MemoryTable::invalidate_window(Region& window, std::uint32_t pd, std::uint32_t stag, std::uint32_t qpn) {
    const std::lock_guard hold(binders_);
    const WindowBinding* binding = window.binding.load();
    if (binding == nullptr || binding->stag != stag || !binding->valid.load()) return MemoryError::kInvalidStag;
    if (window.pd != pd || (binding->qpn != 0 && binding->qpn != qpn)) return MemoryError::kWrongPd;
    if (window.window != WindowType::kType2) return MemoryError::kAccess;  // shared by streams (SEC-16)
    unbind(window);
    return MemoryError::kNone;
}

MemoryError MemoryTable::invalidate_remote(std::uint32_t pd, std::uint32_t stag, std::uint32_t qpn) {
    Region* region = find(stag);
    if (region == nullptr) return foreign_ == nullptr ? MemoryError::kInvalidStag : foreign_->invalidate(qpn, stag);
    if (region->window) return invalidate_window(*region, pd, stag, qpn);
    if (region->pd != pd) return MemoryError::kWrongPd;
    const std::lock_guard hold(binders_);
    if (region->windows != 0) return MemoryError::kAccess;
    // Without remote rights, or already invalid: nothing to invalidate (SEC-16, RDMAP-23).
    return region->remote_valid.exchange(false) ? MemoryError::kNone : MemoryError::kInvalidStag;
}

bool MemoryTable::invalidate_local(std::uint32_t pd, std::uint32_t stag, std::uint32_t qpn) {
    if (invalidate_remote(pd, stag, qpn) == MemoryError::kNone) return true;
    // The peer may have been first.
    Region* region = find(stag);
    if (region == nullptr || region->pd != pd) return false;
    if (!region->window) return (region->span.access & kRemoteAccess) != 0 && !region->remote_valid.load();
    if (region->window != WindowType::kType2) return false;
    const WindowBinding* binding = region->binding.load();
    return binding == nullptr ? region->stag == stag : binding->stag == stag && !binding->valid.load();
}

void MemoryTable::bury(WindowBindingPtr binding) {
    const std::lock_guard hold(binders_);
    buried_.push_back(std::move(binding));
}

}  // namespace swrnic::engine
