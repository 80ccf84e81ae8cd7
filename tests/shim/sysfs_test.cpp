// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <set>

#include "raw.h"

namespace swrnic::test {
namespace {

std::set<std::string> names_in(const char* path) {
    std::set<std::string> names;
    DIR* directory = opendir(path);
    if (directory == nullptr) return names;
    while (const dirent* entry = readdir(directory))
        names.insert(entry->d_name);
    closedir(directory);
    return names;
}

TEST(Sysfs, WhatDiscoveryReads) {
    EXPECT_EQ(contents("/sys/class/infiniband_verbs/abi_version"), "6\n");
    EXPECT_EQ(contents("/sys/class/infiniband_verbs/uverbs0/ibdev"), "swr0\n");
    EXPECT_EQ(contents("/sys/class/infiniband/swr0/node_type"), "4: RNIC\n");
    EXPECT_EQ(contents("/sys/class/misc/rdma_cm/abi_version"), "4\n");
    EXPECT_EQ(contents("/sys/class/infiniband/swr0/ports/1/pkeys/0"), "0xffff\n");
}

TEST(Sysfs, MarkIsServedInBothDirectories) {
    EXPECT_EQ(contents("/sys/class/infiniband_verbs/uverbs0/" SWRNIC_SYSFS_MARK), "swrnic\n");
    EXPECT_EQ(contents("/sys/class/infiniband/swr0/" SWRNIC_SYSFS_MARK), "swrnic\n");
}

TEST(Sysfs, RelativeToAnOpenDirectory) {
    DIR* verbs_class = opendir("/sys/class/infiniband_verbs");
    ASSERT_NE(verbs_class, nullptr);
    const Fd device(openat(dirfd(verbs_class), "uverbs0", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    closedir(verbs_class);
    ASSERT_GE(device.get(), 0);
    struct stat status {};
    ASSERT_EQ(fstat(device.get(), &status), 0);
    EXPECT_TRUE(S_ISDIR(status.st_mode));
    EXPECT_EQ(contents(Fd(openat(device.get(), "ibdev", O_RDONLY)).get()), "swr0\n");
    EXPECT_EQ(openat(device.get(), "nothing", O_RDONLY), -1);
    EXPECT_EQ(errno, ENOENT);
    EXPECT_EQ(fstatat(device.get(), "ibdev", &status, 0), 0);
    EXPECT_TRUE(S_ISREG(status.st_mode));
}

TEST(Sysfs, DirectoryStreams) {
    EXPECT_TRUE(names_in("/sys/class/infiniband_verbs/").contains("uverbs0"));
    EXPECT_TRUE(names_in("/sys//class/infiniband").contains("swr0"));
    EXPECT_TRUE(names_in("/dev/infiniband").contains("rdma_cm"));
    EXPECT_TRUE(names_in("/proc/self").contains("fd")) << "foreign directories still work";
    EXPECT_EQ(opendir("/sys/class/infiniband/none"), nullptr);
}

TEST(Sysfs, DeviceNumbersMatchTheDevices) {
    for (const auto& [file, node] : {std::pair{"/sys/class/infiniband_verbs/uverbs0/dev", "/dev/infiniband/uverbs0"},
                                     std::pair{"/sys/class/misc/rdma_cm/dev", "/dev/infiniband/rdma_cm"}}) {
        unsigned want_major = 0, want_minor = 0;
        ASSERT_EQ(std::sscanf(contents(file).c_str(), "%u:%u", &want_major, &want_minor), 2);
        struct stat by_path {
        }, by_fd{};
        ASSERT_EQ(stat(node, &by_path), 0);
        const Fd open_node(open(node, O_RDWR | O_CLOEXEC));
        ASSERT_EQ(fstat(open_node.get(), &by_fd), 0);
        for (const struct stat* status : {&by_path, &by_fd}) {
            EXPECT_TRUE(S_ISCHR(status->st_mode));
            EXPECT_EQ(status->st_rdev, makedev(want_major, want_minor));
        }
    }
}

TEST(Sysfs, GidsAreTheAddresses) {
    const std::string gids = "/sys/class/infiniband/swr0/ports/1/gids/";
    const std::string first = contents(gids + "0");
    ASSERT_EQ(first.size(), 40u);
    EXPECT_EQ(first.substr(0, 20), "fe80:0000:0000:0000:");
    EXPECT_NE(first.substr(20), "0000:0000:0000:0000\n");
    int count = 0;
    for (; access((gids + std::to_string(count)).c_str(), R_OK) == 0; ++count) {
        const std::string attributes = "/sys/class/infiniband/swr0/ports/1/gid_attrs/";
        EXPECT_EQ(contents(attributes + "types/" + std::to_string(count)), "RoCE v2\n");
        EXPECT_EQ(access((attributes + "ndevs/" + std::to_string(count)).c_str(), R_OK), 0);
    }
    EXPECT_GE(count, 2);
}

TEST(Sysfs, NodeGuidIsStableAndLocal) {
    const std::string guid = contents("/sys/class/infiniband/swr0/node_guid");
    EXPECT_EQ(guid, contents("/sys/class/infiniband/swr0/sys_image_guid"));
    unsigned first = 0;
    ASSERT_EQ(std::sscanf(guid.c_str(), "%2x", &first), 1);
    EXPECT_EQ(first & 3, 2u);
}

TEST(Sysfs, NothingCanBeWritten) {
    EXPECT_EQ(open("/sys/class/infiniband/swr0/node_desc", O_WRONLY), -1);
    EXPECT_EQ(errno, EACCES);
    EXPECT_EQ(open("/sys/class/infiniband/swr0/new", O_WRONLY | O_CREAT, 0600), -1);
    EXPECT_EQ(errno, EACCES);
    EXPECT_EQ(access("/sys/class/infiniband/swr0/node_desc", W_OK), -1);
}

TEST(Sysfs, StreamsOfTheStandardLibrary) {
    std::ifstream file("/sys/class/infiniband/swr0/node_type");
    std::string line;
    EXPECT_TRUE(std::getline(file, line));
    EXPECT_EQ(line, "4: RNIC");
}

}  // namespace
}  // namespace swrnic::test
