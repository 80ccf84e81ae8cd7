// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "sysfs.h"

#include <fmt/core.h>
#include <rdma/ib_user_verbs.h>
#include <rdma/rdma_user_cm.h>
#include <sys/sysmacros.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <map>

#include "device.h"
#include "device_limits.h"
#include "swrnic-abi.h"

namespace swrnic::shim {
namespace {

constexpr std::string_view kVerbsClass = "/sys/class/infiniband_verbs";
constexpr std::string_view kDeviceClass = "/sys/class/infiniband";
constexpr std::string_view kCmClass = "/sys/class/misc/rdma_cm";
constexpr std::string_view kDevDir = "/dev/infiniband";

bool is_at_or_below(std::string_view path, std::string_view root) {
    return path.starts_with(root) && (path.size() == root.size() || path[root.size()] == '/');
}

// Built for each look-up: discovery asks some thirty times in a process's life, and addresses come and go.
using Tree = std::map<std::string, Node, std::less<>>;

class TreeBuilder {
  public:
    void file(std::string_view directory, std::string_view name, std::string content) {
        add_directory(directory);
        tree_.emplace(fmt::format("{}/{}", directory, name), Node{Node::Kind::kFile, std::move(content) + "\n"});
    }
    void device(std::string_view directory, std::string_view name, Node::Kind kind) {
        add_directory(directory);
        tree_.emplace(fmt::format("{}/{}", directory, name), Node{kind, {}});
    }
    Tree take() { return std::move(tree_); }

  private:
    void add_directory(std::string_view path) {
        while (is_at_or_below(path, kVerbsClass) || is_at_or_below(path, kDeviceClass) ||
               is_at_or_below(path, kCmClass) || is_at_or_below(path, kDevDir)) {
            if (!tree_.emplace(std::string(path), Node{Node::Kind::kDirectory, {}}).second) return;
            path = path.substr(0, path.rfind('/'));
        }
    }
    Tree tree_;
};

void add_port(TreeBuilder& build, const std::string& device) {
    const std::string port = device + "/ports/1";
    build.file(port, "state", "4: ACTIVE");
    build.file(port, "phys_state", "5: LinkUp");
    build.file(port, "link_layer", "Ethernet");
    build.file(port, "rate", "10 Gb/sec (1X QDR)");
    build.file(port, "lid", "0x0");
    build.file(port, "lid_mask_count", "0");
    build.file(port, "sm_lid", "0x0");
    build.file(port, "sm_sl", "0");
    build.file(port, "cap_mask", "0x00000000");
    build.file(port + "/pkeys", "0", "0xffff");
    const std::vector<GidEntry> gids = gid_table();
    for (std::size_t i = 0; i < gids.size(); ++i) {
        const std::string index = std::to_string(i);
        build.file(port + "/gids", index, gid_text(gids[i].gid));
        build.file(port + "/gid_attrs/types", index, "IB/RoCE v1");  // what a kernel says of every iWARP GID
        build.file(port + "/gid_attrs/ndevs", index, gids[i].netdev);
    }
}

Tree build_tree() {
    TreeBuilder build;
    const std::string uverbs = fmt::format("{}/uverbs0", kVerbsClass);
    build.file(kVerbsClass, "abi_version", std::to_string(IB_USER_VERBS_ABI_VERSION));
    build.file(uverbs, "ibdev", kDeviceName);
    build.file(uverbs, "abi_version", std::to_string(SWRNIC_ABI_VERSION));
    build.file(uverbs, "dev", fmt::format("{}:{}", kUverbsMajor, kUverbsMinor));
    build.file(uverbs, SWRNIC_SYSFS_MARK, SWRNIC_SYSFS_MARK);

    const std::string device = fmt::format("{}/{}", kDeviceClass, kDeviceName);
    const std::string guid = guid_text(node_guid_be());
    build.file(device, "node_type", "4: RNIC");
    build.file(device, "node_guid", guid);
    build.file(device, "sys_image_guid", guid);
    build.file(device, "fw_ver", "0.0.0");
    build.file(device, "hca_type", "swrnic");
    build.file(device, "board_id", "swrnic");
    build.file(device, "node_desc", "swrnic, software RNIC in user space");
    build.file(device, SWRNIC_SYSFS_MARK, SWRNIC_SYSFS_MARK);
    add_port(build, device);

    build.file(kCmClass, "abi_version", std::to_string(RDMA_USER_CM_ABI_VERSION));
    build.file(kCmClass, "dev", fmt::format("{}:{}", kRdmaCmMajor, kRdmaCmMinor));
    build.device(kDevDir, "uverbs0", Node::Kind::kUverbs);
    build.device(kDevDir, "rdma_cm", Node::Kind::kRdmaCm);
    return build.take();
}

}  // namespace

bool maybe_virtual(const char* path) {
    if (path == nullptr || path[0] != '/') return false;
    while (path[1] == '/')
        ++path;
    if (path[1] == 's' && path[2] == 'y' && path[3] == 's' && path[4] == '/') {
        return strstr(path + 4, "/infiniband") != nullptr || strstr(path + 4, "/rdma_cm") != nullptr;
    }
    if (path[1] == 'd' && path[2] == 'e' && path[3] == 'v' && path[4] == '/')
        return strstr(path + 4, "/infiniband") != nullptr;
    return false;
}

std::string normalized(std::string_view path) {
    std::string out;
    std::size_t at = 0;
    while (at < path.size()) {
        const std::size_t slash = path.find('/', at);
        const std::string_view part = path.substr(at, slash == std::string_view::npos ? slash : slash - at);
        if (part == "..") {
            out.erase(std::min(out.rfind('/'), out.size()));  // nothing in the tree is a link
        } else if (!part.empty() && part != ".") {
            out.append("/").append(part);
        }
        if (slash == std::string_view::npos) break;
        at = slash + 1;
    }
    return out.empty() ? "/" : out;
}

bool covers(const std::string& path) {
    return is_at_or_below(path, kVerbsClass) || is_at_or_below(path, kDeviceClass) || is_at_or_below(path, kCmClass) ||
           is_at_or_below(path, kDevDir);
}

std::optional<Node> find_node(const std::string& path) {
    if (!covers(path)) return std::nullopt;
    Tree tree = build_tree();
    const auto it = tree.find(path);
    if (it == tree.end()) return std::nullopt;
    return std::move(it->second);
}

std::vector<Entry> list_directory(const std::string& path) {
    std::vector<Entry> entries{{".", true}, {"..", true}};
    const std::string prefix = path + "/";
    for (const auto& [name, node] : build_tree()) {
        if (!name.starts_with(prefix) || name.find('/', prefix.size()) != std::string::npos) continue;
        entries.push_back({name.substr(prefix.size()), node.kind == Node::Kind::kDirectory});
    }
    return entries;
}

void fill_stat(const std::string& path, const Node& node, struct stat& out) {
    out = {};
    out.st_nlink = 1;
    out.st_blksize = 4096;
    out.st_ino = std::hash<std::string>{}(path) | 1;
    switch (node.kind) {
        case Node::Kind::kDirectory:
            out.st_mode = S_IFDIR | 0755;
            break;
        case Node::Kind::kFile:
            out.st_mode = S_IFREG | 0444;
            out.st_size = 4096;  // as sysfs says of every attribute
            break;
        case Node::Kind::kUverbs:
            out.st_mode = S_IFCHR | 0666;
            out.st_rdev = makedev(kUverbsMajor, kUverbsMinor);
            break;
        case Node::Kind::kRdmaCm:
            out.st_mode = S_IFCHR | 0666;
            out.st_rdev = makedev(kRdmaCmMajor, kRdmaCmMinor);
            break;
    }
}

}  // namespace swrnic::shim
