// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "provider-abi.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <memory>

namespace swrnic::abi {

Libibverbs libibverbs{};

namespace {

struct Close {
    void operator()(void* handle) const { ::dlclose(handle); }
};

template <typename Function>
bool find(void* handle, const char* name, unsigned pabi, Function& function, std::string& why) {
    const std::string version = fmt::format("IBVERBS_PRIVATE_{}", pabi);
    function = reinterpret_cast<Function>(::dlvsym(handle, name, version.c_str()));
    if (function == nullptr) why = fmt::format("has no {}@{}", name, version);
    return function != nullptr;
}

// libibverbs says itself where it looks for VERBS_QP_EX: behind its own ibv_qp_ex, which grew twice within ABI 34.
// Zero: nowhere in what we have room for.
std::size_t find_comp_mask() {
    constexpr std::size_t kFirst = offsetof(ibv_qp_ex, wr_abort) + sizeof(void*);  // the last member of the oldest
    constexpr std::size_t kBehind = 2 * sizeof(void*);                             // comp_mask, and the XRC domain
    for (std::size_t at = kFirst; at + kBehind <= sizeof(QueuePair); at += sizeof(void*)) {
        alignas(QueuePair) std::array<std::byte, 4 * sizeof(QueuePair)> qp{};
        constexpr std::uint32_t kMask = VERBS_QP_EX;
        std::memcpy(qp.data() + at, &kMask, sizeof(kMask));
        if (::ibv_qp_to_qp_ex(reinterpret_cast<ibv_qp*>(qp.data())) != nullptr) return at;
    }
    return 0;
}

bool bind_to(void* handle, const Layout& layout, std::string& why) {
    Libibverbs found{};
    found.layout = &layout;
#define SWRNIC_FIND(Result, name, arguments) \
    if (!find(handle, #name, layout.pabi, found.name, why)) return false;
    SWRNIC_PRIVATE_FUNCTIONS(SWRNIC_FIND)
#undef SWRNIC_FIND
    const std::string registrar = fmt::format("verbs_register_driver_{}", layout.pabi);
    if (!find(handle, registrar.c_str(), layout.pabi, found.verbs_register_driver, why)) return false;
    found.qp_comp_mask = find_comp_mask();
    why = "has an ibv_qp_ex that is longer than known";
    if (found.qp_comp_mask == 0) return false;
    libibverbs = found;
    return true;
}

}  // namespace

bool bind(std::string& why) {
    // The one that our public calls go to. A program may have a copy of another name before libibverbs.so.1 in its
    // scope.
    Dl_info ours{};
    ::dladdr(reinterpret_cast<const void*>(&::ibv_qp_to_qp_ex), &ours);
    const std::unique_ptr<void, Close> handle(::dlopen(ours.dli_fname, RTLD_LAZY | RTLD_NOLOAD));
    if (!handle) {
        why = "this process has no libibverbs.so.1";
        return false;
    }
    const Library library = look_at(handle.get());
    if (library.layout == nullptr) {
        why = refusal(library);
        return false;
    }
    if (bind_to(handle.get(), *library.layout, why)) return true;
    why = fmt::format("{} {}; swrnic knows {} as they were released", in_words(library), why, kKnownReleases);
    return false;
}

}  // namespace swrnic::abi
