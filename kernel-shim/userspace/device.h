// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// The devices, swr0 and on: identity and port, as sysfs, uverbs and rdma_cm all show them. They differ in name and GUID
// alone: each has all of the host's addresses.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "config.h"
#include "net.h"
#include "swrnic-abi.h"

namespace swrnic::shim {

class Locked;

// What programs take the device for. The same until the process ends.
Persona persona();

std::uint8_t node_type();  // enum rdma_node_type, by the persona

// SWRNIC_DEVICES. The same until the process ends.
unsigned device_count();
std::string device_name(unsigned device);

struct GidEntry {
    Gid gid;
    std::string netdev;
};

// Network byte order, as in every structure that carries it. Stable for a host and network namespace. Without a number:
// of the first device, which is the one that rdma_cm chooses.
std::uint64_t node_guid_be(unsigned device = 0);

// As rxe's: entry 0 is the link-local address that the MAC of the first interface would have, whether or not it is
// configured; then every address of every interface that is up, IPv4-mapped before IPv6. Loopback is there only while
// nothing else names this host. No entry is empty, and none stands twice. Read anew at each call.
std::vector<GidEntry> gid_table();

// How this host comes from an entry of the table to what a GID names; none: there is no such entry, or no way.
struct Path {
    Gid source_gid;
    Address source, peer;         // without ports
    bool peer_is_any_here;        // the GID is this host's own first one: any of its addresses will do
    std::uint32_t interface = 0;  // not 0: to leave by, toward a group or a link-local address
};
std::optional<Path> find_path(std::size_t source_index, const Gid& peer);

// The same to a multicast group.
std::optional<Path> find_group_path(std::size_t source_index, const Gid& group);

// The interfaces of the table, by index: where a group is joined.
std::vector<std::uint32_t> interfaces();

// The first of them, up to a second old: rdma_cm asks for it with every connection, and a look at the interfaces costs
// eight system calls. The caller holds the lock.
Gid port_gid(Locked&);

// Whether an interface that is up, but for loopback, has an address that others can name (IPv4, or not link-local).
bool has_network_address();

// What this process's contexts of a device have told by SWRNIC_UP_COUNTED. Any thread.
void count(unsigned device, swrnic_counter counter, std::uint32_t by);
std::uint64_t counted(unsigned device, swrnic_counter counter);

std::uint8_t active_mtu();  // enum ib_mtu by VERBS-41
std::string guid_text(std::uint64_t guid_be);
std::string gid_text(const Gid& gid);

}  // namespace swrnic::shim
