// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "wire/crc32c.h"

#include <gtest/gtest.h>

#include <string>

#include "golden/vectors.h"
#include "wire/byteorder.h"

namespace swrnic::wire {
namespace {

using golden::Bytes;
using golden::Vector;

class CrcVector : public testing::TestWithParam<Vector> {};

TEST_P(CrcVector, ValueAndWireOctets) {
    const Bytes& octets = GetParam().bytes;
    const auto expected =
        static_cast<std::uint32_t>(std::stoul(GetParam().expect.at("crc32c").get<std::string>(), nullptr, 16));
    EXPECT_EQ(crc32c(octets.data(), octets.size()), expected);

    Bytes on_wire(4);
    store_le32(on_wire.data(), crc32c(octets.data(), octets.size()));
    EXPECT_EQ(golden::to_hex(on_wire), GetParam().expect.at("wire").get<std::string>());
    EXPECT_EQ(load_le32(on_wire.data()), expected);
}

TEST_P(CrcVector, SumIsIndependentOfThePieces) {
    const Bytes& octets = GetParam().bytes;
    const std::uint32_t whole = crc32c(octets.data(), octets.size());
    for (std::size_t cut = 0; cut <= octets.size(); ++cut) {
        Crc32c sum;
        sum.update(octets.data(), cut);
        sum.update(octets.data() + cut, octets.size() - cut);
        EXPECT_EQ(sum.value(), whole) << "cut at " << cut;
        const std::uint32_t state = crc32c_update(kCrc32cInit, octets.data(), cut);
        EXPECT_EQ(~crc32c_update(state, octets.data() + cut, octets.size() - cut), whole) << "cut at " << cut;
    }
}

INSTANTIATE_TEST_SUITE_P(Golden, CrcVector, testing::ValuesIn(golden::vectors("crc")), golden::VectorName{});

TEST(ByteOrder, BigEndianAtOddAddresses) {
    const Bytes octets = golden::from_hex("ff 0102030405060708");
    EXPECT_EQ(load_be16(&octets[1]), 0x0102);
    EXPECT_EQ(load_be32(&octets[1]), 0x01020304u);
    EXPECT_EQ(load_be64(&octets[1]), 0x0102030405060708u);
    Bytes out(15);
    store_be16(&out[1], 0x0102);
    store_be32(&out[3], 0x03040506);
    store_be64(&out[7], 0x0708090a0b0c0d0e);
    EXPECT_EQ(golden::to_hex(out), "000102030405060708090a0b0c0d0e");
}

}  // namespace
}  // namespace swrnic::wire
