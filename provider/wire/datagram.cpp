// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "wire/datagram.h"

#include <algorithm>
#include <cstring>

#include "wire/byteorder.h"

namespace swrnic::wire {
namespace {

constexpr std::uint32_t kMagic = 0x53575544;  // "SWUD"
constexpr std::uint8_t kVersion = 1;
constexpr std::uint8_t kSolicited = 1, kImmediate = 2;
constexpr std::uint32_t kMaxQpn = 0xffffff;

constexpr std::uint8_t kUdp = 17;
constexpr std::uint8_t kHops = 64;  // which are left is not asked of the socket
constexpr std::size_t kUdpHeaderLen = 8;

// RFC 791 3.1.
std::uint16_t checksum(const std::byte* header, std::size_t length) {
    std::uint32_t sum = 0;
    for (std::size_t i = 0; i < length; i += 2)
        sum += load_be16(header + i);
    while (sum > 0xffff)
        sum = (sum & 0xffff) + (sum >> 16);
    return static_cast<std::uint16_t>(~sum);
}

}  // namespace

void DatagramHeader::emit(std::byte* to) const {
    store_be32(to, kMagic);
    to[4] = std::byte{kVersion};
    to[5] = std::byte{static_cast<std::uint8_t>((solicited ? kSolicited : 0) | (has_imm ? kImmediate : 0))};
    store_be16(to + 6, length);
    store_be32(to + 8, dest_qpn);
    store_be32(to + 12, source_qpn);
    store_be32(to + 16, q_key);
    const std::uint32_t immediate = has_imm ? imm_data : 0;
    std::memcpy(to + 20, &immediate, sizeof immediate);
}

std::optional<DatagramHeader> DatagramHeader::parse(std::span<const std::byte> datagram) {
    if (datagram.size() < kDatagramHeaderLen) return std::nullopt;
    const std::byte* at = datagram.data();
    const auto flags = std::to_integer<std::uint8_t>(at[5]);
    if (load_be32(at) != kMagic || at[4] != std::byte{kVersion} || (flags & ~(kSolicited | kImmediate)) != 0)
        return std::nullopt;
    DatagramHeader header{};
    header.length = load_be16(at + 6);
    header.dest_qpn = load_be32(at + 8);
    header.source_qpn = load_be32(at + 12);
    header.q_key = load_be32(at + 16);
    std::memcpy(&header.imm_data, at + 20, sizeof header.imm_data);
    header.solicited = (flags & kSolicited) != 0;
    header.has_imm = (flags & kImmediate) != 0;
    if (header.length != datagram.size() - kDatagramHeaderLen || header.length > kMaxDatagram) return std::nullopt;
    if (header.dest_qpn > kMaxQpn || header.source_qpn >= kMaxQpn) return std::nullopt;
    return header;
}

bool is_v4(const IpAddress& address) {
    constexpr std::array<std::uint8_t, 12> kMapped{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
    return std::equal(kMapped.begin(), kMapped.end(), address.begin());
}

void put_grh(std::byte* to, const IpAddress& source, const IpAddress& dest, std::uint16_t payload) {
    const auto carried = static_cast<std::uint16_t>(kUdpHeaderLen + kDatagramHeaderLen + payload);
    std::memset(to, 0, kGrhLen);
    if (!is_v4(source) || !is_v4(dest)) {
        to[0] = std::byte{6 << 4};
        store_be16(to + 4, carried);
        to[6] = std::byte{kUdp};
        to[7] = std::byte{kHops};
        std::memcpy(to + 8, source.data(), source.size());
        std::memcpy(to + 24, dest.data(), dest.size());
        return;
    }
    constexpr std::size_t kV4Len = 20;
    std::byte* v4 = to + kGrhLen - kV4Len;
    v4[0] = std::byte{4 << 4 | kV4Len / 4};
    store_be16(v4 + 2, static_cast<std::uint16_t>(kV4Len + carried));
    v4[8] = std::byte{kHops};
    v4[9] = std::byte{kUdp};
    std::memcpy(v4 + 12, source.data() + 12, 4);
    std::memcpy(v4 + 16, dest.data() + 12, 4);
    store_be16(v4 + 10, checksum(v4, kV4Len));
}

}  // namespace swrnic::wire
