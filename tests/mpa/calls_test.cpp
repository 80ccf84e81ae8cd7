// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// The calls one by one: limits, wrong states, ends of the stream, deadlines, the retry hint.
#include <gtest/gtest.h>

#include "machine.h"

namespace swrnic::mpatest {
namespace {

const Bytes kRequest1 = golden::from_hex("4d504120494420526571204672616d65 40010000");
const Bytes kReply1 = golden::from_hex("4d504120494420526570204672616d65 40010000");
const Bytes kRequest2 = golden::from_hex("4d504120494420526571204672616d65 50020004 8010c010");
const Bytes kReply2 = golden::from_hex("4d504120494420526570204672616d65 50020004 80108010");
// A peer without peer-to-peer, as siw by default.
const Bytes kSiwRequest = golden::from_hex("4d504120494420526571204672616d65 10020004 00010001");

End waiting_initiator(std::uint8_t rev = 2) {
    swrnic_mpa_params p = default_params();
    p.rev = rev;
    End end = End::initiator(p);
    end.send();
    return end;
}

End asked_responder(const Bytes& request = kRequest2) {
    End end = End::responder();
    end.feed(request);
    return end;
}

TEST(MpaCalls, ComposeTheDefaultRequest) {
    End end = End::initiator(default_params());
    EXPECT_EQ(swrnic_mpa_want(end.raw()), 0u) << "no Reply before the whole Request is out";
    // A=1 and all three kinds: e010 = A B IRD 16, c010 = C D ORD 16
    EXPECT_EQ(golden::to_hex(end.send(1)), "4d504120494420526571204672616d6550020004c010c010");
    EXPECT_EQ(swrnic_mpa_want(end.raw()), 20u);
}

TEST(MpaCalls, PrivateDataHasItsLimits) {
    const Bytes big(513, std::byte{7});
    const auto initiate = [&](std::uint8_t rev, __u32 len) {
        swrnic_mpa m;
        swrnic_mpa_params p = default_params();
        p.rev = rev;
        const int rc = swrnic_mpa_initiate(&m, &p, big.data(), len);
        EXPECT_EQ(swrnic_mpa_active(&m), rc == 0);
        return rc;
    };
    EXPECT_EQ(initiate(1, 512), 0);
    EXPECT_EQ(initiate(1, 513), SWRNIC_MPA_E_PD_LEN);
    EXPECT_EQ(initiate(2, 508), 0);
    EXPECT_EQ(initiate(2, 509), SWRNIC_MPA_E_PD_LEN);
    EXPECT_EQ(initiate(2, UINT32_MAX), SWRNIC_MPA_E_PD_LEN);

    const auto answer = [&](const Bytes& request, __u32 len, bool accept) {
        End end = asked_responder(request);
        const swrnic_mpa_params p = default_params();
        const int rc =
            accept ? swrnic_mpa_accept(end.raw(), &p, big.data(), len) : swrnic_mpa_reject(end.raw(), big.data(), len);
        if (rc == 0) {
            EXPECT_EQ(end.send().size(), 20 + len + (request == kRequest2 ? 4 : 0));
        }
        return rc;
    };
    for (const bool accept : {true, false}) {
        EXPECT_EQ(answer(kRequest1, 512, accept), 0);
        EXPECT_EQ(answer(kRequest1, 513, accept), SWRNIC_MPA_E_PD_LEN);
        EXPECT_EQ(answer(kRequest2, 508, accept), 0);
        EXPECT_EQ(answer(kRequest2, 509, accept), SWRNIC_MPA_E_PD_LEN);
    }
    End end = asked_responder();
    EXPECT_EQ(swrnic_mpa_reject(end.raw(), nullptr, 1), SWRNIC_MPA_E_PD_LEN);
    EXPECT_EQ(swrnic_mpa_reject(end.raw(), nullptr, 0), 0);
}

TEST(MpaCalls, ParametersOutOfRangeAreRefused) {
    swrnic_mpa m;
    const auto refused = [&](auto change) {
        swrnic_mpa_params p = default_params();
        change(p);
        return swrnic_mpa_initiate(&m, &p, nullptr, 0) == SWRNIC_MPA_E_PARAMS && !swrnic_mpa_active(&m);
    };
    EXPECT_FALSE(refused([](auto&) {}));
    EXPECT_TRUE(refused([](auto& p) { p.rev = 0; }));
    EXPECT_TRUE(refused([](auto& p) { p.rev = 3; }));
    EXPECT_TRUE(refused([](auto& p) { p.rtr_kinds = 8; }));
    EXPECT_TRUE(refused([](auto& p) { p.large_fpdu = 3; }));
    EXPECT_TRUE(refused([](auto& p) { p.ird = 0x4000; }));
    EXPECT_TRUE(refused([](auto& p) { p.ord = 0x4000; }));
    EXPECT_TRUE(refused([](auto& p) { p.need_ord = 0x3fff; }));
    swrnic_mpa_params p = default_params();
    p.ord = 0xffff;
    End end = asked_responder();
    EXPECT_EQ(swrnic_mpa_accept(end.raw(), &p, nullptr, 0), SWRNIC_MPA_E_PARAMS);
    p.ord = 1;
    EXPECT_EQ(swrnic_mpa_accept(end.raw(), &p, nullptr, 0), 0) << "the refused call changed nothing";
}

TEST(MpaCalls, TheUlpDecidesOnceAndOnlyAfterTheRequest) {
    const swrnic_mpa_params p = default_params();
    End early = End::responder();
    EXPECT_EQ(swrnic_mpa_accept(early.raw(), &p, nullptr, 0), SWRNIC_MPA_E_STATE);
    EXPECT_EQ(swrnic_mpa_reject(early.raw(), nullptr, 0), SWRNIC_MPA_E_STATE);
    End end = asked_responder();
    EXPECT_EQ(swrnic_mpa_want(end.raw()), 0u);
    EXPECT_EQ(swrnic_mpa_accept(end.raw(), &p, nullptr, 0), 0);
    EXPECT_EQ(swrnic_mpa_accept(end.raw(), &p, nullptr, 0), SWRNIC_MPA_E_STATE);
    EXPECT_EQ(swrnic_mpa_reject(end.raw(), nullptr, 0), SWRNIC_MPA_E_STATE);
    End initiator = waiting_initiator();
    EXPECT_EQ(swrnic_mpa_accept(initiator.raw(), &p, nullptr, 0), SWRNIC_MPA_E_STATE);
    swrnic_connected c{};
    EXPECT_EQ(swrnic_mpa_connected(initiator.raw(), &c), SWRNIC_MPA_E_STATE);
}

TEST(MpaCalls, EstablishedOnlyWhenTheLastOctetOfTheReplyIsOut) {
    End end = asked_responder();
    const swrnic_mpa_params p = default_params();
    ASSERT_EQ(swrnic_mpa_accept(end.raw(), &p, nullptr, 0), 0);
    __u32 len = 0;
    swrnic_mpa_out(end.raw(), &len);
    EXPECT_EQ(len, 24u);
    EXPECT_EQ(swrnic_mpa_sent(end.raw(), 0), SWRNIC_MPA_EV_NONE);
    EXPECT_EQ(swrnic_mpa_sent(end.raw(), 23), SWRNIC_MPA_EV_NONE);
    EXPECT_TRUE(swrnic_mpa_active(end.raw()));
    EXPECT_EQ(swrnic_mpa_sent(end.raw(), 1), SWRNIC_MPA_EV_ESTABLISHED);
    EXPECT_FALSE(swrnic_mpa_active(end.raw()));
    swrnic_mpa_out(end.raw(), &len);
    EXPECT_EQ(len, 0u);
    EXPECT_EQ(swrnic_mpa_sent(end.raw(), 1), SWRNIC_MPA_EV_NONE);
    EXPECT_EQ(end.connected().rtr, SWRNIC_RTR_WRITE | SWRNIC_RTR_READ);
}

TEST(MpaCalls, APeerWithoutPeerToPeerGetsNoRtr) {
    End end = asked_responder(kSiwRequest);
    swrnic_mpa_params p = default_params();
    p.crc_wanted = 0;
    ASSERT_EQ(swrnic_mpa_accept(end.raw(), &p, nullptr, 0), 0);
    EXPECT_EQ(golden::to_hex(end.send()), "4d504120494420526570204672616d651002000400010001");
    const swrnic_connected c = end.connected();
    EXPECT_EQ(c.flags, 0);
    EXPECT_EQ(c.rtr, 0);
}

TEST(MpaCalls, ARejectionHasTheFormOfTheRequest) {
    End enhanced = asked_responder();
    ASSERT_EQ(swrnic_mpa_reject(enhanced.raw(), "no", 2), 0);
    EXPECT_EQ(golden::to_hex(enhanced.send()), "4d504120494420526570204672616d65300200068000c0006e6f");
    EXPECT_EQ(enhanced.event(), SWRNIC_MPA_EV_REJECT_SENT);
    End plain = asked_responder(kRequest1);
    ASSERT_EQ(swrnic_mpa_reject(plain.raw(), "no", 2), 0);
    EXPECT_EQ(golden::to_hex(plain.send()), "4d504120494420526570204672616d65200100026e6f");
}

TEST(MpaCalls, EndsOfTheStreamAreTold) {
    End fresh = End::responder();
    EXPECT_EQ(swrnic_mpa_eof(fresh.raw()), SWRNIC_MPA_EV_FAILED);
    EXPECT_EQ(swrnic_mpa_failure(fresh.raw()), SWRNIC_MPA_PEER_CLOSED);
    EXPECT_EQ(swrnic_mpa_failure_class(fresh.raw()), SWRNIC_MPA_CLASS_RESET);

    End inside = End::responder();
    inside.feed(std::span(kRequest2).first(19));
    EXPECT_EQ(swrnic_mpa_eof(inside.raw()), SWRNIC_MPA_EV_FAILED);
    EXPECT_EQ(swrnic_mpa_failure(inside.raw()), SWRNIC_MPA_TRUNCATED);
    EXPECT_EQ(swrnic_mpa_failure_class(inside.raw()), SWRNIC_MPA_CLASS_PROTOCOL);

    End deciding = asked_responder();
    EXPECT_EQ(swrnic_mpa_eof(deciding.raw()), SWRNIC_MPA_EV_FAILED);
    EXPECT_EQ(swrnic_mpa_failure(deciding.raw()), SWRNIC_MPA_PEER_CLOSED);
    const swrnic_mpa_params p = default_params();
    EXPECT_EQ(swrnic_mpa_accept(deciding.raw(), &p, nullptr, 0), SWRNIC_MPA_E_STATE) << "a later accept fails";

    End reset = waiting_initiator();
    EXPECT_EQ(swrnic_mpa_reset(reset.raw()), SWRNIC_MPA_EV_FAILED);
    EXPECT_EQ(swrnic_mpa_failure(reset.raw()), SWRNIC_MPA_PEER_RESET);
    EXPECT_EQ(swrnic_mpa_eof(reset.raw()), SWRNIC_MPA_EV_NONE) << "failed once is enough";
    EXPECT_EQ(swrnic_mpa_failure(reset.raw()), SWRNIC_MPA_PEER_RESET);

    End rejecting = asked_responder();
    ASSERT_EQ(swrnic_mpa_reject(rejecting.raw(), nullptr, 0), 0);
    EXPECT_EQ(swrnic_mpa_eof(rejecting.raw()), SWRNIC_MPA_EV_NONE);
    rejecting.send();
    EXPECT_EQ(rejecting.event(), SWRNIC_MPA_EV_REJECT_SENT);
    EXPECT_EQ(swrnic_mpa_failure(rejecting.raw()), SWRNIC_MPA_OK);
}

TEST(MpaCalls, DepthsThatTakeNoPartStayWhateverTheReplySays) {  // MPA-43
    swrnic_mpa_params p = default_params();
    p.ird = p.ord = SWRNIC_MPA_NO_DEPTH;
    End end = End::initiator(p);
    end.send();
    end.feed(kReply2);
    ASSERT_EQ(end.event(), SWRNIC_MPA_EV_ESTABLISHED);
    EXPECT_EQ(end.connected().ird, SWRNIC_MPA_NO_DEPTH);
    EXPECT_EQ(end.connected().ord, SWRNIC_MPA_NO_DEPTH);
}

TEST(MpaCalls, DeadlinesAreOfTheState) {
    End responder = End::responder();
    EXPECT_EQ(swrnic_mpa_deadline_ms(responder.raw()), 5000u);
    responder.feed(kRequest1);
    EXPECT_EQ(swrnic_mpa_deadline_ms(responder.raw()), 0u) << "the ULP decides when it likes";
    EXPECT_EQ(swrnic_mpa_timeout(responder.raw()), SWRNIC_MPA_EV_NONE) << "a timer that came late";
    EXPECT_EQ(swrnic_mpa_failure(responder.raw()), SWRNIC_MPA_OK);
    EXPECT_EQ(swrnic_mpa_reject(responder.raw(), nullptr, 0), 0);
    EXPECT_EQ(swrnic_mpa_deadline_ms(responder.raw()), 10000u);

    End initiator = waiting_initiator();
    EXPECT_EQ(swrnic_mpa_deadline_ms(initiator.raw()), 10000u);
    initiator.feed(std::span(kReply2).first(10), 1);
    EXPECT_EQ(swrnic_mpa_deadline_ms(initiator.raw()), 10000u) << "for the whole frame, not per octet";
    EXPECT_EQ(swrnic_mpa_timeout(initiator.raw()), SWRNIC_MPA_EV_FAILED);
    EXPECT_EQ(swrnic_mpa_failure_class(initiator.raw()), SWRNIC_MPA_CLASS_TIMEOUT);
    EXPECT_EQ(swrnic_mpa_deadline_ms(initiator.raw()), 0u);
    EXPECT_FALSE(swrnic_mpa_retry_rev1(initiator.raw()));
}

TEST(MpaCalls, RetryWithRevision1IsAdvisedWhenThePeerHangsUpOnAnEnhancedRequest) {  // MPA-36
    End closed = waiting_initiator(), reset = waiting_initiator(), answered = waiting_initiator();
    swrnic_mpa_eof(closed.raw());
    swrnic_mpa_reset(reset.raw());
    answered.feed(kReply1);
    EXPECT_TRUE(swrnic_mpa_retry_rev1(closed.raw()));
    EXPECT_TRUE(swrnic_mpa_retry_rev1(reset.raw()));
    EXPECT_EQ(answered.outcome().reason, SWRNIC_MPA_NOT_ENHANCED);
    EXPECT_TRUE(swrnic_mpa_retry_rev1(answered.raw()));

    End old = waiting_initiator(1), part = waiting_initiator(), responder = End::responder();
    swrnic_mpa_eof(old.raw());
    part.feed(std::span(kReply2).first(3));
    swrnic_mpa_eof(part.raw());
    swrnic_mpa_eof(responder.raw());
    EXPECT_FALSE(swrnic_mpa_retry_rev1(old.raw()));
    EXPECT_FALSE(swrnic_mpa_retry_rev1(part.raw()));
    End cut = waiting_initiator();
    cut.feed(std::span(kReply2).first(3));
    swrnic_mpa_reset(cut.raw());
    EXPECT_FALSE(swrnic_mpa_retry_rev1(cut.raw())) << "it had begun to answer";
    EXPECT_FALSE(swrnic_mpa_retry_rev1(responder.raw()));
}

TEST(MpaCalls, ExcessMattersOnlyBehindARequest) {  // MPA-29
    End responder = asked_responder();
    EXPECT_EQ(swrnic_mpa_excess(responder.raw()), SWRNIC_MPA_EV_FAILED);
    EXPECT_EQ(swrnic_mpa_failure(responder.raw()), SWRNIC_MPA_EXCESS);
    End initiator = waiting_initiator();
    initiator.feed(kReply2);
    EXPECT_EQ(swrnic_mpa_excess(initiator.raw()), SWRNIC_MPA_EV_NONE);
    EXPECT_EQ(initiator.outcome().state, SWRNIC_MPA_ST_FULL);
}

TEST(MpaCalls, AStrangerIsSeenAtItsFirstWrongOctet) {
    End end = End::responder();
    const Bytes http = golden::from_hex("474554");
    EXPECT_EQ(end.feed(http, 1), 1u);
    EXPECT_EQ(end.outcome().reason, SWRNIC_MPA_BAD_KEY);
}

TEST(MpaCalls, GivingUpAfterTheExchangeIsATerminate) {  // RFC 6581 9.3
    End initiator = waiting_initiator();
    initiator.feed(kReply2);
    ASSERT_EQ(initiator.event(), SWRNIC_MPA_EV_ESTABLISHED);
    EXPECT_EQ(swrnic_mpa_abandon(initiator.raw()), SWRNIC_MPA_EV_TERMINATE);
    EXPECT_EQ(initiator.connected().terminate, 5);
    EXPECT_EQ(swrnic_mpa_failure_class(initiator.raw()), SWRNIC_MPA_CLASS_LOCAL);
    EXPECT_EQ(swrnic_mpa_abandon(initiator.raw()), SWRNIC_MPA_EV_NONE);

    End early = waiting_initiator();
    EXPECT_EQ(swrnic_mpa_abandon(early.raw()), SWRNIC_MPA_EV_FAILED);
    EXPECT_EQ(swrnic_mpa_failure(early.raw()), SWRNIC_MPA_LOCAL_ERROR);
}

TEST(MpaCalls, MoreThanWasAskedForIsNotBelieved) {
    End end = End::responder();
    std::copy_n(reinterpret_cast<const __u8*>(kRequest1.data()), kRequest1.size(), swrnic_mpa_in(end.raw()));
    EXPECT_EQ(swrnic_mpa_received(end.raw(), UINT32_MAX), SWRNIC_MPA_EV_REQUEST);
    EXPECT_EQ(end.peer().private_len, 0);
    EXPECT_EQ(swrnic_mpa_received(end.raw(), 1), SWRNIC_MPA_EV_NONE);
}

TEST(MpaCalls, AMachineCanBeMoved) {
    End end = waiting_initiator();
    end.feed(std::span(kReply2).first(17));
    End copy = end;
    copy.feed(std::span(kReply2).subspan(17));
    EXPECT_EQ(copy.event(), SWRNIC_MPA_EV_ESTABLISHED);
    EXPECT_EQ(end.outcome().state, SWRNIC_MPA_ST_I_WAIT_REPLY);
}

}  // namespace
}  // namespace swrnic::mpatest
