// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// CRC32c (Castagnoli), RFC 5044 4.4: register starts at all ones, reflected, complemented at the end, sent least
// significant octet first (store_le32). Any number of threads may call these functions.
#pragma once

#include <cstddef>
#include <cstdint>

namespace swrnic::wire {

inline constexpr std::uint32_t kCrc32cInit = 0xffffffff;

// Advances the raw register (start: kCrc32cInit; the CRC is the register's complement).
std::uint32_t crc32c_update(std::uint32_t state, const void* data, std::size_t length);

inline std::uint32_t crc32c(const void* data, std::size_t length) {
    return ~crc32c_update(kCrc32cInit, data, length);
}

// A sum over octets that lie in several places.
class Crc32c {
  public:
    void update(const void* data, std::size_t length) { state_ = crc32c_update(state_, data, length); }
    std::uint32_t value() const { return ~state_; }

  private:
    std::uint32_t state_ = kCrc32cInit;
};

}  // namespace swrnic::wire
