// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "wire/crc32c.h"

#include <isa-l/crc.h>

#include <algorithm>

namespace swrnic::wire {

std::uint32_t crc32c_update(std::uint32_t state, const void* data, std::size_t length) {
    // ISA-L neither starts nor ends with a complement; it counts in int and promises not to write through its pointer.
    constexpr std::size_t kMaxStep = std::size_t{1} << 30;
    const unsigned char* at = static_cast<const unsigned char*>(data);
    while (length > 0) {
        const std::size_t step = std::min(length, kMaxStep);
        state = crc32_iscsi(const_cast<unsigned char*>(at), static_cast<int>(step), state);
        at += step;
        length -= step;
    }
    return state;
}

}  // namespace swrnic::wire
