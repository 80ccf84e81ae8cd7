// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "async_hub.h"

#include <fcntl.h>
#include <poll.h>

#include <algorithm>

#include "failure.h"

namespace checker {

namespace {
bool is_qp_event(ibv_event_type type) {
    switch (type) {
        case IBV_EVENT_QP_FATAL:
        case IBV_EVENT_QP_REQ_ERR:
        case IBV_EVENT_QP_ACCESS_ERR:
        case IBV_EVENT_COMM_EST:
        case IBV_EVENT_SQ_DRAINED:
        case IBV_EVENT_PATH_MIG:
        case IBV_EVENT_PATH_MIG_ERR:
        case IBV_EVENT_QP_LAST_WQE_REACHED:
            return true;
        default:
            return false;
    }
}
}  // namespace

AsyncHub& AsyncHub::instance() {
    static AsyncHub hub;
    return hub;
}

AsyncHub::~AsyncHub() {
    {
        const std::lock_guard lock(mutex_);
        stop_ = true;
    }
    for (auto& [context, reader] : readers_)
        reader.join();
}

void AsyncHub::watch(ibv_context* context) {
    const std::lock_guard lock(mutex_);
    for (const auto& [known, reader] : readers_) {
        if (known == context) return;
    }
    // The destruction of a QP takes its unread events back, maybe between poll and read: a read that waits could wait
    // for good.
    const int flags = fcntl(context->async_fd, F_GETFL);
    expect(flags >= 0 && fcntl(context->async_fd, F_SETFL, flags | O_NONBLOCK) == 0, "async_fd cannot be O_NONBLOCK");
    readers_.emplace_back(context, std::thread([this, context] { read_events(context); }));
}

void AsyncHub::read_events(ibv_context* context) {
    for (;;) {
        {
            const std::lock_guard lock(mutex_);
            if (stop_) return;
        }
        pollfd waiting{.fd = context->async_fd, .events = POLLIN, .revents = 0};
        if (poll(&waiting, 1, 20) != 1) continue;
        ibv_async_event event;
        if (ibv_get_async_event(context, &event) != 0) continue;
        {
            const std::lock_guard lock(mutex_);
            events_.emplace_back(is_qp_event(event.event_type) ? event.element.qp : nullptr, event.event_type);
            came_.notify_all();
        }
        ibv_ack_async_event(&event);
    }
}

bool AsyncHub::seen_locked(const ibv_qp* qp, std::initializer_list<ibv_event_type> types) const {
    return std::any_of(events_.begin(), events_.end(), [&](const auto& event) {
        return event.first == qp && std::find(types.begin(), types.end(), event.second) != types.end();
    });
}

bool AsyncHub::seen(const ibv_qp* qp, std::initializer_list<ibv_event_type> types) {
    const std::lock_guard lock(mutex_);
    return seen_locked(qp, types);
}

bool AsyncHub::wait(const ibv_qp* qp, std::initializer_list<ibv_event_type> types, Deadline deadline) {
    std::unique_lock lock(mutex_);
    return came_.wait_for(lock, std::chrono::milliseconds(deadline.left_ms()), [&] { return seen_locked(qp, types); });
}

void AsyncHub::forget(const ibv_qp* qp) {
    const std::lock_guard lock(mutex_);
    std::erase_if(events_, [qp](const auto& event) { return event.first == qp; });
}

}  // namespace checker
