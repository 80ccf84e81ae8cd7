// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "wire/datagram.h"

#include <gtest/gtest.h>

#include <cstring>
#include <span>

#include "golden/vectors.h"

namespace swrnic::wire {
namespace {

using golden::Bytes;
using golden::from_hex;
using golden::to_hex;

// docs/PROTOCOL.md, "Datagrams", octet by octet; a payload of three.
const Bytes kOctets = from_hex("53575544 01 03 0003 00abcd12 0012ef34 11111111 cafe0001 616263");

TEST(Datagram, Deconstruct) {
    const auto header = DatagramHeader::parse(kOctets);
    ASSERT_TRUE(header);
    EXPECT_EQ(header->dest_qpn, 0xabcd12u);
    EXPECT_EQ(header->source_qpn, 0x12ef34u);
    EXPECT_EQ(header->q_key, 0x11111111u);
    EXPECT_EQ(header->length, 3);
    EXPECT_TRUE(header->solicited);
    EXPECT_TRUE(header->has_imm);
    Bytes immediate(4);
    std::memcpy(immediate.data(), &header->imm_data, 4);
    EXPECT_EQ(to_hex(immediate), "cafe0001");
}

TEST(Datagram, Construct) {
    Bytes out(kDatagramHeaderLen, std::byte{0xee});
    DatagramHeader::parse(kOctets)->emit(out.data());
    EXPECT_EQ(to_hex(out), to_hex(std::span(kOctets).first(kDatagramHeaderLen)));
    DatagramHeader plain{};
    plain.dest_qpn = kMulticastQpn;
    plain.source_qpn = 2;
    plain.imm_data = 0xffffffff;  // of no meaning without the flag, and so not sent
    plain.emit(out.data());
    EXPECT_EQ(to_hex(out), "535755440100000000ffffff000000020000000000000000");
}

TEST(Datagram, WhatIsNoneOfOurs) {
    const auto changed = [](std::size_t at, std::uint8_t to) {
        Bytes octets = kOctets;
        octets[at] = std::byte{to};
        return DatagramHeader::parse(octets).has_value();
    };
    EXPECT_FALSE(changed(0, 0x54)) << "magic";
    EXPECT_FALSE(changed(4, 2)) << "version";
    EXPECT_FALSE(changed(5, 4)) << "a flag that nobody has defined";
    EXPECT_FALSE(changed(7, 2)) << "length, less than there is";
    EXPECT_FALSE(changed(7, 4)) << "length, more than there is";
    EXPECT_FALSE(changed(8, 1)) << "a destination beyond 24 bits";
    EXPECT_FALSE(changed(12, 1)) << "a source beyond 24 bits";
    for (std::size_t size = 0; size < kDatagramHeaderLen; ++size)
        EXPECT_FALSE(DatagramHeader::parse(std::span(kOctets).first(size))) << size;
    Bytes group = kOctets;
    for (const std::size_t at : {13, 14, 15})
        group[at] = std::byte{0xff};
    EXPECT_FALSE(DatagramHeader::parse(group)) << "from a group";
}

TEST(Datagram, TheLargestAndOneOctetMore) {
    for (const std::size_t payload : {kMaxDatagram, kMaxDatagram + 1}) {
        Bytes octets(kDatagramHeaderLen + payload);
        DatagramHeader{.dest_qpn = 2,
                       .source_qpn = 3,
                       .q_key = 0,
                       .imm_data = 0,
                       .length = static_cast<std::uint16_t>(payload),
                       .solicited = false,
                       .has_imm = false}
            .emit(octets.data());
        EXPECT_EQ(DatagramHeader::parse(octets).has_value(), payload == kMaxDatagram);
    }
}

IpAddress address(const char* hex) {
    const Bytes octets = from_hex(hex);
    IpAddress out;
    std::memcpy(out.data(), octets.data(), out.size());
    return out;
}

// The checksum was reckoned by hand after RFC 1071.
TEST(Datagram, GrhOfIpv4) {
    Bytes out(kGrhLen, std::byte{0xee});
    put_grh(out.data(), address("00000000000000000000ffff0a000001"), address("00000000000000000000ffff0a000002"), 64);
    EXPECT_EQ(to_hex(out),
              "0000000000000000000000000000000000000000"
              "4500007400000000401166770a0000010a000002");
}

TEST(Datagram, GrhOfIpv6) {
    Bytes out(kGrhLen, std::byte{0xee});
    put_grh(out.data(), address("fd000000000000000000000000000001"), address("fd000000000000000000000000000002"), 64);
    EXPECT_EQ(to_hex(out),
              "6000000000601140"
              "fd000000000000000000000000000001"
              "fd000000000000000000000000000002");
}

}  // namespace
}  // namespace swrnic::wire
