// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// The libc functions that take a descriptor. A foreign one costs one lock-free look-up and goes to the next definition.
#include <linux/netlink.h>
#include <stdarg.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <climits>
#include <cstring>

#include "log.h"
#include "net.h"
#include "netlink_file.h"
#include "real.h"
#include "startup.h"
#include "state.h"
#include "user_memory.h"

#define SWRNIC_EXPORT extern "C" [[gnu::visibility("default")]]

using swrnic::log;
using swrnic::LogLevel;
using swrnic::shim::Address;
using swrnic::shim::FdTable;
using swrnic::shim::File;
using swrnic::shim::Locked;
using swrnic::shim::NetlinkFile;
using swrnic::shim::Startup;
namespace sys = swrnic::shim::sys;

namespace {

template <typename Result>
Result answer(Result result) {
    if (result >= 0) return result;
    errno = static_cast<int>(-result);
    return -1;
}

// What a vfork()ed child closes or duplicates must not change its parent's table.
using swrnic::shim::in_vforked_child;
using swrnic::shim::readable;
using swrnic::shim::writable;

std::shared_ptr<File> find(int fd) {
    Locked locked;
    return locked->fds.find(locked, fd);
}

int close_ours(int fd) {
    Locked locked;
    if (!in_vforked_child()) {
        if (locked->fds.keeps(locked, fd)) return -EBADF;  // it is none of the program's
        // Out of the table first: from the close on the number may be anybody's.
        locked->fds.remove(locked, fd);
    }
    return sys::close(fd);
}

// The kernel has made copy from original; original is ours.
int adopt_copy(int original, int copy) {
    if (copy < 0) return copy;
    Locked locked;
    const std::shared_ptr<File> file = locked->fds.find(locked, original);
    if (file == nullptr || in_vforked_child()) return copy;
    return locked->fds.install(locked, copy, file);
}

int dup_onto(int original, int target, int flags) {
    if (const int error = sys::fcntl(original, F_GETFD, 0); error < 0) return error;  // the target stays then
    if (!FdTable::is_foreign(target) && target != original) {
        Locked locked;
        if (!in_vforked_child()) {
            if (locked->fds.keeps(locked, target)) return -EBUSY;
            locked->fds.remove(locked, target);
        }
    }
    const int copy = static_cast<int>(sys::call(SYS_dup3, original, target, flags));
    return FdTable::owns(original) ? adopt_copy(original, copy) : copy;
}

}  // namespace

SWRNIC_EXPORT ssize_t read(int fd, void* buffer, size_t size) {
    if (!FdTable::owns(fd)) return SWRNIC_REAL(read)(fd, buffer, size);
    const std::shared_ptr<File> file = find(fd);
    if (file == nullptr) return answer<ssize_t>(-EBADF);
    return answer(file->dead() ? -EIO : file->read(fd, buffer, size));
}

extern "C" ssize_t __read_chk(int fd, void* buffer, size_t size, size_t room);
SWRNIC_EXPORT ssize_t __read_chk(int fd, void* buffer, size_t size, size_t room) {
    if (!FdTable::owns(fd)) return SWRNIC_REAL(__read_chk)(fd, buffer, size, room);
    return read(fd, buffer, size < room ? size : room);
}

SWRNIC_EXPORT ssize_t write(int fd, const void* buffer, size_t size) {
    if (!FdTable::owns(fd)) return SWRNIC_REAL(write)(fd, buffer, size);
    const std::shared_ptr<File> file = find(fd);
    if (file == nullptr) return answer<ssize_t>(-EBADF);
    return answer(file->dead() ? -EIO : file->write(fd, buffer, size));
}

SWRNIC_EXPORT int ioctl(int fd, unsigned long request, ...) {
    va_list arguments;
    va_start(arguments, request);
    void* argument = va_arg(arguments, void*);
    va_end(arguments);
    if (!FdTable::owns(fd)) return SWRNIC_REAL(ioctl)(fd, request, argument);
    if (request == FIONBIO || request == FIOCLEX || request == FIONCLEX) {
        return answer(static_cast<int>(sys::call(SYS_ioctl, fd, request, argument)));
    }
    const std::shared_ptr<File> file = find(fd);
    if (file == nullptr) return answer(-EBADF);
    return answer(static_cast<int>(file->dead() ? -EIO : file->ioctl(request)));
}

#define SWRNIC_FSTAT(name, type)                                                                    \
    SWRNIC_EXPORT int name(int fd, type* out) {                                                     \
        if (FdTable::owns(fd)) {                                                                    \
            if (!writable(out, sizeof(*out))) return answer(-EFAULT);                               \
            const std::shared_ptr<File> file = find(fd);                                            \
            if (file != nullptr && file->fake_stat(*reinterpret_cast<struct stat*>(out))) return 0; \
        }                                                                                           \
        return SWRNIC_REAL(name)(fd, out);                                                          \
    }
SWRNIC_FSTAT(fstat, struct stat)
SWRNIC_FSTAT(fstat64, struct stat64)

#define SWRNIC_FXSTAT(name)                                                \
    extern "C" int name(int version, int fd, struct stat* out);            \
    SWRNIC_EXPORT int name(int version, int fd, struct stat* out) {        \
        if (FdTable::owns(fd)) {                                           \
            if (!writable(out, sizeof(*out))) return answer(-EFAULT);      \
            const std::shared_ptr<File> file = find(fd);                   \
            if (file != nullptr && file->fake_stat(*out)) return 0;        \
        }                                                                  \
        const auto real = SWRNIC_REAL(name);                               \
        return real != nullptr ? real(version, fd, out) : answer(-ENOSYS); \
    }
SWRNIC_FXSTAT(__fxstat)
SWRNIC_FXSTAT(__fxstat64)

SWRNIC_EXPORT int close(int fd) {
    if (!FdTable::is_foreign(fd)) return answer(close_ours(fd));
    const int result = SWRNIC_REAL(close)(fd);
    if (Startup::any_aside() && !in_vforked_child()) {
        const int error = errno;
        Locked locked;
        if (locked->startup != nullptr) locked->startup->step_back(locked);
        errno = error;
    }
    return result;
}

// Has a listener of rdma_cm share its port, or make way for a socket that may share one with what does not listen.
static bool make_room(int fd, const sockaddr* address, socklen_t size) {
    if (sys::get_option(fd, SOL_SOCKET, SO_TYPE) != SOCK_STREAM) return false;
    const Address wanted = Address::from(address, size);
    if (wanted.empty()) return false;
    Locked locked;
    if (locked->startup == nullptr || in_vforked_child()) return false;
    if (locked->startup->share_port(locked, wanted)) {
        sys::set_option(fd, SOL_SOCKET, SO_REUSEPORT, 1);
        return true;
    }
    return sys::get_option(fd, SOL_SOCKET, SO_REUSEADDR) != 0 && locked->startup->step_aside(locked, wanted);
}

SWRNIC_EXPORT int bind(int fd, const sockaddr* address, socklen_t size) noexcept {
    const int result = SWRNIC_REAL(bind)(fd, address, size);
    if (result == 0 || errno != EADDRINUSE || !swrnic::shim::active()) return result;
    if (make_room(fd, address, size)) return SWRNIC_REAL(bind)(fd, address, size);
    errno = EADDRINUSE;
    return result;
}

SWRNIC_EXPORT int dup(int fd) noexcept {
    if (!FdTable::owns(fd)) return SWRNIC_REAL(dup)(fd);
    return answer(adopt_copy(fd, static_cast<int>(sys::call(SYS_dup, fd))));
}

SWRNIC_EXPORT int dup2(int fd, int target) noexcept {
    if (fd == target || (!FdTable::owns(fd) && FdTable::is_foreign(target))) return SWRNIC_REAL(dup2)(fd, target);
    return answer(dup_onto(fd, target, 0));
}

SWRNIC_EXPORT int dup3(int fd, int target, int flags) noexcept {
    if (!FdTable::owns(fd) && FdTable::is_foreign(target)) return SWRNIC_REAL(dup3)(fd, target, flags);
    return answer(dup_onto(fd, target, flags));
}

#define SWRNIC_FCNTL(name)                                                            \
    SWRNIC_EXPORT int name(int fd, int command, ...) {                                \
        va_list arguments;                                                            \
        va_start(arguments, command);                                                 \
        void* argument = va_arg(arguments, void*);                                    \
        va_end(arguments);                                                            \
        if (!FdTable::owns(fd)) return SWRNIC_REAL(name)(fd, command, argument);      \
        const int result = sys::fcntl(fd, command, reinterpret_cast<long>(argument)); \
        const bool copies = command == F_DUPFD || command == F_DUPFD_CLOEXEC;         \
        return answer(copies ? adopt_copy(fd, result) : result);                      \
    }
SWRNIC_FCNTL(fcntl)
SWRNIC_FCNTL(fcntl64)

namespace {

// Of the userspace shim's own in the range, those that are the program's are closed; the others, in their order.
std::vector<int> leave_range(unsigned first, unsigned last) {
    if (in_vforked_child()) return {};
    Locked locked;
    std::vector<int> kept = locked->fds.kept_within(locked, first, last);
    for (const int fd : locked->fds.within(locked, first, last)) {
        if (std::binary_search(kept.begin(), kept.end(), fd)) continue;
        locked->fds.remove(locked, fd);
        sys::close(fd);
    }
    return kept;
}

// Calls close_part(first, last) for what lies between them.
template <typename ClosePart>
int close_between(const std::vector<int>& kept, unsigned first, unsigned last, const ClosePart& close_part) {
    for (const int fd : kept) {
        const auto hole = static_cast<unsigned>(fd);
        if (first < hole) {
            if (const int error = close_part(first, hole - 1); error != 0) return error;
        }
        first = hole + 1;
    }
    return first <= last ? close_part(first, last) : 0;
}

}  // namespace

SWRNIC_EXPORT int close_range(unsigned first, unsigned last, int flags) noexcept {
    if ((flags & static_cast<int>(CLOSE_RANGE_CLOEXEC)) != 0 || first > last)
        return SWRNIC_REAL(close_range)(first, last, flags);
    return close_between(leave_range(first, last), first, last,
                         [flags](unsigned from, unsigned to) { return SWRNIC_REAL(close_range)(from, to, flags); });
}

SWRNIC_EXPORT void closefrom(int first) noexcept {
    const unsigned from = first < 0 ? 0u : static_cast<unsigned>(first);
    const std::vector<int> kept = leave_range(from, UINT_MAX);
    if (kept.empty()) return SWRNIC_REAL(closefrom)(first);
    close_between(kept, from, UINT_MAX, [](unsigned part, unsigned to) {
        if (sys::call(SYS_close_range, part, to, 0) == 0) return 0;
        for (const long most = sysconf(_SC_OPEN_MAX); part <= to && part < static_cast<unsigned long>(most); ++part)
            sys::close(static_cast<int>(part));  // kernels before 5.9
        return 0;
    });
}

namespace {

// To another process a descriptor of ours would be a bare eventfd: what answers for it stays here.
bool passes_ours(const msghdr& message) {
    const auto* const end = static_cast<const char*>(message.msg_control) + message.msg_controllen;
    for (const cmsghdr* part = CMSG_FIRSTHDR(&message); part != nullptr;
         part = CMSG_NXTHDR(const_cast<msghdr*>(&message), const_cast<cmsghdr*>(part))) {
        if (part->cmsg_level != SOL_SOCKET || part->cmsg_type != SCM_RIGHTS || part->cmsg_len < CMSG_LEN(0)) continue;
        const auto* at = reinterpret_cast<const char*>(CMSG_DATA(part));
        for (std::size_t left = (part->cmsg_len - CMSG_LEN(0)) / sizeof(int); left > 0; --left, at += sizeof(int)) {
            int fd = -1;
            if (at + sizeof(fd) > end) break;
            std::memcpy(&fd, at, sizeof(fd));
            if (FdTable::owns(fd)) return true;
        }
    }
    return false;
}

// Where a pointer leads nowhere the kernel says EFAULT.
bool refused(const msghdr* message) {
    if (!readable(message, sizeof(*message)) || message->msg_control == nullptr) return false;
    if (!readable(message->msg_control, message->msg_controllen) || !passes_ours(*message)) return false;
    log(LogLevel::kWarn, "a descriptor of the device cannot be passed to another process (SCM_RIGHTS)");
    return true;
}

}  // namespace

SWRNIC_EXPORT ssize_t sendmsg(int fd, const msghdr* message, int flags) {
    if (refused(message)) return answer<ssize_t>(-EOPNOTSUPP);
    if (FdTable::owns(fd)) {
        const auto file = find(fd);
        if (file != nullptr) return answer(file->dead() ? -EIO : file->send(fd, message));
    }
    return SWRNIC_REAL(sendmsg)(fd, message, flags);
}

SWRNIC_EXPORT ssize_t sendto(int fd, const void* buffer, size_t size, int flags, const sockaddr* to,
                             socklen_t to_size) {
    if (!FdTable::owns(fd)) return SWRNIC_REAL(sendto)(fd, buffer, size, flags, to, to_size);
    iovec part{const_cast<void*>(buffer), size};
    msghdr message{};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    return sendmsg(fd, &message, flags);
}

SWRNIC_EXPORT ssize_t send(int fd, const void* buffer, size_t size, int flags) {
    if (!FdTable::owns(fd)) return SWRNIC_REAL(send)(fd, buffer, size, flags);
    return sendto(fd, buffer, size, flags, nullptr, 0);
}

SWRNIC_EXPORT int sendmmsg(int fd, mmsghdr* messages, unsigned count, int flags) {
    for (unsigned i = 0; i < count && i < UIO_MAXIOV; ++i) {
        if (refused(&messages[i].msg_hdr)) return answer(-EOPNOTSUPP);
    }
    return SWRNIC_REAL(sendmmsg)(fd, messages, count, flags);
}

SWRNIC_EXPORT int socket(int family, int type, int protocol) noexcept {
    if (family == AF_NETLINK && protocol == NETLINK_RDMA && swrnic::shim::active())
        return answer(NetlinkFile::open(type));
    return SWRNIC_REAL(socket)(family, type, protocol);
}

// Resolved early, so that a first call from a signal handler needs no dlsym.
[[gnu::constructor]] static void resolve_early() {
    SWRNIC_REAL(read);
    SWRNIC_REAL(write);
    SWRNIC_REAL(close);
    SWRNIC_REAL(dup);
    SWRNIC_REAL(dup2);
    SWRNIC_REAL(fcntl);
    SWRNIC_REAL(ioctl);
    SWRNIC_REAL(send);
    SWRNIC_REAL(sendmsg);
    SWRNIC_REAL(sendto);
    SWRNIC_REAL(socket);
    SWRNIC_REAL(fstat);
}
