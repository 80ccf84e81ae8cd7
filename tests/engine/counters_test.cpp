// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// What a QP has counted after known traffic, to the octet.
#include <gtest/gtest.h>

#include <map>

#include "engine/support.h"
#include "wire/terminate.h"

namespace swrnic::engine::test {

namespace {

using Expected = std::map<Count, std::uint64_t>;

// Every cell: what is not named is zero. The state and the calls, which depend on how the stream was cut, are left out.
void expect_counts(Qp& qp, const Expected& expected) {
    for (std::uint32_t i = 0; i < Counters::kCells; ++i) {
        const auto what = Count(i);
        if (what == Count::kState || what == Count::kTxCalls || what == Count::kRxCalls) continue;
        const auto found = expected.find(what);
        EXPECT_EQ(qp.counters().get(what), found != expected.end() ? found->second : 0) << "cell " << i;
    }
}

constexpr std::uint64_t terminates(std::uint32_t code, std::uint64_t times) {
    return std::uint64_t{1} << 48 | std::uint64_t{code} << 32 | times;
}

// Two QPs, joined octet by octet.
struct Joined {
    Rig a, b;
    std::vector<std::byte> source, target;
    std::uint32_t source_key, target_key;

    explicit Joined(std::size_t size, bool crc = false, const StreamParameters& parameters = plain_stream())
        : source(size, std::byte(1)), target(size) {
        StreamParameters mine = parameters;
        mine.crc = crc;
        EXPECT_TRUE(a.start(mine));
        mine.initiator = false;
        EXPECT_TRUE(b.start(mine));
        source_key = a.region(source, kAllRights);
        target_key = b.region(target, kAllRights);
    }
    void post(WrOpcode opcode, std::uint32_t length) {
        const Sge sge{reinterpret_cast<std::uintptr_t>(source.data()), length, source_key};
        const auto to = reinterpret_cast<std::uintptr_t>(target.data());
        ASSERT_EQ(a.qp->post_send({1, opcode, send_flag::kSignaled, {&sge, 1}, to, target_key, 0}), PostResult::kOk);
    }
    void post_receive() {
        const Sge sge{reinterpret_cast<std::uintptr_t>(target.data()), static_cast<std::uint32_t>(target.size()),
                      target_key};
        ASSERT_EQ(b.qp->post_recv({2, {&sge, 1}}), PostResult::kOk);
    }
    static void carry(Rig& from, Rig& to) {
        to.script.inbound.insert(to.script.inbound.end(), from.script.outbound.begin(), from.script.outbound.end());
        from.script.outbound.clear();
    }
    void run() {
        for (int i = 0; i < 4; ++i) {
            a.transmit();
            carry(a, b);
            b.receive();
            b.transmit();
            carry(b, a);
            a.receive();
        }
    }
};

TEST(CountersOfAQp, AreExactForEveryKindOfMessage) {
    for (const bool crc : {false, true}) {
        SCOPED_TRACE(crc);
        Joined pair(10000, crc);
        pair.post_receive();
        pair.post_receive();
        pair.post(WrOpcode::kSend, 100);
        pair.post(WrOpcode::kSend, 0);
        pair.post(WrOpcode::kWrite, 10000);
        pair.post(WrOpcode::kWrite, 1);
        pair.post(WrOpcode::kRead, 5000);
        pair.run();
        // 1460 octets carry 1440 of a Write or a Response: 7 FPDUs and 4
        expect_counts(*pair.a.qp, {{Count::kTxBytes, 10101},
                                   {Count::kTxFpdus, 2 + 7 + 1 + 1},
                                   {Count::kTxSends, 2},
                                   {Count::kTxWrites, 2},
                                   {Count::kTxReadRequests, 1},
                                   {Count::kRxBytes, 5000},
                                   {Count::kRxFpdus, 4},
                                   {Count::kRxReadResponses, 1}});
        expect_counts(*pair.b.qp, {{Count::kRxBytes, 10101},
                                   {Count::kRxFpdus, 2 + 7 + 1 + 1},
                                   {Count::kRxSends, 2},
                                   {Count::kRxWrites, 2},
                                   {Count::kRxReadRequests, 1},
                                   {Count::kTxBytes, 5000},
                                   {Count::kTxFpdus, 4},
                                   {Count::kTxReadResponses, 1}});
    }
}

// However TCP cuts, nothing is counted twice and nothing before it is whole.
TEST(CountersOfAQp, DoNotDependOnHowTheStreamIsCut) {
    for (const bool crc : {false, true}) {
        SCOPED_TRACE(crc);
        Joined pair(3000, crc);
        pair.a.script.window = 0;
        pair.post(WrOpcode::kWrite, 3000);
        pair.b.script.most = 7;
        for (int i = 0; i < 1000; ++i) {
            pair.a.script.window = 13;
            pair.a.transmit();
            if (i * 13 < 1400) {
                ASSERT_EQ(pair.a.qp->counters().get(Count::kTxFpdus), 0u);
            }
            Joined::carry(pair.a, pair.b);
            pair.b.receive();
        }
        expect_counts(*pair.a.qp, {{Count::kTxBytes, 3000}, {Count::kTxFpdus, 3}, {Count::kTxWrites, 1}});
        expect_counts(*pair.b.qp, {{Count::kRxBytes, 3000}, {Count::kRxFpdus, 3}, {Count::kRxWrites, 1}});
    }
}

// An RTR is a message on the wire like any other.
TEST(CountersOfAQp, TellOfTheRtr) {
    StreamParameters parameters = plain_stream();
    parameters.p2p = true;
    parameters.rtr = rtr::kWrite;
    Joined pair(64, false, parameters);
    pair.run();
    expect_counts(*pair.a.qp, {{Count::kTxFpdus, 1}, {Count::kTxWrites, 1}});
    expect_counts(*pair.b.qp, {{Count::kRxFpdus, 1}, {Count::kRxWrites, 1}});
}

TEST(CountersOfAQp, TellOfATerminateByItsCode) {
    Joined pair(64);
    pair.target_key ^= 1;
    pair.post(WrOpcode::kWrite, 64);
    pair.run();
    const std::uint32_t code = wire::fault::kTaggedInvalidStag.packed();
    expect_counts(*pair.a.qp, {{Count::kTxBytes, 64},
                               {Count::kTxFpdus, 1},
                               {Count::kTxWrites, 1},
                               {Count::kRxFpdus, 1},
                               {Count::kRxTerminates, 1},
                               {Count::kRxTerminated, terminates(code, 1)}});
    // The Write was refused: it counts for nothing.
    expect_counts(*pair.b.qp,
                  {{Count::kTxFpdus, 1}, {Count::kTxTerminates, 1}, {Count::kTxTerminated, terminates(code, 1)}});
}

TEST(CountersOfAQp, TellOfABadCrc) {
    Joined pair(64, true);
    pair.post(WrOpcode::kWrite, 64);
    pair.run();  // before the first good FPDU a Responder may not even send a Terminate
    pair.post(WrOpcode::kWrite, 64);
    pair.a.transmit();
    pair.a.script.outbound.back() ^= std::byte(1);
    pair.run();
    const std::uint32_t code = wire::fault::kCrc.packed();
    expect_counts(*pair.b.qp, {{Count::kRxBytes, 64},
                               {Count::kRxFpdus, 1},
                               {Count::kRxWrites, 1},
                               {Count::kRxCrcErrors, 1},
                               {Count::kTxFpdus, 1},
                               {Count::kTxTerminates, 1},
                               {Count::kTxTerminated, terminates(code, 1)}});
}

TEST(CountersOfAQp, TellOfEachWaitForAReceive) {
    for (const bool crc : {false, true}) {
        Joined pair(64, crc);
        pair.post(WrOpcode::kSend, 64);
        pair.post(WrOpcode::kSend, 64);
        pair.run();
        pair.run();  // looking again is no new wait
        expect_counts(*pair.b.qp, {{Count::kRxStalls, 1}});
        pair.post_receive();
        pair.run();
        expect_counts(*pair.b.qp,
                      {{Count::kRxStalls, 2}, {Count::kRxBytes, 64}, {Count::kRxFpdus, 1}, {Count::kRxSends, 1}});
    }
}

TEST(CountersOfAQp, CountCalls) {
    Joined pair(64);
    pair.post(WrOpcode::kWrite, 64);
    pair.a.transmit();
    EXPECT_EQ(pair.a.qp->counters().get(Count::kTxCalls), 1u);
    Joined::carry(pair.a, pair.b);
    pair.b.receive();  // one read with data, one that finds nothing
    EXPECT_EQ(pair.b.qp->counters().get(Count::kRxCalls), 2u);
}

TEST(CountersOfAQp, ShowItsState) {
    Joined pair(64);
    EXPECT_EQ(pair.a.qp->counters().get(Count::kState), static_cast<std::uint64_t>(QpState::kRts));
    pair.a.end();
    EXPECT_EQ(pair.a.qp->counters().get(Count::kState), static_cast<std::uint64_t>(QpState::kErr));
}

TEST(CountersAlone, KeepFourCodesApartAndTheRestTogether) {
    Counters counters;
    for (const std::uint32_t code : {0x1100u, 0u, 0x1100u, 0x1101u, 0x2004u, 0x2003u, 0x0205u})
        counters.add_terminate(Count::kTxTerminated, code);
    const auto cell = [&](std::uint32_t i) {
        return counters.get(Count(static_cast<std::uint32_t>(Count::kTxTerminated) + i));
    };
    EXPECT_EQ(cell(0), terminates(0x1100, 2));
    EXPECT_EQ(cell(1), terminates(0, 1));
    EXPECT_EQ(cell(2), terminates(0x1101, 1));
    EXPECT_EQ(cell(3), terminates(0x2004, 3));
    EXPECT_EQ(counters.get(Count::kRxTerminated), 0u);
}

}  // namespace

}  // namespace swrnic::engine::test
