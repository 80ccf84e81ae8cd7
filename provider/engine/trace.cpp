// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "engine/trace.h"

#include <fcntl.h>

#include <algorithm>
#include <chrono>
#include <cstring>

#include "engine/core/copy.h"
#include "engine/engine.h"
#include "wire/byteorder.h"

namespace swrnic::engine {

namespace {

constexpr std::uint8_t kFin = 1, kSyn = 2, kPush = 8, kAck = 16;
constexpr std::size_t kTcpHeader = 20, kMostPayload = 60'000;  // of one made-up packet
constexpr std::uint16_t kRawIp = 101;                          // LINKTYPE_RAW

using Bytes = std::vector<std::byte>;

void append(Bytes& to, const void* from, std::size_t length) {
    const std::size_t at = to.size();
    to.resize(at + length);
    std::memcpy(to.data() + at, from, length);
}

template <typename T>
void put(Bytes& to, T value) {  // pcapng: in the writer's byte order
    append(to, &value, sizeof value);
}

// A pcapng block: type, length, body padded to 4 octets, length.
Bytes block_of(std::uint32_t type, const Bytes& body) {
    const std::size_t padded = (body.size() + 3) / 4 * 4;
    const auto length = static_cast<std::uint32_t>(padded + 12);
    Bytes block;
    block.reserve(length);
    put(block, type);
    put(block, length);
    append(block, body.data(), body.size());
    block.resize(padded + 8);
    put(block, length);
    return block;
}

Bytes opening_blocks() {
    Bytes section;
    put(section, std::uint32_t{0x1a2b3c4d});
    put(section, std::uint16_t{1});  // version 1.0
    put(section, std::uint16_t{0});
    put(section, ~std::uint64_t{0});  // of unknown length
    Bytes interface;
    put(interface, kRawIp);
    put(interface, std::uint16_t{0});
    put(interface, std::uint32_t{0});  // packets are whole
    Bytes both = block_of(0x0a0d0d0a, section);
    const Bytes second = block_of(1, interface);
    append(both, second.data(), second.size());
    return both;
}

std::uint16_t ip_checksum(const std::byte* header) {
    std::uint32_t sum = 0;
    for (std::size_t i = 0; i < 20; i += 2)
        sum += wire::load_be16(header + i);
    while (sum >> 16 != 0)
        sum = (sum & 0xffff) + (sum >> 16);
    return static_cast<std::uint16_t>(~sum);
}

// RFC 5044 7.1, RFC 6581 6: key, flags, revision, private data. Revision 2 carries IRD and ORD there.
Bytes startup_frame(const Connection& agreed, bool request) {
    const char* const key = request ? "MPA ID Req Frame" : "MPA ID Rep Frame";
    Bytes frame(20);
    std::memcpy(frame.data(), key, 16);
    const bool ours = request == agreed.initiator;
    const bool markers = ours ? agreed.markers_rx : agreed.markers_tx;  // the sender of the frame wants them
    const bool enhanced = agreed.mpa_rev >= 2;
    frame[16] = std::byte((markers ? 0x80 : 0) | (agreed.crc ? 0x40 : 0) | (enhanced ? 0x10 : 0));
    frame[17] = std::byte(agreed.mpa_rev);
    wire::store_be16(frame.data() + 18, enhanced ? 4 : 0);
    if (!enhanced) return frame;
    frame.resize(24);
    const auto ird = static_cast<std::uint16_t>(ours ? agreed.ird : agreed.ord);
    const auto ord = static_cast<std::uint16_t>(ours ? agreed.ord : agreed.ird);
    const unsigned by_send = (agreed.rtr & 1) != 0 ? 0x4000 : 0, by_write = (agreed.rtr & 2) != 0 ? 0x8000 : 0,
                   by_read = (agreed.rtr & 4) != 0 ? 0x4000 : 0;
    wire::store_be16(frame.data() + 20,
                     static_cast<std::uint16_t>((agreed.p2p ? 0x8000u : 0) | by_send | (ird & 0x3fffu)));
    wire::store_be16(frame.data() + 22, static_cast<std::uint16_t>(by_write | by_read | (ord & 0x3fffu)));
    return frame;
}

}  // namespace

// ---- the file

std::unique_ptr<Trace> Trace::open(const char* path) {
    const long fd = syscall(SYS_openat, AT_FDCWD, path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOCTTY, 0600);
    if (fd < 0) return nullptr;
    std::unique_ptr<Trace> trace(new Trace(static_cast<int>(fd)));
    return trace->write(opening_blocks()) ? std::move(trace) : nullptr;
}

bool Trace::write(const Bytes& block) {
    // One write: what several threads and processes append does not mix.
    const long written = syscall(SYS_write, fd_.get(), block.data(), block.size());
    if (written != static_cast<long>(block.size())) failed_ = true;
    return !failed_;
}

void Trace::add(const Bytes& packet) {
    if (failed_) return;
    const auto now =
        std::chrono::duration_cast<std::chrono::microseconds>(std::chrono::system_clock::now().time_since_epoch())
            .count();
    Bytes body;
    body.reserve(packet.size() + 32);
    put(body, std::uint32_t{0});
    put(body, static_cast<std::uint32_t>(static_cast<std::uint64_t>(now) >> 32));
    put(body, static_cast<std::uint32_t>(now));
    put(body, static_cast<std::uint32_t>(packet.size()));
    put(body, static_cast<std::uint32_t>(packet.size()));
    append(body, packet.data(), packet.size());
    write(block_of(6, body));
}

// ---- a stream

StreamTrace::StreamTrace(Trace& trace, const Connection& connection) : trace_(trace) {
    ours_.at = sys::endpoint_of(connection.fd, SYS_getsockname);
    theirs_.at = sys::endpoint_of(connection.fd, SYS_getpeername);
    End& active = connection.initiator ? ours_ : theirs_;
    End& passive = connection.initiator ? theirs_ : ours_;
    control(active, passive, kSyn);
    control(passive, active, kSyn | kAck);
    control(active, passive, kAck);
    startup(connection);
}

// IP and TCP headers, and room for the payload behind them.
Bytes StreamTrace::packet(const End& from, const End& to, std::uint8_t flags, std::uint32_t sequence,
                          std::uint32_t acknowledged, std::size_t payload) const {
    const std::size_t ip_header = from.at.v6 ? 40 : 20;
    Bytes whole(ip_header + kTcpHeader + payload);
    std::byte* const ip = whole.data();
    if (from.at.v6) {
        ip[0] = std::byte(0x60);
        wire::store_be16(ip + 4, static_cast<std::uint16_t>(kTcpHeader + payload));
        ip[6] = std::byte(IPPROTO_TCP);
        ip[7] = std::byte(64);
        std::memcpy(ip + 8, from.at.address.data(), 16);
        std::memcpy(ip + 24, to.at.address.data(), 16);
    } else {
        ip[0] = std::byte(0x45);
        wire::store_be16(ip + 2, static_cast<std::uint16_t>(whole.size()));
        ip[8] = std::byte(64);
        ip[9] = std::byte(IPPROTO_TCP);
        std::memcpy(ip + 12, from.at.address.data(), 4);
        std::memcpy(ip + 16, to.at.address.data(), 4);
        wire::store_be16(ip + 10, ip_checksum(ip));
    }
    std::byte* const tcp = ip + ip_header;  // its checksum stays 0
    wire::store_be16(tcp, from.at.port);
    wire::store_be16(tcp + 2, to.at.port);
    wire::store_be32(tcp + 4, sequence);
    wire::store_be32(tcp + 8, (flags & kAck) != 0 ? acknowledged : 0);
    tcp[12] = std::byte(kTcpHeader / 4 << 4);
    tcp[13] = std::byte(flags);
    wire::store_be16(tcp + 14, 0xffff);
    return whole;
}

void StreamTrace::control(End& from, const End& to, std::uint8_t flags) {
    const std::uint32_t takes = (flags & (kSyn | kFin)) != 0 ? 1 : 0;
    const std::uint32_t sequence = from.next.fetch_add(takes);
    trace_.add(packet(from, to, flags, sequence, to.written, 0));
    from.written = sequence + takes;
}

void StreamTrace::add(const IoSlice* slices, std::size_t octets, End& from, const End& to) {
    std::size_t in_slice = 0;
    while (octets != 0) {
        const std::size_t payload = std::min(octets, kMostPayload);
        const std::uint32_t sequence = from.next.fetch_add(static_cast<std::uint32_t>(payload));
        Bytes whole = packet(from, to, kAck | kPush, sequence, to.written, payload);
        std::byte* at = whole.data() + whole.size() - payload;
        for (std::size_t left = payload; left != 0;) {
            const std::size_t part = std::min(left, slices->length - in_slice);
            // Zeros, where the program has taken its memory away meanwhile.
            static_cast<void>(copy_octets(at, slices->base + in_slice, part));
            at += part;
            left -= part;
            in_slice += part;
            if (in_slice == slices->length) {
                ++slices;
                in_slice = 0;
            }
        }
        trace_.add(whole);
        from.written = sequence + static_cast<std::uint32_t>(payload);
        octets -= payload;
    }
}

void StreamTrace::startup(const Connection& connection) {
    for (const bool request : {true, false}) {
        Bytes frame = startup_frame(connection, request);
        const IoSlice slice{frame.data(), frame.size()};
        if (request == connection.initiator) {
            sent(&slice, frame.size());
        } else {
            received(&slice, frame.size());
        }
    }
}

void StreamTrace::sent_fin() {
    control(ours_, theirs_, kFin | kAck);
}
void StreamTrace::received_fin() {
    control(theirs_, ours_, kFin | kAck);
}

}  // namespace swrnic::engine
