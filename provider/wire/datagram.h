// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Datagrams of UD queue pairs (docs/PROTOCOL.md, "Datagrams"): the header that stands in front of each payload, and the
// 40 octets that verbs put in front of a received one.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

namespace swrnic::wire {

inline constexpr std::size_t kDatagramHeaderLen = 24;
inline constexpr std::size_t kMaxDatagram = 4096;  // octets of payload: InfiniBand's largest path MTU
inline constexpr std::uint32_t kMulticastQpn = 0xffffff;

struct DatagramHeader {
    std::uint32_t dest_qpn;    // kMulticastQpn: of every member of the group
    std::uint32_t source_qpn;  // 24 bits
    std::uint32_t q_key;
    std::uint32_t imm_data;  // in network order, as verbs have it; valid with has_imm
    std::uint16_t length;    // of the payload
    bool solicited, has_imm;

    void emit(std::byte* to) const;
    // A whole datagram as it has come. Nothing: it is none of ours, or another version's.
    static std::optional<DatagramHeader> parse(std::span<const std::byte> datagram);
};

// Network order; an IPv4 address stands behind ::ffff:, as in a GID.
using IpAddress = std::array<std::uint8_t, 16>;

bool is_v4(const IpAddress& address);

// Of IPv6 the header, of IPv4 20 octets of zero and the header, as RoCE v2 has it: rdma-core tells them apart by the
// IPv4 header's checksum. UDP and our own header are counted in.
inline constexpr std::size_t kGrhLen = 40;
void put_grh(std::byte* to, const IpAddress& source, const IpAddress& dest, std::uint16_t payload);

}  // namespace swrnic::wire
