// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// QPs that some driver must look at, and why. A QP stands in it once.
#pragma once

#include <atomic>
#include <cstddef>
#include <mutex>

#include "engine/driven_qp.h"

namespace swrnic::engine {

class ReadyQueue {
  public:
    // False: it is on its way to a driver already. The flag is exchanged on both sides: either the driver that takes it
    // off sees what the caller wrote before, or the caller sees it gone and pushes anew.
    bool push(DrivenQp& qp, Reason reason) {
        if (qp.ready.fetch_or(reason) != 0) return false;
        const std::lock_guard hold(mutex_);
        if (qp.ready_retired) return false;
        qp.ready_next = nullptr;
        qp.ready_prev = last_;
        (last_ != nullptr ? last_->ready_next : first_) = &qp;
        last_ = &qp;
        size_.fetch_add(1);
        return true;
    }
    struct Entry {
        DrivenQp* qp = nullptr;  // nullptr: there is none
        unsigned reasons = 0;
    };
    Entry pop() {
        if (empty()) return {};
        const std::lock_guard hold(mutex_);
        DrivenQp* qp = first_;
        if (qp == nullptr) return {};
        unlink(*qp);
        return {qp, qp->ready.exchange(0)};
    }
    // It never stands in it again, whoever still pushes it: from here on only passes that run can know of it.
    void retire(DrivenQp& qp) {
        const std::lock_guard hold(mutex_);
        qp.ready_retired = true;
        if (qp.ready_prev != nullptr || first_ == &qp) unlink(qp);
    }
    // seq_cst: read by the thread after it has said that it sleeps, against push-then-kick on the other side
    bool empty() const { return size_.load() == 0; }
    std::size_t size() const { return size_.load(); }

  private:
    void unlink(DrivenQp& qp) {
        (qp.ready_prev != nullptr ? qp.ready_prev->ready_next : first_) = qp.ready_next;
        (qp.ready_next != nullptr ? qp.ready_next->ready_prev : last_) = qp.ready_prev;
        qp.ready_prev = nullptr;
        size_.fetch_sub(1);
    }

    std::mutex mutex_;
    DrivenQp* first_ = nullptr;
    DrivenQp* last_ = nullptr;
    std::atomic<std::size_t> size_{0};
};

}  // namespace swrnic::engine
