// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Initiator and Responder joined in memory, over the cross product of their parameters: what both must agree on.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "machine.h"

namespace swrnic::mpatest {
namespace {

constexpr std::uint16_t kNone = SWRNIC_MPA_NO_DEPTH;

Bytes octets(const std::string& text) {
    Bytes b;
    for (const char c : text)
        b.push_back(static_cast<std::byte>(c));
    return b;
}

struct Pair {
    swrnic_mpa_params pi, pr;
    End initiator, responder;

    Pair(const swrnic_mpa_params& i, const swrnic_mpa_params& r)
        : pi(i), pr(r), initiator(End::initiator(i, octets("from the initiator"))), responder(End::responder()) {
        responder.feed(initiator.send(5), 11);
        if (responder.event() != SWRNIC_MPA_EV_REQUEST) return;
        const Bytes pd = octets("from the responder");
        if (swrnic_mpa_accept(responder.raw(), &pr, pd.data(), static_cast<__u32>(pd.size())) != 0) return;
        initiator.feed(responder.send(7), 9);
    }
};

std::uint8_t all_if_0(std::uint8_t kinds) {
    return kinds ? kinds : std::uint8_t{SWRNIC_MPA_RTR_ALL};
}

void expect_depths_agree(const Pair& p, const swrnic_connected& i, const swrnic_connected& r) {
    if (p.pi.rev == 1) {  // nothing is known of the other end
        EXPECT_EQ(i.ird, p.pi.ird);
        EXPECT_EQ(i.ord, p.pi.ord);
        EXPECT_EQ(r.ird, p.pr.ird);
        EXPECT_EQ(r.ord, p.pr.ord);
        return;
    }
    // RFC 6581 9.1: neither ORD exceeds the other's IRD, and neither is smaller than it must be.
    if (p.pi.ird == kNone) {
        EXPECT_EQ(r.ord, p.pr.ord);
    } else {
        EXPECT_EQ(r.ord, std::min(p.pr.ord, p.pi.ird));
        EXPECT_LE(r.ord, i.ird);
    }
    if (p.pi.ord == kNone) {
        EXPECT_EQ(i.ord, kNone);
    } else {
        // RFC 6581 9.2: an RTR by Read needs one, whatever the ULP said
        const std::uint16_t floor = r.rtr & SWRNIC_RTR_READ ? 1 : 0;
        EXPECT_EQ(i.ord, std::min(p.pi.ord, std::max(p.pr.ird, floor)));
        EXPECT_LE(i.ord, r.ird);
    }
    EXPECT_EQ(i.ird, p.pi.ird);  // a Responder of ours never asks for more
    if (r.rtr & SWRNIC_RTR_READ) {
        EXPECT_GE(r.ird, 1);
    }
}

void expect_flags_agree(const Pair& p, const swrnic_connected& i, const swrnic_connected& r) {
    const auto both = [&](unsigned bit) { return (i.flags & bit) == (r.flags & bit); };
    EXPECT_TRUE(both(SWRNIC_CONN_CRC));
    EXPECT_TRUE(both(SWRNIC_CONN_LARGE_FPDU));
    EXPECT_TRUE(both(SWRNIC_CONN_SHORT_FIRST));
    EXPECT_EQ((i.flags & SWRNIC_CONN_SHORT_FIRST) != 0,
              (i.flags & SWRNIC_CONN_LARGE_FPDU) && p.pi.short_first && p.pr.short_first);
    EXPECT_TRUE(both(SWRNIC_CONN_RFC7306));
    EXPECT_EQ((i.flags & SWRNIC_CONN_RFC7306) != 0, p.pi.rfc7306 && p.pr.rfc7306);
    EXPECT_EQ((i.flags & SWRNIC_CONN_CRC) != 0, p.pi.crc_wanted || p.pr.crc_wanted);
    EXPECT_EQ((i.flags & SWRNIC_CONN_LARGE_FPDU) != 0,
              p.pi.large_fpdu == SWRNIC_MPA_LARGE_OFFER && p.pr.large_fpdu != SWRNIC_MPA_LARGE_NEVER);
    EXPECT_EQ((i.flags & SWRNIC_CONN_MARKERS_TX) != 0, (r.flags & SWRNIC_CONN_MARKERS_RX) != 0);
    EXPECT_EQ((i.flags & SWRNIC_CONN_MARKERS_RX) != 0, (r.flags & SWRNIC_CONN_MARKERS_TX) != 0);
    EXPECT_EQ((i.flags & SWRNIC_CONN_MARKERS_RX) != 0, p.pi.markers_wanted != 0);
    EXPECT_EQ((i.flags & SWRNIC_CONN_SAME_HOST), 0);
    EXPECT_EQ(i.mpa_rev, p.pi.rev);
    EXPECT_EQ(r.mpa_rev, p.pi.rev);
}

void expect_agreement(const swrnic_mpa_params& pi, const swrnic_mpa_params& pr) {
    const Pair p(pi, pr);
    ASSERT_EQ(p.responder.event(), SWRNIC_MPA_EV_ESTABLISHED);
    const swrnic_connected i = p.initiator.connected(), r = p.responder.connected();
    EXPECT_EQ(i.role, SWRNIC_ROLE_INITIATOR);
    EXPECT_EQ(r.role, SWRNIC_ROLE_RESPONDER);
    EXPECT_EQ(p.responder.peer_private(), octets("from the initiator"));
    EXPECT_EQ(p.initiator.peer_private(), octets("from the responder"));
    expect_flags_agree(p, i, r);
    expect_depths_agree(p, i, r);

    const bool p2p = pi.rev == 2 && pi.p2p;
    const std::uint8_t common = all_if_0(pi.rtr_kinds) & all_if_0(pr.rtr_kinds);
    EXPECT_EQ((r.flags & SWRNIC_CONN_P2P) != 0, p2p);
    if (p2p && !common) {  // RFC 6581 9.2
        EXPECT_EQ(p.initiator.event(), SWRNIC_MPA_EV_TERMINATE);
        EXPECT_EQ(i.terminate, 7);
        EXPECT_EQ(r.rtr, all_if_0(pr.rtr_kinds));
        return;
    }
    EXPECT_EQ(p.initiator.event(), SWRNIC_MPA_EV_ESTABLISHED);
    EXPECT_EQ((i.flags & SWRNIC_CONN_P2P) != 0, p2p);
    EXPECT_EQ(i.terminate, 0);
    EXPECT_EQ(r.terminate, 0);
    EXPECT_EQ(r.rtr, p2p ? common : 0);
    EXPECT_EQ((i.rtr & r.rtr) != 0, p2p);
    if (!p2p) {
        EXPECT_EQ(i.rtr, 0);
    }
    if (common & SWRNIC_RTR_WRITE && p2p) {
        EXPECT_EQ(i.rtr, SWRNIC_RTR_WRITE);
    }
    if (common == (SWRNIC_RTR_SEND | SWRNIC_RTR_READ) && p2p) {
        EXPECT_EQ(i.rtr, SWRNIC_RTR_READ);
    }
}

TEST(MpaPair, AgreesOnEveryFlag) {
    for (unsigned bits = 0; bits < 1024; ++bits) {
        for (std::uint8_t li = 0; li <= SWRNIC_MPA_LARGE_OFFER; ++li) {
            for (std::uint8_t lr = 0; lr <= SWRNIC_MPA_LARGE_OFFER; ++lr) {
                swrnic_mpa_params i = default_params(), r = default_params();
                i.rev = bits & 1 ? 2 : 1;
                i.p2p = bits & 2 ? 1 : 0;
                i.crc_wanted = bits & 4 ? 1 : 0;
                r.crc_wanted = bits & 8 ? 1 : 0;
                i.markers_wanted = bits & 16 ? 1 : 0;
                r.markers_wanted = bits & 32 ? 1 : 0;
                i.short_first = bits & 64 ? 1 : 0;
                r.short_first = bits & 128 ? 1 : 0;
                i.rfc7306 = bits & 256 ? 1 : 0;
                r.rfc7306 = bits & 512 ? 1 : 0;
                i.large_fpdu = li;
                r.large_fpdu = lr;
                SCOPED_TRACE("bits " + std::to_string(bits) + " large " + std::to_string(li) + std::to_string(lr));
                expect_agreement(i, r);
                if (HasFailure()) return;
            }
        }
    }
}

// siw answers with the flags of the Request: LARGE_FPDU, which it may mean, but not what it cannot know of.
TEST(MpaPair, AnEchoOfTheRequestAgreesOnNothingNew) {
    swrnic_mpa_params params = default_params();
    params.large_fpdu = SWRNIC_MPA_LARGE_OFFER;
    params.short_first = params.rfc7306 = 1;
    End initiator = End::initiator(params);
    Bytes reply = initiator.send();
    const Bytes key = octets("MPA ID Rep Frame");
    std::copy(key.begin(), key.end(), reply.begin());
    initiator.feed(reply);
    ASSERT_EQ(initiator.event(), SWRNIC_MPA_EV_ESTABLISHED);
    EXPECT_EQ(initiator.connected().flags & (SWRNIC_CONN_LARGE_FPDU | SWRNIC_CONN_SHORT_FIRST | SWRNIC_CONN_RFC7306),
              SWRNIC_CONN_LARGE_FPDU);
}

TEST(MpaPair, AgreesOnEveryPairOfRtrKinds) {
    for (std::uint8_t rev = 1; rev <= 2; ++rev) {
        for (std::uint8_t ki = 0; ki <= SWRNIC_MPA_RTR_ALL; ++ki) {
            for (std::uint8_t kr = 0; kr <= SWRNIC_MPA_RTR_ALL; ++kr) {
                swrnic_mpa_params i = default_params(), r = default_params();
                i.rev = rev;
                i.rtr_kinds = ki;
                r.rtr_kinds = kr;
                SCOPED_TRACE("kinds " + std::to_string(ki) + " and " + std::to_string(kr));
                expect_agreement(i, r);
                if (HasFailure()) return;
            }
        }
    }
}

TEST(MpaPair, AgreesOnEveryCombinationOfDepths) {
    const std::uint16_t depths[] = {0, 1, 2, 16, 128, SWRNIC_MPA_MAX_DEPTH, kNone};
    for (const auto i_ird : depths) {
        for (const auto i_ord : depths) {
            for (const auto r_ird : depths) {
                for (const auto r_ord : depths) {
                    for (unsigned bits = 0; bits < 8; ++bits) {
                        swrnic_mpa_params i = default_params(), r = default_params();
                        i.ird = i_ird;
                        i.ord = i_ord;
                        r.ird = r_ird;
                        r.ord = r_ord;
                        i.rev = bits & 1 ? 2 : 1;
                        i.p2p = bits & 2 ? 1 : 0;
                        r.rtr_kinds = bits & 4 ? SWRNIC_RTR_READ : SWRNIC_RTR_WRITE;
                        expect_agreement(i, r);
                        ASSERT_FALSE(HasFailure())
                            << i_ird << "/" << i_ord << " with " << r_ird << "/" << r_ord << " bits " << bits;
                    }
                }
            }
        }
    }
}

TEST(MpaPair, RejectionTellsTheOrdThatWasNeeded) {
    swrnic_mpa_params i = default_params(), r = default_params();
    i.ird = 2;
    r.need_ord = 8;
    for (std::uint8_t p2p = 0; p2p < 2; ++p2p) {
        i.p2p = p2p;
        const Pair p(i, r);
        EXPECT_EQ(p.responder.event(), SWRNIC_MPA_EV_REJECT_SENT);
        EXPECT_EQ(p.initiator.event(), SWRNIC_MPA_EV_REJECTED);
        EXPECT_EQ(p.initiator.peer().ord, 8);
        EXPECT_EQ(p.initiator.peer().p2p, p2p);
        EXPECT_EQ(p.initiator.peer_private(), octets("from the responder"));
    }
    i.ird = 8;
    EXPECT_EQ(Pair(i, r).initiator.event(), SWRNIC_MPA_EV_ESTABLISHED);
    i.ird = kNone;  // no negotiation: nothing to miss
    EXPECT_EQ(Pair(i, r).initiator.event(), SWRNIC_MPA_EV_ESTABLISHED);
    i.rev = 1;
    i.ird = 0;
    EXPECT_EQ(Pair(i, r).initiator.event(), SWRNIC_MPA_EV_ESTABLISHED);
}

TEST(MpaPair, TwoInitiatorsNoticeEachOther) {  // MPA-26
    End a = End::initiator(default_params()), b = End::initiator(default_params());
    const Bytes to_b = a.send(), to_a = b.send();
    a.feed(to_a);
    b.feed(to_b);
    EXPECT_EQ(a.outcome().reason, SWRNIC_MPA_BAD_KEY);
    EXPECT_EQ(b.outcome().reason, SWRNIC_MPA_BAD_KEY);
}

}  // namespace
}  // namespace swrnic::mpatest
