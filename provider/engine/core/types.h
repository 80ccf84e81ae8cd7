// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Value types that cross the engine's boundary. Numbers equal those of <infiniband/verbs.h>, unless it says otherwise;
// the core does not include that, and verbs/ checks them with static_assert.
#pragma once

#include <cstdint>
#include <span>

namespace swrnic::engine {

inline constexpr std::size_t kCacheLine = 64;  // octets; what processors pass to each other

struct Sge {  // laid out as ibv_sge
    std::uint64_t addr;
    std::uint32_t length;
    std::uint32_t lkey;
};

// Not verbs' numbers: the order makes each question below one comparison or two.
enum class WrOpcode : std::uint8_t {
    kWrite,
    kSend,
    kSendInv,
    kWriteImm,
    kSendImm,
    kLocalInv,
    kBind,
    kCmpSwap,
    kFetchAdd,
    kRead,
};

constexpr bool is_between(WrOpcode opcode, WrOpcode first, WrOpcode last) {
    return opcode >= first && opcode <= last;
}
// One message, whose payload is the request's.
constexpr bool is_plain(WrOpcode opcode) {
    return opcode <= WrOpcode::kSendInv;
}
constexpr bool is_write(WrOpcode opcode) {
    return opcode == WrOpcode::kWrite || opcode == WrOpcode::kWriteImm;
}
// Two messages: the Write, and then its Immediate Data; or Immediate Data, and then the Send that it belongs to.
constexpr bool has_immediate(WrOpcode opcode) {
    return is_between(opcode, WrOpcode::kWriteImm, WrOpcode::kSendImm);
}
constexpr bool is_atomic(WrOpcode opcode) {
    return is_between(opcode, WrOpcode::kCmpSwap, WrOpcode::kFetchAdd);
}
// Only for a peer that has agreed (StreamParameters::rfc7306).
constexpr bool needs_rfc7306(WrOpcode opcode) {
    return has_immediate(opcode) || is_atomic(opcode);
}
// Complete when its Response is delivered, in read order.
constexpr bool awaits_response(WrOpcode opcode) {
    return opcode >= WrOpcode::kCmpSwap;
}
// Done here, with nothing on the wire.
constexpr bool is_local(WrOpcode opcode) {
    return is_between(opcode, WrOpcode::kLocalInv, WrOpcode::kBind);
}

namespace send_flag {  // ibv_send_flags
inline constexpr std::uint32_t kFence = 1, kSignaled = 2, kSolicited = 4, kInline = 8;
}

namespace access {  // ibv_access_flags
inline constexpr std::uint32_t kLocalWrite = 1, kRemoteWrite = 2, kRemoteRead = 4, kRemoteAtomic = 8, kMwBind = 16,
                               kZeroBased = 32;
}

enum class WcStatus : std::uint32_t {
    kSuccess = 0,
    kLocLenErr = 1,
    kLocQpOpErr = 2,
    kLocProtErr = 4,
    kWrFlushErr = 5,
    kMwBindErr = 6,
    kBadRespErr = 7,
    kRemInvReqErr = 9,
    kRemAccessErr = 10,
    kRemOpErr = 11,
    kRetryExcErr = 12,
    kRnrRetryExcErr = 13,
    kRemInvRdReqErr = 15,
    kFatalErr = 19,
    kGeneralErr = 21,
};

enum class WcOpcode : std::uint32_t {
    kSend = 0,
    kWrite = 1,
    kRead = 2,
    kCompSwap = 3,
    kFetchAdd = 4,
    kBind = 5,
    kLocalInv = 6,
    kRecv = 128,
    kRecvRdmaWithImm = 129,
};

namespace wc_flag {  // ibv_wc_flags
inline constexpr std::uint32_t kGrh = 1, kWithImm = 2, kWithInv = 8;
// Ours, for the owner of foreign memory alone: he has CQs of his own.
inline constexpr std::uint32_t kSolicited = 1U << 31;
}  // namespace wc_flag

struct WorkCompletion {
    std::uint64_t wr_id;
    WcStatus status;
    WcOpcode opcode;
    std::uint32_t byte_len;
    std::uint32_t qpn;
    std::uint32_t wc_flags;
    union {
        std::uint32_t invalidated_stag;  // valid with wc_flag::kWithInv
        std::uint32_t imm_data;          // valid with wc_flag::kWithImm; network order
    };
    std::uint32_t vendor_err;  // layer << 12 | type << 8 | code of the Terminate sent or received, else 0 (VERBS-16)
    std::uint64_t timestamp;   // when it was made, by the CQ's clock; 0: the CQ has none
    std::uint32_t src_qpn;     // of a datagram that has come, else 0
    std::uint8_t sl;           // the same: of which kind it was
};

using CompletionClock = std::uint64_t (*)();

// Memory windows. Type 1: any QP of the PD may use it. Type 2 (2B): only the QP that bound it.
enum class WindowType : std::uint8_t { kType1 = 1, kType2 = 2 };  // ibv_mw_type

struct BindWr {
    std::uint64_t length;  // 0: the end of the binding (type 1 alone)
    std::uint32_t region;  // STag
    std::uint32_t access;  // remote rights, kZeroBased
};

struct AtomicWr {
    std::uint64_t compare_add;
    std::uint64_t swap;  // kCmpSwap
};

struct SendWr {
    std::uint64_t wr_id;
    WrOpcode opcode;
    std::uint32_t flags;        // send_flag; the QP's sq_sig_all is already folded into kSignaled by the engine
    std::span<const Sge> sges;  // lkey is not looked at with kInline
    std::uint64_t remote_addr;  // Writes, kRead, atomics: TO at the peer; kBind: where the window starts in the region
    std::uint32_t rkey;         // Writes, kRead, atomics: STag at the peer; kBind: the window's from now on
    union {
        std::uint32_t invalidate_stag;  // kSendInv, kLocalInv
        std::uint32_t imm_data;         // kWriteImm, kSendImm; network order
    };
    BindWr bind{};      // kBind
    AtomicWr atomic{};  // atomics
};

struct RecvWr {
    std::uint64_t wr_id;
    std::span<const Sge> sges;
};

// kFull: the queue has max_wr requests outstanding (ENOMEM). kBadState: the QP's state takes no such request (EINVAL).
// kInvalid: opcode, flags, element count, inline size or total length out of range (EINVAL). kNotAgreed: the peer does
// not take it (EOPNOTSUPP).
enum class PostResult { kOk, kFull, kBadState, kInvalid, kNotAgreed };

// Why an STag does not open what it was asked for, in DDP-31's order. kForeign: the table does not know, ForeignMemory
// does. kMisaligned: not for an atomic.
enum class MemoryError : std::uint8_t { kNone, kInvalidStag, kWrongPd, kAccess, kWrap, kBounds, kMisaligned, kForeign };

enum class QpState : std::uint8_t {  // ibv_qp_state; the iWARP name behind it
    kReset = 0,                      // IDLE
    kInit = 1,                       // IDLE, receives may be posted
    kRtr = 2,                        // IDLE, connection being set up
    kRts = 3,                        // RTS
    kSqd = 4,                        // CLOSING
    kSqe = 5,                        // TERMINATE
    kErr = 6,                        // ERROR
};

enum class AsyncEvent : std::uint32_t {  // ibv_event_type
    kCqErr = 0,
    kQpFatal = 1,
    kQpReqErr = 2,
    kQpAccessErr = 3,
    kCommEst = 4,
    kSqDrained = 5,
    kSrqLimitReached = 15,
    kQpLastWqeReached = 16,
};

enum class CloseReason : std::uint32_t { kGraceful = 0, kLost = 1, kError = 2 };  // swrnic_close_reason

class Cq;
class Counters;
class Srq;

struct SrqAttributes {
    std::uint32_t max_wr, max_sge, limit;
};

struct QpInit {
    std::uint32_t qpn;
    std::uint32_t pd;  // any number that is equal for equal protection domains, never 0
    Cq* send_cq;       // borrowed; outlives the QP
    Cq* recv_cq;
    std::uint32_t max_send_wr, max_recv_wr;    // as granted, at least 1
    std::uint32_t max_send_sge, max_recv_sge;  // at least 1
    std::uint32_t max_inline;                  // octets
    bool sq_sig_all;
    Srq* srq = nullptr;            // borrowed; outlives the QP; null: the QP's own receive queue
    Counters* counters = nullptr;  // borrowed; outlives the QP, at most one QP's; null: the QP's own
    bool unreliable = false;       // IBV_QPT_UC: what cannot be delivered is lost, and nobody hears of it
    // Its Sends and Writes are complete when the peer has placed them, if the peer grants a Read, by which it is asked.
    bool confirms = false;
    bool infiniband = false;  // its errors and its end are told as an adapter of InfiniBand would, as of a wired QP
};

// What MPA startup agreed on (RFC 6581 names).
struct StreamParameters {
    bool initiator;
    bool crc;
    bool markers_tx, markers_rx;
    bool large_fpdu;         // ULPDUs up to 64768 octets whatever the EMSS
    bool short_first;        // with large_fpdu: every segment of a message but the first has the largest ULPDU
    bool rfc7306;            // both ends take Immediate Data, of Sends too (wire::Immediate), and atomics
    bool p2p;                // the Initiator's first FPDU is an RTR message
    std::uint8_t rtr;        // SWRNIC_RTR_*: the kind to send (Initiator) or the kinds that may come (Responder)
    std::uint8_t terminate;  // not 0: send Terminate 2/0/this and close
    std::uint16_t ird, ord;
    bool to_itself = false;  // what the QP sends comes back: it is its own peer
};

}  // namespace swrnic::engine
