// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Socket addresses, as far as connection management needs them.
#pragma once

#include <netinet/in.h>
#include <sys/socket.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "swrnic-abi.h"

namespace swrnic::shim {

// An IPv4 or IPv6 address with port, or none (family AF_UNSPEC).
class Address {
  public:
    Address() = default;
    // Takes at most the size of the family; anything but AF_INET and AF_INET6, or too short, gives an empty one.
    static Address from(const void* sockaddr_bytes, std::size_t size);
    static Address local_of(int fd);
    static Address any(int family);

    int family() const { return u_.base.sa_family; }
    bool empty() const { return family() == AF_UNSPEC; }
    bool is_any() const;
    bool is_loopback() const;
    std::uint16_t port() const;
    void set_port(std::uint16_t port);
    const sockaddr* get() const { return &u_.base; }
    socklen_t size() const;
    bool same_host_part(const Address& other) const;  // v4-mapped and plain IPv4 compare equal
    bool operator==(const Address& other) const;      // a flow label apart
    std::string text() const;
    swrnic_address for_abi() const;
    std::array<std::uint8_t, 16> as_gid() const;  // IPv4 behind ::ffff:
    std::uint32_t interface() const;              // index: where a link-local one is; 0: not told

  private:
    std::uint32_t v4_or_zero() const;  // network order; of AF_INET and v4-mapped

    union {
        sockaddr base;
        sockaddr_in v4;
        sockaddr_in6 v6;
    } u_{};
};

using Gid = std::array<std::uint8_t, 16>;

// The address that a GID names, without a port; empty: none that one could connect to. A link-local one is taken to be
// at the interface with this index (0: the device's own). The first entry of the device's table is made from a MAC and
// need not be anybody's address: it becomes this host's first IPv4 address.
Address address_of(const Gid& gid, std::uint32_t interface_index = 0);

// The multicast group that a GID names, IPv4 behind ::ffff: or, as rdma_cm of old does, behind ff0e::ffff:; else empty.
Address group_of(const Gid& gid);

// Whether a stream between the two never leaves this host.
bool on_same_host(const Address& local, const Address& peer);

// The next connection of a listener, non-blocking and closed on exec, or -errno.
int accept_one(int listener, Address& peer);

// Whether the peer has closed a stream of which all is read, or either side has reset it.
bool has_ended(int fd);

// A socket that is closed on exec, or -errno; a line in the log when there is no descriptor left.
int open_socket(int family, int type, int protocol);

// Each datagram tells where it came to (IP_PKTINFO).
void tell_destination(int fd, int family);

// Before it listens or connects: what will linger of it must keep no server from its port.
void free_port_later(int fd);

void set_traffic_class(int fd, int value);  // IPv4's and IPv6's, ECN's two bits with it

// The socket's congestion control if it paces by timers what it sends (BBR), else "". A connection that was established
// with one stays paced, whatever is chosen later.
std::string pacing_of(int fd);
void set_congestion_control(int fd, std::string_view name);  // any user may choose reno

// The local address that packets to peer would carry; from: AF_UNSPEC, or the address to start from. 0 or -errno.
int find_source(const Address& from, const Address& peer, Address& source);

}  // namespace swrnic::shim
