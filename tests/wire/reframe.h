// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// The sending side of the framing, for tests that compare it with octets on record.
#pragma once

#include <algorithm>
#include <span>

#include "golden/vectors.h"
#include "wire/fpdu.h"

namespace swrnic::wire {

// The raw FPDU that carries `ulpdu` at this stream position.
inline golden::Bytes reframed(std::span<const std::byte> ulpdu, std::uint64_t position, bool markers, bool crc) {
    golden::Bytes raw(kFpduHeaderLen + ulpdu.size() + pad_len(ulpdu.size()));
    store_be16(raw.data(), static_cast<std::uint16_t>(ulpdu.size()));
    std::copy(ulpdu.begin(), ulpdu.end(), raw.begin() + kFpduHeaderLen);
    if (markers) {
        const golden::Bytes logical = raw;
        raw.assign(fpdu_size_with_markers(position, ulpdu.size()), std::byte(0xee));
        if (insert_markers(position, logical, raw) != raw.size()) return {};
    } else {
        raw.resize(fpdu_size(ulpdu.size()));
    }
    seal_fpdu(raw, crc);
    return raw;
}

}  // namespace swrnic::wire
