// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// How wired QPs find each other (swrnic_wiring.h).
#include <gtest/gtest.h>

#include <array>
#include <cstring>

#include "swrnic_wiring.h"

namespace {

using Frame = std::array<std::uint8_t, SWR_WIRED_LEN>;

swrnic_wired_end end_of(std::uint8_t last_octet, std::uint32_t qpn) {
    swrnic_wired_end end{};
    end.gid[0] = 0xfd;
    end.gid[15] = last_octet;
    end.qpn = qpn;
    return end;
}

TEST(Wiring, ANumberIsAPortAndASlot) {
    EXPECT_EQ(swrnic_qpn_of(0xffff, 255), 0xffffffU);
    EXPECT_EQ(swrnic_qpn_of(1024, 7), 1024U << 8 | 7);
    EXPECT_EQ(swrnic_qpn_port(0xffffff), 0xffff);
    EXPECT_EQ(swrnic_qpn_port(1024U << 8 | 7), 1024);
}

TEST(Wiring, TheSmallerNumberCallsAndTheGidDecidesBetweenEqualOnes) {
    const auto order = [](const swrnic_wired_end& a, const swrnic_wired_end& b) { return swrnic_wired_order(&a, &b); };
    EXPECT_LT(order(end_of(9, 5), end_of(1, 6)), 0);
    EXPECT_GT(order(end_of(1, 6), end_of(9, 5)), 0);
    EXPECT_LT(order(end_of(1, 5), end_of(2, 5)), 0);
    EXPECT_GT(order(end_of(0xff, 5), end_of(2, 5)), 0);
    EXPECT_EQ(order(end_of(1, 5), end_of(1, 5)), 0);
}

TEST(Wiring, ACallerComesAgainSoonAndThenEverSlower) {
    std::uint32_t pause = 0, waited = 0;
    for (const std::uint32_t expected : {1u, 2u, 4u, 8u, 16u, 32u, 50u, 56u, 63u})
        EXPECT_EQ(pause = swrnic_wired_pause_ms(pause), expected);
    while (pause < 1000 && waited < 60000)
        waited += pause = swrnic_wired_pause_ms(pause);
    EXPECT_LT(waited, 20000U);
    EXPECT_EQ(swrnic_wired_pause_ms(pause), 1000U);
}

TEST(Wiring, TheRequestSaysWhoCallsWhom) {
    const swrnic_wired_end caller = end_of(1, 0x123456), called = end_of(2, 0xfedcba);
    Frame frame;
    frame.fill(0xa5);
    swrnic_wired_write(frame.data(), &caller, &called);
    Frame expected{'S', 'W', 'Q', 'P', 1};
    expected[8] = expected[28] = 0xfd;
    expected[23] = 1;
    expected[43] = 2;
    std::memcpy(&expected[24], "\x00\x12\x34\x56", 4);
    std::memcpy(&expected[44], "\x00\xfe\xdc\xba", 4);
    EXPECT_EQ(frame, expected);
    swrnic_wired_end from{}, to{};
    ASSERT_EQ(swrnic_wired_read(frame.data(), frame.size(), &from, &to), 1);
    EXPECT_EQ(swrnic_wired_order(&from, &caller), 0);
    EXPECT_EQ(swrnic_wired_order(&to, &called), 0);
}

TEST(Wiring, WhatIsNoRequestOfAWiredQpIsNotTakenForOne) {
    const swrnic_wired_end end = end_of(1, 2);
    swrnic_wired_end from{}, to{};
    Frame frame;
    swrnic_wired_write(frame.data(), &end, &end);
    for (std::uint32_t length = 0; length < SWR_WIRED_LEN; ++length)
        EXPECT_EQ(swrnic_wired_read(frame.data(), length, &from, &to), 0) << length;
    for (std::size_t octet = 0; octet < 4; ++octet) {
        Frame other = frame;
        other[octet] ^= 1;
        EXPECT_EQ(swrnic_wired_read(other.data(), other.size(), &from, &to), 0) << octet;
    }
    frame[4] = 0;
    EXPECT_EQ(swrnic_wired_read(frame.data(), frame.size(), &from, &to), 0);
    frame[4] = 2;  // a later version says the same in front
    EXPECT_EQ(swrnic_wired_read(frame.data(), frame.size(), &from, &to), 1);
}

}  // namespace
