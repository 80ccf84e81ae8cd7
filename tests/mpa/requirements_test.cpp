// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Requirements of docs/PROTOCOL.md that no vector speaks of.
#include <gtest/gtest.h>

#include "machine.h"

namespace swrnic::mpatest {
namespace {

// MPA-34: a Request without the block is answered without one, in revision 2 as in revision 1, and leaves the depths
// to the ULP.
TEST(MpaRequirements, APlainRequestGetsAPlainReply) {
    for (const char* rev : {"01", "02"}) {
        for (const bool accept : {true, false}) {
            End end = End::responder();
            end.feed(golden::from_hex("4d504120494420526571204672616d65 40" + std::string(rev) + "0002 abcd"));
            ASSERT_EQ(end.event(), SWRNIC_MPA_EV_REQUEST);
            EXPECT_EQ(end.peer().private_len, 2);
            const swrnic_mpa_params p = default_params();
            ASSERT_EQ(accept ? swrnic_mpa_accept(end.raw(), &p, "\x12", 1) : swrnic_mpa_reject(end.raw(), "\x12", 1),
                      0);
            EXPECT_EQ(golden::to_hex(end.send()),
                      "4d504120494420526570204672616d65" + std::string(accept ? "40" : "20") + rev + "000112");
            if (!accept) continue;
            EXPECT_EQ(end.connected().ird, p.ird);
            EXPECT_EQ(end.connected().ord, p.ord);
            EXPECT_EQ(end.connected().rtr, 0);
        }
    }
}

// MPA-44: what the peer said of its depths is there for the ULP, before it decides and after.
TEST(MpaRequirements, BothUlpsSeeThePeersDepths) {
    swrnic_mpa_params p = default_params();
    p.ird = 3;
    p.ord = 7;
    End initiator = End::initiator(p), responder = End::responder();
    responder.feed(initiator.send());
    ASSERT_EQ(responder.event(), SWRNIC_MPA_EV_REQUEST);
    EXPECT_EQ(responder.peer().ird, 3);
    EXPECT_EQ(responder.peer().ord, 7);
    swrnic_mpa_params answer = default_params();
    answer.ird = 5;
    answer.ord = 2;
    ASSERT_EQ(swrnic_mpa_accept(responder.raw(), &answer, nullptr, 0), 0);
    initiator.feed(responder.send());
    ASSERT_EQ(initiator.event(), SWRNIC_MPA_EV_ESTABLISHED);
    EXPECT_EQ(initiator.peer().ird, 5);
    EXPECT_EQ(initiator.peer().ord, 2);
}

}  // namespace
}  // namespace swrnic::mpatest
