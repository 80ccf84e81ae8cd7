// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// The kernel's RDMA netlink: what `link` needs of it. Every call returns 0 or a positive errno as the kernel gave it.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

struct nl_msg;
struct nl_sock;

namespace swrnic::tools {

struct RdmaPort {
    std::string device;
    std::uint32_t index = 0, port = 0;
    int state = 0, physical_state = 0;
    std::string netdev;  // empty: none
};

class RdmaNetlink {
  public:
    // EPROTONOSUPPORT or ECONNREFUSED: the kernel has no RDMA, or has not loaded it.
    int open();
    int add_link(const std::string& name, const std::string& type, const std::string& netdev);
    int delete_link(std::uint32_t index);
    int ports(std::vector<RdmaPort>& out);

  private:
    struct Free {
        void operator()(nl_sock* socket) const;
    };
    int ask(nl_msg* message, int (*take)(nl_msg*, void*), void* argument);
    std::unique_ptr<nl_sock, Free> socket_;
};

}  // namespace swrnic::tools
