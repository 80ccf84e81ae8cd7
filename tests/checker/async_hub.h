// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Collects the asynchronous events of a context. librdmacm opens each device once per process, so the two sides of
// --self share a context: events are sorted by their QP here.
#pragma once

#include <infiniband/verbs.h>

#include <condition_variable>
#include <initializer_list>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "options.h"

namespace checker {

// One reader thread per context, from watch() to the end of the hub. Events are acknowledged at once.
class AsyncHub {
  public:
    AsyncHub() = default;
    ~AsyncHub();
    AsyncHub(const AsyncHub&) = delete;
    AsyncHub& operator=(const AsyncHub&) = delete;
    static AsyncHub& instance();

    void watch(ibv_context* context);
    // True when one of the events came for this QP before the deadline.
    bool wait(const ibv_qp* qp, std::initializer_list<ibv_event_type> types, Deadline deadline);
    bool seen(const ibv_qp* qp, std::initializer_list<ibv_event_type> types);
    // Must be called after the QP is destroyed: its address may be used again.
    void forget(const ibv_qp* qp);

  private:
    void read_events(ibv_context* context);
    bool seen_locked(const ibv_qp* qp, std::initializer_list<ibv_event_type> types) const;

    std::mutex mutex_;
    std::condition_variable came_;
    std::vector<std::pair<const ibv_qp*, ibv_event_type>> events_;
    std::vector<std::pair<ibv_context*, std::thread>> readers_;
    bool stop_ = false;
};

}  // namespace checker
