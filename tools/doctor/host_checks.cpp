// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <fmt/ranges.h>
#include <sys/auxv.h>
#include <sys/resource.h>
#include <sys/utsname.h>

#include <cstdlib>
#include <fstream>
#include <string>
#include <string_view>

#include "config.h"
#include "doctor/report.h"

namespace swrnic::tools {

namespace {

constexpr rlim_t kFewDescriptors = 4096;

std::string value_in_file(const std::string& path, std::string_view key) {
    std::ifstream file{path};
    for (std::string line; std::getline(file, line);) {
        if (line.compare(0, key.size(), key) != 0) continue;
        line.erase(0, key.size());
        line.erase(0, line.find_first_not_of(" \t\""));
        line.erase(line.find_last_not_of(" \t\"") + 1);
        return line;
    }
    return {};
}

std::string container() {
    if (exists("/.dockerenv")) return "Docker";
    if (exists("/run/.containerenv")) return "Podman";
    if (std::getenv("KUBERNETES_SERVICE_HOST") != nullptr) return "Kubernetes";
    return first_line("/run/systemd/container");
}

bool insists_on_swr0() {
    Config config;
    std::string error;
    return load_config(config, error) && config.only;
}

bool may_load_modules() {
    constexpr unsigned kCapSysModule = 16;
    const std::string effective = value_in_file("/proc/self/status", "CapEff:");
    if (effective.empty()) return false;
    return (std::strtoull(effective.c_str(), nullptr, 16) >> kCapSysModule & 1U) != 0;
}

Finding check_crc_instructions() {
    constexpr const char* kIn = "CRC32c in hardware: ";
    constexpr const char* kSlow = "no CRC32c instructions: SWRNIC_CRC=on will cost much";
#if defined(__x86_64__) || defined(__i386__)
    if (__builtin_cpu_supports("sse4.2") == 0) return note(kSlow);
    return ok(std::string{kIn} + (__builtin_cpu_supports("pclmul") != 0 ? "SSE4.2 and PCLMULQDQ" : "SSE4.2"));
#elif defined(__aarch64__)
    constexpr unsigned long kHwcapCrc32 = 1UL << 7;
    if ((getauxval(AT_HWCAP) & kHwcapCrc32) == 0) return note(kSlow);
    return ok(std::string{kIn} + "ARMv8 CRC32");
#else
    static_cast<void>(kIn);
    return note(kSlow);
#endif
}

Finding check_descriptors() {
    rlimit limit{};
    ::getrlimit(RLIMIT_NOFILE, &limit);
    const std::string text = fmt::format("up to {} open files per process; each connection takes one", limit.rlim_cur);
    if (limit.rlim_cur >= kFewDescriptors) return ok(text);
    return note(text, "for thousands of connections: ulimit -n 65536");
}

std::string memlock_limit() {
    rlimit limit{};
    ::getrlimit(RLIMIT_MEMLOCK, &limit);
    return limit.rlim_cur == RLIM_INFINITY ? "unlimited" : fmt::format("{} KiB", limit.rlim_cur / 1024);
}

}  // namespace

Findings check_host() {
    Findings findings;
    utsname names{};
    ::uname(&names);
    std::string system = value_in_file("/etc/os-release", "PRETTY_NAME=");
    if (system.empty()) system = names.sysname;
    findings.push_back(ok(fmt::format("{}, Linux {}, {}", system, names.release, names.machine)));
    const std::string kind = container();
    findings.push_back(ok(kind.empty() ? "no container noticed" : fmt::format("inside a container ({})", kind)));
    findings.push_back(check_crc_instructions());
    findings.push_back(check_descriptors());
    findings.push_back(ok(fmt::format("locked memory: {}; irrelevant, nothing is pinned", memlock_limit())));
    findings.push_back(
        note("set-user-id and statically linked programs cannot see the device: no library can be preloaded there"));
    return findings;
}

Findings check_kernel_rdma(const KernelRdma& kernel) {
    Findings findings;
    const bool core = exists("/sys/class/infiniband") || exists("/sys/module/ib_core");
    findings.push_back(note(core ? "the kernel's RDMA core is loaded" : "the kernel's RDMA core is not loaded"));

    const std::string release = [] {
        utsname names{};
        ::uname(&names);
        return std::string{names.release};
    }();
    if (first_line("/proc/sys/kernel/modules_disabled") == "1")
        findings.push_back(note("kernel modules cannot be loaded: kernel.modules_disabled is 1"));
    else if (!exists("/proc/modules"))
        findings.push_back(note("kernel modules cannot be loaded: this kernel is built without them"));
    else if (!may_load_modules())
        findings.push_back(note("kernel modules cannot be loaded by this process (no CAP_SYS_MODULE)"));
    else
        findings.push_back(note(fmt::format("kernel modules can be loaded; headers to build one for {}: {}", release,
                                            exists("/lib/modules/" + release + "/build") ? "present" : "absent")));

    if (kernel.devices.empty())
        findings.push_back(note("no RDMA device of the kernel's: programs will see swr0 alone"));
    else
        findings.push_back(note(fmt::format("RDMA devices of the kernel's: {}", fmt::join(kernel.devices, ", "))));
    if (kernel.swrnic_module)
        findings.push_back(ok("swrnic's kernel module is loaded: `swrnic run` only starts the command"));
    else if (kernel.character_devices && insists_on_swr0())
        findings.push_back(
            ok("/dev/infiniband holds devices of the kernel's; SWRNIC_ONLY is on, so programs see swr0"));
    else if (kernel.character_devices)
        findings.push_back(fail("/dev/infiniband holds devices of the kernel's, so the userspace shim steps aside",
                                "use those devices, or see swr0 instead of them: swrnic run --only COMMAND"));
    return findings;
}

}  // namespace swrnic::tools
