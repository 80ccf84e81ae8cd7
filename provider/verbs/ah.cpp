// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Address handles. No queue pair here sends by one; programs make them to learn whether a GID can be reached, and the
// shim knows.
#include <cerrno>
#include <memory>
#include <new>

#include "verbs.h"

namespace swrnic::verbs {

ibv_ah* create_ah(ibv_pd* pd, ibv_ah_attr* attr) noexcept {
    std::unique_ptr<ibv_ah> ah(new (std::nothrow) ibv_ah{});
    ib_uverbs_create_ah_resp response{};
    const int error = ah ? ibv_cmd_create_ah(pd, ah.get(), attr, &response, sizeof(response)) : ENOMEM;
    if (!error) return ah.release();
    errno = error;
    return nullptr;
}

int destroy_ah(ibv_ah* ah) noexcept {
    const int error = ibv_cmd_destroy_ah(ah);
    if (!error) delete ah;
    return error;
}

}  // namespace swrnic::verbs
