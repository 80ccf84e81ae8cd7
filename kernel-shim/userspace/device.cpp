// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "device.h"

#include <fmt/core.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <netpacket/packet.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstring>
#include <string_view>

#include "device_limits.h"
#include "real.h"

namespace swrnic::shim {
namespace {

std::string read_small_file(const char* path) {
    const int fd = static_cast<int>(sys::call(SYS_openat, AT_FDCWD, path, O_RDONLY | O_CLOEXEC));
    if (fd < 0) return {};
    char buffer[256];
    const long size = sys::read(fd, buffer, sizeof(buffer));
    sys::close(fd);
    return size > 0 ? std::string(buffer, static_cast<std::size_t>(size)) : std::string{};
}

std::uint64_t mix(std::uint64_t hash,
                  std::string_view bytes) {  // FNV-1a, then an avalanche so that every octet depends on all
    for (const char byte : bytes)
        hash = (hash ^ static_cast<std::uint8_t>(byte)) * 0x100000001b3ull;
    hash ^= hash >> 33;
    hash *= 0xff51afd7ed558ccdull;
    return hash ^ (hash >> 29);
}

std::uint64_t compute_guid(unsigned device) {
    std::string host = read_small_file("/etc/machine-id");
    if (host.empty()) host = read_small_file("/proc/sys/kernel/random/boot_id");
    if (host.empty()) host = read_small_file("/proc/sys/kernel/hostname");
    struct stat netns {};
    sys::call(SYS_newfstatat, AT_FDCWD, "/proc/self/ns/net", &netns, 0);
    std::uint64_t hash = mix(0xcbf29ce484222325ull, host);
    hash = mix(hash, std::to_string(netns.st_ino));
    if (device != 0) hash = mix(hash, std::to_string(device));
    std::array<std::uint8_t, 8> guid;
    std::memcpy(guid.data(), &hash, sizeof(hash));
    guid[0] = static_cast<std::uint8_t>((guid[0] & ~0x01) | 0x02);  // locally administered, not a group
    std::memcpy(&hash, guid.data(), sizeof(hash));
    return hash;
}

struct Interfaces {
    ifaddrs* first = nullptr;
    Interfaces() { getifaddrs(&first); }
    ~Interfaces() {
        if (first != nullptr) freeifaddrs(first);
    }
    Interfaces(const Interfaces&) = delete;
    Interfaces& operator=(const Interfaces&) = delete;
};

bool up(const ifaddrs& entry) {
    return (entry.ifa_flags & IFF_UP) != 0 && entry.ifa_addr != nullptr;
}
bool loopback(const ifaddrs& entry) {
    return (entry.ifa_flags & IFF_LOOPBACK) != 0;
}

bool usable_mac(const ifaddrs& entry, sockaddr_ll& link) {
    if (!up(entry) || loopback(entry) || entry.ifa_addr->sa_family != AF_PACKET) return false;
    std::memcpy(&link, entry.ifa_addr, sizeof(link));
    return link.sll_halen == 6 && std::any_of(link.sll_addr, link.sll_addr + 6, [](auto octet) { return octet != 0; });
}

GidEntry link_local_gid(const Interfaces& interfaces) {
    GidEntry entry{{0xfe, 0x80}, "lo"};
    for (const ifaddrs* it = interfaces.first; it != nullptr; it = it->ifa_next) {
        sockaddr_ll link{};
        if (!usable_mac(*it, link)) continue;
        const auto* mac = link.sll_addr;
        entry.gid = {0xfe,   0x80,   0,    0,    0,      0,      0,     0, static_cast<std::uint8_t>(mac[0] ^ 2),
                     mac[1], mac[2], 0xff, 0xfe, mac[3], mac[4], mac[5]};  // RFC 4291 appendix A
        entry.netdev = it->ifa_name;
        return entry;
    }
    const std::uint64_t guid = node_guid_be();  // only lo is up: an identifier of its own
    std::memcpy(entry.gid.data() + 8, &guid, sizeof(guid));
    return entry;
}

Gid address_gid(const sockaddr& address) {
    Gid gid{};
    if (address.sa_family == AF_INET) {
        sockaddr_in v4;
        std::memcpy(&v4, &address, sizeof(v4));
        gid[10] = gid[11] = 0xff;
        std::memcpy(gid.data() + 12, &v4.sin_addr, 4);
    } else {
        sockaddr_in6 v6;
        std::memcpy(&v6, &address, sizeof(v6));
        std::memcpy(gid.data(), &v6.sin6_addr, 16);
    }
    return gid;
}

void append(std::vector<GidEntry>& table, const Interfaces& interfaces, int family, bool want_loopback) {
    for (const ifaddrs* it = interfaces.first; it != nullptr && table.size() < SWR_MAX_GIDS; it = it->ifa_next) {
        if (!up(*it) || it->ifa_addr->sa_family != family || loopback(*it) != want_loopback) continue;
        const Gid gid = address_gid(*it->ifa_addr);
        const bool there = std::any_of(table.begin(), table.end(), [&](const auto& entry) { return entry.gid == gid; });
        if (!there) table.push_back({gid, it->ifa_name});
    }
}

bool names_this_host(const Interfaces& interfaces) {
    for (const ifaddrs* it = interfaces.first; it != nullptr; it = it->ifa_next) {
        if (!up(*it) || loopback(*it)) continue;
        if (it->ifa_addr->sa_family == AF_INET) return true;
        if (it->ifa_addr->sa_family != AF_INET6) continue;
        sockaddr_in6 v6;
        std::memcpy(&v6, it->ifa_addr, sizeof(v6));
        if (!IN6_IS_ADDR_LINKLOCAL(&v6.sin6_addr)) return true;
    }
    return false;
}

template <class T>
using EachDevice = std::array<T, kMaxDevices>;

constinit EachDevice<std::array<std::atomic<std::uint64_t>, SWRNIC_COUNTERS>> g_counted{};

struct Identity {
    Persona persona;
    unsigned devices;
};

const Identity& identity() {
    static const Identity chosen = [] {
        Config config;
        std::string error;  // the provider refuses a wrong setting, with a clear line
        load_config(config, error);
        return Identity{config.persona, config.devices};
    }();
    return chosen;
}

}  // namespace

void count(unsigned device, swrnic_counter counter, std::uint32_t by) {
    g_counted[device][counter].fetch_add(by, std::memory_order_relaxed);
}

std::uint64_t counted(unsigned device, swrnic_counter counter) {
    return g_counted[device][counter].load(std::memory_order_relaxed);
}

Persona persona() {
    return identity().persona;
}

std::uint8_t node_type() {
    constexpr std::uint8_t kCa = 1, kRnic = 4;
    return persona() == Persona::kRoce ? kCa : kRnic;
}

unsigned device_count() {
    return identity().devices;
}

std::string device_name(unsigned device) {
    return fmt::format("swr{}", device);
}

std::uint64_t node_guid_be(unsigned device) {
    static constinit EachDevice<std::atomic<std::uint64_t>> cached{};
    std::uint64_t guid = cached[device].load(std::memory_order_relaxed);
    if (guid == 0) {
        guid = compute_guid(device);
        cached[device].store(guid, std::memory_order_relaxed);
    }
    return guid;
}

std::vector<GidEntry> gid_table() {
    const Interfaces interfaces;
    std::vector<GidEntry> table;
    table.push_back(link_local_gid(interfaces));
    const bool with_loopback = !names_this_host(interfaces);
    for (const int family : {AF_INET, AF_INET6}) {
        append(table, interfaces, family, false);
        if (with_loopback) append(table, interfaces, family, true);
    }
    return table;
}

std::optional<Path> find_path(std::size_t source_index, const Gid& peer) {
    const std::vector<GidEntry> table = gid_table();
    if (source_index >= table.size()) return std::nullopt;
    const GidEntry& entry = table[source_index];
    const std::uint32_t interface = if_nametoindex(entry.netdev.c_str());
    Path path{entry.gid, {}, address_of(peer, interface), peer == table.front().gid};
    if (path.peer.empty()) return std::nullopt;
    path.interface = path.peer.interface();
    Address from;  // the first entry is made from a MAC, and need not be an address
    if (source_index != 0) from = address_of(entry.gid, interface);
    if (from.family() != path.peer.family()) from = Address();
    if (find_source(from, path.peer, path.source) != 0) return std::nullopt;
    return path;
}

std::optional<Path> find_group_path(std::size_t source_index, const Gid& group) {
    const std::vector<GidEntry> table = gid_table();
    const Address peer = group_of(group);
    if (source_index >= table.size() || peer.empty()) return std::nullopt;
    // An address of the entry's interface and of the group's family: its own, unless it is made from a MAC.
    const auto fits = [&](const GidEntry& entry) {
        return entry.netdev == table[source_index].netdev && address_of(entry.gid).family() == peer.family();
    };
    auto source = table.begin() + static_cast<std::ptrdiff_t>(source_index);
    if (source_index == 0 || !fits(*source)) source = std::find_if(table.begin() + 1, table.end(), fits);
    if (source == table.end()) return std::nullopt;
    return Path{source->gid, address_of(source->gid), peer, false, if_nametoindex(source->netdev.c_str())};
}

std::vector<std::uint32_t> interfaces() {
    std::vector<std::uint32_t> all;
    for (const GidEntry& entry : gid_table()) {
        const std::uint32_t index = if_nametoindex(entry.netdev.c_str());
        if (index != 0 && std::find(all.begin(), all.end(), index) == all.end()) all.push_back(index);
    }
    return all;
}

Gid port_gid(Locked&) {
    static Gid gid;
    static std::chrono::steady_clock::time_point until;  // the epoch: not known yet
    const auto now = std::chrono::steady_clock::now();
    if (now >= until) {
        gid = gid_table().front().gid;
        until = now + std::chrono::seconds(1);
    }
    return gid;
}

bool has_network_address() {
    return names_this_host(Interfaces{});
}

std::uint8_t active_mtu() {
    const std::string netdev = gid_table().front().netdev;
    const std::string text = read_small_file(fmt::format("/sys/class/net/{}/mtu", netdev).c_str());
    const unsigned long mtu = text.empty() ? 1500 : strtoul(text.c_str(), nullptr, 10);
    std::uint8_t code = 1;  // 256
    for (unsigned long size = 512; size <= 4096 && size <= mtu; size *= 2)
        ++code;
    return code;
}

std::string guid_text(std::uint64_t guid_be) {
    std::array<std::uint8_t, 8> g;
    std::memcpy(g.data(), &guid_be, sizeof(guid_be));
    return fmt::format("{:02x}{:02x}:{:02x}{:02x}:{:02x}{:02x}:{:02x}{:02x}", g[0], g[1], g[2], g[3], g[4], g[5], g[6],
                       g[7]);
}

std::string gid_text(const Gid& gid) {
    std::string text;
    for (std::size_t i = 0; i < gid.size(); i += 2) {
        text += fmt::format("{}{:02x}{:02x}", i == 0 ? "" : ":", gid[i], gid[i + 1]);
    }
    return text;
}

}  // namespace swrnic::shim
