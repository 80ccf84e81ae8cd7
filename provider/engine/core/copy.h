// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Copies of payload.
#pragma once

#include <cstddef>
#include <cstring>

namespace swrnic::engine {

// From somewhat more than this on, the C library copies by `rep movsb` where the processor says that it is fast. On AMD
// Zen 3 it is fifteen times as slow where the target lies 1 to 31 octets ahead of the source, taken modulo a page; with
// headers between payloads each distance comes up in its turn.
inline constexpr std::size_t kCopiedByVectors = 2048;

// As memcpy, for sizes of which the compiler must not know that they are small: it would make a `rep movs` of its own.
inline void copy_piece(std::byte* to, const std::byte* from, std::size_t length) {
    asm("" : "+r"(length));
    std::memcpy(to, from, length);
}

[[gnu::noinline]] inline void copy_pieces(std::byte* to, const std::byte* from, std::size_t length) {
    for (; length > kCopiedByVectors; length -= kCopiedByVectors) {
        copy_piece(to, from, kCopiedByVectors);
        to += kCopiedByVectors;
        from += kCopiedByVectors;
    }
    copy_piece(to, from, length);
}

// As memcpy.
inline void copy_octets(std::byte* to, const std::byte* from, std::size_t length) {
    if (length > kCopiedByVectors) [[unlikely]]
        return copy_pieces(to, from, length);
    copy_piece(to, from, length);
}

}  // namespace swrnic::engine
