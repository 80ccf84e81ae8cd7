// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "event_file.h"

#include <algorithm>

#include "device.h"
#include "log.h"
#include "state.h"
#include "ucma.h"
#include "wired.h"

namespace swrnic::shim {
namespace {

constexpr std::uint8_t kQpStateRts = 3, kQpStateErr = 6;

// enum ib_event_type
constexpr std::uint32_t kCqErr = 0, kFirstQpEvent = 1, kLastQpEvent = 5, kSrqLimitReached = 15, kLastWqeReached = 16;

// The socket that changes hands with a record, or -1.
int socket_in(const swrnic_down& record) {
    if (record.type == SWRNIC_DOWN_QP_CONNECTED) return record.u.connected.fd;
    return record.type == SWRNIC_DOWN_QP_DATAGRAMS ? record.u.datagrams.fd : -1;
}

bool is_qp_event(std::uint32_t type) {
    return (type >= kFirstQpEvent && type <= kLastQpEvent) || type == kLastWqeReached;
}

}  // namespace

ssize_t EventFile::read(int fd, void* buffer, std::size_t size) {
    if (size < sizeof(swrnic_down)) return -EINVAL;
    if (!writable(buffer, size)) return -EFAULT;
    return take_from_queue(fd, [&](Locked& locked) {
        std::size_t done = 0;
        for (; !queue_.empty() && size - done >= sizeof(swrnic_down); done += sizeof(swrnic_down)) {
            const swrnic_down record = queue_.front();
            queue_.pop_front();
            if (Qp* qp = own_qp(locked, record.qpn); qp != nullptr && record.type == SWRNIC_DOWN_QP_CONNECTED) {
                qp->stream = SWRNIC_STREAM_TAKEN;
                if (kept_.empty())
                    locked->fds.let_go(locked, record.u.connected.fd);  // the reader knows no SWRNIC_UP_KEEP
            }
            std::memcpy(static_cast<char*>(buffer) + done, &record, sizeof(record));
        }
        return static_cast<long>(done);
    });
}

ssize_t EventFile::write(int, const void* buffer, std::size_t size) {
    if (size == 0 || size % sizeof(swrnic_up) != 0) return -EINVAL;
    if (!readable(buffer, size)) return -EFAULT;
    Locked locked;
    for (std::size_t done = 0; done < size; done += sizeof(swrnic_up)) {
        swrnic_up record;
        std::memcpy(&record, static_cast<const char*>(buffer) + done, sizeof(record));
        const int error = take(locked, record);
        if (error == 0) continue;
        log(LogLevel::kDebug, "event file: record type {} id {:#x} aux {} refused: {}", record.type, record.id,
            record.aux, -error);
        return done > 0 ? static_cast<ssize_t>(done) : error;
    }
    return static_cast<ssize_t>(size);
}

Qp* EventFile::own_qp(Locked& locked, std::uint32_t qpn) {
    const auto it = locked->qps.find(qpn);
    if (it == locked->qps.end()) return nullptr;
    return it->second->context == context_.lock().get() ? it->second : nullptr;
}

// What the provider reports is a request, checked against what has happened so far.
int EventFile::take(Locked& locked, const swrnic_up& up) {
    if (up.type == SWRNIC_UP_KEEP) return keep(locked, up);  // what the provider lets go of last
    const auto context = context_.lock();
    if (context == nullptr || is_shut()) return -EIO;
    if (up.reserved != 0) return -EINVAL;
    switch (up.type) {
        case SWRNIC_UP_QP_READY: {
            Qp* qp = own_qp(locked, up.id);
            if (qp == nullptr || swrnic_stream_takes(qp->stream, up.type) == 0 || up.aux != 0) return -EINVAL;
            qp->stream = SWRNIC_STREAM_READY;
            if (qp->wired != nullptr) {
                qp->wired->ready(locked);
                return 0;
            }
            qp->state = kQpStateRts;
            cm_stream_ready(locked, *qp);
            return 0;
        }
        case SWRNIC_UP_QP_CLOSED: {
            Qp* qp = own_qp(locked, up.id);
            if (qp == nullptr || up.aux > SWRNIC_CLOSE_ERROR) return -EINVAL;
            const bool of_stream = swrnic_stream_takes(qp->stream, up.type) != 0;
            const bool was_ready = qp->stream == SWRNIC_STREAM_READY;
            if (of_stream) qp->stream = SWRNIC_STREAM_NONE;
            if (qp->wired != nullptr && up.aux == SWRNIC_CLOSE_ERROR) {
                qp->state = kQpStateErr;
                return context->unwire(locked, *qp);
            }
            if (!of_stream) return -EINVAL;
            if (qp->wired != nullptr) {
                qp->wired->closed(locked, was_ready);
                return 0;
            }
            qp->state = kQpStateErr;  // VERBS-56
            cm_stream_closed(locked, *qp, was_ready);
            return 0;
        }
        case SWRNIC_UP_COMP_POSTED: {
            Cq* cq = context->find_cq(up.id);
            if (cq == nullptr || !cq->has_channel || up.aux != 0) return -EINVAL;
            if (const auto channel = cq->channel.lock()) channel->push(locked, CompEvent{cq});
            return 0;
        }
        case SWRNIC_UP_ASYNC_EVENT:
            return raise(locked, *context, up);
        case SWRNIC_UP_COUNTED:
            if (up.id >= SWRNIC_COUNTERS) return -EINVAL;
            count(device_, static_cast<swrnic_counter>(up.id), up.aux);
            return 0;
        default:
            return -EINVAL;
    }
}

int EventFile::keep(Locked& locked, const swrnic_up& up) {
    constexpr std::size_t kMost = 16;
    const int fd = static_cast<int>(up.id);
    const auto known = std::find(kept_.begin(), kept_.end(), fd);
    if (fd < 0 || up.aux > 1 || up.reserved != 0 || (known == kept_.end()) == (up.aux == 0)) return -EINVAL;
    if (up.aux == 0) {
        locked->fds.let_go(locked, fd);
        kept_.erase(known);
        return 0;
    }
    const auto file = locked->fds.find(locked, fd);
    if (kept_.size() == kMost || (file != nullptr && file.get() != this) || locked->fds.keeps(locked, fd))
        return -EINVAL;
    locked->fds.keep(locked, fd);
    kept_.push_back(fd);
    return 0;
}

// Each kind once per object: a process cannot fill its own queue without bound.
int EventFile::raise(Locked& locked, UverbsFile& context, const swrnic_up& up) {
    if (up.aux == kCqErr) {
        Cq* cq = context.find_cq(up.id);
        if (cq == nullptr || cq->error_raised) return -EINVAL;
        cq->error_raised = true;
        context.raise_async(locked, cq->user_handle, up.aux, &cq->async_events_reported);
        return 0;
    }
    if (up.aux == kSrqLimitReached) {
        Srq* srq = context.find_srq(up.id);
        if (srq == nullptr || srq->limit == 0) return -EINVAL;
        srq->limit = 0;  // once per arming
        context.raise_async(locked, srq->user_handle, up.aux, &srq->async_events_reported);
        return 0;
    }
    Qp* qp = is_qp_event(up.aux) ? own_qp(locked, up.id) : nullptr;
    if (qp == nullptr || (qp->async_raised & (1u << up.aux)) != 0) return -EINVAL;
    qp->async_raised |= 1u << up.aux;
    context.raise_async(locked, qp->user_handle, up.aux, &qp->async_events_reported);
    return 0;
}

void EventFile::hand_over(Locked& locked, Qp& qp, const swrnic_connected& connected) {
    swrnic_down record{};
    record.type = SWRNIC_DOWN_QP_CONNECTED;
    record.qpn = qp.qpn;
    record.u.connected = connected;
    qp.stream = SWRNIC_STREAM_QUEUED;
    push(locked, record);
}

void EventFile::hand_over(Locked& locked, const Qp& qp, int socket, const Gid* group) {
    swrnic_down record{};
    record.type = SWRNIC_DOWN_QP_DATAGRAMS;
    record.qpn = qp.qpn;
    record.u.datagrams.fd = socket;
    record.u.datagrams.is_group = group != nullptr ? 1 : 0;
    if (group != nullptr) std::copy(group->begin(), group->end(), record.u.datagrams.group);
    push(locked, record);
}

void EventFile::order(Locked& locked, std::uint32_t qpn, swrnic_down_type type) {
    swrnic_down record{};
    record.type = type;
    record.qpn = qpn;
    push(locked, record);
}

void order_error(Locked& locked, const Qp& qp) {
    if (EventFile* file = qp.context->event_file(locked)) file->order(locked, qp.qpn, SWRNIC_DOWN_QP_ERROR);
}

void EventFile::forget(Locked& locked, std::uint32_t qpn) {
    remove_if(locked, [&](const swrnic_down& record) {
        if (record.qpn != qpn) return false;
        if (const int socket = socket_in(record); socket >= 0) sys::close(socket);
        return true;
    });
}

void EventFile::close_queued_sockets() {
    for (const swrnic_down& record : queue_) {
        if (const int socket = socket_in(record); socket >= 0) sys::close(socket);
    }
    queue_.clear();
}

// Nobody can take a stream any more, nor drive one.
void EventFile::closed(Locked& locked) {
    for (const int fd : kept_)
        locked->fds.let_go(locked, fd);
    kept_.clear();
    close_queued_sockets();
    const auto context = context_.lock();
    if (context == nullptr) return;
    std::vector<Qp*> mine;
    for (const auto& [qpn, qp] : locked->qps) {
        if (qp->context == context.get()) mine.push_back(qp);
    }
    for (Qp* qp : mine) {
        if (qp->wired != nullptr) qp->wired->stop(locked);
        cm_qp_gone(locked, *qp);
    }
}

void EventFile::forked() {
    close_queued_sockets();
}

}  // namespace swrnic::shim
