// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "abi/layout.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <link.h>

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <filesystem>
#include <string_view>
#include <system_error>

namespace swrnic::abi {
namespace {

const char* address_in(const link_map& map, ElfW(Addr) value) {
    // The loader has relocated some entries of the dynamic section in place, and left others as they are in the file.
    return reinterpret_cast<const char*>(value < map.l_addr ? map.l_addr + value : value);
}

// The number behind `before`, when that is all that the name has.
bool number_in(std::string_view name, std::string_view before, unsigned& number) {
    if (!name.starts_with(before)) return false;
    name.remove_prefix(before.size());
    const auto [end, status] = std::from_chars(name.data(), name.data() + name.size(), number);
    return status == std::errc{} && end == name.data() + name.size();
}

void read_versions(const link_map& map, Library& library) {
    const char* strings = nullptr;
    const char* definition = nullptr;
    for (const ElfW(Dyn)* entry = map.l_ld; entry->d_tag != DT_NULL; ++entry) {
        if (entry->d_tag == DT_STRTAB) strings = address_in(map, entry->d_un.d_ptr);
        if (entry->d_tag == DT_VERDEF) definition = address_in(map, entry->d_un.d_ptr);
    }
    while (strings != nullptr && definition != nullptr) {
        const auto& at = *reinterpret_cast<const ElfW(Verdef)*>(definition);
        const std::string_view name =
            strings + reinterpret_cast<const ElfW(Verdaux)*>(definition + at.vd_aux)->vda_name;
        unsigned number = 0;
        if (number_in(name, "IBVERBS_PRIVATE_", number)) library.pabi = number;
        if (number_in(name, "IBVERBS_1.", number)) library.newest_public = std::max(library.newest_public, number);
        if (at.vd_next == 0) return;
        definition += at.vd_next;
    }
}

// libibverbs.so.1.14.44.0: the last two numbers are rdma-core's.
std::string release_of(std::string_view path) {
    constexpr std::string_view kName = "libibverbs.so.1.";
    const std::size_t at = path.rfind(kName);
    if (at == std::string_view::npos) return {};
    const std::string_view numbers = path.substr(at + kName.size());
    const std::size_t dot = numbers.find('.');
    return dot == std::string_view::npos ? std::string{} : std::string{numbers.substr(dot + 1)};
}

}  // namespace

Library look_at(void* handle) {
    Library library;
    link_map* map = nullptr;
    if (::dlinfo(handle, RTLD_DI_LINKMAP, &map) != 0 || map == nullptr) return library;
    std::error_code failed;
    library.path = std::filesystem::canonical(map->l_name, failed).native();
    if (failed) library.path = map->l_name;
    library.release = release_of(library.path);
    read_versions(*map, library);
    const auto* const known = std::find_if(kLayouts.begin(), kLayouts.end(), [&](const Layout& layout) {
        return layout.pabi == library.pabi && layout.newest_public == library.newest_public;
    });
    if (known != kLayouts.end()) library.layout = known;
    return library;
}

std::string in_words(const Library& library) {
    return fmt::format("libibverbs{}, private ABI {}, IBVERBS_1.{} ({})",
                       library.release.empty() ? "" : " of rdma-core " + library.release, library.pabi,
                       library.newest_public, library.path);
}

std::string refusal(const Library& library) {
    return fmt::format(
        "{} is not known to this version of swrnic, which knows {}: install a newer swrnic, or a libibverbs of those",
        in_words(library), kKnownReleases);
}

}  // namespace swrnic::abi
