// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Direct system calls for the engine's own descriptors: no library that is preloaded beside us (librspreload) can
// capture them.
#pragma once

#include <netinet/in.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cstdint>
#include <cstring>
#include <utility>

#if defined(__SANITIZE_THREAD__)
#include <sanitizer/tsan_interface.h>
#endif

namespace swrnic::engine::sys {

// ThreadSanitizer does not see that a message to a peer happens before the answer to it. Applications rely on that
// order when they let a peer write where they have just sent from.
inline char the_wire;
inline void before_send() {
#if defined(__SANITIZE_THREAD__)
    __tsan_release(&the_wire);
#endif
}
inline void after_receive() {
#if defined(__SANITIZE_THREAD__)
    __tsan_acquire(&the_wire);
#endif
}

inline long send_message(int fd, const msghdr* message) {
    before_send();
    return syscall(SYS_sendmsg, fd, message, MSG_DONTWAIT | MSG_NOSIGNAL);
}
inline long send(int fd, const void* from, std::size_t length) {
    before_send();
    return syscall(SYS_sendto, fd, from, length, MSG_DONTWAIT | MSG_NOSIGNAL, nullptr, 0);
}
inline long receive_message(int fd, msghdr* message) {
    const long got = syscall(SYS_recvmsg, fd, message, MSG_DONTWAIT);
    after_receive();
    return got;
}
inline long receive(int fd, void* to, std::size_t length) {
    const long got = syscall(SYS_recvfrom, fd, to, length, MSG_DONTWAIT, nullptr, nullptr);
    after_receive();
    return got;
}
inline int set_option(int fd, int level, int name, int value) {
    return static_cast<int>(syscall(SYS_setsockopt, fd, level, name, &value, sizeof value));
}
inline int get_option(int fd, int level, int name, int fallback) {
    int value = fallback;
    socklen_t length = sizeof value;
    return syscall(SYS_getsockopt, fd, level, name, &value, &length) == 0 ? value : fallback;
}
inline void shut_down_writing(int fd) {
    syscall(SYS_shutdown, fd, SHUT_WR);
}
inline void signal_event(int fd) {
    const std::uint64_t one = 1;
    static_cast<void>(syscall(SYS_write, fd, &one, sizeof one));
}
inline void drain_event(int fd) {
    std::uint64_t count;
    static_cast<void>(syscall(SYS_read, fd, &count, sizeof count));
}

// One end of a stream; IPv4 in the first four octets. All 0 if the socket has gone.
struct Endpoint {
    bool v6;
    std::array<std::uint8_t, 16> address;
    std::uint16_t port;
};
// call: SYS_getsockname or SYS_getpeername.
inline Endpoint endpoint_of(int fd, long call) {
    sockaddr_storage raw{};
    socklen_t length = sizeof raw;
    Endpoint end{};
    if (syscall(call, fd, &raw, &length) != 0) return end;
    end.v6 = raw.ss_family == AF_INET6;
    if (end.v6) {
        const auto* in = reinterpret_cast<const sockaddr_in6*>(&raw);
        std::memcpy(end.address.data(), &in->sin6_addr, sizeof in->sin6_addr);
        end.port = ntohs(in->sin6_port);
    } else {
        const auto* in = reinterpret_cast<const sockaddr_in*>(&raw);
        std::memcpy(end.address.data(), &in->sin_addr, sizeof in->sin_addr);
        end.port = ntohs(in->sin_port);
    }
    return end;
}

// An owned descriptor.
class Fd {
  public:
    explicit Fd(int fd = -1) : fd_(fd) {}
    Fd(Fd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
    Fd& operator=(Fd&& other) noexcept {
        std::swap(fd_, other.fd_);
        return *this;
    }
    Fd(const Fd&) = delete;
    Fd& operator=(const Fd&) = delete;
    ~Fd() { reset(); }
    int get() const { return fd_; }
    void lose() { fd_ = -1; }  // it was closed by others
    void reset() {
        if (fd_ >= 0) syscall(SYS_close, std::exchange(fd_, -1));
    }

  private:
    int fd_;
};

}  // namespace swrnic::engine::sys
