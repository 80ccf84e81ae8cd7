// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Device and port attributes: the shim knows the interface, so it answers.
#include <cstddef>
#include <cstdint>
#include <cstdio>

#include "command.h"
#include "verbs.h"

namespace swrnic::verbs {

int query_device_ex(ibv_context* context, const ibv_query_device_ex_input* input, ibv_device_attr_ex* attr,
                    std::size_t attr_size) noexcept {
    ib_uverbs_ex_query_device_resp response{};
    std::size_t response_size = sizeof(response);
    const int error =
        abi::libibverbs.ibv_cmd_query_device_any(context, input, attr, attr_size, &response, &response_size);
    if (error) return error;
    // Fast registration is for consumers in the kernel; both shims are to look alike from here.
    attr->orig_attr.device_cap_flags &= ~static_cast<unsigned>(IBV_DEVICE_MEM_MGT_EXTENSIONS);
    if (attr_size >= offsetof(ibv_device_attr_ex, device_cap_flags_ex) + sizeof(attr->device_cap_flags_ex))
        attr->device_cap_flags_ex &= ~std::uint64_t{IBV_DEVICE_MEM_MGT_EXTENSIONS};
    // Completions are stamped in nanoseconds (cq_ex.cpp).
    if (attr_size >= offsetof(ibv_device_attr_ex, hca_core_clock) + sizeof(attr->hca_core_clock)) {
        attr->hca_core_clock = 1'000'000;  // kHz
        attr->completion_timestamp_mask = UINT64_MAX;
    }
    const auto version = response.base.fw_ver;  // 16 bits each, the least at the bottom
    std::snprintf(attr->orig_attr.fw_ver, sizeof(attr->orig_attr.fw_ver), "%u.%u.%u",
                  static_cast<unsigned>(version >> 32 & 0xffff), static_cast<unsigned>(version >> 16 & 0xffff),
                  static_cast<unsigned>(version & 0xffff));
    return 0;
}

int query_port(ibv_context* context, std::uint8_t port_num, ibv_port_attr* attr) noexcept {
    Request<ib_uverbs_query_port> request;
    return abi::libibverbs.ibv_cmd_query_port(context, port_num, attr, request.data(), request.size());
}

}  // namespace swrnic::verbs
