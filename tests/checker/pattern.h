// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// The seeded byte pattern that both sides can compute alone, and the random numbers that shape a case.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace checker {

// Byte `offset` of the stream of `seed`. Neighbouring seeds and offsets give unrelated bytes.
std::uint8_t pattern_byte(std::uint64_t seed, std::uint64_t offset);
void pattern_fill(std::span<std::uint8_t> to, std::uint64_t seed, std::uint64_t offset);

// Index of the first byte that differs from the pattern, or size() when all are right.
std::size_t pattern_mismatch(std::span<const std::uint8_t> data, std::uint64_t seed, std::uint64_t offset);

std::uint64_t mix(std::uint64_t value);
std::uint64_t seed_of(std::uint64_t seed, std::string_view name);

// Small generator with value semantics, the same on both sides.
class Rng {
  public:
    explicit Rng(std::uint64_t seed) : state_(seed) {}
    std::uint64_t next();
    // 0 <= result < bound; bound is not 0.
    std::uint32_t below(std::uint32_t bound) { return static_cast<std::uint32_t>(next() % bound); }
    bool one_in(std::uint32_t n) { return below(n) == 0; }

  private:
    std::uint64_t state_;
};

}  // namespace checker
