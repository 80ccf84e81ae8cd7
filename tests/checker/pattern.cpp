// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "pattern.h"

#include <algorithm>
#include <array>
#include <cstring>

namespace checker {

namespace {
constexpr std::uint64_t kGolden = 0x9e3779b97f4a7c15U;

std::uint64_t pattern_word(std::uint64_t seed, std::uint64_t index) {
    return mix(seed ^ (index * kGolden));
}
}  // namespace

std::uint64_t mix(std::uint64_t value) {
    value += kGolden;
    value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9U;
    value = (value ^ (value >> 27)) * 0x94d049bb133111ebU;
    return value ^ (value >> 31);
}

std::uint64_t seed_of(std::uint64_t seed, std::string_view name) {
    for (const char c : name)
        seed = mix(seed ^ static_cast<unsigned char>(c));
    return seed;
}

std::uint64_t Rng::next() {
    state_ += kGolden;
    return mix(state_);
}

std::uint8_t pattern_byte(std::uint64_t seed, std::uint64_t offset) {
    return static_cast<std::uint8_t>(pattern_word(seed, offset / 8) >> (8 * (offset % 8)));
}

void pattern_fill(std::span<std::uint8_t> to, std::uint64_t seed, std::uint64_t offset) {
    std::size_t i = 0;
    for (; i < to.size() && (offset + i) % 8 != 0; ++i)
        to[i] = pattern_byte(seed, offset + i);
    for (; i + 8 <= to.size(); i += 8) {
        const std::uint64_t word = pattern_word(seed, (offset + i) / 8);
        for (unsigned b = 0; b < 8; ++b)
            to[i + b] = static_cast<std::uint8_t>(word >> (8 * b));
    }
    for (; i < to.size(); ++i)
        to[i] = pattern_byte(seed, offset + i);
}

std::size_t pattern_mismatch(std::span<const std::uint8_t> data, std::uint64_t seed, std::uint64_t offset) {
    std::array<std::uint8_t, 4096> want;
    for (std::size_t done = 0; done < data.size();) {
        const std::size_t n = std::min(want.size(), data.size() - done);
        pattern_fill(std::span(want).first(n), seed, offset + done);
        if (std::memcmp(want.data(), data.data() + done, n) != 0) {
            const auto at = std::mismatch(want.begin(), want.begin() + static_cast<std::ptrdiff_t>(n),
                                          data.begin() + static_cast<std::ptrdiff_t>(done));
            return done + static_cast<std::size_t>(at.first - want.begin());
        }
        done += n;
    }
    return data.size();
}

}  // namespace checker
