// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// The virtual part of the file system: the device's sysfs directories and its two character devices.
//
// How a provider recognises the device: the file named SWRNIC_SYSFS_MARK, contents "swrnic\n", in the uverbs directory
// (/sys/class/infiniband_verbs/uverbs0) and in the device's (/sys/class/infiniband/swr0, which is
// verbs_sysfs_dev.ibdev_path).
#pragma once

#include <sys/stat.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace swrnic::shim {

struct Node {
    enum class Kind { kDirectory, kFile, kUverbs, kRdmaCm };
    Kind kind;
    std::string content;  // of a file
};

// False for nearly every path there is, after a few comparisons: nothing allocated, no lock.
bool maybe_virtual(const char* path);

// Collapses repeated and trailing slashes and resolves "." and "..".
std::string normalized(std::string_view path);

// path as normalized() gives it. nullopt: there is no such node. covers() tells whether the real file system may be
// asked then.
std::optional<Node> find_node(const std::string& path);
bool covers(const std::string& path);

struct Entry {
    std::string name;
    bool directory;
};
std::vector<Entry> list_directory(const std::string& path);

void fill_stat(const std::string& path, const Node& node, struct stat& out);

}  // namespace swrnic::shim
