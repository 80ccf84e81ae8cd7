// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Shared receive queues. The shim keeps the account and the armed limit; the receives are the engine's.
#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <new>

#include "command.h"
#include "context.h"
#include "log.h"
#include "refusal.h"
#include "verbs.h"

namespace swrnic::verbs {
namespace {

int create(ibv_pd* pd, ibv_srq_init_attr& attr, Srq& srq) {
    ContextState& state = to_state(pd->context);
    const ibv_device_attr& limits = state.limits();
    const auto max_sge = std::min(static_cast<std::uint32_t>(limits.max_srq_sge), kMaxSge);
    ibv_srq_init_attr granted = attr;
    granted.attr.max_sge = std::max(attr.attr.max_sge, 1u);
    // srq_limit is no attribute of creation (ibv_create_srq(3)).
    granted.attr.srq_limit = 0;
    if (limits.max_srq == 0) return EOPNOTSUPP;
    if (attr.attr.max_wr == 0 || attr.attr.max_wr > static_cast<std::uint32_t>(limits.max_srq_wr)) return EINVAL;
    if (granted.attr.max_sge > max_sge) return EINVAL;
    Request<ib_uverbs_create_srq> request;
    Response<ib_uverbs_create_srq_resp> response;
    const int error = abi::libibverbs.ibv_cmd_create_srq(pd, &srq.base, &granted, request.data(), request.size(),
                                                         response.core(), response.size());
    if (error) return error;
    srq.engine = &state.engine();
    srq.max_sge = granted.attr.max_sge;
    srq.impl = srq.engine->create_srq(domain_of(*pd), granted.attr.max_wr, srq.max_sge, srq.base.handle);
    if (!srq.impl) {
        abi::libibverbs.ibv_cmd_destroy_srq(&srq.base);
        return ENOMEM;
    }
    attr.attr = granted.attr;
    return 0;
}

}  // namespace

ibv_srq* create_srq(ibv_pd* pd, ibv_srq_init_attr* attr) noexcept {
    std::unique_ptr<Srq> srq(new (std::nothrow) Srq{});
    const int error = srq ? create(pd, *attr, *srq) : ENOMEM;
    if (error) {
        tell(Refusal::kSrqSize,
             "ibv_create_srq refused ({}): {} receives of {} elements; `ibv_devinfo -v` shows the limits",
             std::strerror(error), attr->attr.max_wr, attr->attr.max_sge);
        errno = error;
        return nullptr;
    }
    return &srq.release()->base;
}

int modify_srq(ibv_srq* ibsrq, ibv_srq_attr* attr, int attr_mask) noexcept {
    Srq& srq = to_srq(ibsrq);
    if (attr_mask & ~(IBV_SRQ_MAX_WR | IBV_SRQ_LIMIT)) return EINVAL;
    if (attr_mask & IBV_SRQ_MAX_WR) {
        const int most = to_state(ibsrq->context).limits().max_srq_wr;
        if (attr->max_wr == 0 || attr->max_wr > static_cast<std::uint32_t>(most)) return EINVAL;
        if (!srq.engine->resize_srq(*srq.impl, attr->max_wr)) return EINVAL;
    }
    if (attr_mask & IBV_SRQ_LIMIT) {
        if (attr->srq_limit > srq.engine->query_srq(*srq.impl).max_wr) return EINVAL;
        // The shim first: it lets the event pass only where a limit is armed.
        Request<ib_uverbs_modify_srq> request;
        const int error =
            abi::libibverbs.ibv_cmd_modify_srq(ibsrq, attr, IBV_SRQ_LIMIT, request.data(), request.size());
        if (error) return error;
        if (!srq.engine->arm_srq_limit(*srq.impl, attr->srq_limit)) return EINVAL;
    }
    return 0;
}

int query_srq(ibv_srq* ibsrq, ibv_srq_attr* attr) noexcept {
    Srq& srq = to_srq(ibsrq);
    const engine::SrqAttributes attributes = srq.engine->query_srq(*srq.impl);
    *attr = {.max_wr = attributes.max_wr, .max_sge = attributes.max_sge, .srq_limit = attributes.limit};
    return 0;
}

// The command first, as for a CQ: it knows whether a QP still uses the queue.
int destroy_srq(ibv_srq* ibsrq) noexcept {
    Srq& srq = to_srq(ibsrq);
    const int error = abi::libibverbs.ibv_cmd_destroy_srq(ibsrq);
    if (error) return error;
    srq.engine->destroy_srq(srq.impl);
    delete &srq;
    return 0;
}

}  // namespace swrnic::verbs
