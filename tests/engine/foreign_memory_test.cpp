// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// A QP whose memory is another's: every octet goes through names, and a name may fail at any time.
#include "engine/core/foreign_memory.h"

#include <gtest/gtest.h>

#include <map>
#include <numeric>
#include <optional>
#include <string>
#include <utility>

#include "engine/messages.h"

namespace swrnic::engine::test {

namespace {

using Kind = ForeignName::Kind;

// Each thing that can be named is a buffer; STags begin at TO 0x1000.
class FakeMemory final : public ForeignMemory {
  public:
    static constexpr std::uint64_t kTo = 0x1000;

    Bytes& add(Kind kind, std::uint64_t id, std::size_t length) { return things_[{kind, id}] = Bytes(length); }
    void remove(Kind kind, std::uint64_t id) { things_.erase({kind, id}); }
    Bytes& at(Kind kind, std::uint64_t id) { return things_.at({kind, id}); }

    MemoryError check(std::uint32_t qpn, const ForeignName& name, std::uint64_t length, Use) override {
        EXPECT_EQ(qpn, Rig::kQpn);
        EXPECT_NE(length, 0u);
        return find(name, length).first;
    }
    MemoryError copy_in(std::uint32_t, const ForeignName& name, std::span<std::byte> to) override {
        const auto [error, data] = find(name, to.size());
        if (!may_copy() || error != MemoryError::kNone) return error != MemoryError::kNone ? error : gone_;
        std::copy_n(data, to.size(), to.begin());
        return MemoryError::kNone;
    }
    MemoryError copy_out(std::uint32_t, const ForeignName& name, std::span<const std::byte> from) override {
        const auto [error, data] = find(name, from.size());
        if (!may_copy() || error != MemoryError::kNone) return error != MemoryError::kNone ? error : gone_;
        std::copy(from.begin(), from.end(), data);
        return MemoryError::kNone;
    }
    std::optional<Receive> take_receive(std::uint32_t qpn) override {
        EXPECT_EQ(qpn, Rig::kQpn);
        if (shared.empty()) return std::nullopt;
        const Receive next = shared.front();
        shared.erase(shared.begin());
        return next;
    }
    bool execute(std::uint32_t, std::uint64_t wr_id) override {
        log.push_back("execute " + std::to_string(wr_id));
        return wr_id != refused;
    }
    MemoryError invalidate(std::uint32_t, std::uint32_t stag) override {
        log.push_back("invalidate " + std::to_string(stag));
        return things_.erase({Kind::kTagged, stag}) != 0 ? MemoryError::kNone : MemoryError::kInvalidStag;
    }

    std::vector<Receive> shared;
    std::vector<std::string> log;
    std::optional<std::uint64_t> refused;
    std::optional<int> copies_left;  // then everything is gone

  private:
    static constexpr MemoryError gone_ = MemoryError::kInvalidStag;

    bool may_copy() {
        ++copies;
        return !copies_left || (*copies_left)-- > 0;
    }
    std::pair<MemoryError, std::byte*> find(const ForeignName& name, std::uint64_t length) {
        const auto found = things_.find({name.kind, name.id});
        if (found == things_.end()) return {MemoryError::kInvalidStag, nullptr};
        const std::uint64_t offset = name.offset - (name.kind == Kind::kTagged ? kTo : 0);
        Bytes& data = found->second;
        if (offset > data.size() || length > data.size() - offset) return {MemoryError::kBounds, nullptr};
        return {MemoryError::kNone, data.data() + offset};
    }
    std::map<std::pair<Kind, std::uint64_t>, Bytes> things_;

  public:
    int copies = 0;
};

struct Variant {
    const char* name;
    bool crc, markers;
};

void fill(Bytes& data) {
    for (std::size_t i = 0; i < data.size(); ++i)
        data[i] = static_cast<std::byte>(i * 7 + i / 251);
}

// `kernel` lives by names, `plain` by addresses; the stream between them is carried by hand.
class ForeignMemoryTest : public testing::TestWithParam<Variant> {
  protected:
    static constexpr std::size_t kLength = 10'000;  // several FPDUs

    void SetUp() override {
        StreamParameters parameters = plain_stream();
        parameters.crc = GetParam().crc;
        parameters.markers_rx = parameters.markers_tx = GetParam().markers;
        ASSERT_TRUE(kernel.start(parameters));
        ASSERT_TRUE(plain.start(parameters));  // an Initiator too: a Responder would wait for the first FPDU
        fill(data);
        stag = plain.region(data, kAllRights);
    }
    static bool carry(Rig& from, Rig& to) {
        if (from.script.outbound.empty()) return false;
        to.script.inbound.insert(to.script.inbound.end(), from.script.outbound.begin(), from.script.outbound.end());
        from.script.outbound.clear();
        return true;
    }
    void exchange() {
        do {
            kernel.transmit();
            plain.transmit();
            const bool there = carry(kernel, plain), back = carry(plain, kernel);
            if (!there && !back) return;
            plain.receive();
            kernel.receive();
        } while (true);
    }
    void kernel_receives(std::uint64_t sequence) {
        memory.add(Kind::kRecv, sequence, kLength);
        const Sge sge{kForeignAddress, kLength, 0};
        ASSERT_EQ(kernel.qp->post_recv({sequence, {&sge, 1}}), PostResult::kOk);
    }
    void kernel_posts(std::uint64_t sequence, WrOpcode opcode, std::uint64_t to = 0, std::uint32_t rkey = 0) {
        const Sge sge{kForeignAddress, kLength, 0};
        const bool local = is_local(opcode);
        ASSERT_EQ(
            kernel.qp->post_send({sequence, opcode, send_flag::kSignaled,
                                  local ? std::span<const Sge>{} : std::span<const Sge>{&sge, 1}, to, rkey, rkey}),
            PostResult::kOk);
    }
    void plain_receives() {
        const Sge sge = sge_of(data, stag);
        ASSERT_EQ(plain.qp->post_recv({1, {&sge, 1}}), PostResult::kOk);
    }
    void plain_posts(WrOpcode opcode, std::uint64_t to = 0, std::uint32_t rkey = 0) {
        const Sge sge = sge_of(data, stag);
        ASSERT_EQ(plain.qp->post_send({1, opcode, send_flag::kSignaled, {&sge, 1}, to, rkey, rkey}), PostResult::kOk);
    }
    std::uint64_t data_to() const { return reinterpret_cast<std::uintptr_t>(data.data()); }
    // The only completion of a queue.
    static WorkCompletion only(Rig& rig, Cq& cq) {
        const auto found = rig.poll(cq);
        EXPECT_EQ(found.size(), 1u);
        return found.empty() ? WorkCompletion{} : found[0];
    }

    FakeMemory memory;
    Rig kernel{RigOptions{.memory = &memory}};
    Rig plain;
    Bytes data = Bytes(kLength);
    std::uint32_t stag = 0;
};

TEST_P(ForeignMemoryTest, ASendLeavesFromNamedMemory) {
    fill(memory.add(Kind::kSend, 5, kLength));
    std::fill(data.begin(), data.end(), std::byte(0));
    plain_receives();
    kernel_posts(5, WrOpcode::kSend);
    exchange();
    EXPECT_EQ(data, memory.at(Kind::kSend, 5));
    const WorkCompletion done = only(kernel, kernel.send_cq);
    EXPECT_EQ(done.wr_id, 5u);
    EXPECT_EQ(done.status, WcStatus::kSuccess);
    EXPECT_EQ(only(plain, plain.recv_cq).byte_len, kLength);
}

TEST_P(ForeignMemoryTest, ASendArrivesInNamedMemory) {
    kernel_receives(0);
    kernel_receives(1);
    plain_posts(WrOpcode::kSend);
    plain_posts(WrOpcode::kSend);
    exchange();
    EXPECT_EQ(data, memory.at(Kind::kRecv, 0));
    EXPECT_EQ(data, memory.at(Kind::kRecv, 1));
    const auto done = kernel.poll(kernel.recv_cq);
    ASSERT_EQ(done.size(), 2u);
    EXPECT_EQ(done[0].wr_id, 0u);
    EXPECT_EQ(done[1].wr_id, 1u);
    EXPECT_EQ(done[1].byte_len, kLength);
}

TEST_P(ForeignMemoryTest, WritesAndReadsOfOursUseTheRequestsMemory) {
    fill(memory.add(Kind::kSend, 0, kLength));
    memory.add(Kind::kSend, 1, kLength);
    std::fill(data.begin(), data.end(), std::byte(0));
    kernel_posts(0, WrOpcode::kWrite, data_to(), stag);
    kernel_posts(1, WrOpcode::kRead, data_to(), stag);
    exchange();
    EXPECT_EQ(data, memory.at(Kind::kSend, 0));
    EXPECT_EQ(data, memory.at(Kind::kSend, 1));
    const auto done = kernel.poll(kernel.send_cq);
    ASSERT_EQ(done.size(), 2u);
    EXPECT_EQ(done[1].opcode, WcOpcode::kRead);
    EXPECT_EQ(done[1].status, WcStatus::kSuccess);
}

TEST_P(ForeignMemoryTest, ThePeerWritesAndReadsByStag) {
    Bytes& target = memory.add(Kind::kTagged, 0x1234, kLength + 100);
    plain_posts(WrOpcode::kWrite, FakeMemory::kTo + 100, 0x1234);
    exchange();
    EXPECT_TRUE(std::equal(data.begin(), data.end(), target.begin() + 100));
    const Bytes sent = data;
    std::fill(data.begin(), data.end(), std::byte(0));
    plain_posts(WrOpcode::kRead, FakeMemory::kTo + 100, 0x1234);
    exchange();
    EXPECT_EQ(data, sent);
    for (const WorkCompletion& done : plain.poll(plain.send_cq))
        EXPECT_EQ(done.status, WcStatus::kSuccess);
}

TEST_P(ForeignMemoryTest, WhatTheNameRefusesIsTerminated) {
    memory.add(Kind::kTagged, 0x1234, kLength - 1);
    plain_posts(WrOpcode::kWrite, FakeMemory::kTo, 0x1234);
    exchange();
    plain.end();
    const auto done = plain.poll(plain.send_cq);
    ASSERT_FALSE(done.empty());
    ASSERT_EQ(plain.outbox.closed.size(), 1u);
    EXPECT_EQ(plain.outbox.closed[0].terminate, wire::fault::kTaggedBounds);
}

// A receive of a shared queue is taken when a Send needs it, and no sooner.
TEST_P(ForeignMemoryTest, ASendTakesItsReceiveFromASharedQueue) {
    memory.add(Kind::kRecv, 7, kLength);
    memory.add(Kind::kRecv, 8, kLength);
    memory.shared = {{7, kLength}, {8, kLength}};
    exchange();
    EXPECT_EQ(memory.shared.size(), 2u);
    plain_posts(WrOpcode::kSend);
    exchange();
    EXPECT_EQ(memory.shared.size(), 1u);
    EXPECT_EQ(only(kernel, kernel.recv_cq).wr_id, 7u);
    EXPECT_EQ(memory.at(Kind::kRecv, 7), data);
}

TEST_P(ForeignMemoryTest, ASendWaitsForASharedReceive) {
    plain_posts(WrOpcode::kSend);
    exchange();
    EXPECT_TRUE(kernel.poll(kernel.recv_cq).empty());
    memory.add(Kind::kRecv, 3, kLength);
    memory.shared = {{3, kLength}};
    kernel.receive();
    exchange();
    EXPECT_EQ(only(kernel, kernel.recv_cq).byte_len, kLength);
    EXPECT_EQ(memory.at(Kind::kRecv, 3), data);
}

TEST_P(ForeignMemoryTest, AnInvalidationGoesToItsOwner) {
    memory.add(Kind::kTagged, 0x1234, 8);
    kernel_receives(0);
    plain_posts(WrOpcode::kSendInv, 0, 0x1234);
    exchange();
    EXPECT_EQ(memory.log, std::vector<std::string>{"invalidate 4660"});
    const WorkCompletion done = only(kernel, kernel.recv_cq);
    EXPECT_EQ(done.wc_flags, wc_flag::kWithInv);
    EXPECT_EQ(done.invalidated_stag, 0x1234u);
}

TEST_P(ForeignMemoryTest, AnInvalidationThatIsRefusedEndsTheStream) {
    kernel_receives(0);
    plain_posts(WrOpcode::kSendInv, 0, 0x1234);
    exchange();
    EXPECT_TRUE(kernel.qp->has_fault());
    kernel.end();
    EXPECT_EQ(only(kernel, kernel.recv_cq).status, WcStatus::kRemInvReqErr);
}

TEST_P(ForeignMemoryTest, LocalRequestsAreExecutedInTheirTurn) {
    for (const std::uint64_t i : {0, 2})
        memory.add(Kind::kSend, i, kLength);
    kernel.script.window = 100;  // the first Send cannot leave as a whole
    plain_receives();
    plain_receives();
    kernel_posts(0, WrOpcode::kSend);
    kernel_posts(1, WrOpcode::kLocalInv);
    kernel_posts(2, WrOpcode::kSend);
    kernel.transmit();
    EXPECT_TRUE(memory.log.empty());
    kernel.script.window = kNoLimit;
    exchange();
    EXPECT_EQ(memory.log, std::vector<std::string>{"execute 1"});
    const auto done = kernel.poll(kernel.send_cq);
    ASSERT_EQ(done.size(), 3u);
    for (std::uint64_t i = 0; i < 3; ++i) {
        EXPECT_EQ(done[i].wr_id, i);
        EXPECT_EQ(done[i].status, WcStatus::kSuccess);
    }
}

TEST_P(ForeignMemoryTest, ALocalRequestThatFailsSaysSo) {
    memory.refused = 0;
    kernel_posts(0, WrOpcode::kLocalInv);
    exchange();
    kernel.end();
    EXPECT_EQ(only(kernel, kernel.send_cq).status, WcStatus::kMwBindErr);
}

TEST_P(ForeignMemoryTest, ASourceThatVanishesFailsItsRequest) {
    memory.add(Kind::kSend, 0, kLength);
    memory.copies_left = 3;
    kernel_posts(0, WrOpcode::kWrite, data_to(), stag);
    exchange();
    EXPECT_GT(memory.copies, 3);
    kernel.end();
    plain.end();
    EXPECT_EQ(only(kernel, kernel.send_cq).status, WcStatus::kLocProtErr);
    ASSERT_EQ(plain.outbox.closed.size(), 1u);
    EXPECT_EQ(plain.outbox.closed[0].terminate, wire::fault::kLocalFailure);
}

TEST_P(ForeignMemoryTest, ASourceThatIsNotThereSendsNothing) {
    kernel_posts(0, WrOpcode::kSend);
    kernel.transmit();
    const auto sent = ulpdus_of(kernel.script.outbound, GetParam().markers, GetParam().crc);
    ASSERT_EQ(sent.size(), 1u);
    EXPECT_EQ(opcode_of(sent[0]), Opcode::kTerminate);
    kernel.end();
    EXPECT_EQ(only(kernel, kernel.send_cq).status, WcStatus::kLocProtErr);
}

TEST_P(ForeignMemoryTest, AReadsSourceThatVanishesIsTerminated) {
    memory.add(Kind::kTagged, 0x1234, kLength);
    memory.copies_left = 2;
    plain_posts(WrOpcode::kRead, FakeMemory::kTo, 0x1234);
    exchange();
    kernel.end();
    plain.end();
    EXPECT_EQ(only(plain, plain.send_cq).status, WcStatus::kRemAccessErr);
    ASSERT_EQ(kernel.outbox.closed.size(), 1u);
    EXPECT_EQ(kernel.outbox.closed[0].terminate, wire::fault::kReadInvalidStag);
}

TEST_P(ForeignMemoryTest, AReceiveThatVanishesFails) {
    kernel_receives(0);
    memory.copies_left = 2;
    plain_posts(WrOpcode::kSend);
    exchange();
    kernel.end();
    EXPECT_EQ(only(kernel, kernel.recv_cq).status, WcStatus::kLocProtErr);
}

TEST_P(ForeignMemoryTest, AReadsSinkThatVanishesFailsTheRead) {
    memory.add(Kind::kSend, 0, kLength);
    memory.copies_left = 2;
    kernel_posts(0, WrOpcode::kRead, data_to(), stag);
    exchange();
    kernel.end();
    EXPECT_EQ(only(kernel, kernel.send_cq).status, WcStatus::kLocProtErr);
}

TEST_P(ForeignMemoryTest, AWritesTargetThatVanishesIsTerminated) {
    memory.add(Kind::kTagged, 0x1234, kLength);
    memory.copies_left = 1;
    plain_posts(WrOpcode::kWrite, FakeMemory::kTo, 0x1234);
    exchange();
    kernel.end();
    ASSERT_EQ(kernel.outbox.closed.size(), 1u);
    EXPECT_EQ(kernel.outbox.closed[0].terminate, wire::fault::kTaggedInvalidStag);
}

// What did not go out is kept as it was laid out, though the memory has changed since.
TEST_P(ForeignMemoryTest, ACutFpduIsNotReadAgain) {
    fill(memory.add(Kind::kSend, 0, kLength));
    const Bytes first = memory.at(Kind::kSend, 0);
    std::fill(data.begin(), data.end(), std::byte(0));
    kernel_posts(0, WrOpcode::kWrite, data_to(), stag);
    kernel.script.window = 700;
    kernel.transmit();
    Bytes& changed = memory.at(Kind::kSend, 0);
    std::fill(changed.begin(), changed.begin() + 1000, std::byte(0xee));
    kernel.script.window = kNoLimit;
    exchange();
    EXPECT_EQ(only(kernel, kernel.send_cq).status, WcStatus::kSuccess);
    EXPECT_TRUE(std::equal(data.begin(), data.end(), first.begin()));
}

INSTANTIATE_TEST_SUITE_P(Streams, ForeignMemoryTest,
                         testing::Values(Variant{"Plain", false, false}, Variant{"Crc", true, false},
                                         Variant{"Markers", true, true}),
                         [](const auto& variant) { return variant.param.name; });

}  // namespace

}  // namespace swrnic::engine::test
