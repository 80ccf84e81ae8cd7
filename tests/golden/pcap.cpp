// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "golden/pcap.h"

#include <algorithm>
#include <fstream>
#include <iterator>
#include <map>
#include <stdexcept>
#include <string_view>

namespace swrnic::golden {

namespace {

using Octets = std::span<const std::byte>;

[[noreturn]] void bad(const char* what) {
    throw std::runtime_error(std::string("pcap: ") + what);
}

// Fixed-width read with a bound check; big endian unless asked otherwise.
std::uint32_t field(Octets from, std::size_t at, std::size_t width, bool little = false) {
    if (at + width > from.size()) bad("truncated");
    std::uint32_t value = 0;
    for (std::size_t i = 0; i < width; ++i)
        value = value << 8 | std::to_integer<std::uint32_t>(from[at + (little ? width - 1 - i : i)]);
    return value;
}

Octets tail(Octets from, std::size_t offset) {
    if (offset > from.size()) bad("truncated");
    return from.subspan(offset);
}

// The IP packet inside a link layer frame, or nothing.
Octets ip_packet(Octets frame, std::uint32_t link_type) {
    constexpr std::uint32_t kNull = 0, kEthernet = 1, kRaw = 101, kLoop = 108, kCooked = 113, kCooked2 = 276;
    switch (link_type) {
        case kRaw:
            return frame;
        case kNull:
        case kLoop:
            return tail(frame, 4);
        case kCooked:
            return tail(frame, 16);
        case kCooked2:
            return tail(frame, 20);
        case kEthernet:
            break;
        default:
            bad("unknown link type");
    }
    std::size_t type_at = 12;
    while (field(frame, type_at, 2) == 0x8100)
        type_at += 4;
    const std::uint32_t type = field(frame, type_at, 2);
    return type == 0x0800 || type == 0x86dd ? tail(frame, type_at + 2) : Octets{};
}

struct Segment {
    Endpoint from, to;
    std::uint32_t seq = 0;
    bool syn = false, ack = false, fin = false, rst = false;
    Octets payload;
};

std::optional<Segment> tcp_segment(Octets packet) {
    constexpr std::uint32_t kTcp = 6;
    if (packet.empty()) return std::nullopt;
    Segment segment;
    Octets tcp;
    std::size_t address_at, address_len;
    if (field(packet, 0, 1) >> 4 == 4) {
        const std::size_t header = (field(packet, 0, 1) & 15) * 4;
        const std::size_t total = field(packet, 2, 2);
        if (field(packet, 9, 1) != kTcp) return std::nullopt;
        if (field(packet, 6, 2) & 0x3fff) bad("IP fragment");
        if (total > packet.size()) bad("packet cut short");
        if (total != 0) packet = packet.first(total);  // takes link layer padding off
        tcp = tail(packet, header);
        address_at = 12, address_len = 4;
    } else {
        if (field(packet, 6, 1) != kTcp) return std::nullopt;
        const std::size_t total = 40 + field(packet, 4, 2);
        if (total > packet.size()) bad("packet cut short");
        tcp = tail(packet.first(total), 40);
        address_at = 8, address_len = 16;
    }
    const Octets addresses = tail(packet, address_at);
    if (addresses.size() < 2 * address_len) bad("truncated");
    segment.from = {Bytes(addresses.begin(), addresses.begin() + static_cast<std::ptrdiff_t>(address_len)),
                    static_cast<std::uint16_t>(field(tcp, 0, 2))};
    segment.to = {Bytes(addresses.begin() + static_cast<std::ptrdiff_t>(address_len),
                        addresses.begin() + static_cast<std::ptrdiff_t>(2 * address_len)),
                  static_cast<std::uint16_t>(field(tcp, 2, 2))};
    segment.seq = field(tcp, 4, 4);
    const std::uint32_t flags = field(tcp, 13, 1);
    segment.fin = flags & 1, segment.syn = flags & 2, segment.rst = flags & 4, segment.ack = flags & 16;
    segment.payload = tail(tcp, (field(tcp, 12, 1) >> 4) * 4);
    return segment;
}

// One direction while it is put together; offsets count from the octet after the SYN, so 2 GiB are enough for any
// capture.
struct Assembly {
    std::optional<std::uint32_t> first_seq;
    std::map<std::uint32_t, Bytes> parts;  // offset -> longest payload seen there
    bool fin = false, rst = false;

    void take(const Segment& segment) {
        if (segment.syn) first_seq = segment.seq + 1;
        fin |= segment.fin;
        rst |= segment.rst;
        if (segment.payload.empty()) return;
        if (!first_seq) bad("data before SYN");
        const std::uint32_t offset = segment.seq - *first_seq + (segment.syn ? 1 : 0);
        if (offset == 0xffffffff) return;  // keep-alive probe
        Bytes& part = parts[offset];
        if (segment.payload.size() > part.size()) part.assign(segment.payload.begin(), segment.payload.end());
    }

    Direction finish() const {
        Direction direction;
        direction.fin = fin, direction.rst = rst;
        for (const auto& [offset, part] : parts) {
            if (offset > direction.bytes.size()) {
                direction.complete = false;
                break;
            }
            const std::size_t known = direction.bytes.size() - offset;
            if (known >= part.size()) continue;  // sent again
            direction.bytes.insert(direction.bytes.end(), part.begin() + static_cast<std::ptrdiff_t>(known),
                                   part.end());
            direction.cuts.push_back(direction.bytes.size());
        }
        return direction;
    }
};

struct OpenConnection {
    Endpoint client, server;
    bool established = false;
    Assembly to_server, to_client;
};

void dispatch(std::vector<OpenConnection>& connections, const Segment& segment) {
    const auto found = std::find_if(connections.rbegin(), connections.rend(), [&](const OpenConnection& c) {
        return (c.client == segment.from && c.server == segment.to) ||
               (c.client == segment.to && c.server == segment.from);
    });
    const bool open =
        segment.syn && !segment.ack && (found == connections.rend() || found->to_server.first_seq != segment.seq + 1);
    if (open) {
        connections.push_back({segment.from, segment.to, false, {}, {}});
        connections.back().to_server.take(segment);
        return;
    }
    if (found == connections.rend()) bad("connection without SYN");
    if (segment.syn && segment.ack) found->established = true;
    (found->client == segment.from ? found->to_server : found->to_client).take(segment);
}

}  // namespace

std::vector<Connection> read_pcap(const std::filesystem::path& file) {
    std::ifstream in(file, std::ios::binary);
    if (!in) bad("cannot open file");
    const std::string text{std::istreambuf_iterator<char>(in), {}};
    Octets octets = std::as_bytes(std::span(text));

    const std::uint32_t magic = field(octets, 0, 4, true);
    const bool little = magic == 0xa1b2c3d4 || magic == 0xa1b23c4d;
    if (!little && magic != 0xd4c3b2a1 && magic != 0x4d3cb2a1) bad("not a pcap file");
    const std::uint32_t link_type = field(octets, 20, 4, little) & 0x0fffffff;
    octets = tail(octets, 24);

    std::vector<OpenConnection> open;
    while (!octets.empty()) {
        const std::size_t captured = field(octets, 8, 4, little);
        if (captured != field(octets, 12, 4, little)) bad("packet cut short");
        octets = tail(octets, 16);
        if (captured > octets.size()) bad("truncated");
        if (const auto segment = tcp_segment(ip_packet(octets.first(captured), link_type))) dispatch(open, *segment);
        octets = octets.subspan(captured);
    }

    std::vector<Connection> connections;
    for (const OpenConnection& c : open)
        connections.push_back({c.client, c.server, c.established, c.to_server.finish(), c.to_client.finish()});
    return connections;
}

std::vector<std::filesystem::path> captures() {
    std::vector<std::filesystem::path> files;
    for (const auto& entry : std::filesystem::directory_iterator(golden_dir() / "captures"))
        if (entry.path().extension() == ".pcap") files.push_back(entry.path());
    if (files.empty()) bad("no captures");
    std::sort(files.begin(), files.end());
    return files;
}

std::optional<MpaConnection> split_mpa(const Connection& connection) {
    constexpr std::size_t kFixedLen = 20;  // RFC 5044 7.1.1
    constexpr std::uint8_t kMarkers = 0x80, kCrc = 0x40, kReject = 0x20;
    const auto frame_len = [](Octets stream, std::string_view key) -> std::size_t {
        if (stream.size() < kFixedLen) return 0;
        if (!std::ranges::equal(stream.first(key.size()), std::as_bytes(std::span(key)))) return 0;
        const std::size_t length = kFixedLen + field(stream, 18, 2);
        return length <= stream.size() ? length : 0;
    };
    const Octets request = connection.to_server.bytes, reply = connection.to_client.bytes;
    const std::size_t request_len = frame_len(request, "MPA ID Req Frame");
    const std::size_t reply_len = frame_len(reply, "MPA ID Rep Frame");
    if (request_len == 0 || reply_len == 0) return std::nullopt;

    MpaConnection mpa;
    mpa.request_flags = static_cast<std::uint8_t>(field(request, 16, 1));
    mpa.request_revision = static_cast<std::uint8_t>(field(request, 17, 1));
    mpa.reply_flags = static_cast<std::uint8_t>(field(reply, 16, 1));
    mpa.reply_revision = static_cast<std::uint8_t>(field(reply, 17, 1));
    mpa.request_data = request.subspan(kFixedLen, request_len - kFixedLen);
    mpa.reply_data = reply.subspan(kFixedLen, reply_len - kFixedLen);
    mpa.rejected = mpa.reply_flags & kReject;
    mpa.crc = (mpa.request_flags | mpa.reply_flags) & kCrc;
    mpa.markers_to_client = mpa.request_flags & kMarkers;  // a demand on the opposite direction
    mpa.markers_to_server = mpa.reply_flags & kMarkers;
    mpa.to_server = request.subspan(request_len);
    mpa.to_client = reply.subspan(reply_len);
    return mpa;
}

}  // namespace swrnic::golden
