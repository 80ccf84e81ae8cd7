// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// The table of GIDs, and the addresses that they name.
#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <net/if.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <set>
#include <string>

#include "device.h"
#include "net.h"

namespace swrnic::shim {
namespace {

Gid gid(const char* text) {
    Gid gid;
    EXPECT_EQ(inet_pton(AF_INET6, text, gid.data()), 1) << text;
    return gid;
}

std::string text_of(const Gid& gid) {
    char text[INET6_ADDRSTRLEN];
    return inet_ntop(AF_INET6, gid.data(), text, sizeof(text));
}

bool is_v4(const Gid& gid) {
    return text_of(gid).starts_with("::ffff:");
}

std::uint32_t scope_of(const Address& address) {
    sockaddr_in6 v6;
    std::memcpy(&v6, address.get(), sizeof(v6));
    return v6.sin6_scope_id;
}

bool can_be_bound(const Address& address) {
    const int fd = socket(address.family(), SOCK_STREAM | SOCK_CLOEXEC, 0);
    const bool bound = bind(fd, address.get(), address.size()) == 0;
    close(fd);
    return bound;
}

TEST(GidTable, FirstEntryIsTheLinkLocalAddressOfTheMac) {
    const GidEntry first = gid_table().front();
    EXPECT_TRUE(text_of(first.gid).starts_with("fe80::")) << text_of(first.gid);
    EXPECT_TRUE(std::any_of(first.gid.begin() + 8, first.gid.end(), [](auto octet) { return octet != 0; }));
    if (first.netdev == "lo") return;  // which has none
    ifreq request{};
    first.netdev.copy(request.ifr_name, sizeof(request.ifr_name) - 1);
    const int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    ASSERT_EQ(ioctl(fd, SIOCGIFHWADDR, &request), 0);
    close(fd);
    std::uint8_t m[6];
    std::memcpy(m, request.ifr_hwaddr.sa_data, sizeof(m));
    char wanted[64];
    std::snprintf(wanted, sizeof(wanted), "fe80::%02x%02x:%02xff:fe%02x:%02x%02x", m[0] ^ 2, m[1], m[2], m[3], m[4],
                  m[5]);
    EXPECT_EQ(first.gid, gid(wanted));
}

TEST(GidTable, AddressesFollowWithoutHoles) {
    const auto table = gid_table();
    ASSERT_GE(table.size(), 2u);
    bool v6_seen = false;
    std::set<Gid> seen;
    for (std::size_t i = 0; i < table.size(); ++i) {
        EXPECT_TRUE(seen.insert(table[i].gid).second) << text_of(table[i].gid) << " stands twice";
        EXPECT_NE(if_nametoindex(table[i].netdev.c_str()), 0u) << table[i].netdev;
        if (i == 0) continue;
        EXPECT_FALSE(is_v4(table[i].gid) && v6_seen) << text_of(table[i].gid) << " behind IPv6";
        v6_seen |= !is_v4(table[i].gid);
        EXPECT_TRUE(can_be_bound(address_of(table[i].gid))) << text_of(table[i].gid);
        EXPECT_EQ(address_of(table[i].gid).is_loopback(), table[i].netdev == "lo") << text_of(table[i].gid);
    }
}

TEST(GidTable, LoopbackIsThereWhileNothingElseIs) {
    const auto table = gid_table();
    const bool there =
        std::any_of(table.begin(), table.end(), [](auto& entry) { return entry.gid == gid("::ffff:127.0.0.1"); });
    EXPECT_NE(there, has_network_address());
}

TEST(GidAddress, IsWhatTheGidHolds) {
    EXPECT_EQ(address_of(gid("::ffff:192.0.2.7")).text(), "192.0.2.7:0");
    EXPECT_EQ(address_of(gid("::ffff:127.0.0.1")).text(), "127.0.0.1:0");
    EXPECT_EQ(address_of(gid("2001:db8::7")).text(), "[2001:db8::7]:0");
    EXPECT_EQ(address_of(gid("::1")).text(), "[::1]:0");
    EXPECT_EQ(scope_of(address_of(gid("2001:db8::7"), 3)), 0u);
}

TEST(GidAddress, NothingThatOneCannotConnectTo) {
    for (const char* each : {"::", "ff02::1", "::ffff:0.0.0.0", "::ffff:224.0.0.1", "::ffff:255.255.255.255"})
        EXPECT_TRUE(address_of(gid(each)).empty()) << each;
}

TEST(GidAddress, OfTheFirstEntryIsThisHosts) {
    const auto table = gid_table();
    const Address own = address_of(table.front().gid);
    EXPECT_EQ(own.family(), AF_INET);
    EXPECT_TRUE(can_be_bound(own)) << own.text();
    if (is_v4(table[1].gid)) {
        EXPECT_TRUE(own.same_host_part(address_of(table[1].gid))) << own.text();
    }
    EXPECT_EQ(address_of(table.front().gid, 77).family(), AF_INET) << "whatever the interface";
}

TEST(GidAddress, ForeignLinkLocalIsAtAnInterface) {
    const Gid foreign = gid("fe80::5054:ff:fe12:3456");
    EXPECT_EQ(scope_of(address_of(foreign, 77)), 77u);
    EXPECT_EQ(scope_of(address_of(foreign)), if_nametoindex(gid_table().front().netdev.c_str()));
    EXPECT_EQ(address_of(foreign).text(), "[fe80::5054:ff:fe12:3456]:0");
}

}  // namespace
}  // namespace swrnic::shim
