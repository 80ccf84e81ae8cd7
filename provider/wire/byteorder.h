// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// The one place for byte order. Addresses need no alignment; the caller has checked that the octets are there.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace swrnic::wire {

static_assert(std::endian::native == std::endian::little || std::endian::native == std::endian::big);

namespace detail {

constexpr std::uint16_t swap(std::uint16_t v) {
    return __builtin_bswap16(v);
}
constexpr std::uint32_t swap(std::uint32_t v) {
    return __builtin_bswap32(v);
}
constexpr std::uint64_t swap(std::uint64_t v) {
    return __builtin_bswap64(v);
}

template <typename T, std::endian order>
inline T load(const void* from) {
    T v;
    std::memcpy(&v, from, sizeof v);
    return order == std::endian::native ? v : swap(v);
}

template <typename T, std::endian order>
inline void store(void* to, T v) {
    if (order != std::endian::native) v = swap(v);
    std::memcpy(to, &v, sizeof v);
}

}  // namespace detail

inline std::uint16_t load_be16(const void* from) {
    return detail::load<std::uint16_t, std::endian::big>(from);
}
inline std::uint32_t load_be32(const void* from) {
    return detail::load<std::uint32_t, std::endian::big>(from);
}
inline std::uint64_t load_be64(const void* from) {
    return detail::load<std::uint64_t, std::endian::big>(from);
}
inline void store_be16(void* to, std::uint16_t v) {
    detail::store<std::uint16_t, std::endian::big>(to, v);
}
inline void store_be32(void* to, std::uint32_t v) {
    detail::store<std::uint32_t, std::endian::big>(to, v);
}
inline void store_be64(void* to, std::uint64_t v) {
    detail::store<std::uint64_t, std::endian::big>(to, v);
}

// The CRC is the only little endian item of the suite: RFC 5044 4.4, figures 5 and 6.
inline std::uint32_t load_le32(const void* from) {
    return detail::load<std::uint32_t, std::endian::little>(from);
}
inline void store_le32(void* to, std::uint32_t v) {
    detail::store<std::uint32_t, std::endian::little>(to, v);
}

}  // namespace swrnic::wire
