// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// The send queue of a QP: what is posted, how much of it is with the transport, and its completions, in order.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "engine/core/lock.h"
#include "engine/core/pass.h"
#include "engine/core/queues.h"
#include "engine/core/types.h"

namespace swrnic::engine {

class Cq;
class QpStatus;
class ReadState;
struct Fault;

class SendQueue {
  public:
    // reads and status outlive the queue, and are not looked at before the first request. Throws std::bad_alloc.
    SendQueue(const QpInit& init, ReadState& reads, QpStatus& status);

    // ---- posting: any thread. The requests are good.
    PostResult post(const SendWr& wr);
    // All of them or none.
    PostResult post(std::span<const SendWr> wrs);
    // What is posted meanwhile is no request yet, nor begun, nor complete.
    void hold(bool holds);
    // Payload posted since the queue was made.
    std::uint64_t posted_octets() const { return posted_octets_.load(std::memory_order_relaxed); }

    // ---- requests by their index, oldest first: [head, tail)
    std::uint64_t head() const { return ring_.head(); }
    std::uint64_t tail() const { return ring_.tail(); }
    SendWqe* peek(std::uint64_t index) { return ring_.peek(index); }
    bool is_empty() const { return ring_.head() == ring_.tail(); }

    // ---- under the TX lock
    // Requests before this index are with the transport as a whole.
    std::uint64_t sent() const { return sent_.load(std::memory_order_relaxed); }
    void set_sent(std::uint64_t index, Pass& pass) {
        sent_.store(index, std::memory_order_release);
        retire(pass);
    }
    // And those before this one in part, or will be by the send that comes.
    void set_begun(std::uint64_t index) { begun_.store(index, std::memory_order_release); }

    // ---- under the RX or the TX lock
    // Its completion is known: of foreign memory, whose owner has completed the request.
    void leave_unreported(std::uint64_t index) {
        ring_.peek(index)->flags &= static_cast<std::uint8_t>(~send_flag::kSignaled);
    }
    // Completes the requests at the head that are done, in order (VERBS-10).
    void retire(Pass& pass);
    // The request, of those that have begun and are not complete, that the peer quotes in a Terminate.
    std::optional<std::uint64_t> find_begun(std::span<const std::byte> ddp_header);
    // The oldest of those that no Response and no answer has confirmed, of such opcodes.
    std::optional<std::uint64_t> find_unplaced(bool (*fits)(WrOpcode));

    // RX: the peer has placed what stands before this index.
    void set_placed(std::uint64_t index, Pass& pass) {
        if (index > placed_.load(std::memory_order_relaxed)) placed_.store(index, std::memory_order_release);
        retire(pass);
    }

    // ---- under both
    // Whether Sends and Writes are complete only when the peer has placed them, as on InfiniBand; else when they are
    // sent. For the stream that begins.
    void confirm(bool confirms) {
        confirms_ = confirms;
        placed_ = ring_.head();
    }
    bool confirms() const { return confirms_; }
    // Nobody takes it, and an unreliable QP's program is not to know: all is complete. The next Send is the first of a
    // stream that may yet come.
    void lose_unsent(Pass& pass);
    // The MSN of the first Send that will be posted.
    void start(std::uint32_t first_msn);
    // Completes all of them: `fault`, if there is one, names the one that failed.
    void flush(const Fault* fault, Pass& pass);
    // No completions.
    void reset();

  private:
    PostResult write(const SendWr& wr);
    void write_fields(SendWqe& wqe, const SendWr& wr);
    bool report_done(Pass& pass);
    [[gnu::noinline]] std::uint64_t confirmed(std::uint64_t sent);

    const std::uint32_t qpn_;
    const bool signals_all_;
    Cq& cq_;
    ReadState& reads_;
    QpStatus& status_;
    Mutex posters_;  // leaf: held while a WQE is written
    WqeRing<SendWqe> ring_;
    std::uint32_t reads_posted_ = 0;  // and atomics; under posters_
    std::uint32_t next_msn_ = 1;      // the same
    std::atomic<std::uint64_t> posted_octets_{0};
    std::atomic<std::uint64_t> sent_{0};
    std::atomic<std::uint64_t> begun_{0};
    std::atomic<std::uint64_t> placed_{0};
    bool confirms_ = false;
    Mutex retire_;  // leaf: held while completions are made
};

}  // namespace swrnic::engine
