// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// The ioctls of swrnic-serve.h: on an event file, or on what a test puts in its place.
#pragma once

#include <swrnic-serve.h>
#include <sys/ioctl.h>

#include <cerrno>

namespace swrnic::daemon {

class Calls {
  public:
    virtual ~Calls() = default;
    // 0 or an errno. argument: what the request says.
    virtual int call(unsigned long request, void* argument) = 0;
};

// Borrows the descriptor.
class Ioctls final : public Calls {
  public:
    explicit Ioctls(int fd) : fd_(fd) {}
    int call(unsigned long request, void* argument) override {
        int result;
        do {
            result = ::ioctl(fd_, request, argument);
        } while (result < 0 && errno == EINTR);
        return result < 0 ? errno : 0;
    }

  private:
    const int fd_;
};

}  // namespace swrnic::daemon
