// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Two ends of a TCP connection within this process.
#pragma once

#include <arpa/inet.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>

namespace swrnic::engine::test {

// Of the sender alone: a window or a buffer of less than some of loopback's large segments would make TCP itself wait
// for its timers.
inline void set_small_buffer(int fd) {
    const int octets = 200000;
    ::setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &octets, sizeof octets);
    ::fcntl(fd, F_SETFL, ::fcntl(fd, F_GETFL) | O_NONBLOCK);
}

inline sockaddr_in loopback() {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return address;
}

inline std::array<int, 2> connected_sockets() {
    const int listener = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in address = loopback();
    socklen_t size = sizeof address;
    auto* generic = reinterpret_cast<sockaddr*>(&address);
    EXPECT_EQ(::bind(listener, generic, size), 0);
    EXPECT_EQ(::listen(listener, 1), 0);
    EXPECT_EQ(::getsockname(listener, generic, &size), 0);
    const int active = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    EXPECT_EQ(::connect(active, generic, size), 0);
    const int passive = ::accept4(listener, nullptr, nullptr, SOCK_CLOEXEC);
    ::close(listener);
    set_small_buffer(active);
    set_small_buffer(passive);
    return {active, passive};
}

}  // namespace swrnic::engine::test
