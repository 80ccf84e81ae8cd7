// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// What stands in the memory table: regions, and windows with what they are bound to. For the table's own files.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "engine/core/memory.h"

namespace swrnic::engine {

// What an STag opens: [to, to + length) is at data, for these rights.
struct MemorySpan {
    std::byte* data;
    std::uint64_t length;
    std::uint64_t to;
    std::uint32_t access;

    bool holds(std::uint64_t from, std::uint64_t octets) const {
        return from >= to && octets <= length && from - to <= length - octets;
    }
};

struct MemoryTable::Region {
    std::uint32_t stag;  // of a window: what it was made with
    std::uint32_t pd;
    MemorySpan span{};
    std::atomic<bool> remote_valid{false};

    std::optional<WindowType> window;              // it is one
    std::atomic<WindowBinding*> binding{nullptr};  // of a window, its last; owned
    std::uint32_t windows = 0;                     // bound to this region; under binders_
    bool gone = false;                             // under binders_

    ~Region() { WindowBindingPtr(binding.load()); }
};

// Never changed but for its end: a new binding is a new object.
struct WindowBinding {
    std::uint32_t stag;
    std::uint32_t qpn;  // that alone may use it; 0: every QP of the PD
    MemorySpan span;
    MemoryTable::Region* region;
    std::atomic<bool> valid{true};
};

}  // namespace swrnic::engine
