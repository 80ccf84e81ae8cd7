// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "queue_file.h"

#include <sys/uio.h>

#include <algorithm>

namespace swrnic::shim {

namespace {
constexpr std::uint64_t kWakeAll = 1u << 20;  // more tokens than threads can ever wait
}

long QueueFile::wait_token(int fd) {
    // A thread that is cancelled may have a token and never say so.
    struct Waiter {
        QueueFile& file;
        bool came_back = false;
        ~Waiter() {
            if (came_back) return;
            Locked locked;
            file.count_anew(locked);
        }
    } waiter{*this};
    std::uint64_t token = 0;
    // libc's read, not a bare system call: it is a cancellation point.
    const long error = SWRNIC_REAL(read)(fd, &token, sizeof(token)) < 0 ? -errno : 0;
    waiter.came_back = true;
    return error;
}

void QueueFile::took_token(Locked& locked, std::uint64_t series) {
    if (series == series_) {
        --tokens_;
    } else {
        count_anew(locked);  // it may be one of before, or of now
    }
}

// Whoever waits meanwhile, and may have a token of before, counts anew in turn when he comes back.
void QueueFile::count_anew(Locked& locked) {
    if (shut_ || any_fd() < 0) return;
    ++series_;
    while (take_token_now()) {
    }
    tokens_ = 0;
    show(locked);
}

// Takes a token if one is there, whatever the descriptor's O_NONBLOCK says.
bool QueueFile::take_token_now() {
    std::uint64_t token = 0;
    const iovec slot{&token, sizeof(token)};
    const int fd = any_fd();
    long result = sys::call(SYS_preadv2, fd, &slot, 1, -1L, -1L, RWF_NOWAIT);
    if (result == -EOPNOTSUPP || result == -ENOSYS) {  // kernels before 5.8; emulators, which may not know the call
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
    if (shut_ || any_fd() < 0) return;
    const std::uint64_t missing = entries() - std::min(tokens_, entries());
    if (missing > 0) {
        sys::write(any_fd(), &missing, sizeof(missing));
        tokens_ += missing;
    }
    while (tokens_ > entries() && take_token_now())
        --tokens_;
}

void QueueFile::shut(Locked&) {
    if (shut_) return;
    shut_ = true;
    if (any_fd() >= 0) sys::write(any_fd(), &kWakeAll, sizeof(kWakeAll));
}

}  // namespace swrnic::shim
