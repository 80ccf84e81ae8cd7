// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <dlfcn.h>
#include <fmt/ranges.h>
#include <link.h>
#include <sys/stat.h>

#include <filesystem>
#include <string>
#include <system_error>

#include "doctor/report.h"

namespace swrnic::tools {

namespace {

// Kept until the end of the process: rdma-core's libraries are not made to be unloaded.
void* load(const char* name) {
    return ::dlopen(name, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
}

std::string real_path_of(void* library) {
    link_map* map = nullptr;
    if (::dlinfo(library, RTLD_DI_LINKMAP, &map) != 0 || map == nullptr) return {};
    std::error_code failed;
    const auto path = std::filesystem::canonical(map->l_name, failed);
    return failed ? std::string{map->l_name} : path.native();
}

// "44.0" of ".../libibverbs.so.1.14.44.0": the last two numbers are rdma-core's release.
std::string release_of(const std::string& path) {
    const std::size_t last = path.rfind('.');
    if (last == std::string::npos || last == 0) return "?";
    const std::size_t before = path.rfind('.', last - 1);
    return before == std::string::npos ? "?" : path.substr(before + 1);
}

void check_libibverbs(const Libraries& libraries, Findings& findings) {
    const auto library = find_libibverbs();
    if (!library) {
        findings.push_back(fail("libibverbs is not installed", "apt-get install libibverbs1"));
        return;
    }
    std::string why;
    const Provider* const provider = provider_for(*library, libraries, why);
    if (provider == nullptr) {
        findings.push_back(fail(why, "`swrnic run` refuses to start a program until then"));
        return;
    }
    findings.push_back(ok(abi::in_words(*library)));
    findings.push_back(ok(fmt::format("the provider for private ABI {}: {}, in the layout of rdma-core {} and later",
                                      library->pabi, provider->path, library->layout->release)));
}

Finding check_librdmacm() {
    void* handle = load("librdmacm.so.1");
    if (handle == nullptr)
        return note("librdmacm is not installed; programs that connect through rdma_cm need it",
                    "apt-get install librdmacm1");
    const std::string path = real_path_of(handle);
    return ok(fmt::format("librdmacm of rdma-core {} ({})", release_of(path), path));
}

Finding check_program(const char* program, const char* package, const char* what) {
    const std::string path = on_path(program);
    if (path.empty())
        return note(fmt::format("{} is not installed ({})", program, what), fmt::format("apt-get install {}", package));
    struct stat status {};
    if (::stat(path.c_str(), &status) == 0 && (status.st_mode & (S_ISUID | S_ISGID)) != 0)
        return note(fmt::format("{} is set-user-id or set-group-id and will not see the device", path),
                    fmt::format("chmod a-s {}", path));
    return ok(fmt::format("{} ({})", path, what));
}

}  // namespace

Findings check_libraries(const Libraries& libraries) {
    Findings findings;
    check_libibverbs(libraries, findings);
    if (libraries.preload.empty())
        findings.push_back(fail(fmt::format("no libswrnic-preload.so in {}", fmt::join(libraries.searched, ", ")),
                                "build the whole tree (cmake --build build), or install the package again"));
    else
        findings.push_back(ok(fmt::format("the userspace shim: {}", libraries.preload)));
    findings.push_back(check_librdmacm());
    return findings;
}

Findings check_programs() {
    return {check_program("ibv_devinfo", "ibverbs-utils", "shows the device"),
            check_program("rping", "rdmacm-utils", "a ping that verifies its data"),
            check_program("ib_write_bw", "perftest", "bandwidth and latency")};
}

}  // namespace swrnic::tools
