// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// The state of a QP, the remote access that it grants, and the fault that ends its stream. Any thread.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>

#include "engine/core/counters.h"
#include "engine/core/fault.h"
#include "engine/core/qp_state.h"
#include "engine/core/types.h"

namespace swrnic::engine {

class QpStatus {
  public:
    QpStatus(Counters& counters, bool infiniband) : counters_(counters), infiniband_(infiniband) {}

    QpState state() const { return state_.load(std::memory_order_acquire); }
    // False: refused.
    bool apply(QpEvent event);

    std::uint32_t access() const { return access_.load(std::memory_order_relaxed); }
    void set_access(std::uint32_t flags) { access_.store(flags, std::memory_order_relaxed); }

    // The program connects the QP by hand (modify_qp) instead of by rdma_cm: it goes to RTR and RTS whether there is a
    // stream or not, has one at most between two RESETs, and hears of its end by its requests alone. INIT; until RESET.
    void wire() { wired_.store(true, std::memory_order_release); }
    bool is_wired() const { return wired_.load(std::memory_order_acquire); }
    // What fails is told in InfiniBand's words: of a wired QP, and where QpInit says so.
    bool is_infiniband() const { return infiniband_ || is_wired(); }

    // The first fault wins and moves RTS or SQD to SQE, unless it spares the QP. False: not the first.
    bool raise(const Fault& fault);
    // The CQ overflowed (docs/spec/verbs.md section 6): only the streams whose completions are lost end (SEC-27).
    void lose_completion() { raise(Fault::answered(wire::fault::kLocalFailure, AsyncEvent::kQpFatal)); }
    bool has_fault() const { return faulted_.load(std::memory_order_acquire); }
    // Once has_fault() is seen; then nobody changes it but the end of the stream.
    Fault& fault() { return *fault_; }
    const Fault& fault() const { return *fault_; }

    // ---- under the RX and the TX lock
    // The peer of a wired QP does not answer: ERROR, for this request.
    void give_up_peer(std::uint64_t send_index);
    // The stream has ended by one that spares the QP.
    void forget_fault() { faulted_.store(false, std::memory_order_release); }
    // Room for the fault of the stream that begins: it may be that there is no memory. Throws std::bad_alloc.
    void prepare_fault() { fault_ = std::make_unique<Fault>(); }
    void reset() {
        fault_.reset();
        faulted_ = false;
        wired_ = false;
    }

  private:
    Counters& counters_;
    const bool infiniband_;
    std::atomic<QpState> state_{QpState::kReset};
    std::atomic<std::uint32_t> access_{0};
    std::atomic<bool> wired_{false};
    std::atomic<bool> faulted_{false};  // fault_ is written, once, before this
    std::unique_ptr<Fault> fault_;
    std::mutex fault_lock_;  // leaf: the first fault wins
};

}  // namespace swrnic::engine
