// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Opening and closing the device.
#include "context.h"

#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <string>

#include "command.h"
#include "fork.h"
#include "log.h"
#include "verbs.h"

namespace swrnic::verbs {
namespace {

constexpr abi::Operations operations() {
    abi::Operations ops{};
#define SWRNIC_GIVE(name) ops.name = name;
    SWRNIC_VERBS(SWRNIC_GIVE)
#undef SWRNIC_GIVE
    ops.free_context = free_context;
    return ops;
}

// The uverbs side of a context; freed with its memory unless it is handed on.
struct FreeContext {
    void operator()(Context* context) const {
        const int error = errno;
        verbs_context* const whole = abi::verbs_context_of(&context->base);
        abi::libibverbs.verbs_uninit_context(whole);
        std::free(whole);
        errno = error;
    }
};
using ContextPtr = std::unique_ptr<Context, FreeContext>;

// GET_CONTEXT: agrees on the ABI version and brings the event file. False, and errno: no device.
bool get_context(Context& context, swrnic_alloc_ucontext_resp& answer) {
    swrnic_alloc_ucontext_req driver{};
    driver.abi_version = SWRNIC_ABI_NEWEST;
    Request<ib_uverbs_get_context, swrnic_alloc_ucontext_req> request(driver);
    Response<ib_uverbs_get_context_resp, swrnic_alloc_ucontext_resp> response;
    const int error = abi::get_context(abi::verbs_context_of(&context.base), request.data(), request.size(),
                                       response.core(), response.size());
    if (error == EPROTO) {
        log(LogLevel::kError,
            "the device no longer speaks version {} of the provider interface: a newer swrnic-provider is needed",
            SWRNIC_ABI_NEWEST);
    }
    if (error) {
        errno = error;
        return false;
    }
    answer = response.driver();
    if (swrnic_abi_speaks(answer.abi_version) == 0 || answer.event_fd < 0) {
        log(LogLevel::kError,
            "the device speaks version {} of the provider interface, this library {} and newer: a newer swrnic-tools "
            "is needed, or a newer swrnic-dkms and its module loaded anew",
            answer.abi_version, SWRNIC_ABI_OLDEST);
        if (answer.event_fd >= 0) ::close(answer.event_fd);
        errno = EPROTO;
        return false;
    }
    return true;
}

verbs_context* open_context(ibv_device* device, int cmd_fd) {
    constexpr std::size_t kRoom = 512;  // for a verbs_context that is longer than we think, until we have looked
    const std::size_t offset = abi::libibverbs.layout->context_offset;
    void* const memory = abi::libibverbs._verbs_init_and_alloc_context(device, cmd_fd, offset + sizeof(Context) + kRoom,
                                                                       nullptr, SWRNIC_DRIVER_ID);
    if (memory == nullptr) return nullptr;
    ContextPtr context(reinterpret_cast<Context*>(static_cast<std::byte*>(memory) + offset));
    if (!abi::is_as_known(&context->base)) {
        log(LogLevel::kError,
            "this libibverbs has another verbs_context than rdma-core released with its ABI: install a newer swrnic, "
            "or {}",
            abi::kKnownReleases);
        errno = EPROTO;
        return nullptr;
    }

    Config config;
    std::string error;
    if (!load_config(config, error)) {
        std::fprintf(stderr, "swrnic: %s\n", error.c_str());
        errno = EINVAL;
        return nullptr;
    }
    set_log_level(config.log);
    swrnic_alloc_ucontext_resp device_end{};
    if (!get_context(*context, device_end)) return nullptr;
    auto state = ContextState::create(config, device_end, device->name);
    if (!state) {
        errno = ENOMEM;
        return nullptr;
    }
    ibv_device_attr_ex attr{};
    const int query_error = query_device_ex(&context->base, nullptr, &attr, sizeof(attr.orig_attr));
    if (query_error) {
        errno = query_error;
        return nullptr;
    }
    state->set_limits(attr.orig_attr);
    context->state = state.get();
    watch_forks(*context);
    static_cast<void>(state.release());
    static const abi::OperationTable table = abi::arrange(operations(), abi::libibverbs.layout->release);
    verbs_context* const whole = abi::verbs_context_of(&context->base);
    abi::libibverbs.verbs_set_ops(whole, &table);
    static_cast<void>(context.release());
    return whole;
}

}  // namespace

verbs_context* alloc_context(ibv_device* device, int cmd_fd, void*) noexcept {
    try {
        return open_context(device, cmd_fd);
    } catch (const std::exception&) {  // nothing but memory can fail by exception in there
        errno = ENOMEM;
        return nullptr;
    }
}

// Threads first, then the event file, then the descriptors that libibverbs owns: closing cmd_fd makes the shim drop all
// objects.
void free_context(ibv_context* ibcontext) noexcept {
    Context& context = to_context(ibcontext);
    unwatch_forks(context);
    delete context.state;
    FreeContext{}(&context);
}

}  // namespace swrnic::verbs
