// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// The receiving machine of a QP: takes the stream as it comes, finds the FPDUs, checks each DDP segment and places it.
//
// How the stream was cut never changes the result: octets that arrive in staging go through a push parser, and a large
// payload is read straight to where it belongs, after which the parser stands exactly where it would have stood; so is
// the next one, if its place is predicted, and taken from there again if its header says something else. With CRC or
// markers in use a whole FPDU is collected and checked first (RFC 5044 4.4). No pointer into user memory survives a
// step.
//
// So it is with foreign memory; but as soon as the header of a longer FPDU is there, and says nothing out of the
// ordinary, its owner may collect, check and place the rest itself (step_unread). What it does not place comes the
// usual way, and what is wrong with it is found out there.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>

#include "engine/core/byte_buffer.h"
#include "engine/core/fault.h"
#include "engine/core/lock.h"
#include "engine/core/memory.h"
#include "engine/core/pass.h"
#include "engine/core/scatter.h"
#include "engine/core/transport.h"
#include "wire/ddp.h"
#include "wire/fpdu.h"
#include "wire/rdmap.h"

namespace swrnic::engine {

class Counters;
class QpStatus;
class ReadState;
class ReceiveCompletions;
class ReceiveQueue;
class SendQueue;
struct Stream;

class Rx {
  public:
    enum class Status : std::uint8_t {
        kMoved,    // something was read; there may be more
        kAgain,    // the stream is empty
        kStalled,  // a Send waits for a receive to be posted: the stream is left unread
        kEof,      // FIN at an FPDU boundary
        kBroken,   // reset, or FIN inside an FPDU
    };

    // All of them outlive it, and are not looked at before start().
    Rx(std::uint32_t pd, std::uint32_t qpn, MemoryTable& memory, Counters& counters, QpStatus& status, Stream& stream,
       SendQueue& sq, ReceiveQueue& rq, ReadState& reads, ReceiveCompletions& receive_completions)
        : pd_(pd),
          qpn_(qpn),
          memory_(memory),
          counters_(counters),
          status_(status),
          stream_(stream),
          sq_(sq),
          rq_(rq),
          reads_(reads),
          receive_completions_(receive_completions) {}
    // rtr_send: the first FPDU may be an RTR by Send, which consumes no receive. bypass: the transport allows it.
    void start(bool crc, bool markers, bool short_first, bool rtr_send, bool bypass);

    // One read of the stream at most.
    Status step(const RxGuard& guard, Pass& pass);
    // The receive queue has stayed empty for too long: Terminate 1/2/2.
    void give_up_waiting(const RxGuard& guard);
    // Octets of the large FPDU in progress that are still to come, 0 if it is not large. Under the RX lock.
    std::uint32_t large_left() const;
    // What was received since the last time gives the sender something to do.
    bool take_wake(const RxGuard&) { return std::exchange(wakes_sender_, false); }
    std::uint64_t stalls() const { return stalls_; }  // how many Sends have found no receive

  private:
    friend struct CoreTestAccess;

    enum class Phase : std::uint8_t { kHeader, kPayload, kTrailer, kDiscard };
    enum class Target : std::uint8_t { kNothing, kRegion, kReceive, kReadSink };
    enum class Verdict : std::uint8_t { kAccept, kStall, kFail };
    // Why what was read is carried over: the segment in progress finds no receive; or a completion waits for passes of
    // others, and the end of the stream would flush it.
    enum class Stop : std::uint8_t { kNone, kNoReceive, kCompletionWaits };

    static constexpr std::size_t kMaxHeader = wire::kFpduHeaderLen + wire::kMaxTerminateUlpdu;
    // Payloads from here on are read to their place; below, a copy out of a full staging area is cheaper than a read of
    // its own.
    static constexpr std::uint32_t kDirect = 16 * 1024;
    static constexpr std::uint32_t kMaxSlices = 64;
    // What is read before the header of a payload that shall be read to its place: the header, and what may stand
    // before it of small FPDUs.
    static constexpr std::size_t kAhead = 1024;
    static constexpr unsigned kRecent = 3;  // two messages, a bit each
    // Past the transport: payloads that are worth a call of their own, and what is taken at once of FPDUs that are not
    // large.
    static constexpr std::uint32_t kUnread = 512;
    static constexpr std::size_t kUnreadRun = 64 * 1024;

    // ---- stream to segments. consume_*() returns how many octets it took: all, unless a Send stalls.
    Status step_direct(Pass& pass);
    struct Predicted;
    Predicted predict(IoSlice* out) const;
    void take_predicted(const Predicted& next, std::size_t size, std::span<std::byte> staging, Pass& pass);
    void consume_staging(std::span<const std::byte> octets, Pass& pass);
    std::size_t consume_direct(std::span<const std::byte> octets, Pass& pass);
    std::size_t take_header(std::span<const std::byte> octets);
    std::size_t header_want() const;
    void header_complete(std::size_t length);
    void take_up(std::size_t length);
    Status step_frames(Pass& pass);
    Status step_unread(std::size_t size, Pass& pass);
    bool can_go_unread();
    ForeignName target_name() const;
    void placed_unread(const ForeignMemory::Arrival& arrival, Pass& pass);
    Status consume_staged(std::span<std::byte> staged, Pass& pass);
    std::size_t consume_frames(std::span<std::byte> octets, Pass& pass);
    std::size_t frame_size(std::span<const std::byte> octets) const;
    void take_frame(std::span<std::byte> raw, Pass& pass);
    void segment_of_frame(std::span<std::byte> logical, Pass& pass);
    Status resume(Pass& pass);
    Status discard(Pass& pass);
    IoResult read(const IoSlice* slices, std::size_t count);
    Status ended(IoStatus status) const;
    bool inside_fpdu() const;
    // Before the header of a segment is looked at, whose payload or FPDU has so many octets.
    void note_size(std::size_t octets) {
        large_ = octets >= kDirect;
        recent_large_ = ((last_ ? recent_large_ << 1 : recent_large_) | static_cast<unsigned>(large_)) & kRecent;
    }
    bool expects_large() const;
    // Behind the segment in progress.
    bool largest_follows() const { return short_first_ && !last_; }

    // ---- one segment (rx_segment.cpp). `header` holds the ULPDU's first octets: all headers, or the whole ULPDU if it
    // is shorter.
    using Header = std::span<const std::byte>;
    static std::size_t segment_header_len(std::uint8_t ddp_control, std::uint8_t rdmap_control);
    Verdict begin_segment(Header header);
    Verdict begin_write(const wire::TaggedHeader& tagged, Header header);
    Verdict begin_read_response(const wire::TaggedHeader& tagged, Header header);
    Verdict begin_untagged(const wire::UntaggedHeader& untagged, Header header);
    Verdict begin_send(const wire::UntaggedHeader& untagged, Header header);
    Verdict begin_read_request(const wire::UntaggedHeader& untagged, Header header);
    Verdict check_read_source(Header header);
    SliceResult slices(IoSlice* out, std::uint64_t offset, std::uint32_t length) const;
    Verdict find_target();
    bool place(std::span<const std::byte> payload);
    bool place_anew(std::span<const std::byte> payload);
    [[gnu::cold]] bool place_foreign(ForeignMemory& memory, std::span<const std::byte> payload, Header header);
    void placed(std::uint32_t length);
    void sink_lost();
    void end_segment(Pass& pass);
    void count_segment();
    void deliver_send(Pass& pass);
    [[gnu::noinline]] bool complete_invalidation(const WorkCompletion& done, bool solicited, Pass& pass);
    void deliver_read(Pass& pass);
    Fault terminate_meaning(Header header);
    void release_fence(Pass& pass);
    Verdict fail(wire::TerminateCode code, AsyncEvent event, Header header);
    Verdict fail(Fault fault);
    bool stops() const { return stop_ != Stop::kNone; }
    Status moved() const { return stop_ == Stop::kNoReceive ? Status::kStalled : Status::kMoved; }

    const std::uint32_t pd_, qpn_;
    MemoryTable& memory_;
    Counters& counters_;
    QpStatus& status_;
    Stream& stream_;
    SendQueue& sq_;
    ReceiveQueue& rq_;
    ReadState& reads_;
    ReceiveCompletions& receive_completions_;
    bool framed_ = false;  // CRC, markers or foreign memory: whole FPDUs only
    bool crc_ = false, markers_ = false;
    bool short_first_ = false;  // all segments of a message but the first have the largest ULPDU
    bool bypass_ = false;       // foreign memory may take the payload from the stream itself
    bool dry_run_ = false;      // the header is looked at before the FPDU has come: nothing is said of it
    bool refused_ = false;      // the FPDU in frame_ could not be placed unread
    bool rtr_send_ = false;     // the first FPDU may be an RTR by Send, which no receive is consumed for
    bool first_ = true;
    // There is an inbound Read to answer, or requests may go on that waited for a Read or for the fence.
    bool wakes_sender_ = false;
    Stop stop_ = Stop::kNone;
    std::uint64_t stalls_ = 0;
    bool large_ = false;         // the segment in progress, or the last one: its payload is read to its place
    bool copies_ = false;        // its payload comes by staging: the kernel has met a fault at its place, or behind it
    unsigned recent_large_ = 0;  // whether the last messages had large segments

    Phase phase_ = Phase::kHeader;
    std::uint32_t header_have_ = 0;
    std::array<std::byte, kMaxHeader> header_{};  // ULPDU_Length, then the ULPDU's headers
    std::uint32_t trailer_left_ = 0;

    // The segment in progress.
    std::uint32_t ulpdu_len_ = 0;
    std::uint8_t opcode_ = 0;
    Target target_ = Target::kNothing;
    bool last_ = false;
    bool rtr_ = false;  // a Send that is the RTR
    std::uint32_t invalidate_stag_ = 0;
    std::uint32_t stag_ = 0;
    std::uint64_t offset_ = 0;  // TO, or MO, or offset into the Read's sink: of the next octet to place
    std::uint32_t payload_left_ = 0;
    // Where the next octets go, if that was looked up in this step; else empty.
    IoSlice fresh_{};

    // Expected next, per queue (DDP-35).
    std::array<std::uint32_t, 3> msn_{1, 1, 1};
    std::uint32_t send_mo_ = 0;
    std::uint32_t read_offset_ = 0;  // octets of the oldest Read's Response that are placed

    wire::ReadRequest read_request_{};  // the one in progress
    Fault terminated_{};                // what the Terminate in progress means

    std::uint64_t position_ = 0;  // of the current FPDU's first octet in the stream; framed streams only
    ByteBuffer frame_;            // framed: the FPDU in progress; while stalled checked and without markers
    ByteBuffer carry_;            // read already, not parsed yet: only while stalled
};

}  // namespace swrnic::engine
