// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Completion channels, completion queues and the asynchronous event file.
#include <sys/eventfd.h>

#include <algorithm>

#include "device_limits.h"
#include "event_file.h"
#include "state.h"
#include "uverbs.h"

namespace swrnic::shim {

ssize_t CompChannel::read(int fd, void* buffer, std::size_t size) {
    ib_uverbs_comp_event_desc event;
    if (size < sizeof(event)) return -EINVAL;
    return take_from_queue(fd, [&](Locked&) -> long {
        if (!writable(buffer, sizeof(event))) return -EFAULT;  // the event stays
        Cq& cq = *queue_.front().cq;
        queue_.pop_front();
        ++cq.comp_events_reported;
        event.cq_handle = cq.user_handle;
        std::memcpy(buffer, &event, sizeof(event));
        return sizeof(event);
    });
}

ssize_t AsyncFile::read(int fd, void* buffer, std::size_t size) {
    ib_uverbs_async_event_desc event{};
    if (size < sizeof(event)) return -EINVAL;
    return take_from_queue(fd, [&](Locked&) -> long {
        if (!writable(buffer, sizeof(event))) return -EFAULT;  // the event stays
        const AsyncEvent front = queue_.front();
        queue_.pop_front();
        ++*front.reported;
        event.element = front.element;
        event.event_type = front.type;
        std::memcpy(buffer, &event, sizeof(event));
        return sizeof(event);
    });
}

void UverbsFile::raise_async(Locked& locked, std::uint64_t element, std::uint32_t type, std::uint32_t* reported) {
    if (const auto file = async_file_.lock()) file->push(locked, AsyncEvent{element, type, reported});
}

int UverbsFile::create_comp_channel(Locked& locked, UverbsRequest& request) {
    ib_uverbs_create_comp_channel core;
    if (!request.take(core)) return -EINVAL;
    ib_uverbs_create_comp_channel_resp made{};
    if (const int error = request.room(sizeof(made)); error != 0) return error;
    const auto channel = std::make_shared<CompChannel>(this);
    const int fd = locked->fds.install_new(locked, channel, EFD_CLOEXEC);
    if (fd < 0) return fd;
    std::erase_if(channels_, [](const auto& old) { return old.expired(); });
    channels_.push_back(channel);
    made.fd = static_cast<std::uint32_t>(fd);
    request.reply(made);
    return 0;
}

Cq* UverbsFile::find_cq(std::uint32_t handle) {
    return find_object(cqs_, handle);
}

int UverbsFile::make_cq(Locked& locked, const ib_uverbs_ex_create_cq& wish, ib_uverbs_create_cq_resp& made) {
    if (wish.cqe == 0 || wish.cqe > SWR_MAX_CQE) return -EINVAL;
    if (wish.comp_vector >= 64) return -EINVAL;
    std::shared_ptr<CompChannel> channel;
    if (wish.comp_channel >= 0) {
        channel = std::dynamic_pointer_cast<CompChannel>(locked->fds.find(locked, wish.comp_channel));
        if (channel == nullptr || !channel->belongs_to(this)) return -EBADF;
    }
    Share share = Share::take(Kind::kCq);
    if (!share) return -ENOMEM;
    auto cq = std::make_unique<Cq>();
    cq->share = std::move(share);
    cq->handle = new_handle();
    cq->user_handle = wish.user_handle;
    cq->cqe = wish.cqe;
    cq->channel = channel;
    cq->has_channel = channel != nullptr;
    made.cq_handle = cq->handle;
    made.cqe = wish.cqe;
    cqs_.emplace(made.cq_handle, std::move(cq));
    return 0;
}

int UverbsFile::create_cq(Locked& locked, UverbsRequest& request) {
    ib_uverbs_create_cq core;
    if (!request.take(core)) return -EINVAL;
    ib_uverbs_create_cq_resp made{};
    if (const int error = request.room(sizeof(made)); error != 0) return error;
    ib_uverbs_ex_create_cq wish{};
    wish.user_handle = core.user_handle;
    wish.cqe = core.cqe;
    wish.comp_vector = core.comp_vector;
    wish.comp_channel = core.comp_channel;
    const int error = make_cq(locked, wish, made);
    if (error == 0) request.reply(made);
    return error;
}

int UverbsFile::create_cq_ex(Locked& locked, UverbsRequest& request) {
    ib_uverbs_ex_create_cq core;
    if (!request.take(core)) return -EINVAL;
    if (core.comp_mask != 0 || core.reserved != 0) return -EINVAL;
    if (core.flags != 0) return -EOPNOTSUPP;
    ib_uverbs_ex_create_cq_resp made{};
    if (const int error = request.room(sizeof(made)); error != 0) return error;
    const int error = make_cq(locked, core, made.base);
    made.response_length = sizeof(made);
    if (error == 0) request.reply(made);
    return error;
}

int UverbsFile::req_notify_cq(UverbsRequest& request) {
    ib_uverbs_req_notify_cq core;
    if (!request.take(core)) return -EINVAL;
    return find_object(cqs_, core.cq_handle) != nullptr ? 0 : -EINVAL;  // the engine arms; nothing to remember here
}

int UverbsFile::destroy_cq(Locked& locked, UverbsRequest& request) {
    ib_uverbs_destroy_cq core;
    if (!request.take(core)) return -EINVAL;
    Cq* cq = find_object(cqs_, core.cq_handle);
    if (cq == nullptr) return -EINVAL;
    ib_uverbs_destroy_cq_resp counts{};
    if (const int error = request.room(sizeof(counts)); error != 0) return error;
    if (cq->users != 0) return -EBUSY;
    // What was not read is dropped and not counted: libibverbs waits until the application has acknowledged what was.
    if (const auto channel = cq->channel.lock()) {
        channel->remove_if(locked, [&](const CompEvent& event) { return event.cq == cq; });
    }
    if (const auto file = async_file_.lock()) {
        file->remove_if(locked, [&](const AsyncEvent& event) { return event.reported == &cq->async_events_reported; });
    }
    counts.comp_events_reported = cq->comp_events_reported;
    counts.async_events_reported = cq->async_events_reported;
    cqs_.erase(core.cq_handle);
    request.reply(counts);
    return 0;
}

}  // namespace swrnic::shim
