// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Descriptors that the userspace shim answers for.
//
// Every one is backed by an eventfd (RDMA netlink's by a netlink socket), so that poll, epoll, select and
// fcntl(F_SETFL) work natively; read, write, ioctl, fstat, dup and close are interposed and come here. A File is what
// an open file description is to the kernel: dup()ed descriptors share it.
#pragma once

#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/types.h>

#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "real.h"

namespace swrnic::shim {

class Locked;

// Memory is held by shared_ptr, so that a blocked read outlives a close. What the last close means is closed()'s
// business. Results are >= 0 or -errno. read() and write() may block, are cancellation points then, and are called
// without the lock.
class File {
  public:
    File() = default;
    File(const File&) = delete;
    File& operator=(const File&) = delete;
    virtual ~File() = default;

    virtual ssize_t read(int fd, void* buffer, std::size_t size);
    virtual ssize_t write(int fd, const void* buffer, std::size_t size);
    virtual ssize_t send(int fd, const msghdr* message);  // sendmsg(2) and its kin; -ENOTSOCK: not a socket
    virtual long ioctl(unsigned long request);
    virtual bool fake_stat(struct stat& out) const;  // true: changed
    virtual void closed(Locked& locked);             // the last descriptor is gone
    virtual void forked() {}                         // in the child: let go of what belongs to the parent

    bool dead() const { return dead_; }

  private:
    friend class FdTable;
    std::vector<int> fds_;  // every descriptor of this process that refers to it
    bool dead_ = false;     // opened before a fork, in the child

  protected:
    // Any descriptor of it, for the userspace shim's own use under the lock; -1 after the last close.
    int any_fd() const { return fds_.empty() ? -1 : fds_.front(); }
};

// fd -> File. owns() is lock-free and async-signal-safe: the only cost that a foreign descriptor sees.
class FdTable {
  public:
    static constexpr int kMaxFd = 1 << 20;

    static bool owns(int fd) { return (marks(fd) & kOwned) != 0; }
    // Neither a File nor kept, for certain.
    static bool is_foreign(int fd) { return marks(fd) == 0; }

    std::shared_ptr<File> find(const Locked& locked, int fd) const;
    // Takes fd over (it is closed on failure). Returns fd or -EMFILE.
    int install(Locked& locked, int fd, std::shared_ptr<File> file);
    // Makes a new eventfd for file and installs it.
    int install_new(Locked& locked, std::shared_ptr<File> file, int eventfd_flags);
    // Forgets fd; does not close it. File::closed() runs if it was the last.
    void remove(Locked& locked, int fd);
    std::vector<int> within(const Locked& locked, unsigned first, unsigned last) const;
    // Each that is alive, once, however many descriptors it has.
    std::vector<std::shared_ptr<File>> all(const Locked& locked) const;
    void forked();

    // Descriptors that the program has never been given: sockets, epoll sets. What it closes is not these, whatever
    // their numbers. Standard input, output and error are never kept: programs open them anew.
    void keep(Locked& locked, int fd);
    void let_go(Locked& locked, int fd);
    // A socket or file that has been closed without let_go() is not kept, though its number is another's now.
    bool keeps(Locked& locked, int fd);
    std::vector<int> kept_within(Locked& locked, unsigned first, unsigned last);

  private:
    static constexpr std::uint8_t kOwned = 1, kKept = 2;
    static std::uint8_t marks(int fd) {
        return fd >= 0 && fd < kMaxFd ? marks_[fd].load(std::memory_order_acquire) : std::uint8_t{0};
    }
    static std::atomic<std::uint8_t> marks_[kMaxFd];
    std::vector<std::pair<int, std::shared_ptr<File>>> files_;  // sorted by descriptor
    std::map<int, std::pair<dev_t, ino_t>> kept_;               // those that are marked so, and some that were
};

}  // namespace swrnic::shim
