// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "locate.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/auxv.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <optional>
#include <string_view>
#include <system_error>

namespace swrnic::tools {

namespace {

namespace fs = std::filesystem;

constexpr std::string_view kPreloadName = "libswrnic-preload.so";
constexpr std::string_view kProviderStem = "libswrnic";
constexpr const char* kDriverFile = "/etc/libibverbs.d/swrnic.driver";

bool is_file(const fs::path& path) {
    std::error_code ignored;
    return fs::is_regular_file(path, ignored);
}

// The N of "libswrnic-rdmavN.so".
std::optional<unsigned> pabi_of(std::string_view name) {
    constexpr std::string_view kBefore = "libswrnic-rdmav";
    constexpr std::string_view kAfter = ".so";
    if (name.size() <= kBefore.size() + kAfter.size()) return std::nullopt;
    if (name.substr(0, kBefore.size()) != kBefore || name.substr(name.size() - kAfter.size()) != kAfter)
        return std::nullopt;
    const std::string_view digits = name.substr(kBefore.size(), name.size() - kBefore.size() - kAfter.size());
    unsigned value = 0;
    const auto [end, status] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
    if (status != std::errc{} || end != digits.data() + digits.size()) return std::nullopt;
    return value;
}

std::vector<Provider> providers_in(const fs::path& dir) {
    std::vector<Provider> found;
    std::error_code ignored;
    for (fs::directory_iterator at{dir, ignored}, end; at != end; at.increment(ignored)) {
        const auto pabi = pabi_of(at->path().filename().native());
        if (pabi && is_file(at->path())) found.push_back({at->path().native(), *pabi});
    }
    std::sort(found.begin(), found.end(), [](const Provider& a, const Provider& b) { return a.pabi > b.pabi; });
    return found;
}

void look_in(const fs::path& preload_dir, const fs::path& provider_dir, Libraries& found) {
    for (const fs::path& dir : {preload_dir, provider_dir}) {
        if (std::find(found.searched.begin(), found.searched.end(), dir.native()) == found.searched.end())
            found.searched.push_back(dir.native());
    }
    if (found.preload.empty() && is_file(preload_dir / kPreloadName)) found.preload = preload_dir / kPreloadName;
    if (found.providers.empty()) {
        found.providers = providers_in(provider_dir);
        if (!found.providers.empty()) found.driver_name = provider_dir / kProviderStem;
    }
}

}  // namespace

std::string own_path() {
    std::error_code failed;
    fs::path path = fs::read_symlink("/proc/self/exe", failed);
    if (failed) {  // a container without /proc; the kernel says as well what was executed
        const auto* const executed = reinterpret_cast<const char*>(::getauxval(AT_EXECFN));
        path = fs::canonical(executed != nullptr ? executed : "", failed);
    }
    return failed ? std::string{} : path.native();
}

Libraries find_libraries(const std::string& command_path) {
    Libraries found;
    const fs::path prefix = fs::path{command_path}.parent_path().parent_path();
    look_in(prefix / "lib", prefix / "lib", found);  // build tree: bin/ and lib/
    const fs::path libdir = prefix / SWRNIC_LIBDIR;
    const std::size_t before = found.providers.size();
    look_in(libdir / "swrnic", libdir / "libibverbs", found);
    // libibverbs looks for "driver swrnic" in its own prefix alone: an installation elsewhere must be named.
    found.registered = before == 0 && !found.providers.empty() && prefix == "/usr" && is_file(kDriverFile);
    return found;
}

// Kept until the end of the process: rdma-core's libraries are not made to be unloaded.
std::optional<abi::Library> find_libibverbs() {
    void* const handle = ::dlopen("libibverbs.so.1", RTLD_LAZY | RTLD_LOCAL | RTLD_NODELETE);
    if (handle == nullptr) return std::nullopt;
    return abi::look_at(handle);
}

const Provider* provider_for(const abi::Library& library, const Libraries& libraries, std::string& why) {
    const auto& all = libraries.providers;
    const auto fit = std::find_if(all.begin(), all.end(), [&](const Provider& p) { return p.pabi == library.pabi; });
    if (library.layout == nullptr) {
        why = abi::refusal(library);
    } else if (fit == all.end()) {
        why = fmt::format(
            "{} loads libswrnic-rdmav{}.so, which is not in {}: install the package again, or build the whole tree",
            abi::in_words(library), library.pabi, fmt::join(libraries.searched, ", "));
    } else {
        return &*fit;
    }
    return nullptr;
}

}  // namespace swrnic::tools
