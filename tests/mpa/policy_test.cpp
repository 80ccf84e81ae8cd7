// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// What both shims decide (swrnic_policy.h).
#include <gtest/gtest.h>

#include <cerrno>
#include <utility>

#include "swrnic_policy.h"

namespace {

swrnic_create_qp_req wish_of(swrnic_crc_mode crc, swrnic_fpdu_mode fpdu, std::uint8_t rev = 2) {
    swrnic_create_qp_req wish{};
    wish.crc_mode = static_cast<std::uint8_t>(crc);
    wish.fpdu_mode = static_cast<std::uint8_t>(fpdu);
    wish.mpa_rev = rev;
    return wish;
}

TEST(Policy, CrcIsAskedForUnlessTheStreamNeverLeavesTheHost) {
    for (const int same_host : {0, 1}) {
        const auto asks = [&](swrnic_crc_mode mode) {
            const swrnic_create_qp_req wish = wish_of(mode, SWRNIC_FPDU_AUTO);
            return swrnic_terms(&wish, 1, 1, same_host).crc_wanted != 0;
        };
        EXPECT_EQ(asks(SWRNIC_CRC_AUTO), same_host == 0);
        EXPECT_TRUE(asks(SWRNIC_CRC_ON));
        EXPECT_FALSE(asks(SWRNIC_CRC_OFF));
    }
}

TEST(Policy, LargeFpdusAreOfferedWithinOneHost) {
    for (const int same_host : {0, 1}) {
        const auto large = [&](swrnic_fpdu_mode mode) {
            const swrnic_create_qp_req wish = wish_of(SWRNIC_CRC_AUTO, mode);
            return swrnic_terms(&wish, 1, 1, same_host).large_fpdu;
        };
        EXPECT_EQ(large(SWRNIC_FPDU_AUTO), same_host != 0 ? SWRNIC_MPA_LARGE_OFFER : SWRNIC_MPA_LARGE_ACCEPT);
        EXPECT_EQ(large(SWRNIC_FPDU_64K), SWRNIC_MPA_LARGE_OFFER);
        EXPECT_EQ(large(SWRNIC_FPDU_EMSS), SWRNIC_MPA_LARGE_NEVER);
    }
}

TEST(Policy, DepthsAreThoseOfTheProgramUpToTheDevices) {
    const swrnic_create_qp_req wish = wish_of(SWRNIC_CRC_AUTO, SWRNIC_FPDU_AUTO);
    const swrnic_mpa_params few = swrnic_terms(&wish, 0, 7, 0);
    EXPECT_EQ(few.ird, 0);
    EXPECT_EQ(few.ord, 7);
    const swrnic_mpa_params many = swrnic_terms(&wish, ~0U, 1000, 0);
    EXPECT_EQ(many.ird, SWR_MAX_READS);
    EXPECT_EQ(many.ord, SWR_MAX_READS);
    EXPECT_EQ(many.max_ird, SWR_MAX_READS);
    EXPECT_EQ(swrnic_shown_depth(3), 3);
    EXPECT_EQ(swrnic_shown_depth(0x3fff), SWR_MAX_READS);
}

TEST(Policy, Rfc7306IsOfferedIfTheProviderTakesIt) {
    swrnic_create_qp_req wish = wish_of(SWRNIC_CRC_AUTO, SWRNIC_FPDU_AUTO);
    EXPECT_EQ(swrnic_terms(&wish, 1, 1, 0).rfc7306, 0);
    wish.rfc7306 = 1;
    EXPECT_EQ(swrnic_terms(&wish, 1, 1, 0).rfc7306, 1);
}

TEST(Policy, PeerToPeerIsOfRevisionTwo) {
    for (const std::uint8_t rev : {1, 2}) {
        const swrnic_create_qp_req wish = wish_of(SWRNIC_CRC_AUTO, SWRNIC_FPDU_AUTO, rev);
        const swrnic_mpa_params terms = swrnic_terms(&wish, 1, 1, 0);
        EXPECT_EQ(terms.rev, rev);
        EXPECT_EQ(terms.p2p, rev == 2 ? 1 : 0);
    }
}

TEST(Policy, ATimeoutHasADefaultAndAnEnd) {
    swrnic_create_qp_req wish{};
    EXPECT_EQ(swrnic_startup_ms(&wish), std::uint32_t{SWR_STARTUP_TIMEOUT_MS});
    wish.timeout_ms = 1;
    EXPECT_EQ(swrnic_startup_ms(&wish), 1u);
    wish.timeout_ms = ~0U;
    EXPECT_EQ(swrnic_startup_ms(&wish), std::uint32_t{SWR_MAX_TIMEOUT_MS});
}

TEST(Policy, OrderOfAStreamsLife) {
    const auto takes = [](swrnic_stream stream) {
        return std::pair(swrnic_stream_takes(stream, SWRNIC_UP_QP_READY) != 0,
                         swrnic_stream_takes(stream, SWRNIC_UP_QP_CLOSED) != 0);
    };
    EXPECT_EQ(takes(SWRNIC_STREAM_NONE), std::pair(false, false));
    EXPECT_EQ(takes(SWRNIC_STREAM_QUEUED), std::pair(false, false)) << "nobody has the socket yet";
    EXPECT_EQ(takes(SWRNIC_STREAM_TAKEN), std::pair(true, true));
    EXPECT_EQ(takes(SWRNIC_STREAM_READY), std::pair(false, true)) << "it was ready before";
    EXPECT_FALSE(swrnic_stream_takes(SWRNIC_STREAM_READY, SWRNIC_UP_COMP_POSTED));
}

TEST(AbiVersions, NoneIsSpokenThatIsOlderOrNewer) {
    EXPECT_FALSE(swrnic_abi_speaks(0)) << "what an answer says that says nothing";
    EXPECT_FALSE(swrnic_abi_speaks(SWRNIC_ABI_OLDEST - 1));
    EXPECT_TRUE(swrnic_abi_speaks(SWRNIC_ABI_OLDEST));
    EXPECT_TRUE(swrnic_abi_speaks(SWRNIC_ABI_NEWEST));
    EXPECT_FALSE(swrnic_abi_speaks(SWRNIC_ABI_NEWEST + 1));
    EXPECT_EQ(swrnic_abi_common(SWRNIC_ABI_OLDEST - 1), 0u);
    EXPECT_EQ(swrnic_abi_common(SWRNIC_ABI_NEWEST + 1), std::uint32_t{SWRNIC_ABI_NEWEST});
}

TEST(Policy, WhatRdmaCmIsToldOfAFailure) {
    EXPECT_EQ(swrnic_failure_errno(SWRNIC_MPA_CLASS_RESET), -ECONNRESET);
    EXPECT_EQ(swrnic_failure_errno(SWRNIC_MPA_CLASS_TIMEOUT), -ETIMEDOUT);
    EXPECT_EQ(swrnic_failure_errno(SWRNIC_MPA_CLASS_LOCAL), -ECONNABORTED);
    EXPECT_EQ(swrnic_failure_errno(SWRNIC_MPA_CLASS_PROTOCOL), -EPROTO);
}

}  // namespace
