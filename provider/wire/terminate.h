// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// The Terminate message, RFC 5040 4.8, and the code for every fault (RFC 5040 7, RFC 5041 7, RFC 6580).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "wire/fpdu.h"
#include "wire/rdmap.h"

namespace swrnic::wire {

struct TerminateCode {
    std::uint8_t layer;  // 0 RDMA, 1 DDP, 2 LLP (MPA)
    std::uint8_t type;   // 4 bits
    std::uint8_t code;

    // layer << 12 | type << 8 | code
    constexpr std::uint16_t packed() const { return static_cast<std::uint16_t>(layer << 12 | type << 8 | code); }
    constexpr bool operator==(const TerminateCode&) const = default;
};

// What to send for which fault.
namespace fault {
inline constexpr TerminateCode kLocalFailure{0, 0, 0};
// MPA
inline constexpr TerminateCode kCrc{2, 0, 2};
inline constexpr TerminateCode kMarker{2, 0, 3};
inline constexpr TerminateCode kMpaLocalCatastrophic{2, 0, 5};
inline constexpr TerminateCode kInsufficientIrd{2, 0, 6};
inline constexpr TerminateCode kNoMatchingRtr{2, 0, 7};
// DDP, of our own memory
inline constexpr TerminateCode kDdpLocalCatastrophic{1, 0, 0};
// any segment
inline constexpr TerminateCode kShortSegment{1, 0, 0};  // also a single-segment message without L
inline constexpr TerminateCode kTaggedDdpVersion{1, 1, 4};
inline constexpr TerminateCode kUntaggedDdpVersion{1, 2, 6};
inline constexpr TerminateCode kRdmapVersion{0, 2, 5};
inline constexpr TerminateCode kUnexpectedOpcode{0, 2, 6};  // unknown, wrong T, or on an existing but wrong queue
inline constexpr TerminateCode kUnexpectedReadResponse{0, 2, 6};
inline constexpr TerminateCode kUnspecified{0, 2, 255};
inline constexpr TerminateCode kStreamCatastrophic{0, 2, 7};
inline constexpr TerminateCode kGlobalCatastrophic{0, 2, 8};
// untagged buffer model
inline constexpr TerminateCode kInvalidQn{1, 2, 1};
inline constexpr TerminateCode kNoBuffer{1, 2, 2};
inline constexpr TerminateCode kIrdExceeded{1, 2, 2};
inline constexpr TerminateCode kInvalidMsn{1, 2, 3};
inline constexpr TerminateCode kInvalidMo{1, 2, 4};
inline constexpr TerminateCode kMessageTooLong{1, 2, 5};
inline constexpr TerminateCode kReadRequestTooLong{1, 2, 5};
inline constexpr TerminateCode kReadRequestTooShort{0, 2, 255};
// Write and Read Response
inline constexpr TerminateCode kTaggedInvalidStag{1, 1, 0};
inline constexpr TerminateCode kTaggedAccess{1, 1, 0};  // RFC 5041 has no code of its own
inline constexpr TerminateCode kTaggedBounds{1, 1, 1};
inline constexpr TerminateCode kTaggedNotAssociated{1, 1, 2};
inline constexpr TerminateCode kTaggedWrap{1, 1, 3};
// Read Request
inline constexpr TerminateCode kReadInvalidStag{0, 1, 0};
inline constexpr TerminateCode kReadBounds{0, 1, 1};
inline constexpr TerminateCode kReadAccess{0, 1, 2};
inline constexpr TerminateCode kReadNotAssociated{0, 1, 3};
inline constexpr TerminateCode kReadWrap{0, 1, 4};
// Immediate Data and atomics (RFC 7306); the STag of an atomic is as a Read Request's
inline constexpr TerminateCode kImmediateLength{0, 2, 255};
inline constexpr TerminateCode kImmediateWithoutSend{0, 2, 6};  // what follows cannot carry it
inline constexpr TerminateCode kAtomicLength{0, 2, 255};
inline constexpr TerminateCode kAtomicOpcode{0, 2, 6};
inline constexpr TerminateCode kAtomicMisaligned{0, 2, 7};
inline constexpr TerminateCode kUnexpectedAtomicResponse{1, 2, 2};
inline constexpr TerminateCode kUnknownAtomicId{0, 2, 255};
// Send with Invalidate
inline constexpr TerminateCode kInvalidateForeign{0, 1, 9};  // other protection domain or stream
inline constexpr TerminateCode kInvalidateImpossible{0, 2,
                                                     9};  // unknown, already invalid, shared, not remotely accessible
}  // namespace fault

constexpr TerminateCode terminate_for(MpaError error) {
    return {2, 0, static_cast<std::uint8_t>(error)};
}

std::string_view terminate_name(TerminateCode code);  // for log lines; never empty

// Octet 2 of the body, RFC 5040 4.8.
inline constexpr std::uint8_t kTerminateLengthValid = 0x80;  // M
inline constexpr std::uint8_t kTerminateDdpHeader = 0x40;    // D
inline constexpr std::uint8_t kTerminateRdmaHeader = 0x20;   // R
inline constexpr std::size_t kTerminateControlLen = 4;
inline constexpr std::size_t kTerminateLengthLen = 2;
inline constexpr std::size_t kMaxTerminateUlpdu =
    kUntaggedHeaderLen + kTerminateControlLen + kTerminateLengthLen + kUntaggedHeaderLen + kReadRequestLen;

// The M, D and R bits to send, RFC 5040 figure 10. read_request: the offending message is one.
constexpr std::uint8_t terminate_quote(TerminateCode code, bool read_request) {
    constexpr std::uint8_t kHeader = kTerminateLengthValid | kTerminateDdpHeader;
    if (code.layer == 0 && code.type == 1) return read_request ? kHeader | kTerminateRdmaHeader : kHeader;
    if (code.layer == 0 && code.type == 2) return kHeader;
    if (code.layer == 1 && (code.type == 1 || code.type == 2)) return kHeader;
    return 0;
}

// Builds a Terminate ULPDU in `out`; returns its length. `offending` holds the segment's first octets (its headers
// suffice; empty if the fault is not tied to a segment), segment_len its full ULPDU_Length. What is not there is not
// quoted. For a Read that has been answered in part, pass a request that shows the remainder (RFC 5040 4.8;
// emit_read_request_segment).
std::size_t build_terminate(TerminateCode code, std::span<const std::byte> offending, std::size_t segment_len,
                            std::span<std::byte, kMaxTerminateUlpdu> out);

// Why a Terminate is not acceptable: report locally and close, never answer it (RFC 5040 5.4).
enum class TerminateDefect : std::uint8_t { kNone, kShort, kOpcode, kNotLast, kQn, kMsn, kMo };

struct Terminate {  // borrows the ULPDU's octets
    TerminateDefect defect = TerminateDefect::kNone;
    TerminateCode code{};                      // valid without defect, as all that follows
    std::uint8_t quote = 0;                    // M, D, R as received
    std::uint16_t segment_len = 0;             // with M
    std::span<const std::byte> ddp_header{};   // with D: 14 or 18 octets
    std::span<const std::byte> rdma_header{};  // with R: 28 octets

    bool ok() const { return defect == TerminateDefect::kNone; }
};

// Trusts the presence bits, not the codes; ignores reserved bits and surplus octets. Any input is safe.
Terminate parse_terminate(std::span<const std::byte> ulpdu);

}  // namespace swrnic::wire
