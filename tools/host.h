// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// What both `run` and `doctor` must know about the host's own RDMA.
#pragma once

#include <string>
#include <vector>

namespace swrnic::tools {

struct KernelRdma {
    bool character_devices = false;    // /dev/infiniband has uverbs or rdma_cm nodes: the userspace shim steps aside
    bool swrnic_module = false;        // the kernel module is loaded and has made a device
    std::vector<std::string> devices;  // names under /sys/class/infiniband
};

KernelRdma look_at_kernel_rdma();

// First line of a small file, without its end of line; empty when it cannot be read.
std::string first_line(const std::string& path);
bool exists(const std::string& path);
// Sorted names in a directory; empty when there is none.
std::vector<std::string> names_in(const std::string& path);
// Absolute path of a program on PATH, or empty.
std::string on_path(const std::string& program);

}  // namespace swrnic::tools
