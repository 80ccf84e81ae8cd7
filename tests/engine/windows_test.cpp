// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Memory windows: what binds, who may use it, what it says on the wire when somebody else tries, and how it ends.
#include <gtest/gtest.h>

#include "engine/messages.h"
#include "wire/terminate.h"

namespace swrnic::engine::test {

namespace {

constexpr std::uint32_t kReadWrite = access::kRemoteWrite | access::kRemoteRead;
constexpr std::uint64_t kBound = 0x10000;

Bytes send_inv(std::uint32_t msn, std::uint32_t stag) {
    Bytes ulpdu(wire::kUntaggedHeaderLen);
    wire::UntaggedHeader{true, wire::rdmap_control(Opcode::kSendInvalidate), stag, wire::kSendQueue, msn, 0}.emit(
        ulpdu.data());
    return ulpdu;
}

struct World {
    World() {
        EXPECT_TRUE(rig.start(plain_stream()));
        region = rig.region(data, access::kLocalWrite | access::kMwBind, kBound);
        window = rig.memory.add_window(Rig::kPd, WindowType::kType2);
    }
    PostResult post_bind(std::uint64_t wr_id, std::uint32_t stag, std::uint64_t addr, const BindWr& bind,
                         std::uint32_t flags = send_flag::kSignaled) {
        return rig.qp->post_send({wr_id, WrOpcode::kBind, flags, {}, addr, stag, 0, bind});
    }
    PostResult post_inv(std::uint64_t wr_id, std::uint32_t stag, std::uint32_t flags = send_flag::kSignaled) {
        return rig.qp->post_send({wr_id, WrOpcode::kLocalInv, flags, {}, 0, 0, stag});
    }
    // Executes it and returns its status.
    WcStatus bind(std::uint32_t stag, std::uint64_t addr, const BindWr& wish) {
        EXPECT_EQ(post_bind(1, stag, addr, wish), PostResult::kOk);
        return executed(WcOpcode::kBind);
    }
    WcStatus invalidate(std::uint32_t stag) {
        EXPECT_EQ(post_inv(2, stag), PostResult::kOk);
        return executed(WcOpcode::kLocalInv);
    }
    WcStatus executed(WcOpcode opcode) {
        if (rig.transmit() == Tx::Status::kLast) rig.end(CloseReason::kError);
        const auto done = rig.poll(rig.send_cq);
        if (done.size() != 1) {
            ADD_FAILURE() << done.size() << " completions";
            return WcStatus::kGeneralErr;
        }
        EXPECT_EQ(done[0].opcode, opcode);
        return done[0].status;
    }
    BindWr all() const { return {.length = data.size(), .region = region, .access = kReadWrite}; }
    MemoryError look(std::uint32_t stag, std::uint64_t to, std::uint64_t length,
                     std::uint32_t needed = access::kRemoteWrite, std::uint32_t qpn = Rig::kQpn,
                     std::uint32_t pd = Rig::kPd) const {
        return rig.memory.look_up(pd, stag, to, length, needed, qpn).error;
    }
    // What the peer's segment is answered with; 0/0/0: nothing.
    wire::TerminateCode answer(const Bytes& ulpdu) {
        append_fpdu(rig.script.inbound, ulpdu, false, false);
        rig.receive();
        const std::size_t before = ulpdus_of(rig.script.outbound, false, false).size();
        if (rig.transmit() != Tx::Status::kLast) return {0, 0, 0};
        const auto out = ulpdus_of(rig.script.outbound, false, false);
        return out.size() > before ? wire::parse_terminate(out.back()).code : wire::TerminateCode{0, 0, 0};
    }

    Rig rig;
    std::vector<std::byte> data = std::vector<std::byte>(64);
    std::uint32_t region = 0, window = 0;
};

struct Windows : testing::Test, World {};

TEST_F(Windows, AWindowOpensWhatItIsBoundToAndNothingElse) {
    EXPECT_EQ(look(window, kBound, 1), MemoryError::kInvalidStag) << "not bound yet";
    const std::uint32_t stag = window ^ 0x5a;  // any key of the same index
    ASSERT_EQ(bind(stag, kBound + 16, {.length = 8, .region = region, .access = kReadWrite}), WcStatus::kSuccess);
    for (std::uint64_t from = kBound; from < kBound + 64; ++from) {
        for (std::uint64_t length = 1; length < 20; ++length) {
            const bool inside = from >= kBound + 16 && from + length <= kBound + 24;
            ASSERT_EQ(look(stag, from, length), inside ? MemoryError::kNone : MemoryError::kBounds);
        }
    }
    EXPECT_EQ(rig.memory.look_up(Rig::kPd, stag, kBound + 17, 7, access::kRemoteRead, Rig::kQpn).data,
              data.data() + 17);
    EXPECT_EQ(look(stag, ~std::uint64_t{0}, 9), MemoryError::kWrap);
    EXPECT_EQ(look(window, kBound + 16, 1), MemoryError::kInvalidStag) << "the old key";
    EXPECT_EQ(look(stag, kBound + 16, 1, access::kLocalWrite), MemoryError::kInvalidStag) << "no key for local use";
    EXPECT_EQ(look(stag, kBound + 16, 1, 0), MemoryError::kInvalidStag);
    EXPECT_EQ(look(region, kBound + 16, 1, access::kRemoteWrite), MemoryError::kAccess) << "the region grants nothing";
}

TEST_F(Windows, RightsAreThoseOfTheWindow) {
    for (const std::uint32_t granted : {0u, access::kRemoteRead, access::kRemoteWrite, kReadWrite}) {
        ASSERT_EQ(bind(window, kBound, {.length = 64, .region = region, .access = granted}), WcStatus::kSuccess);
        EXPECT_EQ(look(window, kBound, 1, access::kRemoteRead),
                  (granted & access::kRemoteRead) != 0 ? MemoryError::kNone : MemoryError::kAccess);
        EXPECT_EQ(look(window, kBound, 1, access::kRemoteWrite),
                  (granted & access::kRemoteWrite) != 0 ? MemoryError::kNone : MemoryError::kAccess);
        ASSERT_EQ(invalidate(window), WcStatus::kSuccess);
    }
}

TEST_F(Windows, ZeroBased) {
    ASSERT_EQ(bind(window, kBound + 8, {.length = 16, .region = region, .access = kReadWrite | access::kZeroBased}),
              WcStatus::kSuccess);
    EXPECT_EQ(rig.memory.look_up(Rig::kPd, window, 0, 16, access::kRemoteRead, Rig::kQpn).data, data.data() + 8);
    EXPECT_EQ(look(window, 1, 16), MemoryError::kBounds);
    EXPECT_EQ(look(window, kBound + 8, 1), MemoryError::kBounds);
}

// VERBS-31 and the rights of binding; each failure ends the stream by Terminate 0/0/0 and names its request.
TEST(WindowErrors, WhatDoesNotBind) {
    const struct {
        const char* what;
        std::uint32_t region_access;
        std::uint64_t addr, length;
        std::uint32_t access;
    } rows[] = {
        {"no MW_BIND", access::kLocalWrite, kBound, 64, kReadWrite},
        {"remote write without local write", access::kMwBind, kBound, 64, access::kRemoteWrite},
        {"remote atomic without local write", access::kMwBind, kBound, 64, access::kRemoteAtomic},
        {"before the region", access::kLocalWrite | access::kMwBind, kBound - 1, 2, kReadWrite},
        {"beyond the region", access::kLocalWrite | access::kMwBind, kBound + 1, 64, kReadWrite},
        {"more than the region", access::kLocalWrite | access::kMwBind, kBound, 65, kReadWrite},
        {"it wraps", access::kLocalWrite | access::kMwBind, ~std::uint64_t{0}, 2, kReadWrite},
        {"it wraps by its length", access::kLocalWrite | access::kMwBind, kBound, ~std::uint64_t{0}, kReadWrite},
        {"a window of type 2 of nothing", access::kLocalWrite | access::kMwBind, kBound, 0, kReadWrite},
    };
    for (const auto& row : rows) {
        SCOPED_TRACE(row.what);
        World w;
        const std::uint32_t region = w.rig.region(w.data, row.region_access, kBound);
        EXPECT_EQ(w.bind(w.window, row.addr, {row.length, region, row.access}), WcStatus::kMwBindErr);
        EXPECT_EQ(w.look(w.window, kBound, 1), MemoryError::kInvalidStag);
        const auto out = ulpdus_of(w.rig.script.outbound, false, false);
        ASSERT_EQ(out.size(), 1u);
        EXPECT_EQ(wire::parse_terminate(out[0]).code, wire::fault::kLocalFailure);
        EXPECT_TRUE(w.rig.memory.remove(region)) << "nothing is bound to it";
    }
}

TEST(WindowErrors, WhatIsNoRegionOrNoWindow) {
    for (int i = 0; i < 7; ++i) {
        SCOPED_TRACE(i);
        World w;
        const std::uint32_t rights = access::kLocalWrite | access::kMwBind;
        BindWr wish = w.all();
        std::uint32_t stag = w.window;
        if (i == 0) wish.region ^= 1;        // another key
        if (i == 1) wish.region ^= 0x100;    // another index
        if (i == 2) wish.region = w.window;  // a window
        if (i == 3) wish.region = w.rig.region(w.data, rights, kBound, Rig::kPd + 1);
        if (i == 4) stag ^= 0x100;    // no window
        if (i == 5) stag = w.region;  // a region
        if (i == 6) stag = w.rig.memory.add_window(Rig::kPd + 1, WindowType::kType2);
        EXPECT_EQ(w.bind(stag, kBound, wish), WcStatus::kMwBindErr);
    }
}

TEST(WindowErrors, Type2IsInvalidatedBeforeItIsBoundAgain) {
    World w;
    ASSERT_EQ(w.bind(w.window, kBound, w.all()), WcStatus::kSuccess);
    EXPECT_EQ(w.bind(w.window ^ 1, kBound, w.all()), WcStatus::kMwBindErr);
    EXPECT_EQ(w.look(w.window, kBound, 1), MemoryError::kNone) << "the binding stands";
}

TEST_F(Windows, TheShapeIsLookedAtWhenPosting) {
    const Sge sge{0, 0, 0};
    EXPECT_EQ(post_bind(1, window, kBound, all(), send_flag::kInline), PostResult::kInvalid);
    EXPECT_EQ(rig.qp->post_send({1, WrOpcode::kLocalInv, 0, {&sge, 1}, 0, 0, window}), PostResult::kInvalid);
}

// The key changes, the index never; what an old key named is invalid at once.
TEST_F(Windows, EveryBindingMayHaveAKeyOfItsOwn) {
    for (std::uint32_t key = 0; key < 256; ++key) {
        const std::uint32_t stag = (window & ~0xffu) | key;
        ASSERT_EQ(bind(stag, kBound, all()), WcStatus::kSuccess);
        ASSERT_EQ(look(stag, kBound, 64), MemoryError::kNone);
        ASSERT_EQ(look(stag ^ 1, kBound, 64), MemoryError::kInvalidStag);
        ASSERT_EQ(invalidate(stag), WcStatus::kSuccess);
        ASSERT_EQ(look(stag, kBound, 64), MemoryError::kInvalidStag);
    }
}

TEST_F(Windows, ARegionStaysWhileAWindowIsBoundToIt) {
    ASSERT_EQ(bind(window, kBound, all()), WcStatus::kSuccess);
    const std::uint32_t second = rig.memory.add_window(Rig::kPd, WindowType::kType1);
    ASSERT_EQ(bind(second, kBound, all()), WcStatus::kSuccess);
    EXPECT_FALSE(rig.memory.remove(region));
    EXPECT_EQ(look(window, kBound, 64), MemoryError::kNone);
    ASSERT_EQ(invalidate(window), WcStatus::kSuccess);
    EXPECT_FALSE(rig.memory.remove(region));
    EXPECT_TRUE(rig.memory.remove_window(second)) << "ends its binding";
    EXPECT_EQ(look(second, kBound, 64), MemoryError::kInvalidStag);
    EXPECT_TRUE(rig.memory.remove(region));
    EXPECT_FALSE(rig.memory.remove(window)) << "a window is no region";
    EXPECT_TRUE(rig.memory.remove_window(window));
    EXPECT_FALSE(rig.memory.remove_window(window));
}

TEST_F(Windows, Type1GoesFromOneBindingToTheNext) {
    const std::uint32_t type_1 = rig.memory.add_window(Rig::kPd, WindowType::kType1);
    ASSERT_EQ(bind(type_1, kBound, {.length = 8, .region = region, .access = kReadWrite}), WcStatus::kSuccess);
    const std::uint32_t next = type_1 ^ 3;
    ASSERT_EQ(bind(next, kBound + 8, {.length = 8, .region = region, .access = kReadWrite}), WcStatus::kSuccess);
    EXPECT_EQ(look(type_1, kBound, 1), MemoryError::kInvalidStag);
    EXPECT_EQ(look(next, kBound + 8, 8), MemoryError::kNone);
    EXPECT_EQ(look(next, kBound + 8, 8, access::kRemoteRead, Rig::kQpn + 1), MemoryError::kNone) << "any QP of the PD";
    EXPECT_EQ(look(next, kBound + 8, 8, access::kRemoteRead, Rig::kQpn, Rig::kPd + 1), MemoryError::kWrongPd);
    ASSERT_EQ(bind(type_1, 0, {.length = 0, .region = 0, .access = 0}), WcStatus::kSuccess);
    EXPECT_EQ(look(next, kBound + 8, 8), MemoryError::kInvalidStag);
    EXPECT_EQ(look(type_1, kBound + 8, 8), MemoryError::kInvalidStag);
    EXPECT_TRUE(rig.memory.remove(region));
}

// SEC-2: what is bound through one QP is that one's.
TEST_F(Windows, Type2BelongsToItsQp) {
    ASSERT_EQ(bind(window, kBound, all()), WcStatus::kSuccess);
    EXPECT_EQ(look(window, kBound, 64, access::kRemoteRead, Rig::kQpn + 1), MemoryError::kWrongPd);
    EXPECT_EQ(look(window, kBound, 64, access::kRemoteRead, Rig::kQpn, Rig::kPd + 1), MemoryError::kWrongPd);
    EXPECT_EQ(rig.memory.invalidate_remote(Rig::kPd, window, Rig::kQpn + 1), MemoryError::kWrongPd);
    EXPECT_FALSE(rig.memory.invalidate_local(Rig::kPd, window, Rig::kQpn + 1));
    EXPECT_EQ(look(window, kBound, 64), MemoryError::kNone);
    rig.memory.unbind_all(Rig::kQpn + 1);
    EXPECT_EQ(look(window, kBound, 64), MemoryError::kNone);
    rig.memory.unbind_all(Rig::kQpn);
    EXPECT_EQ(look(window, kBound, 64), MemoryError::kInvalidStag);
    EXPECT_TRUE(rig.memory.remove(region));
}

// ---- on the wire

struct WireRow {
    std::uint32_t key;  // of what the peer names, against the window's
    std::uint64_t to;
    std::uint32_t rights;  // of the window
    bool other_qp, invalidated;
    wire::TerminateCode write, read;
};

class WindowsOnTheWire : public testing::TestWithParam<WireRow> {};

TEST_P(WindowsOnTheWire, WritesAndReads) {
    const WireRow& row = GetParam();
    for (const bool read : {false, true}) {
        SCOPED_TRACE(read);
        World w;
        WindowBindingPtr none;
        const std::uint32_t qpn = row.other_qp ? Rig::kQpn + 1 : Rig::kQpn;
        BindWr wish = w.all();
        wish.access = row.rights;
        ASSERT_TRUE(w.rig.memory.bind(Rig::kPd, qpn, w.window, kBound, wish, none));
        if (row.invalidated) {
            ASSERT_EQ(w.invalidate(w.window), WcStatus::kSuccess);
        }
        const std::uint32_t stag = w.window ^ row.key;
        EXPECT_EQ(w.answer(read ? read_request({9, 0, 8, stag, row.to}, 1) : tagged(Opcode::kWrite, stag, row.to, 8)),
                  read ? row.read : row.write);
        const bool placed = !read && row.write == wire::TerminateCode{0, 0, 0};
        EXPECT_EQ(w.data[0], placed ? std::byte(0x5a) : std::byte(0));
    }
}

INSTANTIATE_TEST_SUITE_P(
    All, WindowsOnTheWire,
    testing::Values(
        WireRow{0, kBound, kReadWrite, false, false, {0, 0, 0}, {0, 0, 0}},
        WireRow{1, kBound, kReadWrite, false, false, wire::fault::kTaggedInvalidStag, wire::fault::kReadInvalidStag},
        WireRow{0, kBound, kReadWrite, false, true, wire::fault::kTaggedInvalidStag, wire::fault::kReadInvalidStag},
        WireRow{0, kBound, kReadWrite, true, false, wire::fault::kTaggedNotAssociated, wire::fault::kReadNotAssociated},
        WireRow{0, kBound, 0, false, false, wire::fault::kTaggedAccess, wire::fault::kReadAccess},
        WireRow{0, ~std::uint64_t{0}, kReadWrite, false, false, wire::fault::kTaggedWrap, wire::fault::kReadWrap},
        WireRow{0, kBound + 57, kReadWrite, false, false, wire::fault::kTaggedBounds, wire::fault::kReadBounds}));

TEST_F(Windows, ThePeerInvalidatesAWindowOfType2) {  // RDMAP-22
    ASSERT_EQ(bind(window, kBound, all()), WcStatus::kSuccess);
    ASSERT_EQ(rig.qp->post_recv({7, {}}), PostResult::kOk);
    EXPECT_EQ(answer(send_inv(1, window)), (wire::TerminateCode{0, 0, 0}));
    const auto done = rig.poll(rig.recv_cq);
    ASSERT_EQ(done.size(), 1u);
    EXPECT_EQ(done[0].status, WcStatus::kSuccess);
    EXPECT_EQ(done[0].wc_flags, wc_flag::kWithInv);
    EXPECT_EQ(done[0].invalidated_stag, window);
    EXPECT_EQ(look(window, kBound, 1), MemoryError::kInvalidStag);
    EXPECT_EQ(invalidate(window), WcStatus::kSuccess) << "once more does no harm";
    EXPECT_EQ(bind(window ^ 1, kBound, all()), WcStatus::kSuccess);
}

// RDMAP-23: unknown, invalid, shared by streams: 0/2/9; of another stream: 0/1/9.
TEST(WindowErrors, WhatThePeerMayNotInvalidate) {
    for (int i = 0; i < 6; ++i) {
        SCOPED_TRACE(i);
        World w;
        WindowBindingPtr none;
        std::uint32_t stag = w.window;
        std::uint32_t bound = w.window;
        if (i == 1) stag ^= 1;
        if (i == 2) bound = stag = w.rig.memory.add_window(Rig::kPd, WindowType::kType1);
        if (i == 4) w.region = stag = w.rig.region(w.data, access::kLocalWrite | access::kMwBind | kReadWrite, kBound);
        if (i != 0) {
            ASSERT_TRUE(w.rig.memory.bind(Rig::kPd, i == 3 ? Rig::kQpn + 1 : Rig::kQpn, bound, kBound, w.all(), none));
        }
        if (i == 5) w.rig.memory.unbind_all(Rig::kQpn);
        ASSERT_EQ(w.rig.qp->post_recv({7, {}}), PostResult::kOk);
        EXPECT_EQ(w.answer(send_inv(1, stag)),
                  i == 3 ? wire::fault::kInvalidateForeign : wire::fault::kInvalidateImpossible);
        w.rig.end(CloseReason::kError);
        EXPECT_EQ(w.rig.poll(w.rig.recv_cq).at(0).status, WcStatus::kRemInvReqErr);
        if (i != 0 && i != 5) {
            EXPECT_EQ(w.look(bound, kBound, 1, access::kRemoteWrite, i == 3 ? Rig::kQpn + 1 : Rig::kQpn),
                      MemoryError::kNone);
        }
    }
}

// SEC-6: a Response that is under way stops at the segment where its source has gone.
TEST_F(Windows, AResponseUnderWayEndsWithItsWindow) {
    std::vector<std::byte> large(20000);
    const std::uint32_t big = rig.region(large, access::kLocalWrite | access::kMwBind, kBound);
    ASSERT_EQ(bind(window, kBound, {.length = large.size(), .region = big, .access = kReadWrite}), WcStatus::kSuccess);
    append_fpdu(rig.script.inbound, read_request({9, 0, 20000, window, kBound}, 1), false, false);
    rig.receive();
    rig.script.window = 2 * 1460;
    EXPECT_EQ(rig.transmit(), Tx::Status::kBlocked);
    ASSERT_TRUE(rig.memory.invalidate_local(Rig::kPd, window, Rig::kQpn));
    rig.script.window = kNoLimit;
    const Tx::Status status = rig.transmit();
    EXPECT_TRUE(status == Tx::Status::kLast || status == Tx::Status::kBroken);
    EXPECT_LT(rig.script.outbound.size(), 3u * 1460);
    rig.end(CloseReason::kError);
    EXPECT_EQ(rig.outbox.events.at(0).event, AsyncEvent::kQpAccessErr);
}

// ---- order

TEST_F(Windows, ABindingIsThereBeforeTheSendThatTellsOfIt) {
    ASSERT_EQ(post(rig, 1, WrOpcode::kSend), PostResult::kOk);
    ASSERT_EQ(post_bind(2, window, kBound, all()), PostResult::kOk);
    ASSERT_EQ(post(rig, 3, WrOpcode::kSend), PostResult::kOk);
    rig.script.window = 0;
    rig.transmit();
    EXPECT_EQ(look(window, kBound, 1), MemoryError::kInvalidStag) << "the Send before it is not out";
    rig.script.window = wire::fpdu_size(wire::kUntaggedHeaderLen);
    rig.transmit();
    EXPECT_EQ(look(window, kBound, 1), MemoryError::kNone);
    rig.script.window = kNoLimit;
    rig.transmit();
    const auto done = rig.poll(rig.send_cq);
    ASSERT_EQ(done.size(), 3u);
    for (std::size_t i = 0; i < done.size(); ++i)
        EXPECT_EQ(done[i].wr_id, i + 1);
    EXPECT_EQ(ulpdus_of(rig.script.outbound, false, false).size(), 2u);
}

// VERBS-5: with a fence it waits for the Reads before it; without one it does not. VERBS-10: it completes behind them.
TEST_F(Windows, AFenceWaitsForReads) {
    std::vector<std::byte> sink(16);
    const Sge sge = sge_of(sink, rig.region(sink, access::kLocalWrite));
    ASSERT_EQ(post(rig, 1, WrOpcode::kRead, {&sge, 1}), PostResult::kOk);
    ASSERT_EQ(post_bind(2, window, kBound, all()), PostResult::kOk);
    ASSERT_EQ(post_inv(3, window, send_flag::kSignaled | send_flag::kFence), PostResult::kOk);
    EXPECT_EQ(rig.transmit(), Tx::Status::kIdle);
    EXPECT_EQ(look(window, kBound, 1), MemoryError::kNone);
    EXPECT_TRUE(rig.poll(rig.send_cq).empty());
    const std::uint32_t stag = sink_of(ulpdus_of(rig.script.outbound, false, false).at(0));
    append_fpdu(rig.script.inbound, tagged(Opcode::kReadResponse, stag, 0, 16), false, false);
    rig.receive();
    rig.transmit();
    EXPECT_EQ(look(window, kBound, 1), MemoryError::kInvalidStag);
    const auto done = rig.poll(rig.send_cq);
    ASSERT_EQ(done.size(), 3u);
    EXPECT_EQ(done[1].opcode, WcOpcode::kBind);
    EXPECT_EQ(done[2].opcode, WcOpcode::kLocalInv);
}

// SEC-6: somebody who looked the STag up before may still be placing; the request is complete when he is done.
TEST_F(Windows, AnInvalidationIsCompleteWhenNobodyIsInsideAnyMore) {
    ASSERT_EQ(bind(window, kBound, all()), WcStatus::kSuccess);
    ASSERT_EQ(post_inv(2, window), PostResult::kOk);
    {
        const Pass other = rig.passes.begin();
        EXPECT_EQ(rig.transmit(), Tx::Status::kWaiting);
        EXPECT_EQ(rig.transmit(), Tx::Status::kWaiting);
        EXPECT_EQ(look(window, kBound, 1), MemoryError::kInvalidStag) << "for others it has gone already";
        EXPECT_TRUE(rig.poll(rig.send_cq).empty());
    }
    rig.transmit();
    EXPECT_EQ(rig.poll(rig.send_cq).size(), 1u);
}

TEST_F(Windows, TheEndMayComeWhileARequestWaits) {
    ASSERT_EQ(bind(window, kBound, all()), WcStatus::kSuccess);
    ASSERT_EQ(post_inv(2, window), PostResult::kOk);
    const Pass other = rig.passes.begin();
    EXPECT_EQ(rig.transmit(), Tx::Status::kWaiting);
    rig.end(CloseReason::kLost);
    const auto done = rig.poll(rig.send_cq);
    ASSERT_EQ(done.size(), 1u);
    EXPECT_EQ(done[0].status, WcStatus::kWrFlushErr);
    EXPECT_EQ(done[0].opcode, WcOpcode::kLocalInv);
}

// VERBS-35, as far as regions go: what a Send with Invalidate would take, and no more.
TEST_F(Windows, LocalInvalidationOfARegion) {
    const std::uint32_t open = rig.region(data, kAllRights, kBound);
    ASSERT_EQ(invalidate(open), WcStatus::kSuccess);
    EXPECT_EQ(look(open, kBound, 1), MemoryError::kInvalidStag);
    EXPECT_EQ(look(open, kBound, 1, access::kLocalWrite), MemoryError::kNone);
    EXPECT_EQ(invalidate(open), WcStatus::kSuccess);
    EXPECT_EQ(invalidate(region), WcStatus::kMwBindErr) << "no remote rights: nothing to take away";
}

}  // namespace

}  // namespace swrnic::engine::test
