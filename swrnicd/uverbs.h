// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Devices of our module, without libibverbs: its provider would start an engine of its own.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace swrnic::daemon {

class Fd {
  public:
    explicit Fd(int fd = -1) : fd_(fd) {}
    Fd(Fd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
    Fd& operator=(Fd&& other) noexcept;
    ~Fd();
    int get() const { return fd_; }
    int release() { return std::exchange(fd_, -1); }

  private:
    int fd_;
};

struct UverbsNode {
    std::string node;    // "uverbs0"
    std::string device;  // "swr0"
    auto operator<=>(const UverbsNode&) const = default;
};

// What the kernel has, of whatever driver.
std::vector<UverbsNode> list_uverbs();

struct Context {
    Fd uverbs;  // the context lives as long as this
    Fd events;  // the event file
};

// Opens a context. 0 or an errno; EPROTONOSUPPORT: not a device of ours.
int open_context(const std::string& node, Context& out);

}  // namespace swrnic::daemon
