// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "engine/core/receive_queue.h"

#include <mutex>
#include <utility>

#include "engine/core/cq.h"
#include "engine/core/fault.h"
#include "engine/core/probes.h"

namespace swrnic::engine {

ReceiveQueue::ReceiveQueue(const QpInit& init, MemoryTable& memory)
    : qpn_(init.qpn),
      pd_(init.srq == nullptr ? init.pd : init.srq->pd()),
      max_sge_(init.srq == nullptr ? init.max_recv_sge : init.srq->max_sge()),
      srq_(init.srq),
      cq_(*init.recv_cq),
      memory_(memory),
      ring_(init.srq == nullptr ? init.max_recv_wr : 1, max_sge_ * sizeof(Sge)) {}

PostResult ReceiveQueue::post(const RecvWr& wr) {
    if (srq_ != nullptr || wr.sges.size() > max_sge_) return PostResult::kInvalid;
    const std::lock_guard hold(posters_);
    RecvWqe* wqe = ring_.reserve();
    if (wqe == nullptr) return PostResult::kFull;
    fill(*wqe, wr);
    ring_.publish();
    SWRNIC_PROBE(post_recv, qpn_, wr.wr_id, wr.sges.size());
    return PostResult::kOk;
}

bool ReceiveQueue::take_shared() {
    if (ForeignMemory* foreign = memory_.foreign(); foreign != nullptr) {
        const auto taken = foreign->take_receive(qpn_);
        if (!taken) return false;
        const Sge sge{kForeignAddress, taken->length, 0};
        return post({taken->wr_id, {&sge, taken->length != 0 ? 1u : 0u}}) == PostResult::kOk;
    }
    if (srq_ == nullptr || !srq_->take(*ring_.reserve())) return false;
    ring_.publish();
    return true;
}

void ReceiveQueue::flush(Fault* fault, Pass& pass) {
    if (is_empty()) return;
    Cq::Producer producer(cq_, pass);
    while (!is_empty()) {
        const WcStatus status =
            fault != nullptr ? std::exchange(fault->recv_status, WcStatus::kWrFlushErr) : WcStatus::kWrFlushErr;
        WorkCompletion done = make_completion(qpn_, oldest().wr_id, status, WcOpcode::kRecv);
        if (status != WcStatus::kWrFlushErr) done.vendor_err = fault->vendor_err();
        ring_.release();
        producer.push(done, false);
    }
}

void ReceiveQueue::reset() {
    const std::lock_guard hold(posters_);
    while (!is_empty())
        ring_.release();
}

}  // namespace swrnic::engine
