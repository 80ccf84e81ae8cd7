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

struct ErrorMessage {
    nlmsghdr header{};
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

// The socket's own address. A socket has its number (nl_pid) from its first message on, unless it was bound before.
int address_of(int fd, sockaddr_nl& own) {
    const auto ask = [&] {
        socklen_t size = sizeof(own);
        return sys::getsockname(fd, reinterpret_cast<sockaddr*>(&own), &size);
    };
    if (const int error = ask(); error < 0 || own.nl_pid != 0) return error;
    sockaddr_nl any{};
    any.nl_family = AF_NETLINK;
    if (const int error = sys::bind(fd, reinterpret_cast<const sockaddr*>(&any), sizeof(any)); error < 0) return error;
    return ask();
}

// From a socket that lives for this one message. What does not fit into the receiver's queue is lost, as a kernel's
// answer.
int deliver(const sockaddr_nl& to, const void* answer, std::size_t size) {
    const int sender = sys::socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, NETLINK_USERSOCK);
    if (sender < 0) return sender;
    const long sent = sys::call(SYS_sendto, sender, answer, size, 0, &to, sizeof(to));
    sys::close(sender);
    return sent < 0 && sent != -EAGAIN ? static_cast<int>(sent) : 0;
}

int deliver_system(const sockaddr_nl& to, const nlmsghdr& request) {
    System system;
    system.header = {sizeof(system), kSystem, 0, request.nlmsg_seq, to.nl_pid};
    system.namespaces.header.nla_type = RDMA_NLDEV_SYS_ATTR_NETNS_MODE;
    system.namespaces.value = 1;  // each namespace sees the device; it has its own addresses
    system.copy_on_fork.header.nla_type = RDMA_NLDEV_SYS_ATTR_COPY_ON_FORK;
    system.copy_on_fork.value = 1;
    return deliver(to, &system, sizeof(system));
}

// failure: -errno, or 0 for an acknowledgement.
int deliver_error(const sockaddr_nl& to, const nlmsghdr& request, int failure) {
    const ErrorMessage message{{sizeof(message), NLMSG_ERROR, 0, request.nlmsg_seq, to.nl_pid}, {failure, request}};
    return deliver(to, &message, sizeof(message));
}

}  // namespace

int NetlinkFile::open(int type) {
    const int fd = sys::socket(AF_NETLINK, type, NETLINK_USERSOCK);
    if (fd < 0) return fd;
    Locked locked;
    return locked->fds.install(locked, fd, std::make_shared<NetlinkFile>());
}

ssize_t NetlinkFile::send(int fd, const msghdr* message) {
    if (!readable(message, sizeof(*message))) return -EFAULT;
    nlmsghdr request{};
    const ssize_t taken = gather(*message, request);
    if (taken < 0) return taken;
    const bool whole = static_cast<std::size_t>(taken) >= sizeof(request) && request.nlmsg_len >= sizeof(request) &&
                       request.nlmsg_len <= static_cast<std::size_t>(taken);
    if (!whole || (request.nlmsg_flags & NLM_F_REQUEST) == 0) return taken;  // a kernel passes over it

    sockaddr_nl own{};
    if (const int error = address_of(fd, own); error < 0) return error;
    const bool known = request.nlmsg_type == kSystem && (request.nlmsg_flags & NLM_F_DUMP) == 0;
    if (known) {
        if (const int error = deliver_system(own, request); error < 0) return error;
    }
    if (!known || (request.nlmsg_flags & NLM_F_ACK) != 0) {
        if (const int error = deliver_error(own, request, known ? 0 : -EOPNOTSUPP); error < 0) return error;
    }
    return taken;
}

ssize_t NetlinkFile::read(int fd, void* buffer, std::size_t size) {
    return sys::read(fd, buffer, size);
}

}  // namespace swrnic::shim
