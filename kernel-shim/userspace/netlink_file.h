// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// RDMA netlink (NETLINK_RDMA), of which one question is answered: whether fork() copies registered pages.
//
// libibverbs asks it in ibv_fork_init() and ibv_is_fork_initialized(). Nothing is pinned here: the engine's threads
// reach a region by its addresses, as the program does, so that a copy on write never parts the two. Every other
// command, the lists of devices among them, is EOPNOTSUPP, and libibverbs reads sysfs instead.
#pragma once

#include "file.h"

namespace swrnic::shim {

// Backed by a socket of the kernel's for messages between programs (NETLINK_USERSOCK), so that bind, getsockname,
// recvmsg and poll work natively. An answer is sent to it as to any other.
class NetlinkFile : public File {
  public:
    // A new descriptor, or -errno. type: as for socket(2).
    static int open(int type);

    // What socket(2)'s users send: one request. The number of octets taken, or -errno; EFAULT where the message leads
    // nowhere.
    ssize_t send(int fd, const msghdr* message) override;
    ssize_t read(int fd, void* buffer, std::size_t size) override;
};

}  // namespace swrnic::shim
