// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "control.h"

#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <memory>
#include <thread>

#include "failure.h"

namespace checker {

namespace {
constexpr std::uint32_t kMaxFrame = 1U << 20;

using AddrInfo = std::unique_ptr<addrinfo, decltype(&freeaddrinfo)>;

AddrInfo lookup(const Options& options) {
    addrinfo hints{};
    hints.ai_socktype = SOCK_STREAM;
    hints.ai_flags = AI_NUMERICHOST;
    addrinfo* found = nullptr;
    const int rc = getaddrinfo(options.address.c_str(), std::to_string(options.port).c_str(), &hints, &found);
    expect(rc == 0, "address {}: {}", options.address, gai_strerror(rc));
    return {found, &freeaddrinfo};
}

int new_socket(const addrinfo& info) {
    const int fd = socket(info.ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    expect(fd >= 0, "socket: {}", Errno{});
    const int on = 1;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    return fd;
}
}  // namespace

Control::~Control() {
    if (fd_ >= 0) close(fd_);
}

Control Control::accept_one(const Options& options) {
    const AddrInfo info = lookup(options);
    const int listener = new_socket(*info);
    const Control guard(listener, options.patience);
    expect(bind(listener, info->ai_addr, info->ai_addrlen) == 0, "control port {}: {}", options.port, Errno{});
    expect(listen(listener, 1) == 0, "listen: {}", Errno{});
    pollfd waiting{.fd = listener, .events = POLLIN, .revents = 0};
    const auto wait_ms = std::chrono::milliseconds(options.patience).count();
    expect(poll(&waiting, 1, static_cast<int>(wait_ms)) == 1, "no client came in {} s", options.patience.count());
    const int fd = accept4(listener, nullptr, nullptr, SOCK_CLOEXEC);
    expect(fd >= 0, "accept: {}", Errno{});
    const int on = 1;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    return {fd, options.patience};
}

Control Control::connect_to(const Options& options) {
    const AddrInfo info = lookup(options);
    const Deadline deadline(options.patience);
    for (;;) {
        const int fd = new_socket(*info);
        if (::connect(fd, info->ai_addr, info->ai_addrlen) == 0) return {fd, options.patience};
        const std::string why = std::strerror(errno);
        close(fd);
        expect(!deadline.over(), "control connection to {} port {}: {}", options.address, options.port, why);
        std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
}

void Control::check_size(std::size_t got, std::size_t want) {
    expect(got == want, "control message of {} octets, expected {}: the two sides are not at the same step", got, want);
}

void Control::send_frame(std::uint8_t type, std::span<const std::uint8_t> data) {
    const auto length = static_cast<std::uint32_t>(data.size());
    std::vector<std::uint8_t> frame;
    frame.push_back(type);
    for (unsigned shift = 0; shift < 32; shift += 8)
        frame.push_back(static_cast<std::uint8_t>(length >> shift));
    frame.insert(frame.end(), data.begin(), data.end());
    for (std::size_t done = 0; done < frame.size();) {
        const ssize_t n = ::send(fd_, frame.data() + done, frame.size() - done, MSG_NOSIGNAL);
        if (n < 0 && errno == EINTR) continue;
        expect(n > 0, "control connection lost while sending: {}", Errno{});
        done += static_cast<std::size_t>(n);
    }
}

void Control::read_all(std::span<std::uint8_t> to) {
    const Deadline deadline(patience_);
    for (std::size_t done = 0; done < to.size();) {
        pollfd waiting{.fd = fd_, .events = POLLIN, .revents = 0};
        const int ready = poll(&waiting, 1, deadline.left_ms());
        if (ready < 0 && errno == EINTR) continue;
        expect(ready == 1, "the other side said nothing for {} s", patience_.count());
        const ssize_t n = ::recv(fd_, to.data() + done, to.size() - done, 0);
        if (n < 0 && errno == EINTR) continue;
        expect(n > 0, "control connection lost: the other side is gone");
        done += static_cast<std::size_t>(n);
    }
}

Control::Frame Control::recv_frame() {
    std::uint8_t head[5];
    read_all(head);
    std::uint32_t length = 0;
    for (unsigned i = 0; i < 4; ++i)
        length |= static_cast<std::uint32_t>(head[1 + i]) << (8 * i);
    expect((head[0] == kData || head[0] == kEnd) && length <= kMaxFrame, "control connection carries foreign bytes");
    Frame frame{head[0], std::vector<std::uint8_t>(length)};
    read_all(frame.data);
    return frame;
}

std::vector<std::uint8_t> Control::recv_bytes() {
    expect(!peer_ended_, "the other side has left the group: {}", peer_end_);
    Frame frame = recv_frame();
    if (frame.type == kEnd) {
        peer_ended_ = true;
        peer_end_.assign(frame.data.begin(), frame.data.end());
        fail("the other side has left the group: {}", peer_end_.empty() ? "it was done" : peer_end_);
    }
    return std::move(frame.data);
}

void Control::barrier(std::string_view name) {
    send_bytes({reinterpret_cast<const std::uint8_t*>(name.data()), name.size()});
    const std::vector<std::uint8_t> theirs = recv_bytes();
    const std::string_view other(reinterpret_cast<const char*>(theirs.data()), theirs.size());
    expect(name == other, "this side is at '{}', the other at '{}'", name, other);
}

std::string Control::end_group(const std::string& how) {
    send_frame(kEnd, {reinterpret_cast<const std::uint8_t*>(how.data()), how.size()});
    while (!peer_ended_) {
        const Frame frame = recv_frame();
        if (frame.type != kEnd) continue;
        peer_ended_ = true;
        peer_end_.assign(frame.data.begin(), frame.data.end());
    }
    peer_ended_ = false;
    return std::move(peer_end_);
}

}  // namespace checker
