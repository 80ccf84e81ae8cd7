// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Address handles: where UD QPs send to. Other programs make them to learn whether a GID can be reached. The shim knows
// the way.
#include <swrnic-abi.h>

#include <array>
#include <cerrno>
#include <memory>
#include <new>

#include "command.h"
#include "objects.h"
#include "verbs.h"

namespace swrnic::verbs {

ibv_ah* create_ah(ibv_pd* pd, ibv_ah_attr* attr) noexcept {
    std::unique_ptr<Ah> ah(new (std::nothrow) Ah{});
    Response<ib_uverbs_create_ah_resp, swrnic_create_ah_resp> response;
    const int error =
        ah ? abi::libibverbs.ibv_cmd_create_ah(pd, &ah->base, attr, response.core(), response.size()) : ENOMEM;
    if (error) {
        errno = error;
        return nullptr;
    }
    const swrnic_create_ah_resp way = response.driver();
    ah->path = {std::to_array(way.source), std::to_array(way.peer), way.group_port, way.interface};
    return &ah.release()->base;
}

int destroy_ah(ibv_ah* ah) noexcept {
    const int error = abi::libibverbs.ibv_cmd_destroy_ah(ah);
    if (!error) delete &to_ah(ah);
    return error;
}

}  // namespace swrnic::verbs
