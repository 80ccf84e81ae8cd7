// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "file.h"

#include <sys/eventfd.h>

#include <algorithm>

#include "state.h"

namespace swrnic::shim {

constinit std::atomic<std::uint8_t> FdTable::marks_[kMaxFd]{};

ssize_t File::read(int, void*, std::size_t) {
    return -EINVAL;
}
ssize_t File::write(int, const void*, std::size_t) {
    return -EINVAL;
}
ssize_t File::send(int, const msghdr*) {
    return -ENOTSOCK;
}
long File::ioctl(unsigned long) {
    return -ENOTTY;
}
bool File::fake_stat(struct stat&) const {
    return false;
}
void File::closed(Locked&) {}

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
    let_go(locked, fd);
    file->fds_.push_back(fd);
    files_.insert(std::lower_bound(files_.begin(), files_.end(), fd, kByFd), {fd, std::move(file)});
    marks_[fd].fetch_or(kOwned, std::memory_order_release);
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
    marks_[fd].fetch_and(static_cast<std::uint8_t>(~kOwned), std::memory_order_release);
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

std::vector<std::shared_ptr<File>> FdTable::all(const Locked&) const {
    std::vector<std::shared_ptr<File>> found;
    for (const auto& [fd, file] : files_) {
        if (!file->dead_ && file->fds_.front() == fd) found.push_back(file);
    }
    return found;
}

namespace {

std::pair<dev_t, ino_t> file_of(int fd) {
    struct stat found {};
    return sys::fstat(fd, found) == 0 ? std::pair(found.st_dev, found.st_ino) : std::pair<dev_t, ino_t>();
}

}  // namespace

void FdTable::keep(Locked&, int fd) {
    if (fd <= STDERR_FILENO || fd >= kMaxFd) return;
    kept_[fd] = file_of(fd);
    marks_[fd].fetch_or(kKept, std::memory_order_release);
}

// The place in the map stays, for the next socket of that number: close() comes here, and must neither allocate nor
// free. A signal handler may call it, and so does ThreadSanitizer while it writes a report and has another allocator in
// place.
void FdTable::let_go(Locked&, int fd) {
    if ((marks(fd) & kKept) != 0) marks_[fd].fetch_and(static_cast<std::uint8_t>(~kKept), std::memory_order_release);
}

bool FdTable::keeps(Locked& locked, int fd) {
    if ((marks(fd) & kKept) == 0) return false;
    const auto it = kept_.find(fd);
    if (it != kept_.end() && it->second == file_of(fd)) return true;
    let_go(locked, fd);
    return false;
}

std::vector<int> FdTable::kept_within(Locked& locked, unsigned first, unsigned last) {
    std::vector<int> found;
    for (auto it = kept_.begin(); it != kept_.end(); ++it) {
        const int fd = it->first;
        if (static_cast<unsigned>(fd) >= first && static_cast<unsigned>(fd) <= last && keeps(locked, fd))
            found.push_back(fd);
    }
    return found;
}

void FdTable::forked() {
    for (const auto& [fd, file] : kept_)
        marks_[fd].fetch_and(static_cast<std::uint8_t>(~kKept), std::memory_order_release);
    kept_.clear();
    for (auto& [fd, file] : files_) {
        if (!file->dead_) file->forked();
        file->dead_ = true;
    }
}

}  // namespace swrnic::shim
