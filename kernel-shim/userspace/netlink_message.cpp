// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "netlink_message.h"

#include <cstring>

namespace swrnic::shim {

void NetlinkAttributes::put(std::uint16_t type, const void* value, std::size_t size) {
    const nlattr header{static_cast<std::uint16_t>(NLA_HDRLEN + size), type};
    const std::size_t at = octets_.size();
    octets_.resize(at + NLA_HDRLEN + NLA_ALIGN(size));
    std::memcpy(octets_.data() + at, &header, sizeof(header));
    if (size != 0) std::memcpy(octets_.data() + at + NLA_HDRLEN, value, size);
}

void NetlinkAttributes::append(const NetlinkAttributes& more) {
    octets_.insert(octets_.end(), more.octets_.begin(), more.octets_.end());
}

}  // namespace swrnic::shim
