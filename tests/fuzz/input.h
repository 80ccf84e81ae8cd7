// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// The octets of one fuzz input, taken from the front; past the end all is 0.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <span>

namespace swrnic::fuzz {

class Input {
  public:
    Input(const std::uint8_t* data, std::size_t size) : left_(data, size) {}
    bool empty() const { return left_.empty(); }
    std::uint8_t u8() {
        if (left_.empty()) return 0;
        const std::uint8_t value = left_[0];
        left_ = left_.subspan(1);
        return value;
    }
    std::uint16_t u16() {
        const std::uint16_t high = u8();
        return static_cast<std::uint16_t>(high << 8 | u8());
    }
    std::uint32_t u32() {
        const std::uint32_t high = u16();
        return high << 16 | u16();
    }
    std::span<const std::uint8_t> bytes(std::size_t most) {
        const auto taken = left_.first(std::min(most, left_.size()));
        left_ = left_.subspan(taken.size());
        return taken;
    }

  private:
    std::span<const std::uint8_t> left_;
};

// What must hold whatever the input is.
inline void require(bool holds, const char* what) {
    if (holds) return;
    std::fprintf(stderr, "broken: %s\n", what);
    std::abort();
}

}  // namespace swrnic::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);
