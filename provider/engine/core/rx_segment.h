// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// The DDP segment in progress: its checks, the placement of its payload, the delivery of its message. The parsers find
// the segments in the stream (rx_direct.h, rx_framed.h, rx_foreign.h).
//
// No pointer into user memory survives a step.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>

#include "engine/core/copy.h"
#include "engine/core/fault.h"
#include "engine/core/foreign_memory.h"
#include "engine/core/memory.h"
#include "engine/core/pass.h"
#include "engine/core/scatter.h"
#include "engine/core/stream.h"
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

class RxSegment {
  public:
    enum class Target : std::uint8_t { kNothing, kRegion, kReceive, kReadSink };
    enum class Verdict : std::uint8_t { kAccept, kStall, kFail };
    // Where payload goes: the next octet.
    struct Place {
        Target target = Target::kNothing;
        std::uint32_t stag = 0;    // kRegion
        std::uint64_t offset = 0;  // TO, or MO, or offset into the Read's sink
        bool operator==(const Place&) const = default;
    };
    // The ULPDU's first octets: all headers, or the whole ULPDU if it is shorter.
    using Header = std::span<const std::byte>;
    static constexpr std::uint32_t kMaxSlices = 64;

    // All of them outlive it, and are not looked at before start().
    RxSegment(std::uint32_t pd, std::uint32_t qpn, MemoryTable& memory, Counters& counters, QpStatus& status,
              Stream& stream, SendQueue& sq, ReceiveQueue& rq, ReadState& reads,
              ReceiveCompletions& receive_completions)
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

    // rtr_send: the first FPDU may be an RTR by Send, which consumes no receive.
    void start(bool rtr_send);
    void begin_step() { fresh_ = {}; }

    // ---- from its header to its end, in this order
    static std::size_t header_len(std::uint8_t ddp_control, std::uint8_t rdmap_control);
    // kStall: it is to begin once more when it is resumed.
    Verdict begin(Header header, std::uint32_t ulpdu_len);
    // Before the FPDU has come: whether its payload may be placed if CRC and name are right. Says nothing of what is
    // wrong with it.
    bool begins_well(Header header, std::uint32_t ulpdu_len);
    // False: it has failed. Inline: small messages would pay for the call.
    [[gnu::always_inline]] bool place(std::span<const std::byte> payload) {
        if (payload.size() > fresh_.length) return place_anew(payload);
        if (!copy_octets(fresh_.base, payload.data(), payload.size())) [[unlikely]] {
            sink_lost();
            return false;
        }
        fresh_ = {fresh_.base + payload.size(), fresh_.length - payload.size()};
        placed(static_cast<std::uint32_t>(payload.size()));
        return true;
    }
    // The whole payload, which may go to foreign memory.
    bool place_whole(std::span<const std::byte> payload, Header header);
    // The transport has put so many octets to where slices() says.
    void placed(std::uint32_t length) {
        place_.offset += length;
        payload_left_ -= length;
        if (place_.target == Target::kReceive) send_mo_ += length;
        if (place_.target == Target::kReadSink) read_offset_ += length;
    }
    // Foreign memory has placed the payload of this segment, and of those behind it that continue it: the segment in
    // progress is the last of them now. What ended between them were Writes.
    void placed_unread(const ForeignMemory::Arrival& arrival);
    // Of foreign memory: what is complete when the message in progress has come whole; for a Write nothing.
    std::optional<ForeignMemory::Ending> ending() const;
    // Its owner has completed the message that ends with the segment in progress.
    void set_completed() { untold_ = completed_ = true; }
    void end(Pass& pass);

    // ---- what is known of it
    std::uint32_t ulpdu_len() const { return ulpdu_len_; }
    std::uint32_t payload_left() const { return payload_left_; }
    const Place& place_of_next() const { return place_; }
    bool has_place() const { return place_.target != Target::kNothing; }
    // Of its message; also of the one that has ended.
    bool is_last() const { return last_; }
    // Segments may follow that continue it: of its message, or of a Write behind it.
    bool may_go_on() const { return !last_ || place_.target == Target::kRegion; }
    // Where `length` octets go: looked up anew each time.
    SliceResult slices(IoSlice* out, const Place& place, std::uint32_t length) const;
    ForeignName target_name() const;
    std::uint32_t read_length() const;  // kReadSink: of the whole Read

    // ---- whether parsing goes on
    bool stops() const { return stop_ != Stop::kNone; }
    // For a receive, or for passes of others.
    bool waits() const { return stop_ == Stop::kNoReceive || stop_ == Stop::kCompletionWaits; }
    bool lacks_receive() const { return stop_ == Stop::kNoReceive; }
    // After an error nothing more of this direction is looked at (RFC 5044 8).
    bool has_failed() const { return stop_ == Stop::kFailed; }
    void discard() { stop_ = Stop::kFailed; }
    // What it waited for has come. True: the segment begins once more.
    bool resume() { return std::exchange(stop_, Stop::kNone) == Stop::kNoReceive; }

    Verdict fail(wire::TerminateCode code, AsyncEvent event, Header header);
    // The Send that begins has found none for too long. On InfiniBand that is its sender's end alone.
    void fail_of_receive(Header header);
    // Wired to itself, the QP is the peer as well that a fault is told to. At the end of the stream.
    void hear_own_fault(Fault& fault, Pass& pass);
    // The memory behind an accepted segment is bad, or was taken away meanwhile: ours for a Send or a Response, the
    // peer's STag for a Write.
    void sink_lost();

    // What was received since the last time gives the sender something to do.
    bool take_wake() { return std::exchange(wakes_sender_, false); }
    std::uint64_t stalls() const { return stalls_; }  // how many Sends have found no receive
    // What the peer has told by an rnr_notice. Any thread.
    std::uint8_t peer_rnr_retry() const { return peer_rnr_retry_; }

  private:
    friend struct CoreTestAccess;

    // kNoReceive: the segment finds no receive. kCompletionWaits: a completion waits for passes of others, and the end
    // of the stream would flush it.
    enum class Stop : std::uint8_t { kNone, kNoReceive, kCompletionWaits, kFailed };

    Verdict lose();
    Verdict begin_write(const wire::TaggedHeader& tagged, Header header);
    Verdict begin_read_response(const wire::TaggedHeader& tagged, Header header);
    Verdict begin_untagged(const wire::UntaggedHeader& untagged, Header header);
    Verdict begin_send(const wire::UntaggedHeader& untagged, Header header);
    [[gnu::noinline]] Verdict begin_rfc7306(const wire::UntaggedHeader& untagged, Header header);
    Verdict begin_immediate(const wire::UntaggedHeader& untagged, Header header);
    [[gnu::cold]] Verdict stall();
    // Of a message that one segment holds: its MO, length, and L.
    Verdict check_single(const wire::UntaggedHeader& untagged, Header header, std::size_t length,
                         wire::TerminateCode too_short, wire::TerminateCode too_long);
    Verdict begin_read_request(const wire::UntaggedHeader& untagged, Header header);
    Verdict check_read_source(Header header);
    Verdict begin_atomic_request(const wire::UntaggedHeader& untagged, Header header);
    Verdict begin_atomic_response(const wire::UntaggedHeader& untagged, Header header);
    Verdict mismatch(wire::TerminateCode code, Header header);
    bool atomic_is_oldest() const;
    Verdict find_target();
    bool place_anew(std::span<const std::byte> payload);
    [[gnu::cold]] bool place_foreign(ForeignMemory& memory, std::span<const std::byte> payload, Header header);
    void count_payload(std::size_t header_len);
    void publish_atomic();
    void deliver_send(Pass& pass);
    [[gnu::noinline]] void deliver_immediate(Pass& pass);
    [[gnu::noinline]] void deliver_atomic(Pass& pass);
    [[gnu::noinline]] bool complete_invalidation(const WorkCompletion& done, bool solicited, Pass& pass);
    void deliver_read(Pass& pass);
    void deliver_terminate(Pass& pass);
    Fault terminate_meaning(Header header);
    void find_quoted(Fault& fault, Header ddp_header);
    void say_as_infiniband(Fault& fault);
    void release_fence(Pass& pass);
    Verdict fail(Fault fault);

    const std::uint32_t pd_, qpn_;
    MemoryTable& memory_;
    Counters& counters_;
    QpStatus& status_;
    Stream& stream_;
    SendQueue& sq_;
    ReceiveQueue& rq_;
    ReadState& reads_;
    ReceiveCompletions& receive_completions_;

    bool rtr_send_ = false;
    bool first_ = true;
    bool dry_run_ = false;  // nothing is said of what is wrong
    // There is an inbound Read to answer, or requests may go on that waited for a Read or for the fence.
    bool wakes_sender_ = false;
    Stop stop_ = Stop::kNone;
    std::uint64_t stalls_ = 0;
    std::atomic<std::uint8_t> peer_rnr_retry_{rnr_notice::kForEver};

    std::uint32_t ulpdu_len_ = 0;
    std::uint8_t opcode_ = 0;
    bool last_ = false;
    bool untold_ = false;     // a Send of which nobody is told: the RTR, or one that is completed
    bool completed_ = false;  // what the message completes is complete: of foreign memory, whose owner has done it
    // Of an unreliable QP: the message in progress is placed nowhere; nor was the last Write, so that Immediate Data
    // right behind it is nothing.
    bool lost_ = false, write_lost_ = false;
    std::uint32_t invalidate_stag_ = 0;
    std::uint32_t payload_left_ = 0;
    Place place_;
    // Where the next octets go, if that was looked up in this step; else empty.
    IoSlice fresh_{};

    // Expected next, per queue (DDP-35).
    std::array<std::uint32_t, 4> msn_{1, 1, 1, 1};
    std::uint32_t send_mo_ = 0;
    std::uint32_t read_offset_ = 0;  // octets of the oldest Read's Response that are placed

    std::uint32_t writing_ = 0;  // octets of the Write in progress
    std::uint32_t written_ = 0;  // of the last one, unless Immediate Data has told of it

    // ---- what stands in the header of the segment in progress
    wire::ReadRequest read_request_{};
    wire::AtomicRequest atomic_request_{};
    std::uint64_t atomic_original_ = 0;
    wire::Immediate announced_{};

    // The last Immediate Data. kOfNextSend: that Send has not come yet.
    wire::Immediate immediate_{};
    Fault terminated_{};  // what the Terminate in progress means
};

}  // namespace swrnic::engine
