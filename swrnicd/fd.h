// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <unistd.h>

#include <utility>

namespace swrnic::daemon {

// A descriptor that is closed with its owner; -1: none.
class Fd {
  public:
    explicit Fd(int fd = -1) : fd_(fd) {}
    Fd(Fd&& other) noexcept : fd_(other.release()) {}
    Fd& operator=(Fd&& other) noexcept {
        std::swap(fd_, other.fd_);
        return *this;
    }
    ~Fd() {
        if (fd_ >= 0) ::close(fd_);
    }
    int get() const { return fd_; }
    int release() { return std::exchange(fd_, -1); }

  private:
    int fd_;
};

}  // namespace swrnic::daemon
