// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// RDMAP: control octet, opcodes, Read Request header (RFC 5040 4), Immediate Data and atomics (RFC 7306). The Terminate
// is in terminate.h.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <string_view>

#include "wire/byteorder.h"
#include "wire/ddp.h"

namespace swrnic::wire {

// Octet 1 of every DDP segment, RFC 5040 4.1.
inline constexpr std::uint8_t kRdmapVersionMask = 0xc0;
inline constexpr std::uint8_t kRdmapVersion = 0x40;       // version 1, in place
inline constexpr std::uint8_t kRdmapReservedMask = 0x30;  // sent as 0, ignored
inline constexpr std::uint8_t kOpcodeMask = 0x0f;

enum class Opcode : std::uint8_t {
    kWrite = 0,
    kReadRequest = 1,
    kReadResponse = 2,
    kSend = 3,
    kSendInvalidate = 4,
    kSendSolicited = 5,
    kSendSolicitedInvalidate = 6,
    kTerminate = 7,
    kImmediate = 8,  // RFC 7306 from here on
    kImmediateSolicited = 9,
    kAtomicRequest = 10,
    kAtomicResponse = 11,
};

constexpr std::uint8_t rdmap_control(Opcode opcode) {
    return kRdmapVersion | static_cast<std::uint8_t>(opcode);
}
constexpr bool rdmap_version_ok(std::uint8_t control) {
    return (control & kRdmapVersionMask) == kRdmapVersion;
}
constexpr Opcode opcode_of(std::uint8_t control) {
    return Opcode(control & kOpcodeMask);
}  // may be an unassigned number

struct alignas(8) OpcodeTraits {
    bool assigned;           // false: 0/2/6 (RFC 5040 7.2)
    bool tagged;             // DDP buffer model
    std::uint8_t qn;         // queue, if untagged
    std::uint8_t extra_len;  // RDMAP header octets behind the DDP header
    bool single_segment;     // always sent with L
    bool invalidates;        // octets 2-5 name an STag to invalidate
    bool solicited;          // raises an event at the sink
};

// RFC 5040 figure 4, RFC 7306 figure 2, by opcode number.
inline constexpr std::array<OpcodeTraits, 16> kOpcodeTraits{{
    {true, true, 0, 0, false, false, false},                      // Write
    {true, false, kReadRequestQueue, 28, true, false, false},     // Read Request
    {true, true, 0, 0, false, false, false},                      // Read Response
    {true, false, kSendQueue, 0, false, false, false},            // Send
    {true, false, kSendQueue, 0, false, true, false},             // Send with Invalidate
    {true, false, kSendQueue, 0, false, false, true},             // Send with SE
    {true, false, kSendQueue, 0, false, true, true},              // Send with SE and Invalidate
    {true, false, kTerminateQueue, 4, true, false, false},        // Terminate: 4 octets at least
    {true, false, kSendQueue, 8, true, false, false},             // Immediate Data
    {true, false, kSendQueue, 8, true, false, true},              // Immediate Data with SE
    {true, false, kReadRequestQueue, 52, true, false, false},     // Atomic Request
    {true, false, kAtomicResponseQueue, 12, true, false, false},  // Atomic Response
}};

constexpr const OpcodeTraits& traits_of(std::uint8_t control) {
    return kOpcodeTraits[control & kOpcodeMask];
}

std::string_view opcode_name(std::uint8_t control);  // for log lines

inline constexpr std::size_t kReadRequestLen = 28;
inline constexpr std::size_t kReadRequestSegmentLen = kUntaggedHeaderLen + kReadRequestLen;

struct ReadRequest {  // RFC 5040 4.4; "sink" is the requester's buffer, "source" the responder's
    std::uint32_t sink_stag;
    std::uint64_t sink_to;
    std::uint32_t size;  // octets, 0 allowed
    std::uint32_t source_stag;
    std::uint64_t source_to;

    // The caller has made sure of kReadRequestLen octets.
    static ReadRequest parse(const std::byte* at) {
        return {load_be32(at), load_be64(at + 4), load_be32(at + 12), load_be32(at + 16), load_be64(at + 20)};
    }
    void emit(std::byte* at) const {
        store_be32(at, sink_stag);
        store_be64(at + 4, sink_to);
        store_be32(at + 12, size);
        store_be32(at + 16, source_stag);
        store_be64(at + 20, source_to);
    }
    bool operator==(const ReadRequest&) const = default;
};

// ---- RFC 7306

inline constexpr std::size_t kImmediateLen = 8;
inline constexpr std::size_t kImmediateSegmentLen = kUntaggedHeaderLen + kImmediateLen;
inline constexpr std::size_t kAtomicRequestLen = 52;
inline constexpr std::size_t kAtomicRequestSegmentLen = kUntaggedHeaderLen + kAtomicRequestLen;
inline constexpr std::size_t kAtomicResponseLen = 12;
inline constexpr std::size_t kAtomicResponseSegmentLen = kUntaggedHeaderLen + kAtomicResponseLen;

// RFC 7306 has 64 bits of immediate data, the verbs 32: these octets go as they are, and `use` says what they belong
// to.
struct Immediate {
    static constexpr std::uint32_t kByItself = 0;
    // Between ends that agreed on it alone (docs/EXCEPTIONS.md): of the Send that follows, whose receive it shares.
    static constexpr std::uint32_t kOfNextSend = 1;

    std::uint32_t data;  // network order
    std::uint32_t use;

    // The caller has made sure of kImmediateLen octets.
    static Immediate parse(const std::byte* at) {
        Immediate immediate{0, load_be32(at + 4)};
        std::memcpy(&immediate.data, at, sizeof immediate.data);
        return immediate;
    }
    void emit(std::byte* at) const {
        std::memcpy(at, &data, sizeof data);
        store_be32(at + 4, use);
    }
    bool operator==(const Immediate&) const = default;
};

enum class AtomicOpcode : std::uint8_t { kFetchAdd = 0, kCmpSwap = 2 };

struct AtomicRequest {    // RFC 7306 5.2.1
    AtomicOpcode opcode;  // may be an unassigned number
    std::uint32_t id;
    std::uint32_t stag;
    std::uint64_t to;
    std::uint64_t data;  // to add, or to swap in
    std::uint64_t mask;  // of data; FetchAdd: the most significant bits of its fields
    std::uint64_t compare, compare_mask;

    // The caller has made sure of kAtomicRequestLen octets.
    static AtomicRequest parse(const std::byte* at) {
        return {AtomicOpcode(load_be32(at) & 0x0f),
                load_be32(at + 4),
                load_be32(at + 8),
                load_be64(at + 12),
                load_be64(at + 20),
                load_be64(at + 28),
                load_be64(at + 36),
                load_be64(at + 44)};
    }
    void emit(std::byte* at) const {
        store_be32(at, static_cast<std::uint32_t>(opcode));
        store_be32(at + 4, id);
        store_be32(at + 8, stag);
        store_be64(at + 12, to);
        store_be64(at + 20, data);
        store_be64(at + 28, mask);
        store_be64(at + 36, compare);
        store_be64(at + 44, compare_mask);
    }
    bool is_known() const { return opcode == AtomicOpcode::kFetchAdd || opcode == AtomicOpcode::kCmpSwap; }
    // What becomes of `original`. RFC 7306 5.1.
    std::uint64_t result(std::uint64_t original) const;
    bool operator==(const AtomicRequest&) const = default;
};

struct AtomicResponse {  // RFC 7306 5.2.2
    std::uint32_t id;
    std::uint64_t original;

    // The caller has made sure of kAtomicResponseLen octets.
    static AtomicResponse parse(const std::byte* at) { return {load_be32(at), load_be64(at + 4)}; }
    void emit(std::byte* at) const {
        store_be32(at, id);
        store_be64(at + 4, original);
    }
    bool operator==(const AtomicResponse&) const = default;
};

// A whole Read Request ULPDU, kReadRequestSegmentLen octets.
inline void emit_read_request_segment(const ReadRequest& request, std::uint32_t msn, std::byte* at) {
    UntaggedHeader{true, rdmap_control(Opcode::kReadRequest), 0, kReadRequestQueue, msn, 0}.emit(at);
    request.emit(at + kUntaggedHeaderLen);
}

// A whole Atomic Request ULPDU, kAtomicRequestSegmentLen octets.
inline void emit_atomic_request_segment(const AtomicRequest& request, std::uint32_t msn, std::byte* at) {
    UntaggedHeader{true, rdmap_control(Opcode::kAtomicRequest), 0, kReadRequestQueue, msn, 0}.emit(at);
    request.emit(at + kUntaggedHeaderLen);
}

}  // namespace swrnic::wire
