// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "netlink_file.h"

#include <linux/netlink.h>
#include <linux/sock_diag.h>
#include <rdma/rdma_netlink.h>
#include <sys/uio.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>
#include <cstring>

#include "libibverbs_copies.h"
#include "nldev.h"
#include "state.h"
#include "user_memory.h"

namespace swrnic::shim {

namespace {

using Octets = std::vector<std::uint8_t>;

constexpr std::size_t kMaxRequest = 65536;

template <typename Value>
void append(Octets& octets, const Value& value) {
    const auto* const bytes = reinterpret_cast<const std::uint8_t*>(&value);
    octets.insert(octets.end(), bytes, bytes + sizeof(value));
}

// All that the message's vector holds: 0 or -errno.
int gather(const msghdr& message, Octets& octets) {
    if (message.msg_iovlen > IOV_MAX) return -EMSGSIZE;
    if (!readable(message.msg_iov, message.msg_iovlen * sizeof(iovec))) return -EFAULT;
    for (std::size_t i = 0; i < message.msg_iovlen; ++i) {
        const iovec part = message.msg_iov[i];
        if (part.iov_len > kMaxRequest - octets.size()) return -EMSGSIZE;
        if (part.iov_len == 0) continue;
        if (!readable(part.iov_base, part.iov_len)) return -EFAULT;
        const auto* const bytes = static_cast<const std::uint8_t*>(part.iov_base);
        octets.insert(octets.end(), bytes, bytes + part.iov_len);
    }
    return 0;
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

// What answers one request: datagrams of one message or, in a list, of several.
class Answer {
  public:
    Answer(const nlmsghdr& request, const sockaddr_nl& to) : request_(request), to_(to) {}

    void add(const NetlinkMessage& message) {
        const nlmsghdr header = header_of(message.type, message.flags, message.size());
        Octets& octets = room_for(message.size());
        append(octets, header);
        octets.insert(octets.end(), message.attributes.data(), message.attributes.data() + message.attributes.size());
    }
    void end_of_list() {
        constexpr int kWell = 0;
        Octets& octets = room_for(NLMSG_HDRLEN + sizeof(kWell));
        append(octets, header_of(NLMSG_DONE, NLM_F_MULTI, NLMSG_HDRLEN + sizeof(kWell)));
        append(octets, kWell);
    }
    // failure: -errno, or 0 for an acknowledgement. Of the request its header is told.
    void result(int failure) {
        const nlmsgerr error{failure, request_};
        Octets octets;
        append(octets, header_of(NLMSG_ERROR, NLM_F_CAPPED, NLMSG_HDRLEN + sizeof(error)));
        append(octets, error);
        datagrams_.push_back(std::move(octets));
    }

    bool fits(int fd) const {
        return room(fd) >= needed() || (make_room(fd, SO_RCVBUFFORCE) && room(fd) >= needed()) ||
               (make_room(fd, SO_RCVBUF) && room(fd) >= needed());
    }
    void clear() { datagrams_.clear(); }

    // From a socket that lives for this one answer.
    int deliver() const {
        if (datagrams_.empty()) return 0;
        const int sender = sys::socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, NETLINK_USERSOCK);
        if (sender < 0) return sender;
        long sent = 0;
        for (auto it = datagrams_.begin(); it != datagrams_.end() && sent >= 0; ++it)
            sent = sys::call(SYS_sendto, sender, it->data(), it->size(), 0, &to_, sizeof(to_));
        sys::close(sender);
        return sent < 0 && sent != -EAGAIN ? static_cast<int>(sent) : 0;
    }

  private:
    static constexpr std::size_t kCharge = 4608;  // for a datagram of a page, in a socket's queue

    nlmsghdr header_of(std::uint16_t type, std::uint16_t flags, std::size_t size) const {
        return {static_cast<std::uint32_t>(size), type, flags, request_.nlmsg_seq, to_.nl_pid};
    }
    Octets& room_for(std::size_t size) {
        if (datagrams_.empty() || datagrams_.back().size() + size > kMaxNetlinkMessage) datagrams_.emplace_back();
        return datagrams_.back();
    }
    std::size_t needed() const { return datagrams_.size() * kCharge; }
    static std::size_t room(int fd) {
        std::array<std::uint32_t, SK_MEMINFO_VARS> use{};
        socklen_t size = sizeof(use);
        if (sys::getsockopt(fd, SOL_SOCKET, SO_MEMINFO, use.data(), &size) < 0) return SIZE_MAX;  // nothing is known
        return use[SK_MEMINFO_RCVBUF] - std::min(use[SK_MEMINFO_RCVBUF], use[SK_MEMINFO_RMEM_ALLOC]);
    }
    bool make_room(int fd, int option) const {
        constexpr std::size_t kMost = std::size_t{16} << 20;
        return sys::set_option(fd, SOL_SOCKET, option, static_cast<int>(std::min(needed(), kMost))) == 0;
    }

    const nlmsghdr request_;
    const sockaddr_nl to_;
    std::vector<Octets> datagrams_;
};

// As a kernel does: what is no request is passed over, or acknowledged.
int answer_one(int fd, const nlmsghdr& request, std::span<const std::uint8_t> attributes) {
    sockaddr_nl own{};
    if (const int error = address_of(fd, own); error < 0) return error;
    Answer answer(request, own);
    const bool asks = (request.nlmsg_flags & NLM_F_REQUEST) != 0 && request.nlmsg_type >= NLMSG_MIN_TYPE;
    const bool list = asks && (request.nlmsg_flags & NLM_F_DUMP) != 0;
    int failure = 0;
    if (asks) {
        std::vector<NetlinkMessage> messages;
        Locked locked;
        failure = answer_nldev(locked, request, attributes, messages);
        for (const NetlinkMessage& message : messages)
            answer.add(message);
    }
    if (list && failure == 0) answer.end_of_list();
    if (!answer.fits(fd)) {
        answer.clear();
        failure = -ENOBUFS;
    }
    constexpr auto kCharacterDevice = RDMA_NL_GET_TYPE(RDMA_NL_NLDEV, RDMA_NLDEV_CMD_GET_CHARDEV);
    if (request.nlmsg_type == kCharacterDevice) tell_of_libibverbs_without_driver();  // nobody else asks for it
    if (failure != 0 || (!list && (request.nlmsg_flags & NLM_F_ACK) != 0)) answer.result(failure);
    return answer.deliver();
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
    Octets octets;
    if (const int error = gather(*message, octets); error < 0) return error;
    for (std::span<const std::uint8_t> left = octets; left.size() >= sizeof(nlmsghdr);) {
        nlmsghdr request;
        std::memcpy(&request, left.data(), sizeof(request));
        if (request.nlmsg_len < sizeof(request) || request.nlmsg_len > left.size()) break;
        if (const int error =
                answer_one(fd, request, left.subspan(sizeof(request), request.nlmsg_len - sizeof(request)));
            error < 0)
            return error;
        left = left.subspan(std::min<std::size_t>(NLMSG_ALIGN(request.nlmsg_len), left.size()));
    }
    return static_cast<ssize_t>(octets.size());
}

ssize_t NetlinkFile::write(int fd, const void* buffer, std::size_t size) {
    iovec part{const_cast<void*>(buffer), size};
    msghdr message{};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    return send(fd, &message);
}

ssize_t NetlinkFile::read(int fd, void* buffer, std::size_t size) {
    return sys::read(fd, buffer, size);
}

}  // namespace swrnic::shim
