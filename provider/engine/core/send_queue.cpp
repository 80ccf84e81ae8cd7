// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "engine/core/send_queue.h"

#include <algorithm>
#include <cstring>
#include <mutex>

#include "engine/core/cq.h"
#include "engine/core/fault.h"
#include "engine/core/probes.h"
#include "engine/core/qp_status.h"
#include "engine/core/reads.h"
#include "wire/ddp.h"

namespace swrnic::engine {

namespace {

std::size_t send_room(const QpInit& init) {
    return std::max({init.max_send_sge * sizeof(Sge), std::size_t{init.max_inline}, SendWqe::kLeastRoom});
}

// Of a Read, where so many have been delivered since the queue was made.
bool is_delivered(const SendWqe& read, std::uint32_t delivered) {
    return static_cast<std::int32_t>(delivered - read.reads_before) > 0;
}

WcOpcode wc_opcode(WrOpcode opcode) {
    switch (opcode) {
        case WrOpcode::kWrite:
        case WrOpcode::kWriteImm:
            return WcOpcode::kWrite;
        case WrOpcode::kRead:
            return WcOpcode::kRead;
        case WrOpcode::kCmpSwap:
            return WcOpcode::kCompSwap;
        case WrOpcode::kFetchAdd:
            return WcOpcode::kFetchAdd;
        case WrOpcode::kLocalInv:
            return WcOpcode::kLocalInv;
        case WrOpcode::kBind:
            return WcOpcode::kBind;
        default:
            return WcOpcode::kSend;
    }
}

}  // namespace

SendQueue::SendQueue(const QpInit& init, ReadState& reads, QpStatus& status)
    : qpn_(init.qpn),
      signals_all_(init.sq_sig_all),
      cq_(*init.send_cq),
      reads_(reads),
      status_(status),
      ring_(init.max_send_wr, send_room(init)) {}

// ---- posting ----

PostResult SendQueue::post(const SendWr& wr) {
    const std::lock_guard hold(posters_);
    return write(wr);
}

PostResult SendQueue::post(std::span<const SendWr> wrs) {
    const std::lock_guard hold(posters_);
    if (ring_.room() < wrs.size()) return PostResult::kFull;
    for (const SendWr& wr : wrs)
        write(wr);
    return PostResult::kOk;
}

// What is not there in a Write or a Send. Behind the elements: a bind has none.
void SendQueue::write_fields(SendWqe& wqe, const SendWr& wr) {
    switch (wr.opcode) {
        case WrOpcode::kSendInv:
            wqe.remote_stag = wr.invalidate_stag;
            wqe.remote_to = next_msn_++;
            return;
        case WrOpcode::kSendImm:
            wqe.imm_data = wr.imm_data;
            wqe.remote_to = next_msn_;
            next_msn_ += 2;
            return;
        case WrOpcode::kWriteImm:
            wqe.imm_data = wr.imm_data;
            wqe.sink_stag = next_msn_++;
            return;
        case WrOpcode::kCmpSwap:
        case WrOpcode::kFetchAdd:
            wqe.atomic() = wr.atomic;
            [[fallthrough]];
        case WrOpcode::kRead:
            ++reads_posted_;
            return;
        case WrOpcode::kLocalInv:
            wqe.remote_stag = wr.invalidate_stag;
            return;
        case WrOpcode::kBind:
            wqe.bind() = wr.bind;
            return;
        case WrOpcode::kWrite:
        case WrOpcode::kSend:
            return;
    }
}

// Under posters_.
PostResult SendQueue::write(const SendWr& wr) {
    const std::uint64_t length = total_length(wr.sges);
    SendWqe* wqe = ring_.reserve();
    if (wqe == nullptr) return PostResult::kFull;
    wqe->wr_id = wr.wr_id;
    wqe->remote_to = wr.remote_addr;
    wqe->remote_stag = wr.rkey;
    wqe->length = static_cast<std::uint32_t>(length);
    posted_octets_.store(posted_octets_.load(std::memory_order_relaxed) + length, std::memory_order_relaxed);
    wqe->reads_before = reads_posted_;
    wqe->opcode = wr.opcode;
    wqe->flags = static_cast<std::uint8_t>(wr.flags | (signals_all_ ? send_flag::kSignaled : 0));
    if ((wr.flags & send_flag::kInline) != 0) {
        wqe->sge_count = 0;
        std::byte* to = wqe->inline_data();
        for (const Sge& sge : wr.sges) {
            if (sge.length == 0) continue;
            std::memcpy(to, reinterpret_cast<const void*>(static_cast<std::uintptr_t>(sge.addr)), sge.length);
            to += sge.length;
        }
    } else {
        wqe->sge_count = static_cast<std::uint16_t>(wr.sges.size());
        std::copy(wr.sges.begin(), wr.sges.end(), wqe->sges());
    }
    if (wr.opcode == WrOpcode::kSend) {
        wqe->remote_to = next_msn_++;
    } else if (wr.opcode != WrOpcode::kWrite) {
        write_fields(*wqe, wr);
    }
    ring_.publish();
    SWRNIC_PROBE(post_send, qpn_, wr.wr_id, static_cast<int>(wr.opcode), length);
    return PostResult::kOk;
}

// ---- completion ----

// Sends and Writes are done when TCP has taken their last octet (RFC 5041 5.4), or the peer has confirmed them; Reads
// and atomics when their Response is delivered.
void SendQueue::retire(Pass& pass) {
    if (!report_done(pass)) status_.lose_completion();
}

// Up to the first request, of those that are sent, that waits to be confirmed. Reads and atomics are confirmed by their
// Responses.
std::uint64_t SendQueue::confirmed(std::uint64_t sent) {
    const std::uint64_t placed = placed_.load(std::memory_order_acquire);
    for (std::uint64_t i = std::max(ring_.head(), placed); i < sent; ++i) {
        const WrOpcode opcode = ring_.peek(i)->opcode;
        if (!is_local(opcode) && !awaits_response(opcode)) return i;
    }
    return sent;
}

bool SendQueue::report_done(Pass& pass) {
    const std::lock_guard hold(retire_);
    std::uint64_t sent = sent_.load(std::memory_order_acquire);
    if (confirms_) sent = confirmed(sent);
    const std::uint32_t reads = reads_.completed.load(std::memory_order_acquire);
    std::optional<Cq::Producer> producer;
    bool kept = true;
    for (std::uint64_t i = ring_.head(); i != sent; ++i) {
        const SendWqe& wqe = *ring_.peek(i);
        // Behind a Read that is not complete nothing completes (RDMAP-63).
        if (awaits_response(wqe.opcode) && !is_delivered(wqe, reads)) break;
        const bool report = wqe.has(send_flag::kSignaled);
        WorkCompletion done{};
        if (report) {
            done = make_completion(qpn_, wqe.wr_id, WcStatus::kSuccess, wc_opcode(wqe.opcode));
            done.byte_len = wqe.length;
        }
        ring_.release();  // first: who sees the completion may post at once
        if (!report) continue;
        if (!producer) producer.emplace(cq_, pass);
        kept = producer->push(done, false) && kept;
    }
    return kept;
}

// VERBS-18. Several Writes may fit: the oldest is taken.
std::optional<std::uint64_t> SendQueue::find_begun(std::span<const std::byte> ddp_header) {
    const bool tagged = wire::is_tagged(std::to_integer<std::uint8_t>(ddp_header[0]));
    const auto fits = [&](const SendWqe& wqe) {
        if (tagged) {
            const auto quoted = wire::TaggedHeader::parse(ddp_header.data());
            return is_write(wqe.opcode) && (wqe.remote_stag == quoted.stag || wqe.remote_stag == 0) &&
                   quoted.to - wqe.remote_to < wqe.length;
        }
        const auto quoted = wire::UntaggedHeader::parse(ddp_header.data());
        if (quoted.qn != wire::kSendQueue) return false;
        const auto msn = static_cast<std::uint32_t>(wqe.remote_to);
        switch (wqe.opcode) {
            case WrOpcode::kSend:
            case WrOpcode::kSendInv:
                return msn == quoted.msn;
            case WrOpcode::kSendImm:
                return msn == quoted.msn || msn + 1 == quoted.msn;
            case WrOpcode::kWriteImm:
                return wqe.sink_stag == quoted.msn;
            default:
                return false;
        }
    };
    const std::lock_guard hold(retire_);
    const std::uint64_t begun = begun_.load(std::memory_order_acquire);
    for (std::uint64_t i = ring_.head(); i < begun; ++i)
        if (fits(*ring_.peek(i))) return i;
    return std::nullopt;
}

std::optional<std::uint64_t> SendQueue::find_unplaced(bool (*fits)(WrOpcode)) {
    const std::lock_guard hold(retire_);
    const std::uint64_t begun = begun_.load(std::memory_order_acquire);
    const std::uint64_t placed = placed_.load(std::memory_order_relaxed);
    for (std::uint64_t i = std::max(ring_.head(), placed); i < begun; ++i) {
        const SendWqe& wqe = *ring_.peek(i);
        if (fits(wqe.opcode) && !(awaits_response(wqe.opcode) && is_delivered(wqe, reads_.completed))) return i;
    }
    return std::nullopt;
}

// ---- beginning and end of a stream ----

void SendQueue::start(std::uint32_t first_msn) {
    const std::lock_guard hold(posters_);
    next_msn_ = first_msn;
}

void SendQueue::hold(bool holds) {
    const std::lock_guard hold(posters_);
    ring_.hold(holds);
}

void SendQueue::lose_unsent(Pass& pass) {
    {
        const std::lock_guard hold(posters_);
        sent_.store(ring_.tail(), std::memory_order_release);
        next_msn_ = 1;
    }
    retire(pass);
}

void SendQueue::flush(const Fault* fault, Pass& pass) {
    hold(false);
    const std::lock_guard hold(retire_);
    if (is_empty()) return;
    Cq::Producer producer(cq_, pass);
    while (!is_empty()) {
        const SendWqe& wqe = *ring_.peek(ring_.head());
        const bool failed = fault != nullptr && fault->send_index == ring_.head();
        WorkCompletion done = make_completion(qpn_, wqe.wr_id, failed ? fault->send_status : WcStatus::kWrFlushErr,
                                              wc_opcode(wqe.opcode));
        if (failed) done.vendor_err = fault->vendor_err();
        ring_.release();
        producer.push(done, false);
    }
    sent_ = ring_.tail();
}

void SendQueue::reset() {
    const std::lock_guard hold(posters_);
    ring_.hold(false);
    while (!is_empty())
        ring_.release();
    sent_ = ring_.tail();
    reads_.completed = reads_posted_;
    next_msn_ = 1;
}

}  // namespace swrnic::engine
