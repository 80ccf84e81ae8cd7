// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// The vectors of kinds mpa_request, mpa_reply and negotiate, whole, one octet at a time, and cut at every place.
#include <gtest/gtest.h>

#include <map>

#include "machine.h"

namespace swrnic::mpatest {
namespace {

using golden::Vector;
using nlohmann::json;

class MpaRequest : public testing::TestWithParam<Vector> {};
class MpaReply : public testing::TestWithParam<Vector> {};
class Negotiate : public testing::TestWithParam<Vector> {};

std::uint8_t kinds(const json& names) {
    static const std::map<std::string, std::uint8_t> bits = {
        {"send", SWRNIC_RTR_SEND}, {"write", SWRNIC_RTR_WRITE}, {"read", SWRNIC_RTR_READ}};
    std::uint8_t result = 0;
    for (const auto& name : names)
        result = static_cast<std::uint8_t>(result | bits.at(name.get<std::string>()));
    return result;
}

const std::map<std::string, swrnic_mpa_reason> kReasons = {
    {"key", SWRNIC_MPA_BAD_KEY},
    {"rev", SWRNIC_MPA_BAD_REV},
    {"pd_length", SWRNIC_MPA_BAD_PD_LENGTH},
    {"truncated", SWRNIC_MPA_TRUNCATED},
    {"trailing", SWRNIC_MPA_EXCESS},
    {"enhanced-short", SWRNIC_MPA_BAD_BLOCK},
    {"not-enhanced", SWRNIC_MPA_NOT_ENHANCED},
    {"unasked-enhanced", SWRNIC_MPA_UNASKED_ENHANCED},
};

// Feeds the frame, then what the context adds: a FIN, or the sight of octets that the machine did not ask for.
void run(End& end, const Vector& v, std::size_t first, std::size_t piece) {
    std::span<const std::byte> all(v.bytes);
    std::size_t used = end.feed(all.first(first), piece);
    if (used == first) used += end.feed(all.subspan(first), piece);
    if (used < all.size()) end.note(swrnic_mpa_excess(end.raw()));
    if (v.context.value("fin", false)) end.note(swrnic_mpa_eof(end.raw()));
}

// The outcome, the same for every way to cut the frame.
template <typename Make>
Outcome every_cut(const Vector& v, Make make, End& last) {
    End whole = make();
    run(whole, v, v.bytes.size(), SIZE_MAX);
    const Outcome expected = whole.outcome();
    for (std::size_t cut = 0; cut <= v.bytes.size(); ++cut) {
        End end = make();
        run(end, v, cut, SIZE_MAX);
        EXPECT_EQ(end.outcome(), expected) << "cut at " << cut;
    }
    for (std::size_t piece : {1, 2, 3, 7, 19, 21}) {
        End end = make();
        run(end, v, v.bytes.size(), piece);
        EXPECT_EQ(end.outcome(), expected) << "in pieces of " << piece;
    }
    last = whole;
    return expected;
}

void expect_closed(const Outcome& o, const std::string& reason) {
    EXPECT_EQ(o.event, SWRNIC_MPA_EV_FAILED);
    EXPECT_EQ(o.state, SWRNIC_MPA_ST_FAILED);
    EXPECT_EQ(o.reason, kReasons.at(reason)) << reason;
}

TEST_P(MpaRequest, GivesTheExpectedOutcome) {
    const Vector& v = GetParam();
    const auto max_rev = static_cast<std::uint8_t>(v.context.value("max_rev", SWRNIC_MPA_MAX_REV));
    End end = End::responder();
    const Outcome o = every_cut(
        v, [&] { return End::responder(max_rev); }, end);
    if (v.context.value("permissive_rdmac", false)) {  // MPA-99: a MAY that we do not take
        expect_closed(o, "rev");
        return;
    }
    const std::string outcome = v.expect.at("outcome");
    if (outcome == "close") {
        EXPECT_EQ(v.expect.at("mpa_code"), 4);
        EXPECT_EQ(swrnic_mpa_failure_class(end.raw()), SWRNIC_MPA_CLASS_PROTOCOL);
        expect_closed(o, v.expect.at("reason"));
    } else if (outcome == "wait") {
        EXPECT_EQ(o.event, SWRNIC_MPA_EV_NONE);
        EXPECT_EQ(o.state, SWRNIC_MPA_ST_R_WAIT_REQUEST);
        EXPECT_GT(swrnic_mpa_want(end.raw()), 0u);
    } else {
        ASSERT_EQ(outcome, "accept");
        EXPECT_EQ(o.event, SWRNIC_MPA_EV_REQUEST);
        const json& d = v.expect.at("decode");
        const json& flags = d.at("flags");
        const auto& peer = end.peer();
        EXPECT_EQ(peer.rev, d.at("rev").get<int>());
        EXPECT_EQ(peer.markers, flags.at("M").get<int>());
        EXPECT_EQ(peer.crc, flags.at("C").get<int>());
        EXPECT_EQ(peer.rejected, 0);  // RFC 5044 7.1.1: not examined
        EXPECT_EQ(peer.large_fpdu, (flags.at("Res").get<int>() & 8) ? 1 : 0);
        EXPECT_EQ(o.private_data, d.at("ulp_private").get<std::string>());
        const json& block = d.at("enhanced");
        EXPECT_EQ(peer.enhanced != 0, !block.is_null());
        EXPECT_EQ(peer.private_len + (peer.enhanced ? 4 : 0), d.at("pd_length").get<int>());
        if (!block.is_null()) {
            EXPECT_EQ(peer.p2p, block.at("A").get<int>());
            const int rtr = block.at("B").get<int>() * SWRNIC_RTR_SEND + block.at("C").get<int>() * SWRNIC_RTR_WRITE +
                            block.at("D").get<int>() * SWRNIC_RTR_READ;
            EXPECT_EQ(peer.rtr_kinds, rtr);
            EXPECT_EQ(peer.ird, block.at("ird").get<int>());
            EXPECT_EQ(peer.ord, block.at("ord").get<int>());
        }
    }
}

swrnic_mpa_params requested(const Vector& v) {
    const json& r = v.context.at("request");
    swrnic_mpa_params p{};
    p.rev = r.at("rev").get<std::uint8_t>();
    p.markers_wanted = r.at("M").get<std::uint8_t>();
    p.crc_wanted = r.at("C").get<std::uint8_t>();
    p.p2p = r.value<std::uint8_t>("A", 0);
    p.rtr_kinds = kinds(r.value("rtr", json::array()));
    p.ird = r.value<std::uint16_t>("ird", 5);
    p.ord = r.value<std::uint16_t>("ord", 6);
    p.max_ird = v.context.value<std::uint16_t>("max_ird", 0);
    return p;
}

void expect_established(const End& end, const Outcome& o, const Vector& v) {
    EXPECT_EQ(o.event, SWRNIC_MPA_EV_ESTABLISHED);
    ASSERT_EQ(o.state, SWRNIC_MPA_ST_FULL);
    const swrnic_connected c = end.connected();
    const auto flag = [&](unsigned bit) { return (c.flags & bit) != 0; };
    EXPECT_EQ(flag(SWRNIC_CONN_MARKERS_TX), v.expect.at("insert_markers").get<bool>());
    EXPECT_EQ(flag(SWRNIC_CONN_MARKERS_RX), v.expect.at("expect_markers").get<bool>());
    EXPECT_EQ(flag(SWRNIC_CONN_CRC), v.expect.at("crc").get<bool>());
    const swrnic_mpa_params p = requested(v);
    EXPECT_EQ(c.ird, v.expect.at("ird").is_null() ? p.ird : v.expect.at("ird").get<int>());
    EXPECT_EQ(c.ord, v.expect.at("ord").is_null() ? p.ord : v.expect.at("ord").get<int>());
    const std::uint8_t choices = kinds(v.expect.at("rtr_choices"));
    if (choices) {
        EXPECT_TRUE(c.rtr & choices);
        EXPECT_EQ(c.rtr & (c.rtr - 1), 0) << "exactly one";
    } else {
        EXPECT_EQ(c.rtr, 0);
    }
    EXPECT_EQ(flag(SWRNIC_CONN_P2P), choices != 0);
    EXPECT_EQ(c.terminate, 0);
    EXPECT_EQ(c.role, SWRNIC_ROLE_INITIATOR);
    EXPECT_EQ(o.private_data, v.expect.at("ulp_private").get<std::string>());
}

TEST_P(MpaReply, GivesTheExpectedOutcome) {
    const Vector& v = GetParam();
    const auto make = [&] {
        End end = End::initiator(requested(v));
        end.send();
        return end;
    };
    End end = make();
    const Outcome o = every_cut(v, make, end);
    const std::string outcome = v.expect.at("outcome");
    if (v.id == "MPA-REP-023") {
        // docs/EXCEPTIONS.md: what follows the Reply waits in the socket, and the engine digests it.
        EXPECT_EQ(v.expect.at("also_acceptable").at(0), "established-and-process");
        EXPECT_EQ(o.event, SWRNIC_MPA_EV_ESTABLISHED);
    } else if (outcome == "close") {
        expect_closed(o, v.expect.at("reason"));
    } else if (outcome == "established") {
        expect_established(end, o, v);
    } else if (outcome == "rejected") {
        EXPECT_EQ(o.event, SWRNIC_MPA_EV_REJECTED);
        EXPECT_EQ(o.state, SWRNIC_MPA_ST_REJECTED);
        EXPECT_EQ(o.private_data, v.expect.at("ulp_private").get<std::string>());
        EXPECT_TRUE(end.peer().rejected);
    } else {
        ASSERT_EQ(outcome, "terminate");
        EXPECT_EQ(o.event, SWRNIC_MPA_EV_TERMINATE);
        EXPECT_EQ("2/0/" + std::to_string(end.connected().terminate), v.expect.at("terminate").get<std::string>());
    }
}

swrnic_mpa_params initiator_of(const json& i) {
    swrnic_mpa_params p{};
    p.rev = 2;
    p.crc_wanted = 1;
    p.ird = i.at("ird").get<std::uint16_t>();
    p.ord = i.at("ord").get<std::uint16_t>();
    p.p2p = i.at("A").get<std::uint8_t>();
    p.rtr_kinds = kinds(i.at("rtr"));
    p.max_ird = p.ird;
    return p;
}

TEST_P(Negotiate, AnswersAsExpected) {
    const Vector& v = GetParam();
    const json& r = v.context.at("responder");
    swrnic_mpa_params p{};
    p.crc_wanted = 1;
    p.ird = r.at("max_ird").get<std::uint16_t>();
    p.ord = r.at("want_ord").get<std::uint16_t>();
    p.need_ord = r.value<std::uint16_t>("need_ord", 0);
    p.rtr_kinds = kinds(r.at("rtr"));

    End initiator = End::initiator(initiator_of(v.context.at("initiator")));
    End responder = End::responder();
    Bytes request = initiator.send();
    if (v.id == "NEG-010") {  // A=0 with C set, which we never send
        request.at(22) |= std::byte{0x80};
    }
    responder.feed(request);
    ASSERT_EQ(responder.event(), SWRNIC_MPA_EV_REQUEST);
    ASSERT_EQ(swrnic_mpa_accept(responder.raw(), &p, nullptr, 0), 0);
    const Bytes reply = responder.send(3);

    // The answer's octets, read without the machine.
    ASSERT_EQ(reply.size(), 24u);
    const auto half = [&](std::size_t at) {
        return std::to_integer<unsigned>(reply[at]) << 8 | std::to_integer<unsigned>(reply[at + 1]);
    };
    const bool rejects = v.expect.at("outcome") == "reject";
    EXPECT_EQ((std::to_integer<unsigned>(reply[16]) & 0x20) != 0, rejects);
    EXPECT_EQ(half(20) & 0x3fff, v.expect.at("ird").get<unsigned>());
    EXPECT_EQ(half(22) & 0x3fff, v.expect.at("ord").get<unsigned>());
    EXPECT_EQ(half(20) >> 15, v.expect.at("A").get<unsigned>());
    const unsigned rtr = (half(20) & 0x4000 ? SWRNIC_RTR_SEND : 0) | (half(22) & 0x8000 ? SWRNIC_RTR_WRITE : 0) |
                         (half(22) & 0x4000 ? SWRNIC_RTR_READ : 0);
    EXPECT_EQ(rtr, kinds(v.expect.at("rtr")));

    EXPECT_EQ(responder.event(), rejects ? SWRNIC_MPA_EV_REJECT_SENT : SWRNIC_MPA_EV_ESTABLISHED);
    initiator.feed(reply);
    if (rejects) {
        EXPECT_EQ(initiator.event(), SWRNIC_MPA_EV_REJECTED);
        EXPECT_EQ(initiator.peer().ord, p.need_ord);  // MPA-44
    }
}

INSTANTIATE_TEST_SUITE_P(Vectors, MpaRequest, testing::ValuesIn(golden::vectors("mpa_request")), golden::VectorName{});
INSTANTIATE_TEST_SUITE_P(Vectors, MpaReply, testing::ValuesIn(golden::vectors("mpa_reply")), golden::VectorName{});
INSTANTIATE_TEST_SUITE_P(Vectors, Negotiate, testing::ValuesIn(golden::vectors("negotiate")), golden::VectorName{});

}  // namespace
}  // namespace swrnic::mpatest
