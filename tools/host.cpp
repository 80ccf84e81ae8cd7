// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "host.h"

#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string_view>
#include <system_error>

namespace swrnic::tools {

namespace fs = std::filesystem;

std::string first_line(const std::string& path) {
    std::ifstream file{path};
    std::string line;
    std::getline(file, line);
    return line;
}

bool exists(const std::string& path) {
    std::error_code ignored;
    return fs::exists(path, ignored);
}

std::vector<std::string> names_in(const std::string& path) {
    std::vector<std::string> names;
    std::error_code ignored;
    for (fs::directory_iterator at{path, ignored}, end; at != end; at.increment(ignored))
        names.push_back(at->path().filename().native());
    std::sort(names.begin(), names.end());
    return names;
}

std::string on_path(const std::string& program) {
    const char* path = ::getenv("PATH");
    std::string_view rest = path != nullptr ? path : "/usr/bin:/bin";
    while (!rest.empty()) {
        const std::size_t end = std::min(rest.find(':'), rest.size());
        std::string candidate{rest.substr(0, end)};
        rest.remove_prefix(std::min(end + 1, rest.size()));
        if (candidate.empty()) continue;
        candidate.append("/").append(program);
        std::error_code ignored;
        if (fs::is_regular_file(candidate, ignored) && ::access(candidate.c_str(), X_OK) == 0) return candidate;
    }
    return {};
}

KernelRdma look_at_kernel_rdma() {
    KernelRdma kernel;
    kernel.devices = names_in("/sys/class/infiniband");
    for (const std::string& node : names_in("/dev/infiniband"))
        kernel.character_devices |= node == "rdma_cm" || node.rfind("uverbs", 0) == 0;
    kernel.swrnic_module = kernel.character_devices && exists("/sys/module/swrnic") && !kernel.devices.empty();
    return kernel;
}

}  // namespace swrnic::tools
