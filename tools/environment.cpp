// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "environment.h"

#include <errno.h>
#include <fmt/ranges.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <string_view>

#include "config.h"

namespace swrnic::tools {

namespace {

std::string joined(const std::vector<std::string>& parts) {
    return fmt::format("{}", fmt::join(parts, ", "));
}

// In front of what is already there, so that another preload (librspreload) finds our calls below its own.
bool prepend(const char* name, const std::string& value, std::string& error) {
    const char* present = ::getenv(name);
    const std::string whole = present != nullptr && *present != '\0' ? value + ":" + present : value;
    if (::setenv(name, whole.c_str(), 1) == 0) return true;
    error = fmt::format("cannot set {}: {}", name, ::strerror(errno));
    return false;
}

// ld.so splits LD_PRELOAD at blanks and colons and libibverbs its list at colons and semicolons; neither knows a quote.
bool can_be_listed(const std::string& path, std::string& error) {
    if (path.find_first_of(" \t:;") == std::string::npos) return true;
    error = fmt::format(
        "the path '{}' holds a blank, colon or semicolon, which LD_PRELOAD and IBV_DRIVERS cannot name; "
        "move the build or installation to a path without one",
        path);
    return false;
}

bool require(const Libraries& libraries, bool preload_needed, std::string& error) {
    const bool no_preload = preload_needed && libraries.preload.empty();
    if (!no_preload && !libraries.providers.empty()) return true;
    error = fmt::format(
        "{} not found (searched {}); build the whole tree (cmake --build build), or install the package again",
        no_preload ? "libswrnic-preload.so" : "the provider libswrnic-rdmav*.so", joined(libraries.searched));
    return false;
}

bool fits(const Libraries& libraries, std::string& error) {
    const auto library = find_libibverbs();
    return !library || provider_for(*library, libraries, error) != nullptr;
}

// AddressSanitizer in a program that only a script or another program starts is told not to mind what stands before its
// runtime: that program cannot be seen from here. What the user has set follows, and so wins. What a program with a
// sanitizer executes is spared its runtime (kernel-shim/userspace/state.cpp).
bool prepend_preload(const std::string& preload, const std::string& runtime, std::string& error) {
    if (!can_be_listed(preload, error) || !prepend("LD_PRELOAD", preload, error)) return false;
    if (!prepend("ASAN_OPTIONS", "verify_asan_link_order=0", error)) return false;
    constexpr std::string_view kOwnRuntime = SWRNIC_SANITIZER_RUNTIME;
    const std::string first = kOwnRuntime.empty() ? runtime : std::string{kOwnRuntime};
    return first.empty() || prepend("LD_PRELOAD", first, error);
}

}  // namespace

bool prepare_environment(const Libraries& libraries, const KernelRdma& kernel, const std::string& runtime,
                         std::string& error) {
    const bool preload_needed = !kernel.swrnic_module;
    if (!require(libraries, preload_needed, error) || !fits(libraries, error)) return false;
    if (!libraries.registered) {
        if (!can_be_listed(libraries.driver_name, error)) return false;
        if (!prepend("IBV_DRIVERS", libraries.driver_name, error)) return false;
    }
    return !preload_needed || prepend_preload(libraries.preload, runtime, error);
}

std::vector<std::string> unknown_variables() {
    std::vector<std::string> unknown;
    for (char** at = environ; at != nullptr && *at != nullptr; ++at) {
        const std::string_view entry = *at;
        const std::string_view name = entry.substr(0, entry.find('='));
        if (name.rfind("SWRNIC_", 0) == 0 && !is_setting(name)) unknown.emplace_back(name);
    }
    return unknown;
}

}  // namespace swrnic::tools
