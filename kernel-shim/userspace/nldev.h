// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// What RDMA netlink says of devices (RDMA_NL_NLDEV): libibverbs and librdmacm find theirs by it, and `rdma link|dev|
// resource` of iproute2 shows it.
//
// The answers are those of a kernel with these devices, attribute by attribute. Resources are this process's own:
// nobody else's are known here. An object's number is its handle, which is the same for all contexts of the process.
#pragma once

#include <linux/netlink.h>

#include <cstdint>
#include <span>
#include <vector>

#include "netlink_message.h"

namespace swrnic::shim {

class Locked;

// Readers have room for a page. So much of one a kernel fills, and the rest is its bookkeeping's.
inline constexpr std::size_t kMaxNetlinkMessage = 3776;

// 0 or -errno, and then nothing is to be sent. The end of a list (NLM_F_DUMP) is the caller's to tell.
int answer_nldev(Locked& locked, const nlmsghdr& request, std::span<const std::uint8_t> attributes,
                 std::vector<NetlinkMessage>& answers);

}  // namespace swrnic::shim
