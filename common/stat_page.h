// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// The page of counters that each open device keeps in a memfd of its process, for `swrnic stat`.
//
// The memfd's name is kStatName, so it is found as /proc/PID/fd/N -> "/memfd:swrnic-stat (deleted)". The kernel lets
// the same user and root open that, nobody else, and nothing is left behind by a process that was killed. One
// StatHeader, then up to kStatSlots StatSlots, one per QP; the file is as large as all of them and as full as those
// used. QPs beyond kStatSlots are not seen. Numbers are in host byte order; a reader copies (pread, never a mapping:
// the writer may be anybody) and believes nothing: see `sequence`.
#pragma once

#include <cstddef>
#include <cstdint>

namespace swrnic {

inline constexpr const char* kStatName = "swrnic-stat";
inline constexpr std::uint64_t kStatMagic = 0x74617473636e7277;  // "wrncstat"
inline constexpr std::uint32_t kStatVersion = 2;
inline constexpr std::uint32_t kStatSlots = 16384;

// Cells of a slot. Bytes are ULP payload; messages are counted when their last FPDU is with TCP, or is placed.
enum class StatCell : std::uint32_t {
    kTxBytes = 0,
    kTxFpdus,
    kTxSends,
    kTxWrites,
    kTxReadRequests,
    kTxReadResponses,
    kTxTerminates,
    kTxCalls,
    kRxBytes = 8,
    kRxFpdus,
    kRxSends,
    kRxWrites,
    kRxReadRequests,
    kRxReadResponses,
    kRxTerminates,
    kRxCalls,
    kRxCrcErrors = 16,
    kRxStalls,
    kRxStallNs,
    kRetransmits,
    kRxDrops,    // messages of UD and UC QPs that were lost here
    kSums = 21,  // the cells before add up over QPs
    kRttUs = 21,
    kRttVarUs,
    kState,  // enum ibv_qp_state
    // Terminates by code, four cells each: 1 << 48 | layer << 44 | type << 40 | code << 32 | how many. The fourth also
    // takes what found no cell.
    kTxTerminated = 24,
    kRxTerminated = 28,
    kCells = 32,
};
inline constexpr std::size_t kStatCells = static_cast<std::size_t>(StatCell::kCells);
inline constexpr std::size_t kStatSums = static_cast<std::size_t>(StatCell::kSums);
inline constexpr std::size_t kStatSlotCodes = 4;
inline constexpr std::size_t kStatGoneCodes = 32;

struct StatAddress {
    std::uint16_t version;  // 4, 6, or 0: not connected so far
    std::uint16_t port;
    std::uint8_t octets[16];  // IPv4 takes the first four
};

struct StatSlot {
    std::uint32_t qpn;         // 0: free
    std::uint32_t generation;  // counts the QPs that have had this slot
    StatAddress local, peer;   // of the present or latest connection
    std::uint8_t reserved[16];
    alignas(64) std::uint64_t cells[kStatCells];
};
static_assert(sizeof(StatSlot) == 320);

struct StatEngine {
    std::uint64_t thread_ns;    // CPU time of the background thread
    std::uint64_t poller_ns;    // spent driving in polls that found nothing; an estimate from samples
    std::uint64_t empty_polls;  // such polls
};

struct StatHeader {
    std::uint64_t magic;
    std::uint32_t version;
    std::uint32_t header_size, slot_size, slot_capacity;
    std::uint32_t slots;     // used so far: those behind are zero
    std::uint32_t sequence;  // odd while QPs come, go or connect; a copy is good if it was even and is the same after
    std::uint32_t pid;       // in the writer's PID namespace
    std::uint32_t reserved;
    char device[64];
    StatEngine engine;
    std::uint64_t gone_qps;  // QPs destroyed, whose sums are in `gone`
    std::uint64_t gone[kStatSums];
    std::uint64_t gone_tx_terminated[kStatGoneCodes], gone_rx_terminated[kStatGoneCodes];
    std::uint8_t padding[3280];
};
static_assert(sizeof(StatHeader) == 4096);

inline constexpr std::size_t kStatSize = sizeof(StatHeader) + std::size_t{kStatSlots} * sizeof(StatSlot);

}  // namespace swrnic
