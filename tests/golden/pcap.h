// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// A small reader of classic pcap files: TCP over IPv4 or IPv6, reassembled. For captures that hold whole connections.
// Everything throws std::runtime_error on malformed data.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "golden/vectors.h"

namespace swrnic::golden {

struct Endpoint {
    Bytes address;  // 4 or 16 octets
    std::uint16_t port = 0;
    auto operator<=>(const Endpoint&) const = default;
};

struct Direction {
    Bytes bytes;  // from the first octet after the SYN up to the first gap
    std::vector<std::size_t>
        cuts;              // ends of the TCP segments as they were first seen, rising, the last one is bytes.size()
    bool complete = true;  // no octet is missing
    bool fin = false, rst = false;
};

struct Connection {
    Endpoint client, server;   // the client sent the SYN
    bool established = false;  // a SYN|ACK was seen
    Direction to_server, to_client;
};

// In the order of their SYNs. A new SYN on the same ports (with another sequence number) starts a new connection.
std::vector<Connection> read_pcap(const std::filesystem::path& file);

std::vector<std::filesystem::path> captures();  // golden_dir()/captures/*.pcap, sorted, never empty

// A connection split behind its MPA Request and Reply. The client is taken for the Initiator. Borrows from the
// connection.
struct MpaConnection {
    std::uint8_t request_flags = 0, request_revision = 0;
    std::uint8_t reply_flags = 0, reply_revision = 0;
    std::span<const std::byte> request_data, reply_data;  // private data, an enhanced block included
    bool rejected = false;
    bool crc = false;  // in use: either side asked (RFC 5044 7.1.1)
    bool markers_to_server = false, markers_to_client = false;
    std::span<const std::byte> to_server, to_client;  // Full Operation, from its first octet on
};

// Nothing if the connection does not hold a whole Request and a whole Reply.
std::optional<MpaConnection> split_mpa(const Connection& connection);

}  // namespace swrnic::golden
