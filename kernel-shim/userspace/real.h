// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Two ways to the system. sys:: is for the userspace shim's own descriptors: direct system calls, which no other
// preload can capture; they return -errno and leave the program's errno alone. SWRNIC_REAL(name) is the next definition
// of a libc function, for calls that are not ours to answer.
#pragma once

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/close_range.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <utility>

namespace swrnic::shim {

template <std::size_t N>
struct FunctionName {
    char text[N];
    constexpr FunctionName(const char (&name)[N]) : text{} {
        for (std::size_t i = 0; i < N; ++i)
            text[i] = name[i];
    }
};

// One slot per name and process: one atomic load once resolved. nullptr where libc has no such function.
template <FunctionName Name>
void* next_definition() {
    static constinit std::atomic<void*> slot{nullptr};
    void* function = slot.load(std::memory_order_acquire);
    if (function == nullptr) {
        function = dlsym(RTLD_NEXT, Name.text);
        slot.store(function, std::memory_order_release);
    }
    return function;
}

}  // namespace swrnic::shim

#define SWRNIC_REAL(name) (reinterpret_cast<decltype(&::name)>(swrnic::shim::next_definition<#name>()))

namespace swrnic::shim::sys {

template <typename... Args>
long call(long number, Args... args) {
    const int of_program = errno;
    const long result = ::syscall(number, args...);
    return result < 0 ? -std::exchange(errno, of_program) : result;
}

inline long read(int fd, void* buffer, std::size_t size) {
    return call(SYS_read, fd, buffer, size);
}
inline long write(int fd, const void* buffer, std::size_t size) {
    return call(SYS_write, fd, buffer, size);
}
inline int close(int fd) {
    return static_cast<int>(call(SYS_close, fd));
}
inline int eventfd(unsigned initial, int flags) {
    return static_cast<int>(call(SYS_eventfd2, initial, flags));
}
inline int memfd(const char* name, unsigned flags) {
    return static_cast<int>(call(SYS_memfd_create, name, flags));
}
inline int fstat(int fd, struct stat& out) {
    return static_cast<int>(call(SYS_fstat, fd, &out));
}
inline int fcntl(int fd, int command, long argument) {
    return static_cast<int>(call(SYS_fcntl, fd, command, argument));
}
inline int faccess(const char* path) {
    return static_cast<int>(call(SYS_faccessat, AT_FDCWD, path, F_OK));
}
inline int epoll_create() {
    return static_cast<int>(call(SYS_epoll_create1, EPOLL_CLOEXEC));
}
inline int epoll_ctl(int epoll, int operation, int fd, epoll_event* event) {
    return static_cast<int>(call(SYS_epoll_ctl, epoll, operation, fd, event));
}
inline int epoll_wait(int epoll, epoll_event* events, int max, int timeout_ms) {
    return static_cast<int>(call(SYS_epoll_pwait, epoll, events, max, timeout_ms, nullptr, std::size_t{8}));
}
inline int socket(int family, int type, int protocol) {
    return static_cast<int>(call(SYS_socket, family, type, protocol));
}
inline int bind(int fd, const sockaddr* address, socklen_t size) {
    return static_cast<int>(call(SYS_bind, fd, address, size));
}
inline int connect(int fd, const sockaddr* address, socklen_t size) {
    return static_cast<int>(call(SYS_connect, fd, address, size));
}
inline int listen(int fd, int backlog) {
    return static_cast<int>(call(SYS_listen, fd, backlog));
}
inline int accept(int fd, sockaddr* peer, socklen_t* size) {
    return static_cast<int>(call(SYS_accept4, fd, peer, size, SOCK_NONBLOCK | SOCK_CLOEXEC));
}
inline int getsockname(int fd, sockaddr* address, socklen_t* size) {
    return static_cast<int>(call(SYS_getsockname, fd, address, size));
}
inline int setsockopt(int fd, int level, int name, const void* value, socklen_t size) {
    return static_cast<int>(call(SYS_setsockopt, fd, level, name, value, size));
}
inline int set_option(int fd, int level, int name, int value) {
    return setsockopt(fd, level, name, &value, sizeof(value));
}
inline int getsockopt(int fd, int level, int name, void* value, socklen_t* size) {
    return static_cast<int>(call(SYS_getsockopt, fd, level, name, value, size));
}
// 0 where there is none.
inline int get_option(int fd, int level, int name) {
    int value = 0;
    socklen_t size = sizeof(value);
    return getsockopt(fd, level, name, &value, &size) == 0 ? value : 0;
}
inline long send(int fd, const void* buffer, std::size_t size, int flags) {
    return call(SYS_sendto, fd, buffer, size, flags, nullptr, 0);
}
inline long recv(int fd, void* buffer, std::size_t size, int flags) {
    return call(SYS_recvfrom, fd, buffer, size, flags, nullptr, nullptr);
}
inline long sendmsg(int fd, const msghdr& message, int flags) {
    return call(SYS_sendmsg, fd, &message, flags);
}
inline long recvmsg(int fd, msghdr& message, int flags) {
    return call(SYS_recvmsg, fd, &message, flags);
}
inline int shutdown(int fd, int how) {
    return static_cast<int>(call(SYS_shutdown, fd, how));
}
inline int getpid() {
    return static_cast<int>(call(SYS_getpid));
}
inline long getrandom(void* buffer, std::size_t size) {
    return call(SYS_getrandom, buffer, size, 0);
}

}  // namespace swrnic::shim::sys
