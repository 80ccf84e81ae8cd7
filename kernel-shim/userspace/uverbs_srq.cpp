// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Shared receive queues: an account, and the limit that is armed, so that its event is raised once.
#include "device_limits.h"
#include "event_file.h"
#include "state.h"
#include "uverbs.h"

namespace swrnic::shim {
namespace {

constexpr std::uint32_t kMaskLimit = 1u << 1;  // enum ib_srq_attr_mask

}  // namespace

Srq* UverbsFile::find_srq(std::uint32_t handle) {
    return find_object(srqs_, handle);
}

int UverbsFile::create_srq(UverbsRequest& request) {
    ib_uverbs_create_srq core;
    if (!request.take(core)) return -EINVAL;
    ib_uverbs_create_srq_resp made{};
    if (const int error = request.room(sizeof(made)); error != 0) return error;
    Pd* pd = find_object(pds_, core.pd_handle);
    if (pd == nullptr || core.max_wr == 0 || core.max_wr > SWR_MAX_SRQ_WR || core.max_sge > SWR_MAX_SGE) return -EINVAL;
    if (core.srq_limit > core.max_wr) return -EINVAL;
    Share share = Share::take(Kind::kSrq);
    if (!share) return -ENOMEM;
    auto srq = std::make_unique<Srq>();
    srq->share = std::move(share);
    srq->handle = new_handle();
    srq->user_handle = core.user_handle;
    srq->pd = pd;
    srq->max_wr = made.max_wr = core.max_wr;
    srq->max_sge = made.max_sge = core.max_sge;
    srq->limit = core.srq_limit;
    made.srq_handle = srq->handle;
    ++pd->users;
    srqs_.emplace(made.srq_handle, std::move(srq));
    request.reply(made);
    return 0;
}

// The queue is resized by the provider, which alone knows what it holds.
int UverbsFile::modify_srq(UverbsRequest& request) {
    ib_uverbs_modify_srq core;
    if (!request.take(core)) return -EINVAL;
    Srq* srq = find_object(srqs_, core.srq_handle);
    if (srq == nullptr) return -EINVAL;
    if ((core.attr_mask & ~kMaskLimit) != 0) return -EOPNOTSUPP;
    if ((core.attr_mask & kMaskLimit) != 0) srq->limit = core.srq_limit;
    return 0;
}

int UverbsFile::query_srq(UverbsRequest& request) {
    ib_uverbs_query_srq core;
    if (!request.take(core)) return -EINVAL;
    ib_uverbs_query_srq_resp attributes{};
    if (const int error = request.room(sizeof(attributes)); error != 0) return error;
    const Srq* srq = find_object(srqs_, core.srq_handle);
    if (srq == nullptr) return -EINVAL;
    attributes.max_wr = srq->max_wr;
    attributes.max_sge = srq->max_sge;
    attributes.srq_limit = srq->limit;
    request.reply(attributes);
    return 0;
}

int UverbsFile::destroy_srq(Locked& locked, UverbsRequest& request) {
    ib_uverbs_destroy_srq core;
    if (!request.take(core)) return -EINVAL;
    Srq* srq = find_object(srqs_, core.srq_handle);
    if (srq == nullptr) return -EINVAL;
    ib_uverbs_destroy_srq_resp counts{};
    if (const int error = request.room(sizeof(counts)); error != 0) return error;
    if (srq->users != 0) return -EBUSY;
    if (const auto file = async_file_.lock())
        file->remove_if(locked, [&](const AsyncEvent& event) { return event.reported == &srq->async_events_reported; });
    counts.events_reported = srq->async_events_reported;
    --srq->pd->users;
    srqs_.erase(core.srq_handle);
    request.reply(counts);
    return 0;
}

}  // namespace swrnic::shim
