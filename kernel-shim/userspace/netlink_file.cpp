// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "netlink_file.h"

#include <linux/netlink.h>
#include <rdma/rdma_netlink.h>
#include <sys/uio.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstring>

#include "state.h"
#include "user_memory.h"

namespace swrnic::shim {

namespace {

constexpr std::uint16_t kSystem = RDMA_NL_GET_TYPE(RDMA_NL_NLDEV, RDMA_NLDEV_CMD_SYS_GET);

struct Answer {
    nlmsghdr header{};
    // NLMSG_ERROR's body.
    nlmsgerr error{};
};

// Attributes of one octet, each with its padding.
struct [[gnu::packed]] OctetAttribute {
    nlattr header{sizeof(nlattr) + 1, 0};
    std::uint8_t value = 0;
    std::uint8_t padding[3]{};
};
static_assert(sizeof(OctetAttribute) == NLA_HDRLEN + NLA_ALIGN(1));

struct System {
    nlmsghdr header{};
    OctetAttribute namespaces, copy_on_fork;
};

// Of all that the message's vector holds; the front is copied to request. -errno, or how many octets there are.
ssize_t gather(const msghdr& message, nlmsghdr& request) {
    if (message.msg_iovlen > IOV_MAX) return -EMSGSIZE;
    if (!readable(message.msg_iov, message.msg_iovlen * sizeof(iovec))) return -EFAULT;
    std::size_t all = 0, have = 0;
    for (std::size_t i = 0; i < message.msg_iovlen; ++i) {
        const iovec& part = message.msg_iov[i];
        if (part.iov_len > SSIZE_MAX - all) return -EINVAL;
        const std::size_t wanted = std::min(part.iov_len, sizeof(request) - have);
        if (wanted != 0) {
            if (!readable(part.iov_base, wanted)) return -EFAULT;
            std::memcpy(reinterpret_cast<char*>(&request) + have, part.iov_base, wanted);
        }
        have += wanted;
        all += part.iov_len;
    }
    return static_cast<ssize_t>(all);
}

// To fd, from a socket that lives for this one message. What does not fit into fd's queue is lost, as a kernel's
// answer.
int deliver(int fd, const void* answer, std::size_t size) {
    sockaddr_nl to{};
    socklen_t to_size = sizeof(to);
    if (const int error = sys::getsockname(fd, reinterpret_cast<sockaddr*>(&to), &to_size); error < 0) return error;
    const int sender = sys::socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, NETLINK_USERSOCK);
    if (sender < 0) return sender;
    const long sent = sys::call(SYS_sendto, sender, answer, size, 0, &to, sizeof(to));
    sys::close(sender);
    return sent < 0 && sent != -EAGAIN ? static_cast<int>(sent) : 0;
}

// A socket has its number from its first message on.
int bind_if_unbound(int fd) {
    sockaddr_nl own{};
    socklen_t size = sizeof(own);
    if (const int error = sys::getsockname(fd, reinterpret_cast<sockaddr*>(&own), &size); error < 0) return error;
    if (own.nl_pid != 0) return static_cast<int>(own.nl_pid);
    own = {};
    own.nl_family = AF_NETLINK;
    return sys::bind(fd, reinterpret_cast<const sockaddr*>(&own), sizeof(own));
}

}  // namespace

int NetlinkFile::open(int type) {
    const int fd = sys::socket(AF_NETLINK, type, NETLINK_USERSOCK);
    if (fd < 0) return fd;
    Locked locked;
    return locked->fds.install(locked, fd, std::make_shared<NetlinkFile>());
}

ssize_t NetlinkFile::send(int fd, const msghdr* message) const {
    if (!readable(message, sizeof(*message))) return -EFAULT;
    nlmsghdr request{};
    const ssize_t taken = gather(*message, request);
    if (taken < 0) return taken;
    const bool whole = static_cast<std::size_t>(taken) >= sizeof(request) && request.nlmsg_len >= sizeof(request) &&
                       request.nlmsg_len <= static_cast<std::size_t>(taken);
    if (!whole || (request.nlmsg_flags & NLM_F_REQUEST) == 0) return taken;  // a kernel passes over it

    if (const int error = bind_if_unbound(fd); error < 0) return error;
    int failure = -EOPNOTSUPP;
    if (request.nlmsg_type == kSystem && (request.nlmsg_flags & NLM_F_DUMP) == 0) {
        failure = 0;
        System system;
        system.header = {sizeof(system), kSystem, 0, request.nlmsg_seq, request.nlmsg_pid};
        system.namespaces.header.nla_type = RDMA_NLDEV_SYS_ATTR_NETNS_MODE;
        system.namespaces.value = 1;  // each namespace sees the device; it has its own addresses
        system.copy_on_fork.header.nla_type = RDMA_NLDEV_SYS_ATTR_COPY_ON_FORK;
        system.copy_on_fork.value = 1;
        if (const int error = deliver(fd, &system, sizeof(system)); error < 0) return error;
    }
    if (failure != 0 || (request.nlmsg_flags & NLM_F_ACK) != 0) {
        const Answer answer{{sizeof(answer), NLMSG_ERROR, 0, request.nlmsg_seq, request.nlmsg_pid}, {failure, request}};
        if (const int error = deliver(fd, &answer, sizeof(answer)); error < 0) return error;
    }
    return taken;
}

ssize_t NetlinkFile::read(int fd, void* buffer, std::size_t size) {
    return sys::read(fd, buffer, size);
}

}  // namespace swrnic::shim
