// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Reads what one side sends and holds it against the rules: framing, MSN, MO, TO, message order, ORD and IRD, fences,
// and silence after a Terminate.
#pragma once

#include <deque>
#include <memory>

#include "engine/core/types.h"
#include "sim/link.h"
#include "wire/fpdu.h"
#include "wire/rdmap.h"
#include "wire/terminate.h"

namespace swrnic::engine::sim {

// What a message of a posted request must look like on the wire. A request with Immediate Data has two, one of which is
// the Immediate Data: kWriteImm behind its Write, kSendImm before its Send.
struct Announced {
    WrOpcode opcode;
    bool solicited, fenced;
    std::uint32_t size;
    std::uint32_t stag;  // at the peer
    std::uint64_t to;
    std::uint32_t imm_data = 0;
    AtomicWr atomic{};
};

// A Read or an atomic, until its Response has been sent in full.
struct Requested {
    wire::ReadRequest read;  // of an atomic only the sink STag, which is its Request Identifier
    bool atomic;
};

// Both directions of one stream.
struct StreamTruth {
    struct Half {
        std::deque<Announced> announced;  // not seen yet
        std::deque<Requested> reads;
        std::uint32_t ord = 0;
        bool begun = false, started = false;  // with an FPDU; with some of its octets
        bool rtr_read = false;                // the oldest of reads is the RTR
    };
    Half halves[2];
};

class Observer final : public Tap {
  public:
    struct Rules {
        bool crc, markers, initiator;
        std::uint8_t rtr;  // the kind that must come first; 0: none
        std::uint32_t largest_ulpdu;
        bool paired;       // the two directions fit each other: nobody lies
        bool may_cut_off;  // memory goes away under way: a Terminate may cut off its message
    };
    Observer(StreamTruth& truth, int side, const Rules& rules)
        : truth_(truth),
          own_(truth.halves[side]),
          peer_(truth.halves[1 - side]),
          rules_(rules),
          rtr_due_(rules.rtr),
          deframer_(std::make_unique<wire::FpduStream>(rules.crc, rules.markers)) {}

    void sent(std::span<const std::byte> octets) override;
    bool terminated() const { return terminated_; }
    // At the end of a stream that nobody broke.
    void expect_boundary() const {
        check(deframer_->finish() == wire::MpaError::kNone, "the stream ends inside an FPDU");
    }
    bool inside_message() const { return open_ != Open::kNothing; }

  private:
    enum class Open { kNothing, kSend, kWrite, kResponse };

    void ulpdu(std::span<const std::byte> octets);
    void tagged(const wire::SegmentView& segment);
    void untagged(const wire::SegmentView& segment);
    void immediate(const wire::SegmentView& segment);
    void atomic_request(const wire::SegmentView& segment);
    void atomic_response(const wire::SegmentView& segment);
    void requested(const Requested& request);
    bool take_rtr(const wire::SegmentView& segment);
    const Announced& begin(WrOpcode opcode);
    void end_request();

    StreamTruth& truth_;
    StreamTruth::Half& own_;
    StreamTruth::Half& peer_;
    const Rules rules_;
    std::uint8_t rtr_due_;
    std::unique_ptr<wire::FpduStream> deframer_;
    bool terminated_ = false;
    Open open_ = Open::kNothing;
    std::uint32_t done_ = 0;  // octets of the open message
    std::uint32_t msn_[wire::kAtomicResponseQueue + 1] = {1, 1, 1, 1};
};

}  // namespace swrnic::engine::sim
