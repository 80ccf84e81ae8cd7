// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// libibverbs before version 51 keeps registered pages from a forked child, once ibv_fork_init() has been called,
// without asking whether the kernel copies them. The child then has no page where a region is, not even beside it.
#include <dlfcn.h>
#include <sys/mman.h>

#include <string_view>

#include "real.h"
#include "state.h"

namespace {

bool is_in_libibverbs(const void* code) {
    Dl_info place{};
    if (dladdr(code, &place) == 0 || place.dli_fname == nullptr) return false;
    const std::string_view path = place.dli_fname;
    return path.substr(path.rfind('/') + 1).starts_with("libibverbs.so");
}

}  // namespace

// Nothing is pinned here: a child gets its copy of a region, and the parent's stays where the engine reaches it
// (netlink_file.h).
extern "C" [[gnu::visibility("default")]] int madvise(void* address, std::size_t size, int advice) noexcept {
    if (advice == MADV_DONTFORK && swrnic::shim::active() && is_in_libibverbs(__builtin_return_address(0))) return 0;
    return SWRNIC_REAL(madvise)(address, size, advice);
}

[[gnu::constructor]] static void resolve_early() {
    SWRNIC_REAL(madvise);
}
