// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "wire/fpdu.h"

#include <gtest/gtest.h>

#include <vector>

#include "golden/vectors.h"

namespace swrnic::wire {
namespace {

using golden::Bytes;
using golden::from_hex;
using golden::to_hex;
using golden::Vector;

class MulpduVector : public testing::TestWithParam<Vector> {};

TEST_P(MulpduVector, SizesForEmss) {
    const auto& context = GetParam().context;
    const auto& expect = GetParam().expect;
    const std::uint32_t size = mulpdu(context.at("emss").get<std::uint32_t>(), context.at("markers").get<bool>());
    EXPECT_EQ(size, expect.at("mulpdu").get<std::uint32_t>());
    EXPECT_EQ(max_tagged_payload(size), expect.at("max_tagged_payload").get<std::uint32_t>());
    EXPECT_EQ(max_untagged_payload(size), expect.at("max_untagged_payload").get<std::uint32_t>());
}

INSTANTIATE_TEST_SUITE_P(Golden, MulpduVector, testing::ValuesIn(golden::vectors("mulpdu")), golden::VectorName{});

TEST(Mulpdu, NeverLeavesItsRange) {  // RFC 5044 4.5, 3
    for (const std::uint32_t emss : {0u, 1u, 5u, 6u, 10u, 127u, 0x7fffffffu, 0xfffffffeu, 0xffffffffu})
        for (const bool markers : {false, true}) {
            EXPECT_GE(mulpdu(emss, markers), kMinMulpdu) << emss;
            EXPECT_LE(mulpdu(emss, markers), kMaxUlpdu) << emss;
            EXPECT_EQ(mulpdu(emss, markers), emss < kMinMulpdu ? kMinMulpdu : kMaxUlpdu) << emss;
        }
}

TEST(Mulpdu, FpduFitsTheSegment) {
    for (std::uint32_t emss = 152; emss < 9000; ++emss) {  // from where the floor of 128 fits
        EXPECT_LE(fpdu_size(mulpdu(emss, false)), emss);
        for (std::uint64_t position = 0; position < 512; position += 4)
            ASSERT_LE(fpdu_size_with_markers(position, mulpdu(emss, true)), emss) << emss << " at " << position;
    }
}

TEST(FpduSize, IsAMultipleOfFour) {  // RFC 5044 4.1
    for (std::size_t length = 0; length <= kMaxUlpdu; ++length) {
        ASSERT_EQ(fpdu_size(length) % 4, 0u);
        ASSERT_LT(pad_len(length), 4u);
    }
    EXPECT_EQ(fpdu_size(0), 8u);
    EXPECT_EQ(fpdu_size(18), 24u);
    EXPECT_EQ(fpdu_size(19), 28u);
}

TEST(FpduSize, WithMarkersAtTheEdges) {
    EXPECT_EQ(fpdu_size_with_markers(0, 42), 52u);      // opening marker
    EXPECT_EQ(fpdu_size_with_markers(492, 42), 52u);    // one inside
    EXPECT_EQ(fpdu_size_with_markers(516, 22), 28u);    // none
    EXPECT_EQ(fpdu_size_with_markers(0, 502), 512u);    // ends at the next position: that marker opens the next FPDU
    EXPECT_EQ(fpdu_size_with_markers(0, 504), 520u);    // between PAD and CRC
    EXPECT_EQ(fpdu_size_with_markers(0, 1442), 1460u);  // three
    EXPECT_EQ(fpdu_size_with_markers(4, 1442), 1456u);  // two
    EXPECT_EQ(fpdu_size_with_markers((std::uint64_t{1} << 40) + 508, 22), 32u);
}

// The logical octets of an FPDU, without CRC.
Bytes logical_of(std::size_t ulpdu_len) {
    Bytes logical(kFpduHeaderLen + ulpdu_len + pad_len(ulpdu_len));
    store_be16(logical.data(), static_cast<std::uint16_t>(ulpdu_len));
    for (std::size_t i = 0; i < ulpdu_len; ++i)
        logical[kFpduHeaderLen + i] = std::byte(i * 7 + 1);
    return logical;
}

Bytes marked(std::uint64_t position, const Bytes& logical, std::size_t ulpdu_len, bool crc) {
    Bytes raw(fpdu_size_with_markers(position, ulpdu_len), std::byte(0xee));
    EXPECT_EQ(insert_markers(position, logical, raw), raw.size());
    seal_fpdu(raw, crc);
    return raw;
}

TEST(Markers, ComeOutAsTheyWentIn) {
    for (const std::size_t length : {0u, 1u, 18u, 22u, 498u, 502u, 503u, 504u, 506u, 510u, 1014u, 1442u, 2014u, 64768u})
        for (std::uint64_t position = 0; position<512; position += length> 3000 ? 100 : 4) {
            const Bytes logical = logical_of(length);
            Bytes raw = marked(position, logical, length, true);
            ASSERT_TRUE(fpdu_crc_ok(raw));
            std::size_t logical_len = 0;
            ASSERT_TRUE(strip_markers(position, raw, logical_len)) << length << " at " << position;
            ASSERT_EQ(logical_len, fpdu_size(length));
            ASSERT_TRUE(std::equal(logical.begin(), logical.end(), raw.begin())) << length << " at " << position;
        }
}

// RFC 5044 8, code 3: no marker may point elsewhere, whichever it is.
TEST(Markers, EveryPointerIsChecked) {
    constexpr std::uint64_t kPosition = 512;
    const Bytes good = marked(kPosition, logical_of(1442), 1442, true);
    for (const std::size_t marker_at_octet : {0u, 512u, 1024u}) {
        Bytes raw = good;
        std::size_t logical_len = 0;
        raw[marker_at_octet + 3] ^= std::byte(4);
        EXPECT_FALSE(strip_markers(kPosition, raw, logical_len)) << marker_at_octet;
        raw = good;
        raw[marker_at_octet + 3] ^= std::byte(3);  // ignored bits
        raw[marker_at_octet] ^= std::byte(0xff);   // reserved half
        EXPECT_TRUE(strip_markers(kPosition, raw, logical_len)) << marker_at_octet;
    }
}

TEST(Seal, WritesZerosWithoutCrc) {
    Bytes raw = from_hex("0012 414300000000000000000000000100000000 eeeeeeee");
    seal_fpdu(raw, false);
    EXPECT_EQ(to_hex(std::span(raw).last(4)), "00000000");
    seal_fpdu(raw, true);
    EXPECT_EQ(to_hex(std::span(raw).last(4)), "587be8c4");
    EXPECT_TRUE(fpdu_crc_ok(raw));
    for (std::size_t i = 0; i < raw.size(); ++i) {
        raw[i] ^= std::byte(0x10);
        EXPECT_FALSE(fpdu_crc_ok(raw)) << i;
        raw[i] ^= std::byte(0x10);
    }
}

}  // namespace
}  // namespace swrnic::wire
