// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// What the stand-in's device claims. Modest, and enforced where a command could exceed it.
#pragma once

#include <cstdint>

namespace swrnic::shim {

inline constexpr char kDeviceName[] = "swr0";
inline constexpr std::uint32_t kUverbsMajor = 231, kUverbsMinor = 192;  // as a kernel numbers its first uverbs device
inline constexpr std::uint32_t kRdmaCmMajor = 10, kRdmaCmMinor = 119;

inline constexpr std::uint32_t kMaxQp = 131072;
inline constexpr std::uint32_t kMaxQpWr = 16384;
inline constexpr std::uint32_t kMaxSge = 16;
inline constexpr std::uint32_t kMaxInline = 4096;
inline constexpr std::uint32_t kMaxCq = 131072;
inline constexpr std::uint32_t kMaxCqe = 1u << 20;
inline constexpr std::uint32_t kMaxSrq = 65536;
inline constexpr std::uint32_t kMaxSrqWr = kMaxQpWr;
inline constexpr std::uint32_t kMaxMr = 1u << 20;
inline constexpr std::uint32_t kMaxMw = 65536;
inline constexpr std::uint32_t kMaxPd = 65536;
inline constexpr std::uint64_t kMaxMrSize = 1ull << 47;   // the whole of a user address space
inline constexpr std::uint32_t kMaxReads = 128;           // IRD and ORD alike; VERBS-43 wants at most 254
inline constexpr std::uint32_t kMaxMessage = 0xffffffff;  // VERBS-42
inline constexpr std::uint32_t kMaxGids = 256;

// What the uAPI's eight bits show of a depth (VERBS-43).
constexpr std::uint8_t shown_depth(std::uint16_t depth) {
    return static_cast<std::uint8_t>(depth < kMaxReads ? depth : kMaxReads);
}

inline constexpr std::uint32_t kStartupTimeoutMs = 10'000;  // TCP connect plus MPA, where the QP names none
inline constexpr std::uint32_t kMaxHalfOpen = 128;          // connections per listener whose Request is not complete
inline constexpr std::uint32_t kHalfOpenGraceMs = 250;      // when there are so many, the oldest may go after this
inline constexpr int kMaxBacklog = 1024;                    // undelivered CONNECT_REQUESTs per listener
inline constexpr int kTcpBacklog = 4096;                    // connections that TCP holds for us: a burst of SYNs

}  // namespace swrnic::shim
