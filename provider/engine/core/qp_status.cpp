// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "engine/core/qp_status.h"

namespace swrnic::engine {

bool QpStatus::apply(QpEvent event) {
    QpState now = state();
    for (;;) {
        const QpTransition transition = qp_transition(now, event);
        if (transition.kind == QpTransition::kRefused) return false;
        if (transition.kind == QpTransition::kStays) return true;
        if (!state_.compare_exchange_weak(now, transition.next, std::memory_order_acq_rel)) continue;
        counters_.set(Count::kState, static_cast<std::uint64_t>(state()));
        return true;
    }
}

bool QpStatus::raise(const Fault& fault) {
    const std::lock_guard hold(fault_lock_);
    const QpState now = state();
    const bool has_stream = now == QpState::kRts || now == QpState::kSqd || (now == QpState::kRtr && is_wired());
    if (faulted_ || !has_stream) return false;
    if (!fault_) prepare_fault();
    *fault_ = fault;
    faulted_.store(true, std::memory_order_release);
    return fault.spares_qp || apply(QpEvent::kFault);
}

void QpStatus::give_up_peer(std::uint64_t send_index) {
    {
        const std::lock_guard hold(fault_lock_);
        prepare_fault();
        fault_->send_index = send_index;
        fault_->send_status = WcStatus::kRetryExcErr;
        faulted_.store(true, std::memory_order_release);
    }
    apply(QpEvent::kAbort);
}

}  // namespace swrnic::engine
