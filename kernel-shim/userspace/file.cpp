// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "file.h"

#include <sys/eventfd.h>
#include <sys/uio.h>

#include <algorithm>

#include "state.h"

namespace swrnic::shim {

constinit std::atomic<std::uint8_t> FdTable::owned_[kMaxFd]{};

ssize_t File::read(int, void*, std::size_t) {
    return -EINVAL;
}
ssize_t File::write(int, const void*, std::size_t) {
    return -EINVAL;
}
long File::ioctl(unsigned long) {
    return -ENOTTY;
}
bool File::fake_stat(struct stat&) const {
    return false;
}
void File::closed(Locked&) {}

namespace {

// Takes one token if there is one, whatever the descriptor's O_NONBLOCK says.
bool take_token_now(int fd) {
    std::uint64_t token = 0;
    const iovec slot{&token, sizeof(token)};
    long result = sys::call(SYS_preadv2, fd, &slot, 1, -1L, -1L, RWF_NOWAIT);
    if (result == -EOPNOTSUPP) {  // kernels before 5.8
        const int flags = sys::fcntl(fd, F_GETFL, 0);
        sys::fcntl(fd, F_SETFL, flags | O_NONBLOCK);
        result = sys::read(fd, &token, sizeof(token));
        sys::fcntl(fd, F_SETFL, flags);
    }
    return result == sizeof(token);
}

constexpr std::uint64_t kWakeAll = 1u << 20;  // more tokens than threads can ever wait

}  // namespace

long QueueFile::wait_token(int fd) {
    std::uint64_t token = 0;
    // libc's read, not a bare system call: it is a cancellation point.
    return SWRNIC_REAL(read)(fd, &token, sizeof(token)) < 0 ? -errno : 0;
}

void QueueFile::add_token(Locked&) {
    const std::uint64_t one = 1;
    sys::write(any_fd(), &one, sizeof(one));
}

void QueueFile::drop_tokens(Locked&, std::size_t count) {
    // A reader that took its token already finds the queue empty and waits again.
    while (count-- > 0 && any_fd() >= 0 && take_token_now(any_fd())) {
    }
}

void QueueFile::shut(Locked&) {
    if (shut_) return;
    shut_ = true;
    if (any_fd() >= 0) sys::write(any_fd(), &kWakeAll, sizeof(kWakeAll));
}

namespace {
constexpr auto kByFd = [](const std::pair<int, std::shared_ptr<File>>& entry, int fd) { return entry.first < fd; };
}

std::shared_ptr<File> FdTable::find(const Locked&, int fd) const {
    const auto it = std::lower_bound(files_.begin(), files_.end(), fd, kByFd);
    return it != files_.end() && it->first == fd ? it->second : nullptr;
}

int FdTable::install(Locked& locked, int fd, std::shared_ptr<File> file) {
    if (fd < 0) return fd;
    if (fd >= kMaxFd) {
        sys::close(fd);
        return -EMFILE;
    }
    remove(locked, fd);  // left over from a close that went past us
    file->fds_.push_back(fd);
    files_.insert(std::lower_bound(files_.begin(), files_.end(), fd, kByFd), {fd, std::move(file)});
    owned_[fd].store(1, std::memory_order_release);
    return fd;
}

int FdTable::install_new(Locked& locked, std::shared_ptr<File> file, int eventfd_flags) {
    return install(locked, sys::eventfd(0, eventfd_flags | EFD_SEMAPHORE), std::move(file));
}

void FdTable::remove(Locked& locked, int fd) {
    const auto it = std::lower_bound(files_.begin(), files_.end(), fd, kByFd);
    if (it == files_.end() || it->first != fd) return;
    const std::shared_ptr<File> file = std::move(it->second);
    files_.erase(it);
    owned_[fd].store(0, std::memory_order_release);
    std::erase(file->fds_, fd);
    if (file->fds_.empty() && !file->dead_) file->closed(locked);
}

std::vector<int> FdTable::within(const Locked&, unsigned first, unsigned last) const {
    std::vector<int> found;
    for (const auto& [fd, file] : files_) {
        if (static_cast<unsigned>(fd) >= first && static_cast<unsigned>(fd) <= last) found.push_back(fd);
    }
    return found;
}

void FdTable::forked() {
    for (auto& [fd, file] : files_) {
        if (!file->dead_) file->forked();
        file->dead_ = true;
    }
}

}  // namespace swrnic::shim
