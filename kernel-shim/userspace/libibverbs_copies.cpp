// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "libibverbs_copies.h"

#include <elf.h>
#include <link.h>

#include <atomic>
#include <cstring>
#include <string>
#include <string_view>

#include "log.h"
#include "real.h"

namespace swrnic::shim {
namespace {

constexpr std::string_view kLibrary = "libibverbs";
constexpr const char* kName = "libibverbs.so.1";

// The name that others know it by; empty: it has none, as a program.
std::string_view soname_of(const dl_phdr_info& object) {
    const ElfW(Dyn)* dynamic = nullptr;
    for (int i = 0; i < object.dlpi_phnum; ++i) {
        if (object.dlpi_phdr[i].p_type == PT_DYNAMIC)
            dynamic = reinterpret_cast<const ElfW(Dyn)*>(object.dlpi_addr + object.dlpi_phdr[i].p_vaddr);
    }
    const char* strings = nullptr;
    const ElfW(Dyn)* name = nullptr;
    for (; dynamic != nullptr && dynamic->d_tag != DT_NULL; ++dynamic) {
        if (dynamic->d_tag == DT_STRTAB) strings = reinterpret_cast<const char*>(dynamic->d_un.d_ptr);
        if (dynamic->d_tag == DT_SONAME) name = dynamic;
    }
    return strings != nullptr && name != nullptr ? strings + name->d_un.d_val : std::string_view{};
}

struct Found {
    bool shared = false;  // libibverbs.so.1
    std::string copy;     // the path of one under another name
};

int look_at(dl_phdr_info* object, std::size_t, void* argument) {
    auto& found = *static_cast<Found*>(argument);
    const std::string_view path = object->dlpi_name != nullptr ? object->dlpi_name : "";
    const std::string_view file = path.substr(path.rfind('/') + 1);
    if (!file.starts_with(kLibrary)) return 0;
    if (soname_of(*object) == kName)
        found.shared = true;
    else
        found.copy = path;
    return 0;
}

// Where the copy is in the program's own scope the provider finds it there first, and registers with it.
bool serves(const std::string& path) {
    Dl_info where{};
    void* const first = dlsym(RTLD_DEFAULT, "ibv_get_device_list");
    return first != nullptr && dladdr(first, &where) != 0 && where.dli_fname != nullptr && path == where.dli_fname;
}

}  // namespace

void tell_of_libibverbs_without_driver() {
    static constinit std::atomic<bool> told{false};
    if (told.load(std::memory_order_relaxed)) return;
    Found found;
    dl_iterate_phdr(look_at, &found);
    const bool useless_copy = !found.copy.empty() && !serves(found.copy);
    const bool linked_in = !found.shared && found.copy.empty();
    if ((!useless_copy && !linked_in) || told.exchange(true)) return;
    if (useless_copy) {
        log(LogLevel::kWarn,
            "{} is a libibverbs of its own name, and the driver of swr0 registers with {} alone: through this copy no "
            "device is found; put a link to the system's {} in its place",
            found.copy, kName, kName);
    } else {
        log(LogLevel::kWarn,
            "this program looks for RDMA devices without {}: it has libibverbs linked into it, which loads no "
            "drivers, and finds no device; link it with the shared library",
            kName);
    }
}

}  // namespace swrnic::shim
