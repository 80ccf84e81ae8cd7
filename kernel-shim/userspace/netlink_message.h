// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Netlink messages as they are written: a header, and attributes one behind the other, each padded to four octets.
#pragma once

#include <linux/netlink.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace swrnic::shim {

class NetlinkAttributes {
  public:
    void u8(std::uint16_t type, std::uint8_t value) { put(type, &value, sizeof(value)); }
    void u32(std::uint16_t type, std::uint32_t value) { put(type, &value, sizeof(value)); }
    void u64(std::uint16_t type, std::uint64_t value) { put(type, &value, sizeof(value)); }
    void text(std::uint16_t type, const std::string& value) { put(type, value.c_str(), value.size() + 1); }
    void nest(std::uint16_t type, const NetlinkAttributes& inner) { put(type, inner.octets_.data(), inner.size()); }
    void put(std::uint16_t type, const void* value, std::size_t size);

    void append(const NetlinkAttributes& more);

    std::size_t size() const { return octets_.size(); }
    const std::uint8_t* data() const { return octets_.data(); }

  private:
    std::vector<std::uint8_t> octets_;
};

// Whose port it goes to stands in the header when it is sent.
struct NetlinkMessage {
    std::uint16_t type;
    std::uint16_t flags;
    NetlinkAttributes attributes;

    std::size_t size() const { return NLMSG_HDRLEN + attributes.size(); }
};

}  // namespace swrnic::shim
