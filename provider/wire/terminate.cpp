// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "wire/terminate.h"

#include <algorithm>
#include <cstring>

namespace swrnic::wire {

namespace {

struct Name {
    TerminateCode code;
    std::string_view name;
};

// RFC 5040 figure 9, RFC 5041 7.2, RFC 5044 8, RFC 6581 8.
constexpr Name kNames[] = {
    {{0, 1, 0}, "RDMA/Remote Protection/Invalid STag"},
    {{0, 1, 1}, "RDMA/Remote Protection/Base or bounds violation"},
    {{0, 1, 2}, "RDMA/Remote Protection/Access rights violation"},
    {{0, 1, 3}, "RDMA/Remote Protection/STag not associated with RDMAP Stream"},
    {{0, 1, 4}, "RDMA/Remote Protection/TO wrap"},
    {{0, 1, 9}, "RDMA/Remote Protection/STag cannot be Invalidated"},
    {{0, 1, 255}, "RDMA/Remote Protection/Unspecified"},
    {{0, 2, 5}, "RDMA/Remote Operation/Invalid RDMAP version"},
    {{0, 2, 6}, "RDMA/Remote Operation/Unexpected OpCode"},
    {{0, 2, 7}, "RDMA/Remote Operation/Catastrophic error, localized to RDMAP Stream"},
    {{0, 2, 8}, "RDMA/Remote Operation/Catastrophic error, global"},
    {{0, 2, 9}, "RDMA/Remote Operation/STag cannot be Invalidated"},
    {{0, 2, 255}, "RDMA/Remote Operation/Unspecified Error"},
    {{1, 1, 0}, "DDP/Tagged Buffer/Invalid STag"},
    {{1, 1, 1}, "DDP/Tagged Buffer/Base or bounds violation"},
    {{1, 1, 2}, "DDP/Tagged Buffer/STag not associated with DDP Stream"},
    {{1, 1, 3}, "DDP/Tagged Buffer/TO wrap"},
    {{1, 1, 4}, "DDP/Tagged Buffer/Invalid DDP version"},
    {{1, 2, 1}, "DDP/Untagged Buffer/Invalid QN"},
    {{1, 2, 2}, "DDP/Untagged Buffer/Invalid MSN, no buffer"},
    {{1, 2, 3}, "DDP/Untagged Buffer/Invalid MSN, range"},
    {{1, 2, 4}, "DDP/Untagged Buffer/Invalid MO"},
    {{1, 2, 5}, "DDP/Untagged Buffer/DDP Message too long"},
    {{1, 2, 6}, "DDP/Untagged Buffer/Invalid DDP version"},
    {{2, 0, 1}, "MPA/TCP connection closed, terminated or lost"},
    {{2, 0, 2}, "MPA/MPA CRC Error"},
    {{2, 0, 3}, "MPA/MPA Marker and ULPDU Length mismatch"},
    {{2, 0, 4}, "MPA/Invalid MPA Request or Reply Frame"},
    {{2, 0, 5}, "MPA/Local catastrophic"},
    {{2, 0, 6}, "MPA/Insufficient IRD resources"},
    {{2, 0, 7}, "MPA/No matching RTR option"},
};

bool is_read_request(std::span<const std::byte> segment) {
    return segment.size() >= kReadRequestSegmentLen && !is_tagged(std::to_integer<std::uint8_t>(segment[0])) &&
           opcode_of(std::to_integer<std::uint8_t>(segment[1])) == Opcode::kReadRequest;
}

Terminate defective(TerminateDefect defect) {
    Terminate terminate;
    terminate.defect = defect;
    return terminate;
}

}  // namespace

std::string_view terminate_name(TerminateCode code) {
    if (code.layer == 2 && code.type == 3) code.type = 0;  // some adapters send MPA errors so (RFC 5040 4.8)
    for (const Name& row : kNames)
        if (row.code == code) return row.name;
    if (code.layer == 0) {
        if (code.type == 0) return "RDMA/Local Catastrophic";
        if (code.type == 1) return "RDMA/Remote Protection/unknown code";
        return code.type == 2 ? "RDMA/Remote Operation/unknown code" : "RDMA/unknown type";
    }
    if (code.layer == 1) {
        if (code.type == 0) return "DDP/Local Catastrophic";
        if (code.type == 1) return "DDP/Tagged Buffer/unknown code";
        return code.type == 2 ? "DDP/Untagged Buffer/unknown code" : "DDP/unknown type";
    }
    return code.layer == 2 ? "LLP/unknown" : "unknown layer";
}

std::size_t build_terminate(TerminateCode code, std::span<const std::byte> offending, std::size_t segment_len,
                            std::span<std::byte, kMaxTerminateUlpdu> out) {
    const auto view = SegmentView::check(offending);
    const std::uint8_t quote = view ? terminate_quote(code, is_read_request(offending)) : 0;

    UntaggedHeader{true, rdmap_control(Opcode::kTerminate), 0, kTerminateQueue, kFirstMsn, 0}.emit(out.data());
    std::byte* at = out.data() + kUntaggedHeaderLen;
    at[0] = std::byte(code.layer << 4 | (code.type & 0x0f));
    at[1] = std::byte(code.code);
    at[2] = std::byte(quote);
    at[3] = std::byte(0);
    at += kTerminateControlLen;
    if (quote & kTerminateDdpHeader) {
        store_be16(at, static_cast<std::uint16_t>(std::min<std::size_t>(segment_len, UINT16_MAX)));
        at += kTerminateLengthLen;
        const std::size_t quoted = view->header_len() + (quote & kTerminateRdmaHeader ? kReadRequestLen : 0);
        std::memcpy(at, offending.data(), quoted);
        at += quoted;
    }
    return static_cast<std::size_t>(at - out.data());
}

Terminate parse_terminate(std::span<const std::byte> ulpdu) {
    const auto view = SegmentView::check(ulpdu);
    if (!view) return defective(TerminateDefect::kShort);
    if (view->tagged() || opcode_of(view->rdmap_control()) != Opcode::kTerminate)
        return defective(TerminateDefect::kOpcode);
    const UntaggedHeader header = view->untagged_header();
    if (!header.last) return defective(TerminateDefect::kNotLast);
    if (header.qn != kTerminateQueue) return defective(TerminateDefect::kQn);
    if (header.msn != kFirstMsn) return defective(TerminateDefect::kMsn);
    if (header.mo != 0) return defective(TerminateDefect::kMo);

    std::span<const std::byte> body = view->payload();
    if (body.size() < kTerminateControlLen) return defective(TerminateDefect::kShort);
    Terminate terminate;
    const std::uint8_t first = std::to_integer<std::uint8_t>(body[0]);
    terminate.code = {static_cast<std::uint8_t>(first >> 4), static_cast<std::uint8_t>(first & 0x0f),
                      std::to_integer<std::uint8_t>(body[1])};
    terminate.quote =
        std::to_integer<std::uint8_t>(body[2]) & (kTerminateLengthValid | kTerminateDdpHeader | kTerminateRdmaHeader);
    body = body.subspan(kTerminateControlLen);

    if (terminate.quote & (kTerminateLengthValid | kTerminateDdpHeader)) {
        if (body.size() < kTerminateLengthLen) return defective(TerminateDefect::kShort);
        terminate.segment_len = load_be16(body.data());
        body = body.subspan(kTerminateLengthLen);
    }
    if (terminate.quote & kTerminateDdpHeader) {
        const auto quoted = SegmentView::check(body);  // the T bit of the quoted header gives its length
        if (!quoted) return defective(TerminateDefect::kShort);
        terminate.ddp_header = quoted->header();
        body = quoted->payload();
    }
    if (terminate.quote & kTerminateRdmaHeader) {
        if (body.size() < kReadRequestLen) return defective(TerminateDefect::kShort);
        terminate.rdma_header = body.first(kReadRequestLen);
    }
    return terminate;
}

}  // namespace swrnic::wire
