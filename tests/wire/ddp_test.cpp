// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "wire/ddp.h"

#include <gtest/gtest.h>

#include <string>

#include "golden/vectors.h"
#include "wire/rdmap.h"

namespace swrnic::wire {
namespace {

using golden::Bytes;
using golden::from_hex;
using golden::to_hex;
using golden::Vector;

const Bytes kTaggedOctets = from_hex("c1 40 00012300 0000000000010010 5a5b");
const Bytes kUntaggedOctets = from_hex("01 46 00abcdef 00000001 fffffffe 000005ca 61");

TEST(Tagged, Deconstruct) {
    const auto view = SegmentView::check(kTaggedOctets);
    ASSERT_TRUE(view);
    EXPECT_TRUE(view->tagged());
    EXPECT_TRUE(view->last());
    EXPECT_EQ(view->version(), kDdpVersion);
    EXPECT_EQ(view->rdmap_control(), 0x40);
    EXPECT_EQ(view->header_len(), 14u);
    EXPECT_EQ(to_hex(view->payload()), "5a5b");
    EXPECT_EQ(view->tagged_header(), (TaggedHeader{true, 0x40, 0x12300, 0x10010}));
}

TEST(Tagged, Construct) {
    Bytes out(kTaggedHeaderLen, std::byte(0xee));
    TaggedHeader{true, 0x40, 0x12300, 0x10010}.emit(out.data());
    EXPECT_TRUE(std::equal(out.begin(), out.end(), kTaggedOctets.begin()));
    TaggedHeader{false, 0x42, 0xffffffff, 0xffffffffffffffff}.emit(out.data());
    EXPECT_EQ(to_hex(out), "8142ffffffffffffffffffffffff");
}

TEST(Tagged, Truncated) {
    for (std::size_t length = 0; length < kTaggedHeaderLen; ++length)
        EXPECT_FALSE(SegmentView::check(std::span(kTaggedOctets).first(length))) << length;
    const auto bare = SegmentView::check(std::span(kTaggedOctets).first(kTaggedHeaderLen));
    ASSERT_TRUE(bare);
    EXPECT_TRUE(bare->payload().empty());
}

TEST(Untagged, Deconstruct) {
    const auto view = SegmentView::check(kUntaggedOctets);
    ASSERT_TRUE(view);
    EXPECT_FALSE(view->tagged());
    EXPECT_FALSE(view->last());
    EXPECT_EQ(view->header_len(), 18u);
    EXPECT_EQ(to_hex(view->payload()), "61");
    EXPECT_EQ(view->untagged_header(), (UntaggedHeader{false, 0x46, 0xabcdef, 1, 0xfffffffe, 0x5ca}));
}

TEST(Untagged, Construct) {
    Bytes out(kUntaggedHeaderLen, std::byte(0xee));
    UntaggedHeader{false, 0x46, 0xabcdef, 1, 0xfffffffe, 0x5ca}.emit(out.data());
    EXPECT_TRUE(std::equal(out.begin(), out.end(), kUntaggedOctets.begin()));
    UntaggedHeader{true, 0x43, 0, kSendQueue, kFirstMsn, 0}.emit(out.data());
    EXPECT_EQ(to_hex(out), "414300000000000000000000000100000000");
}

TEST(Untagged, Truncated) {
    for (std::size_t length = 0; length < kUntaggedHeaderLen; ++length)
        EXPECT_FALSE(SegmentView::check(std::span(kUntaggedOctets).first(length))) << length;
    EXPECT_TRUE(SegmentView::check(std::span(kUntaggedOctets).first(kUntaggedHeaderLen)));
}

// The T bit sets the length that is demanded: 14 octets are a tagged segment, never an untagged one.
TEST(Segment, ImpossibleLength) {
    Bytes octets(kTaggedHeaderLen);
    octets[0] = std::byte(0x81);
    EXPECT_TRUE(SegmentView::check(octets));
    octets[0] = std::byte(0x01);
    EXPECT_FALSE(SegmentView::check(octets));
}

TEST(Segment, VersionAndReservedBitsAreLeftToTheCaller) {
    Bytes octets = kTaggedOctets;
    octets[0] = std::byte(0xfe);  // reserved bits set, DV 2
    const auto view = SegmentView::check(octets);
    ASSERT_TRUE(view);
    EXPECT_EQ(view->version(), 2);
    EXPECT_EQ(view->tagged_header(), (TaggedHeader{true, 0x40, 0x12300, 0x10010}));
}

// Every well-formed segment of the vectors: the decoded fields, and the same octets again from the values.
class DecodedSegment : public testing::TestWithParam<Vector> {};

std::uint64_t number(const nlohmann::json& value) {
    return value.is_string() ? std::stoull(value.get<std::string>(), nullptr, 0) : value.get<std::uint64_t>();
}

TEST_P(DecodedSegment, FieldsAndRoundTrip) {
    const Bytes& octets = GetParam().bytes;
    const auto view = SegmentView::check(octets);
    ASSERT_TRUE(view);
    const auto& decode = GetParam().expect.at("decode");
    EXPECT_EQ(view->tagged(), number(decode.at("tagged")) == 1);
    EXPECT_EQ(view->last(), number(decode.at("last")) == 1);
    EXPECT_EQ(view->version(), number(decode.at("dv")));
    EXPECT_EQ(view->rdmap_control() >> 6, number(decode.at("rv")));
    EXPECT_EQ(view->rdmap_control() & kOpcodeMask, number(decode.at("opcode")));
    EXPECT_EQ(view->payload().size(), number(decode.at("payload_length")));

    Bytes header(view->header_len());
    if (view->tagged()) {
        EXPECT_EQ(view->tagged_header().stag, number(decode.at("stag")));
        EXPECT_EQ(view->tagged_header().to, number(decode.at("to")));
        view->tagged_header().emit(header.data());
    } else {
        EXPECT_EQ(view->untagged_header().qn, number(decode.at("qn")));
        EXPECT_EQ(view->untagged_header().msn, number(decode.at("msn")));
        EXPECT_EQ(view->untagged_header().mo, number(decode.at("mo")));
        EXPECT_EQ(view->untagged_header().invalidate_stag, number(decode.at("rsvdulp")));
        view->untagged_header().emit(header.data());
    }
    if (decode.contains("read")) {
        const auto& read = decode.at("read");
        ASSERT_EQ(view->payload().size(), kReadRequestLen);
        const ReadRequest request = ReadRequest::parse(view->payload().data());
        EXPECT_EQ(request.sink_stag, number(read.at("sink_stag")));
        EXPECT_EQ(request.sink_to, number(read.at("sink_to")));
        EXPECT_EQ(request.size, number(read.at("size")));
        EXPECT_EQ(request.source_stag, number(read.at("src_stag")));
        EXPECT_EQ(request.source_to, number(read.at("src_to")));
    }
    Bytes expected(view->header().begin(), view->header().end());
    expected[0] &= ~std::byte(kDdpReservedMask);  // emitted as 0
    EXPECT_EQ(to_hex(header), to_hex(expected));
}

std::vector<Vector> decoded_segments() {
    std::vector<Vector> found;
    for (auto& vector : golden::vectors("ddp_segment"))
        if (vector.expect.contains("decode")) found.push_back(vector);
    return found;
}

INSTANTIATE_TEST_SUITE_P(Golden, DecodedSegment, testing::ValuesIn(decoded_segments()), golden::VectorName{});

}  // namespace
}  // namespace swrnic::wire
