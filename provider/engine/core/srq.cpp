// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "engine/core/srq.h"

#include <algorithm>
#include <utility>

namespace swrnic::engine {

namespace {

void copy(const RecvWqe& from, RecvWqe& to) {
    to.wr_id = from.wr_id;
    to.length = from.length;
    to.sge_count = from.sge_count;
    std::copy_n(from.sges(), from.sge_count, to.sges());
}

}  // namespace

Srq::Srq(std::uint32_t pd, std::uint32_t max_wr, std::uint32_t max_sge, std::uint32_t handle)
    : pd_(pd), max_sge_(max_sge), handle_(handle), max_wr_(max_wr), ring_(make_ring(max_wr)) {}

std::unique_ptr<Srq::Ring> Srq::make_ring(std::uint32_t max_wr) const {
    return std::make_unique<Ring>(max_wr, max_sge_ * sizeof(Sge));
}

SrqAttributes Srq::attributes() const {
    const std::lock_guard hold(mutex_);
    return {max_wr_, max_sge_, limit_};
}

PostResult Srq::post(const RecvWr& wr) {
    if (wr.sges.size() > max_sge_) return PostResult::kInvalid;
    const std::lock_guard hold(mutex_);
    RecvWqe* wqe = ring_->reserve();
    if (wqe == nullptr) return PostResult::kFull;
    fill(*wqe, wr);
    ring_->publish();
    return PostResult::kOk;
}

bool Srq::take(RecvWqe& into) {
    const std::lock_guard hold(mutex_);
    if (ring_->head() == ring_->tail()) return false;
    copy(*ring_->peek(ring_->head()), into);
    ring_->release();
    look_at_limit();
    return true;
}

void Srq::look_at_limit() {
    if (limit_ == 0 || ring_->tail() - ring_->head() >= limit_) return;
    limit_ = 0;
    limit_reached_.store(true, std::memory_order_relaxed);
}

bool Srq::empty() const {
    const std::lock_guard hold(mutex_);
    return ring_->head() == ring_->tail();
}

bool Srq::arm_limit(std::uint32_t limit) {
    const std::lock_guard hold(mutex_);
    if (limit > max_wr_) return false;
    limit_ = limit;
    // Whoever refills the queue and arms it then may have been overtaken: the next take may never come, since the peer
    // waits for what this event is to bring about.
    look_at_limit();
    return true;
}

bool Srq::resize(std::uint32_t max_wr) {
    std::unique_ptr<Ring> ring = make_ring(max_wr);
    const std::lock_guard hold(mutex_);
    if (ring_->tail() - ring_->head() > max_wr || limit_ > max_wr) return false;
    for (std::uint64_t i = ring_->head(); i != ring_->tail(); ++i) {
        copy(*ring_->peek(i), *ring->reserve());
        ring->publish();
    }
    std::swap(ring_, ring);
    max_wr_ = max_wr;
    return true;
}

void Srq::tell(Outbox& outbox) {
    if (limit_reached_.load(std::memory_order_relaxed) && limit_reached_.exchange(false))
        outbox.events.push_back({AsyncEvent::kSrqLimitReached, handle_});
}

void Srq::wait(Qp& qp) {
    const std::lock_guard hold(mutex_);
    if (std::find(waiters_.begin(), waiters_.end(), &qp) == waiters_.end()) waiters_.push_back(&qp);
    has_waiters_.store(true, std::memory_order_relaxed);
}

void Srq::forget(const Qp& qp) {
    const std::lock_guard hold(mutex_);
    std::erase(waiters_, &qp);
    has_waiters_.store(!waiters_.empty(), std::memory_order_relaxed);
}

std::vector<Qp*> Srq::take_waiters() {
    const std::lock_guard hold(mutex_);
    has_waiters_.store(false, std::memory_order_relaxed);
    // Each takes all that its peer has sent, so the first may leave nothing, and all wait anew in the order of their
    // turns.
    if (!waiters_.empty()) std::rotate(waiters_.begin(), waiters_.begin() + 1, waiters_.end());
    return std::exchange(waiters_, {});
}

}  // namespace swrnic::engine
