// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "queue_file.h"

#include <sys/uio.h>

namespace swrnic::shim {

namespace {
constexpr std::uint64_t kWakeAll = 1u << 20;  // more tokens than threads can ever wait
}

long QueueFile::wait_token(int fd) {
    // A thread that is cancelled may have the token and never say so.
    struct Waiter {
        QueueFile& file;
        bool came_back = false;
        ~Waiter() {
            if (!came_back) file.lost_token();
        }
    } waiter{*this};
    std::uint64_t token = 0;
    // libc's read, not a bare system call: it is a cancellation point.
    const long error = SWRNIC_REAL(read)(fd, &token, sizeof(token)) < 0 ? -errno : 0;
    waiter.came_back = true;
    return error;
}

void QueueFile::lost_token() {
    Locked locked;
    if (shut_ || any_fd() < 0) return;
    take_token_now();
    token_ = false;
    show(locked);
}

// Takes the token if it is there, whatever the descriptor's O_NONBLOCK says.
bool QueueFile::take_token_now() {
    std::uint64_t token = 0;
    const iovec slot{&token, sizeof(token)};
    const int fd = any_fd();
    long result = sys::call(SYS_preadv2, fd, &slot, 1, -1L, -1L, RWF_NOWAIT);
    if (result == -EOPNOTSUPP) {  // kernels before 5.8
        const int flags = sys::fcntl(fd, F_GETFL, 0);
        sys::fcntl(fd, F_SETFL, flags | O_NONBLOCK);
        result = sys::read(fd, &token, sizeof(token));
        sys::fcntl(fd, F_SETFL, flags);
    }
    return result == sizeof(token);
}

// A token that a reader took, who has not had the lock yet, is missed by nobody: that reader looks at the queue, and
// shows what he leaves there.
void QueueFile::show(Locked&) {
    if (shut_ || any_fd() < 0 || is_filled() == token_) return;
    const std::uint64_t one = 1;
    if (!token_) {
        sys::write(any_fd(), &one, sizeof(one));
        token_ = true;
    } else if (take_token_now()) {
        token_ = false;
    }
}

void QueueFile::shut(Locked&) {
    if (shut_) return;
    shut_ = true;
    if (any_fd() >= 0) sys::write(any_fd(), &kWakeAll, sizeof(kWakeAll));
}

}  // namespace swrnic::shim
