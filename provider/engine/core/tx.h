// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// The sending machine of a QP: cuts requests and Read Responses into FPDUs and hands many of them to the transport at
// once.
//
// A step plans FPDUs from a cursor, lays them out as slices, sends, and commits as much as was taken: any partial write
// is fine. With CRC and markers off, large payloads are named, not copied; an FPDU that went out in part is laid out
// again from the same plan. With CRC or markers on the payload is copied and sealed first, since memory may change
// while it is sent, and what did not go out is kept. So it is with foreign memory, which no transport can read; where
// the transport allows it, only headers are laid out here, and its owner copies, seals and sends.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>

#include "engine/core/byte_buffer.h"
#include "engine/core/fault.h"
#include "engine/core/lock.h"
#include "engine/core/memory.h"
#include "engine/core/pass.h"
#include "engine/core/stream.h"
#include "engine/core/transport.h"

namespace swrnic::engine {

class Counters;
class QpStatus;
class RandomSource;
class ReadState;
class ReceiveCompletions;
class SendQueue;
struct SendWqe;

class Tx {
  public:
    // Octets. Payloads up to that are copied while a send holds no more: one slice for an FPDU that leaves alone is
    // cheaper than three. Behind those the copy costs more than slices, unless they hold less than kLeastSlice each.
    static constexpr std::uint32_t kCopy = 8192, kLeastSlice = 2048;

    enum class Status : std::uint8_t {
        kMoved,    // something went out; there may be more
        kIdle,     // nothing to send now
        kCorked,   // something went out; a tail is left
        kBlocked,  // the transport takes nothing now
        kWaiting,  // for other passes to end: soon
        kLast,     // the Terminate is out, or nothing may be sent any more: end the stream
        kBroken,   // the transport is gone
    };

    // All of them outlive it, and are not looked at before start().
    Tx(std::uint32_t pd, std::uint32_t qpn, MemoryTable& memory, RandomSource& random, Counters& counters,
       QpStatus& status, Stream& stream, SendQueue& sq, ReadState& reads, ReceiveCompletions& receive_completions)
        : pd_(pd),
          qpn_(qpn),
          memory_(memory),
          random_(random),
          counters_(counters),
          status_(status),
          stream_(stream),
          sq_(sq),
          reads_(reads),
          receive_completions_(receive_completions) {}
    // bypass: the transport allows it.
    void start(bool crc, bool markers, bool large_fpdu, bool short_first, std::uint8_t rtr, bool bypass);

    // A packet costs the kernel much the same however full it is.
    enum class Tail : std::uint8_t {
        kSend,
        kCork,  // behind the first, a packet that small messages do not fill waits for more of them: for the next step
    };
    // Of a wired QP, until another is set: it is told in front of the next message (rnr_notice).
    void set_rnr_retry(const TxGuard& guard, std::uint8_t retries);
    // One write to the stream at most, or one local request.
    Status step(const TxGuard& guard, Pass& pass, Tail tail);
    // Whether a step might find something to do. Any thread.
    bool has_work() const;
    // Every request is with the transport, and confirmed where it is to be, and every inbound Read is answered.
    bool is_done(const TxGuard& guard) const;
    // Responses are due, and nothing else. Any thread; a moment later it may be otherwise.
    bool owes_responses_alone() const;
    // Some window may be bound to the QP. Any thread.
    bool binds() const { return binds_.load(std::memory_order_relaxed); }

  private:
    // What has begun and is not done, beside the message that a request's offset is in: a Response, or a request whose
    // first message is done and whose second is to follow (has_immediate()).
    enum class Inside : std::uint8_t { kNothing, kResponse, kRequest };
    // What comes next in the stream. Small and copied freely: planning runs ahead on a copy.
    struct Cursor {
        std::uint64_t request = 0;    // index of the request in progress or next to start
        std::uint64_t position = 0;   // octets of the stream; markers only
        std::uint32_t offset = 0;     // octets of its message that are done; not 0: inside the message
        std::uint32_t responses = 0;  // Read Responses finished
        std::uint32_t response_offset = 0;
        std::uint32_t send_msn = 1;
        std::uint32_t read_msn = 1;
        std::uint32_t unasked = 0;    // what was sent behind the last question or Read: octets, and a charge for each
        std::uint32_t questions = 0;  // asked
        std::uint8_t rtr = 0;         // still to be sent, or kNotice, or both
        bool terminated = false;      // the Terminate was the last FPDU
        bool response_turn = true;    // Responses and requests take turns, message by message
        Inside inside = Inside::kNothing;
        bool operator==(const Cursor&) const = default;

        bool is_between_messages() const { return offset == 0 && inside == Inside::kNothing; }
    };
    // Under way at once. With one, a program that keeps 128 Writes outstanding waits two round trips for them
    // (bench/history, 11-28).
    static constexpr std::uint32_t kMostQuestions = 8;
    // kQuestion: an empty Read. RFC 5040 5.5: what was sent before it is placed when its Response comes.
    enum class Kind : std::uint8_t { kRequest, kResponse, kRtr, kTerminate, kQuestion };
    struct Plan {
        Kind kind;
        std::uint32_t payload;  // octets
    };
    struct Record {  // one FPDU of a step
        Cursor after;
        std::size_t end;  // octets of the step up to its end
        Plan plan;
    };
    struct Layout;  // the slices of a step (tx.cpp)

    static constexpr std::uint8_t kNotice = 8;  // beside the kinds of RTRs, behind them
    static constexpr std::uint32_t kMaxRecords = 256;
    static constexpr std::uint32_t kMaxSlices = 1024;       // IOV_MAX
    static constexpr std::size_t kMaxOctets = 1024 * 1024;  // of one step

    bool plan(const Cursor& at, Plan& out);
    bool plan_message(const Cursor& at, Plan& out);
    std::uint32_t cut(std::uint32_t left, std::uint32_t room) const;
    bool may_ask(const Cursor& at) const;
    bool must_ask(const Cursor& at) const;
    bool request_may_start(const Cursor& at);
    bool response_may_start(const Cursor& at);
    bool execute_atomic(const Cursor& at);
    static bool carries_payload(const Cursor& at, const SendWqe& wqe);
    // Raise the fault, unless `at` is ahead of what the transport has: then what comes before goes out first, and the
    // failure is found again (VERBS-19, RFC 5040 7.1).
    void payload_failed(const Cursor& at, Kind kind, MemoryError error);
    void request_failed(const Cursor& at);
    void source_failed(const Cursor& at, MemoryError error);
    void target_failed(const Cursor& at, MemoryError error);
    void raise_local_failure(std::optional<std::uint64_t> index, WcStatus status);

    bool is_fenced(const SendWqe& wqe) const;
    bool local_is_next() const;
    bool execute_local(WindowBindingPtr& replaced);
    Status step_local(Pass& pass);

    // Appends one FPDU; false when its memory is gone (a fault is raised, nothing was appended).
    bool lay_out(Layout& layout, const Cursor& at, const Plan& plan, Cursor& after);
    // For a payload longer than kLeastSlice. Out of line: small messages would pay for it.
    [[gnu::noinline]] bool is_copied(const Layout& layout, std::uint32_t payload, std::uint32_t slices) const;
    std::size_t emit_headers(const Cursor& at, const Plan& plan, std::byte* out);
    std::size_t emit_request(const Cursor& at, const Plan& plan, std::byte* out);
    std::size_t emit_response(const Cursor& at, const Plan& plan, std::byte* out) const;
    std::size_t emit_other(const Cursor& at, const SendWqe& wqe, std::byte* out);
    std::size_t emit_immediate(const Cursor& at, const SendWqe& wqe, std::byte* out) const;
    std::size_t emit_atomic(const Cursor& at, std::byte* out);
    std::size_t emit_rtr(const Cursor& at, std::byte* out);
    std::size_t emit_question(const Cursor& at, std::byte* out);
    void advance(Cursor& at, const Plan& plan);
    static bool advance_other(Cursor& at, const SendWqe& wqe);
    bool payload_slices(const Cursor& at, const Plan& plan, struct IoSlice* out, std::uint32_t& count);
    [[gnu::noinline]] bool copy_payload(const Cursor& at, const Plan& plan, std::span<const IoSlice> slices,
                                        std::byte* to);
    bool copy_slices(const Cursor& at, const Plan& plan, std::span<const IoSlice> slices, std::byte* to);
    bool ends_request(const Cursor& at, const Cursor& after);
    bool copy_foreign(const Cursor& at, const Plan& plan, std::byte* to);
    ForeignName source_name(const Cursor& at, const Plan& plan) const;
    [[gnu::cold]] void name_payload(Layout& layout, const Cursor& at, const Plan& plan, bool ends,
                                    std::span<const std::byte> header);
    std::uint32_t note_read(std::uint64_t index, std::uint32_t msn);

    void fill(Layout& layout, Tail tail);
    Status send(Layout& layout, Pass& pass);
    bool fills_packet(const Layout& layout, const Cursor& at, const Plan& next, std::size_t& packet_end) const;
    [[gnu::cold]] IoResult send_named(Layout& layout);
    void commit(const Layout& layout, std::size_t sent, Pass& pass);
    void count(const Layout& layout, std::uint32_t whole);

    const std::uint32_t pd_, qpn_;
    MemoryTable& memory_;
    RandomSource& random_;
    Counters& counters_;
    QpStatus& status_;
    Stream& stream_;
    SendQueue& sq_;
    ReadState& reads_;
    ReceiveCompletions& receive_completions_;
    bool staged_ = false;  // CRC, markers or foreign memory
    bool crc_ = false, markers_ = false, large_ = false, short_first_ = false;
    bool bypass_ = false;  // foreign memory sends the payload itself
    bool copies_ = false;  // the next step copies all payload: the kernel has met a fault in it
    std::uint32_t mulpdu_ = 0;
    std::size_t staging_ = PassPool::kLeastTxStaging;  // octets, for the next step

    Cursor cursor_;                 // all before it is with the transport
    std::size_t partial_sent_ = 0;  // octets of the FPDU at cursor_ that are out already
    Plan partial_plan_{};           // how it was planned
    ByteBuffer residue_;            // staged: its other octets
    Cursor residue_after_;
    bool message_failed_ = false;    // the message in progress cannot be finished: the Terminate may cut it off
    std::uint64_t reads_noted_ = 0;  // requests before this index have their place in the ORQ
    bool rtr_noted_ = false;
    std::uint32_t atomic_msn_ = 1;  // of the next Atomic Response
    std::atomic<bool> rtr_due_{false};
    std::uint8_t rnr_retry_ = rnr_notice::kForEver;  // under the TX lock
    bool confirms_ = false;                          // requests are complete when the peer has placed them: it is asked
    std::uint32_t questions_noted_ = 0;              // have their place in the ORQ
    std::uint64_t question_at_ = 0;                  // the last of them: before this request
    std::atomic<bool> unasked_{false};               // as cursor_ has them
    std::atomic<std::uint32_t> questions_{0};
    std::atomic<bool> binds_{false};

    struct Local {
        WindowBindingPtr replaced;
        PassPool::Grace grace;
    };
    std::unique_ptr<Local> local_;  // the local request at cursor_ is executed, but not complete
};

}  // namespace swrnic::engine
