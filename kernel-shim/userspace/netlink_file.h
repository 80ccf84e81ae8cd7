// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// RDMA netlink (NETLINK_RDMA): how requests and answers travel. What is answered is nldev.h's.
//
// libibverbs finds its devices by it before it looks at sysfs, and asks whether fork() copies registered pages. (It
// does: nothing is pinned here, the engine's threads reach a region by its addresses, as the program does, so that a
// copy on write never parts the two.)
#pragma once

#include <span>

#include "file.h"

namespace swrnic::shim {

// Backed by a socket of the kernel's for messages between programs (NETLINK_USERSOCK), so that bind, getsockname,
// recvmsg and poll work natively. An answer is sent to it as to any other. All of it at once, or, where its queue
// cannot hold that, ENOBUFS: a kernel hands out the next part of a list as one is read, but of reading nothing is known
// here.
class NetlinkFile : public File {
  public:
    // A new descriptor, or -errno. type: as for socket(2).
    static int open(int type);

    // Requests, one behind the other. The number of octets taken, or -errno; EFAULT where they lead nowhere.
    ssize_t send(int fd, const msghdr* message) override;
    ssize_t write(int fd, const void* buffer, std::size_t size) override;
    ssize_t read(int fd, void* buffer, std::size_t size) override;
};

}  // namespace swrnic::shim
