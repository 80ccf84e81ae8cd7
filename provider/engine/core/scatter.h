// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// A scatter/gather list as a run of octets: [offset, offset + length) of the list as slices of memory.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "engine/core/memory.h"
#include "engine/core/transport.h"

namespace swrnic::engine {

struct SliceResult {
    MemoryError error;
    std::uint32_t count;   // slices written
    std::uint32_t length;  // octets that they hold: all that was asked for unless the room ran out
};

// Each element's region is looked up anew, for the piece that is used. Elements of length 0 are not looked at
// (VERBS-9).
inline SliceResult slice_sges(const MemoryTable& memory, std::uint32_t pd, const Sge* sges, std::uint32_t sge_count,
                              std::uint64_t offset, std::uint32_t length, std::uint32_t access_needed, IoSlice* out,
                              std::uint32_t room) {
    SliceResult result{MemoryError::kNone, 0, 0};
    for (std::uint32_t i = 0; i < sge_count && result.length < length && result.count < room; ++i) {
        if (offset >= sges[i].length) {
            offset -= sges[i].length;
            continue;
        }
        const auto piece =
            static_cast<std::uint32_t>(std::min<std::uint64_t>(sges[i].length - offset, length - result.length));
        const MemoryView view = memory.look_up_local(pd, {sges[i].addr + offset, piece, sges[i].lkey}, access_needed);
        if (view.error != MemoryError::kNone) return {view.error, 0, 0};
        out[result.count++] = {view.data, piece};
        result.length += piece;
        offset = 0;
    }
    return result;
}

}  // namespace swrnic::engine
