// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "uevents.h"

#include <linux/netlink.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <string_view>

namespace swrnic::daemon {

Uevents::Uevents() : socket_(::socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, NETLINK_KOBJECT_UEVENT)) {
    sockaddr_nl address{};
    address.nl_family = AF_NETLINK;
    address.nl_groups = 1;  // the kernel's own messages, not udev's
    if (socket_.get() >= 0 && ::bind(socket_.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) != 0)
        socket_ = Fd();
}

bool Uevents::drain() {
    std::array<char, 8192> message;
    bool changed = false;
    for (;;) {
        sockaddr_nl from{};
        socklen_t from_length = sizeof from;
        const ssize_t got = ::recvfrom(socket_.get(), message.data(), message.size(), 0,
                                       reinterpret_cast<sockaddr*>(&from), &from_length);
        if (got < 0 && errno == EINTR) continue;
        if (got < 0 && errno == ENOBUFS) {
            changed = true;
            continue;
        }
        if (got <= 0) return changed;
        if (from.nl_pid != 0) continue;  // not from the kernel
        const std::string_view text(message.data(), static_cast<std::size_t>(got));
        changed = changed || text.find("SUBSYSTEM=infiniband_verbs") != std::string_view::npos;
    }
}

}  // namespace swrnic::daemon
