// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "engine/core/receive_completions.h"

#include <algorithm>
#include <mutex>

namespace swrnic::engine {

bool ReceiveCompletions::wait(const WorkCompletion& done, bool solicited, WqeRing<RecvWqe>& from,
                              const PassPool::Grace* users, Pass& pass) {
    const std::lock_guard hold(mutex_);
    queue_.push_back({done, solicited, users != nullptr ? std::make_unique<PassPool::Grace>(*users) : nullptr});
    from.release();
    waiting_.store(true, std::memory_order_seq_cst);
    return publish_ready(pass);
}

bool ReceiveCompletions::waits_for_passes() {
    const std::lock_guard hold(mutex_);
    return !std::all_of(queue_.begin(), queue_.end(), [](const Waiting& entry) { return entry.is_ready(); });
}

bool ReceiveCompletions::publish(Pass& pass) {
    const std::lock_guard hold(mutex_);
    return publish_ready(pass);
}

// Under mutex_.
bool ReceiveCompletions::publish_ready(Pass& pass) {
    if (sending_.load(std::memory_order_seq_cst)) return true;  // send_ended() comes here again
    bool kept = true;
    auto next = queue_.begin();
    for (; next != queue_.end() && next->is_ready(); ++next)
        kept = Cq::Producer(cq_, pass).push(next->done, next->solicited) && kept;
    queue_.erase(queue_.begin(), next);
    waiting_.store(!queue_.empty(), std::memory_order_release);
    return kept;
}

bool ReceiveCompletions::end(Pass& pass) {
    const std::lock_guard hold(mutex_);
    sending_ = false;  // a send that ran out of memory has not said so
    for (Waiting& entry : queue_) {
        if (entry.is_ready()) continue;
        entry.done.status = WcStatus::kWrFlushErr;
        entry.done.byte_len = entry.done.wc_flags = entry.done.invalidated_stag = 0;
        entry.users.reset();
    }
    return publish_ready(pass);
}

void ReceiveCompletions::forget() {
    const std::lock_guard hold(mutex_);
    sending_ = false;
    queue_.clear();
    waiting_ = false;
}

}  // namespace swrnic::engine
