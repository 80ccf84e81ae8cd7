// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// What the owner of foreign memory does with a run of FPDUs, in place of the module: for its userspace shims in tests.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

#include "wire/fpdu.h"

namespace swrnic::engine::test {

struct FpduRun {
    std::uint32_t placed = 0, octets = 0;  // FPDUs, and octets of their payload
    std::uint32_t last = 0, ended = 0;     // octets of the last one's payload; FPDUs with L
    bool whole = false;                    // the last one has it
    std::size_t length = 0;                // their raw octets
};

// Whether `next` has the same header but for L, `payload` octets further.
inline bool continues(const std::byte* fpdu, std::size_t payload, const std::byte* next, std::size_t header) {
    const bool tagged = header == wire::kFpduHeaderLen + wire::kTaggedHeaderLen;
    const std::size_t offset = header - (tagged ? 8 : 4);
    constexpr std::byte kLast{0x40};
    const std::size_t control = wire::kFpduHeaderLen;
    if (((fpdu[control] ^ next[control]) & ~kLast) != std::byte{0}) return false;
    if (!std::equal(fpdu + control + 1, fpdu + offset, next + control + 1)) return false;
    if (tagged) return wire::load_be64(next + offset) == wire::load_be64(fpdu + offset) + payload;
    return wire::load_be32(next + offset) == wire::load_be32(fpdu + offset) + payload;
}

// place(offset, payload, last) puts a payload to `offset` octets behind the place of the first; false: it cannot.
// writes: behind L the next message may go on.
template <typename Place>
FpduRun place_fpdus(std::span<const std::byte> octets, std::size_t header, bool crc, bool more, bool writes,
                    Place&& place) {
    FpduRun run;
    for (;;) {
        const auto rest = octets.subspan(run.length);
        const std::size_t ulpdu_len = wire::load_be16(rest.data());
        const std::size_t size = wire::fpdu_size(ulpdu_len);
        if (size > rest.size() || (crc && !wire::fpdu_crc_ok(rest.first(size)))) return run;
        const auto payload = rest.subspan(header, wire::kFpduHeaderLen + ulpdu_len - header);
        const bool last = (rest[wire::kFpduHeaderLen] & std::byte{0x40}) != std::byte{0};
        if (!place(run.octets, payload, last)) return run;
        ++run.placed;
        run.last = static_cast<std::uint32_t>(payload.size());
        run.octets += run.last;
        run.ended += last ? 1 : 0;
        run.whole = last;
        run.length += size;
        if (last && !writes) return run;
        const auto next = octets.subspan(run.length);
        if (!more || next.size() < header || wire::kFpduHeaderLen + wire::load_be16(next.data()) <= header ||
            !continues(rest.data(), payload.size(), next.data(), header))
            return run;
    }
}

// What is handed over of FPDUs that follow one that was placed. more: the end of the stream is not what cuts the last.
inline std::size_t handed_over(std::span<const std::byte> octets, bool more) {
    constexpr std::size_t kShort = 540, kShortMessage = 4096, kBeginning = 64;
    std::size_t done = 0;
    while (octets.size() - done > wire::kFpduHeaderLen) {
        const std::size_t size = wire::fpdu_size(wire::load_be16(octets.data() + done));
        const bool whole = size <= octets.size() - done;
        const bool last = (octets[done + wire::kFpduHeaderLen] & std::byte{0x40}) != std::byte{0};
        if ((whole || more) && size > (last ? kShortMessage : kShort))
            return std::min(done + kBeginning, octets.size());
        if (!whole) break;
        done += size;
    }
    return octets.size();
}

}  // namespace swrnic::engine::test
