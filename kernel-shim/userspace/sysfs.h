// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// The virtual part of the file system: the devices' sysfs directories and their character devices.
//
// It is laid out as the kernel lays out a device that has a parent: the entries of /sys/class are links to it, and the
// parent (`device`) names the network interface.
//
// How a provider recognises a device: the file named SWRNIC_SYSFS_MARK, contents "swrnic\n", in the uverbs directory
// (/sys/class/infiniband_verbs/uverbs0) and in the device's (/sys/class/infiniband/swr0, which is
// verbs_sysfs_dev.ibdev_path).
#pragma once

#include <sys/stat.h>

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace swrnic::shim {

struct Node {
    enum class Kind { kDirectory, kFile, kLink, kUverbs, kRdmaCm };
    Kind kind = Kind::kDirectory;
    std::string content;  // of a file; of a link, where it leads
    unsigned device = 0;  // kUverbs: which
};

// By absolute path without links. Built anew for each look-up: discovery asks some thirty times in a process's life,
// and addresses come and go.
using Tree = std::map<std::string, Node, std::less<>>;
Tree device_tree();

// False for nearly every path there is, after a few comparisons: nothing allocated, no lock.
bool maybe_virtual(const char* path);
bool names_ours(const char* path);  // some part of it begins as a name of ours does

// Both take an absolute path without links. What is covered is in the tree or not there at all. What leads to the tree
// is a real directory with an entry of ours.
bool covers(std::string_view path);
bool leads_to_ours(std::string_view path);
// The real directory above the part of the tree in which path is.
std::string_view real_parent(std::string_view path);

struct Entry {
    std::string name;
    unsigned char type;  // DT_*
    std::uint64_t inode;
};
// Without "." and "..".
std::vector<Entry> list_directory(const Tree& tree, std::string_view path);

std::uint64_t inode_of(std::string_view path);
void fill_stat(std::string_view path, const Node& node, struct stat& out);

}  // namespace swrnic::shim
