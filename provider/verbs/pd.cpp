// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Protection domains: the shim counts them, the engine compares their numbers. A parent domain is another name of its
// protection domain; thread domains promise what the engine has no use for.
#include <cerrno>
#include <memory>
#include <new>

#include "command.h"
#include "objects.h"
#include "verbs.h"

namespace swrnic::verbs {
namespace {

template <typename T>
T* fail(int error) {
    errno = error;
    return nullptr;
}

}  // namespace

ibv_pd* alloc_pd(ibv_context* context) noexcept {
    std::unique_ptr<Pd> pd(new (std::nothrow) Pd{});
    if (!pd) return fail<ibv_pd>(ENOMEM);
    Request<ib_uverbs_alloc_pd> request;
    Response<ib_uverbs_alloc_pd_resp> response;
    const int error = abi::libibverbs.ibv_cmd_alloc_pd(context, &pd->base, request.data(), request.size(),
                                                       response.core(), response.size());
    if (error) return fail<ibv_pd>(error);
    return &pd.release()->base;
}

int dealloc_pd(ibv_pd* ibpd) noexcept {
    Pd& pd = to_pd(ibpd);
    if (pd.users != 0) return EBUSY;
    if (pd.parent_of != nullptr) {
        --pd.parent_of->users;
        if (pd.thread_domain != nullptr) --pd.thread_domain->users;
    } else if (const int error = abi::libibverbs.ibv_cmd_dealloc_pd(ibpd); error != 0) {
        return error;
    }
    delete &pd;
    return 0;
}

ibv_td* alloc_td(ibv_context* context, ibv_td_init_attr* attr) noexcept {
    if (attr->comp_mask != 0) return fail<ibv_td>(EOPNOTSUPP);
    auto* td = new (std::nothrow) Td{};
    if (td == nullptr) return fail<ibv_td>(ENOMEM);
    td->base.context = context;
    return &td->base;
}

int dealloc_td(ibv_td* ibtd) noexcept {
    Td* td = reinterpret_cast<Td*>(ibtd);
    if (td->users != 0) return EBUSY;
    delete td;
    return 0;
}

// Of the attributes that may come along, the context alone means something without queues in memory of the caller.
ibv_pd* alloc_parent_domain(ibv_context* context, ibv_parent_domain_init_attr* attr) noexcept {
    if ((attr->comp_mask & ~std::uint32_t{IBV_PARENT_DOMAIN_INIT_ATTR_PD_CONTEXT}) != 0)
        return fail<ibv_pd>(EOPNOTSUPP);
    if (attr->pd == nullptr || attr->pd->context != context || is_parent_domain(attr->pd)) return fail<ibv_pd>(EINVAL);
    auto* parent = new (std::nothrow) Pd{};
    if (parent == nullptr) return fail<ibv_pd>(ENOMEM);
    parent->base = *attr->pd;
    parent->parent_of = &to_pd(attr->pd);
    ++parent->parent_of->users;
    parent->thread_domain = reinterpret_cast<Td*>(attr->td);
    if (parent->thread_domain != nullptr) ++parent->thread_domain->users;
    return &parent->base;
}

}  // namespace swrnic::verbs
