// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Datagrams as they cross the engine's boundary: where one goes, and a request to send it.
#pragma once

#include <cstdint>
#include <span>

#include "engine/core/types.h"
#include "wire/datagram.h"

namespace swrnic::engine {

// What an address handle stands for. Both of IPv4 or both of IPv6.
struct DatagramPath {
    wire::IpAddress source, peer;
    std::uint16_t group_port;  // not 0: peer is a group, whose members all listen there
    std::uint32_t interface;   // index of the one to leave by; 0: routing knows
};

struct DatagramWr {
    std::uint64_t wr_id;
    std::uint32_t flags;  // send_flag
    std::span<const Sge> sges;
    DatagramPath path;
    std::uint32_t remote_qpn, remote_q_key;
    std::uint32_t imm_data;  // network order; valid with has_imm
    bool has_imm;
};

}  // namespace swrnic::engine
