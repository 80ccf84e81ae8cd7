// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "sysfs.h"

#include <dirent.h>
#include <fmt/core.h>
#include <rdma/ib_user_verbs.h>
#include <rdma/rdma_user_cm.h>
#include <sys/sysmacros.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "device.h"
#include "device_limits.h"
#include "real.h"
#include "swrnic-abi.h"

namespace swrnic::shim {
namespace {

constexpr std::string_view kVerbsClass = "/sys/class/infiniband_verbs";
constexpr std::string_view kDeviceClass = "/sys/class/infiniband";
constexpr std::string_view kCmLink = "/sys/class/misc/rdma_cm";
constexpr std::string_view kCmDevice = "/sys/devices/virtual/misc/rdma_cm";
constexpr std::string_view kParents = "/sys/devices/platform/swrnic.";  // and the number of the device
constexpr std::string_view kDevDir = "/dev/infiniband";
constexpr std::array kRoots{kVerbsClass, kDeviceClass, kCmLink, kCmDevice, kParents, kDevDir};

bool is_at_or_below(std::string_view path, std::string_view root) {
    return path.starts_with(root) && (root == kParents || path.size() == root.size() || path[root.size()] == '/');
}

class TreeBuilder {
  public:
    void file(std::string_view directory, std::string_view name, std::string content) {
        add(directory, name, Node{Node::Kind::kFile, std::move(content) + "\n", 0});
    }
    void link(std::string_view directory, std::string_view name, std::string target) {
        add(directory, name, Node{Node::Kind::kLink, std::move(target), 0});
    }
    void device(std::string_view directory, std::string_view name, Node::Kind kind, unsigned device = 0) {
        add(directory, name, Node{kind, {}, device});
    }
    Tree take() { return std::move(tree_); }

  private:
    void add(std::string_view directory, std::string_view name, Node node) {
        for (std::string_view path = directory; covers(path); path = path.substr(0, path.rfind('/'))) {
            if (!tree_.emplace(std::string(path), Node{}).second) break;
        }
        tree_.emplace(fmt::format("{}/{}", directory, name), std::move(node));
    }
    Tree tree_;
};

// In the contract's order (enum swrnic_counter), with the names that the module has for them.
constexpr std::array<std::string_view, SWRNIC_COUNTERS> kCounters{
    "tx_bytes",      "rx_bytes",      "tx_fpdus",         "rx_fpdus",         "tx_sends",          "rx_sends",
    "tx_writes",     "rx_writes",     "tx_read_requests", "rx_read_requests", "tx_read_responses", "rx_read_responses",
    "tx_terminates", "rx_terminates", "rx_crc_errors",    "rx_stalls",        "tx_calls",          "rx_calls"};

// Of this process alone: what others count is theirs (`swrnic stat` asks them).
void add_counters(TreeBuilder& build, unsigned number, const std::string& port) {
    const auto counted = [number](swrnic_counter counter) { return shim::counted(number, counter); };
    for (std::size_t i = 0; i < kCounters.size(); ++i)
        build.file(port + "/hw_counters", kCounters[i], std::to_string(counted(static_cast<swrnic_counter>(i))));
    // InfiniBand's, as its tools ask every port for them: data in words of four octets, an FPDU for a packet.
    const auto standard = [&](std::string_view name, std::uint64_t value) {
        build.file(port + "/counters", name, std::to_string(value));
    };
    standard("port_xmit_data", counted(SWRNIC_COUNT_TX_BYTES) / 4);
    standard("port_rcv_data", counted(SWRNIC_COUNT_RX_BYTES) / 4);
    for (const auto* kind : {"port", "unicast"}) {
        standard(fmt::format("{}_xmit_packets", kind), counted(SWRNIC_COUNT_TX_FPDUS));
        standard(fmt::format("{}_rcv_packets", kind), counted(SWRNIC_COUNT_RX_FPDUS));
    }
    standard("port_rcv_errors", counted(SWRNIC_COUNT_RX_CRC_ERRORS));
    for (const auto* never :
         {"VL15_dropped", "excessive_buffer_overrun_errors", "link_downed", "link_error_recovery",
          "local_link_integrity_errors", "multicast_rcv_packets", "multicast_xmit_packets",
          "port_rcv_constraint_errors", "port_rcv_remote_physical_errors", "port_rcv_switch_relay_errors",
          "port_xmit_constraint_errors", "port_xmit_discards", "port_xmit_wait", "symbol_error"})
        standard(never, 0);
}

void add_port(TreeBuilder& build, unsigned number, const std::string& device, const std::vector<GidEntry>& gids) {
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
    add_counters(build, number, port);
    for (std::size_t i = 0; i < gids.size(); ++i) {
        const std::string index = std::to_string(i);
        build.file(port + "/gids", index, gid_text(gids[i].gid));
        build.file(port + "/gid_attrs/types", index, "RoCE v2");  // what names addresses
        build.file(port + "/gid_attrs/ndevs", index, gids[i].netdev);
    }
}

void add_device(TreeBuilder& build, unsigned number, const std::vector<GidEntry>& gids) {
    const std::string parent = fmt::format("{}{}", kParents, number), name = device_name(number);
    const std::string device = fmt::format("{}/infiniband/{}", parent, name);
    const std::string guid = guid_text(node_guid_be(number));
    build.file(device, "node_type", fmt::format("{}: {}", node_type(), persona() == Persona::kRoce ? "CA" : "RNIC"));
    build.file(device, "node_guid", guid);
    build.file(device, "sys_image_guid", guid);
    build.file(device, "fw_ver", kFirmware);
    build.file(device, "hw_rev", "0");
    build.file(device, "hca_type", "swrnic");
    build.file(device, "board_id", "swrnic");
    build.file(device, "node_desc", "swrnic, software RNIC in user space");
    build.file(device, "uevent", fmt::format("NAME={}", name));
    build.file(device, SWRNIC_SYSFS_MARK, SWRNIC_SYSFS_MARK);
    build.link(device, "device", fmt::format("../../../swrnic.{}", number));
    build.link(device, "subsystem", "../../../../../class/infiniband");
    add_port(build, number, device, gids);
    build.link(kDeviceClass, name, fmt::format("../../devices/platform/swrnic.{}/infiniband/{}", number, name));
    build.file(parent, "uevent", "MODALIAS=platform:swrnic");
    build.file(parent, "modalias", "platform:swrnic");
    build.file(parent, "numa_node", "-1");  // near to every processor
    build.file(parent, "vendor", fmt::format("0x{:06x}", SWRNIC_VENDOR_ID));
    build.file(parent, "device", fmt::format("0x{:04x}", SWRNIC_VENDOR_PART_ID));
    build.link(parent, "subsystem", "../../../bus/platform");
    // Links, where a kernel has the interfaces themselves.
    const std::string& netdev = gids.front().netdev;
    const std::string from_parent = fmt::format("../../../../class/net/{}", netdev);
    build.link(parent + "/net", netdev, from_parent);
    build.link(device + "/ports/1/net", netdev, "../../../../" + from_parent);
}

void add_uverbs(TreeBuilder& build, unsigned number) {
    const std::string name = fmt::format("uverbs{}", number), device = fmt::format("swrnic.{}", number);
    const std::string uverbs = fmt::format("{}{}/infiniband_verbs/{}", kParents, number, name);
    const unsigned minor = kUverbsMinor + number;
    build.file(uverbs, "ibdev", device_name(number));
    build.file(uverbs, "abi_version", std::to_string(SWRNIC_ABI_IN_SYSFS));
    build.file(uverbs, "dev", fmt::format("{}:{}", kUverbsMajor, minor));
    build.file(uverbs, "uevent", fmt::format("MAJOR={}\nMINOR={}\nDEVNAME=infiniband/{}", kUverbsMajor, minor, name));
    build.file(uverbs, SWRNIC_SYSFS_MARK, SWRNIC_SYSFS_MARK);
    build.link(uverbs, "device", "../../../" + device);
    build.link(uverbs, "subsystem", "../../../../../class/infiniband_verbs");
    build.file(kVerbsClass, "abi_version", std::to_string(IB_USER_VERBS_ABI_VERSION));
    build.link(kVerbsClass, name, fmt::format("../../devices/platform/{}/infiniband_verbs/{}", device, name));
    build.device(kDevDir, name, Node::Kind::kUverbs, number);
}

void add_cm(TreeBuilder& build) {
    build.file(kCmDevice, "abi_version", std::to_string(RDMA_USER_CM_ABI_VERSION));
    build.file(kCmDevice, "dev", fmt::format("{}:{}", kRdmaCmMajor, kRdmaCmMinor));
    build.file(kCmDevice, "uevent",
               fmt::format("MAJOR={}\nMINOR={}\nDEVNAME=infiniband/rdma_cm", kRdmaCmMajor, kRdmaCmMinor));
    build.link(kCmDevice, "subsystem", "../../../../class/misc");
    build.link("/sys/class/misc", "rdma_cm", "../../devices/virtual/misc/rdma_cm");
    build.device(kDevDir, "rdma_cm", Node::Kind::kRdmaCm);
}

unsigned char entry_type(Node::Kind kind) {
    switch (kind) {
        case Node::Kind::kDirectory:
            return DT_DIR;
        case Node::Kind::kFile:
            return DT_REG;
        case Node::Kind::kLink:
            return DT_LNK;
        case Node::Kind::kUverbs:
        case Node::Kind::kRdmaCm:
            break;
    }
    return DT_CHR;
}

}  // namespace

Tree device_tree() {
    TreeBuilder build;
    const std::vector<GidEntry> gids = gid_table();
    for (unsigned number = 0; number < device_count(); ++number) {
        add_device(build, number, gids);
        add_uverbs(build, number);
    }
    add_cm(build);
    return build.take();
}

bool names_ours(const char* path) {
    return strstr(path, "infiniband") != nullptr || strstr(path, "rdma_cm") != nullptr ||
           strstr(path, "swrnic.") != nullptr;
}

bool maybe_virtual(const char* path) {
    if (path == nullptr || path[0] != '/') return false;
    while (path[1] == '/')
        ++path;
    if (strncmp(path, "/sys/", 5) != 0 && strncmp(path, "/dev/", 5) != 0) return false;
    return names_ours(path + 4);
}

bool covers(std::string_view path) {
    return std::any_of(kRoots.begin(), kRoots.end(), [&](auto root) { return is_at_or_below(path, root); });
}

bool leads_to_ours(std::string_view path) {
    return std::any_of(kRoots.begin(), kRoots.end(),
                       [&](auto root) { return root.size() > path.size() && is_at_or_below(root, path); });
}

std::string_view real_parent(std::string_view path) {
    const auto* const root =
        std::find_if(kRoots.begin(), kRoots.end(), [&](auto each) { return is_at_or_below(path, each); });
    return root == kRoots.end() ? path : root->substr(0, root->rfind('/'));
}

std::vector<Entry> list_directory(const Tree& tree, std::string_view path) {
    std::vector<Entry> entries;
    const std::string prefix = fmt::format("{}/", path);
    for (auto it = tree.lower_bound(prefix); it != tree.end() && it->first.starts_with(prefix); ++it) {
        const std::string name = it->first.substr(prefix.size(), it->first.find('/', prefix.size()) - prefix.size());
        const std::string full = prefix + name;
        if (!entries.empty() && entries.back().name == name) continue;
        const bool deeper = full.size() < it->first.size();
        entries.push_back(
            {name, deeper ? static_cast<unsigned char>(DT_DIR) : entry_type(it->second.kind), inode_of(full)});
    }
    return entries;
}

std::uint64_t inode_of(std::string_view path) {
    return std::hash<std::string_view>{}(path) | 1;
}

void fill_stat(std::string_view path, const Node& node, struct stat& out) {
    struct stat around {};  // the device number of the real file system that the tree seems to be in
    sys::call(SYS_newfstatat, AT_FDCWD, path.starts_with("/dev") ? "/dev" : "/sys", &around, 0);
    out = {};
    out.st_dev = around.st_dev;
    out.st_nlink = 1;
    out.st_blksize = 4096;
    out.st_ino = inode_of(path);
    switch (node.kind) {
        case Node::Kind::kDirectory:
            out.st_mode = S_IFDIR | 0755;
            break;
        case Node::Kind::kFile:
            out.st_mode = S_IFREG | 0444;
            out.st_size = 4096;  // as sysfs says of every attribute
            break;
        case Node::Kind::kLink:
            out.st_mode = S_IFLNK | 0777;
            break;
        case Node::Kind::kUverbs:
            out.st_mode = S_IFCHR | 0666;
            out.st_rdev = makedev(kUverbsMajor, kUverbsMinor + node.device);
            break;
        case Node::Kind::kRdmaCm:
            out.st_mode = S_IFCHR | 0666;
            out.st_rdev = makedev(kRdmaCmMajor, kRdmaCmMinor);
            break;
    }
}

}  // namespace swrnic::shim
