// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "datagrams.h"

#include <cerrno>

#include "device.h"
#include "event_file.h"
#include "state.h"
#include "swrnic_policy.h"
#include "swrnic_wiring.h"

namespace swrnic::shim {
namespace {

// A burst finds room, as it would in posted receives; who may not go beyond the limit for users gets that.
void fit(int fd, int family) {
    if (sys::set_option(fd, SOL_SOCKET, SO_RCVBUFFORCE, SWR_DATAGRAM_ROOM) != 0)
        sys::set_option(fd, SOL_SOCKET, SO_RCVBUF, SWR_DATAGRAM_ROOM);
    tell_destination(fd, family);
}

int join(int fd, const Address& group, std::uint32_t interface) {
    if (group.family() == AF_INET) {
        sockaddr_in v4;
        std::memcpy(&v4, group.get(), sizeof(v4));
        ip_mreqn wish{};
        wish.imr_multiaddr = v4.sin_addr;
        wish.imr_ifindex = static_cast<int>(interface);
        return sys::setsockopt(fd, IPPROTO_IP, IP_ADD_MEMBERSHIP, &wish, sizeof(wish));
    }
    sockaddr_in6 v6;
    std::memcpy(&v6, group.get(), sizeof(v6));
    ipv6_mreq wish{};
    wish.ipv6mr_multiaddr = v6.sin6_addr;
    wish.ipv6mr_interface = interface;
    return sys::setsockopt(fd, IPPROTO_IPV6, IPV6_JOIN_GROUP, &wish, sizeof(wish));
}

// Bound to the group's own address: what comes to the port otherwise is not for its members.
int open_group(Locked& locked, Address group) {
    const int fd = open_socket(group.family(), SOCK_DGRAM | SOCK_NONBLOCK, 0);
    if (fd < 0) return fd;
    group.set_port(SWR_GROUP_PORT);
    sys::set_option(fd, SOL_SOCKET, SO_REUSEADDR, 1);
    int error = sys::bind(fd, group.get(), group.size());
    if (error == 0) {
        error = -ENODEV;
        for (const std::uint32_t interface : interfaces()) {
            const int failed = join(fd, group, interface);
            if (error != 0) error = failed;
        }
    }
    if (error != 0) {
        sys::close(fd);
        return error;
    }
    locked->fds.keep(locked, fd);
    return fd;
}

}  // namespace

int give_datagrams(Locked& locked, UverbsFile& context, Qp& qp) {
    EventFile* file = context.event_file(locked);
    if (file == nullptr) return -EIO;
    const auto taken = locked->qp_numbers.take_datagrams(locked);
    if (!taken) return -ENOMEM;
    fit(taken->socket, Address::local_of(taken->socket).family());
    qp.qpn = taken->qpn;
    file->hand_over(locked, qp, taken->socket, nullptr);
    return 0;
}

int join_group(Locked& locked, UverbsFile& context, const Qp& qp, const Gid& group) {
    EventFile* file = context.event_file(locked);
    if (file == nullptr) return -EIO;
    const Address address = group_of(group);
    if (address.empty()) return -EINVAL;
    const int fd = open_group(locked, address);
    if (fd < 0) return fd;
    fit(fd, address.family());
    file->hand_over(locked, qp, fd, &group);
    return 0;
}

}  // namespace swrnic::shim
