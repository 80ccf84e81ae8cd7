// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// What copy.S does, on processors that it does not know: there a fault ends the process.
#include "engine/core/copy.h"

#if !SWRNIC_RECOVERS_FROM_FAULTS

#include <atomic>
#include <cstring>

namespace swrnic::engine {

extern "C" bool swrnic_copy(std::byte* to, const std::byte* from, std::size_t length) {
    std::memcpy(to, from, length);
    return true;
}

extern "C" bool swrnic_fetch_add(std::byte* at, std::uint64_t add, std::uint64_t* original) {
    *original = std::atomic_ref(*reinterpret_cast<std::uint64_t*>(at)).fetch_add(add);
    return true;
}

extern "C" bool swrnic_compare_swap(std::byte* at, std::uint64_t compare, std::uint64_t swap, std::uint64_t* original) {
    *original = compare;
    std::atomic_ref(*reinterpret_cast<std::uint64_t*>(at)).compare_exchange_strong(*original, swap);
    return true;
}

}  // namespace swrnic::engine

#endif
