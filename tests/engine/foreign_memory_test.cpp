// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// A QP whose memory is another's: every octet goes through names, and a name may fail at any time.
#include "engine/core/foreign_memory.h"

#include <gtest/gtest.h>

#include <map>
#include <numeric>
#include <optional>
#include <string>
#include <utility>

#include "engine/fpdu_run.h"
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

    MemoryError copy_in(std::uint32_t, const ForeignName& name, std::span<std::byte> to) override {
        const auto [error, data] = find(name, to.size());
        if (!may_copy() || error != MemoryError::kNone) return error != MemoryError::kNone ? error : gone_;
        std::copy_n(data, to.size(), to.begin());
        return MemoryError::kNone;
    }
    MemoryError copy_out(std::uint32_t, const ForeignName& name, std::span<const std::byte> from,
                         Ending* ending) override {
        const auto [error, data] = find(name, from.size());
        if (!may_copy() || error != MemoryError::kNone) return error != MemoryError::kNone ? error : gone_;
        std::copy(from.begin(), from.end(), data);
        end(name, ending);
        return MemoryError::kNone;
    }
    // As the module would, with the stream of `script`.
    Arrival receive(std::uint32_t, const Begun& fpdu, std::span<std::byte> rest) override {
        EXPECT_LE(fpdu.octets.size() + rest.size(), kMostOctets);
        EXPECT_GE(fpdu.octets.size(), fpdu.header);
        const std::size_t size = wire::fpdu_size(wire::load_be16(fpdu.octets.data()));
        EXPECT_LT(fpdu.octets.size(), size);
        ++receives;
        ScriptTransport stream(*script);
        const IoSlice slice{rest.data(), rest.size()};
        const IoResult got = stream.receive(&slice, 1);
        if (got.status != IoStatus::kOk) return {.status = got.status};
        Bytes all(fpdu.octets.begin(), fpdu.octets.end());
        all.insert(all.end(), rest.begin(), rest.begin() + static_cast<std::ptrdiff_t>(got.count));
        const bool writes = fpdu.name.kind == Kind::kTagged;
        const auto place = [&](std::size_t at, std::span<const std::byte> payload, bool last) {
            const ForeignName name{fpdu.name.kind, fpdu.name.id, fpdu.name.offset + at, 0};
            const bool ends = name.offset + payload.size() == length_of(name);
            if (last && name.kind == Kind::kSend && !ends) return false;
            return copy_out(Rig::kQpn, name, payload, nullptr) == MemoryError::kNone;
        };
        const FpduRun run = place_fpdus(all, fpdu.header, crc, fpdu.more, writes, place);
        placed += run.placed;
        if (run.whole) end(fpdu.name, fpdu.ending);
        const std::size_t from = std::max(run.length, fpdu.octets.size());
        const auto behind = std::span(all).subspan(from);
        const std::size_t staged = run.placed != 0 ? handed_over(behind, got.count == rest.size()) : behind.size();
        std::copy_n(behind.begin(), staged, rest.begin());
        const auto kept = behind.subspan(staged);
        script->taken -= kept.size();
        looked += got.count;
        return {IoStatus::kOk, got.count - kept.size(), staged, run.placed, run.octets, run.last, run.ended, run.whole,
                !kept.empty()};
    }
    Departure transmit(std::uint32_t, std::span<const Outgoing> fpdus, std::span<std::byte> rest) override {
        EXPECT_LE(fpdus.size(), kMostOutgoing);
        ++transmits;
        Bytes run;
        std::vector<std::size_t> ends;
        MemoryError error = MemoryError::kNone;
        for (const Outgoing& fpdu : fpdus) {
            Bytes ulpdu(wire::load_be16(fpdu.header.data()));
            EXPECT_EQ(wire::kFpduHeaderLen + ulpdu.size(), fpdu.header_len + fpdu.payload);
            std::copy_n(fpdu.header.begin() + wire::kFpduHeaderLen, fpdu.header_len - wire::kFpduHeaderLen,
                        ulpdu.begin());
            const auto payload = std::span(ulpdu).last(fpdu.payload);
            if (!payload.empty()) error = copy_in(Rig::kQpn, fpdu.name, payload);
            if (error != MemoryError::kNone) break;
            append_fpdu(run, ulpdu, false, crc);
            ends.push_back(run.size());
        }
        EXPECT_LE(run.size(), kMostOctets);
        const auto laid_out = static_cast<std::uint32_t>(ends.size());
        if (laid_out == 0) return {IoStatus::kOk, 0, 0, error, 0};
        ScriptTransport stream(*script);
        const IoSlice slice{run.data(), run.size()};
        const std::size_t sent = stream.send(&slice, 1).count;
        const std::size_t cut = sent == 0 ? 0 : *std::lower_bound(ends.begin(), ends.end(), sent);
        std::copy(run.begin() + static_cast<std::ptrdiff_t>(sent),
                  run.begin() + static_cast<std::ptrdiff_t>(std::max(cut, sent)), rest.begin());
        std::uint32_t done = 0;
        for (std::uint32_t i = 0; i < laid_out && ends[i] <= sent && completes; ++i) {
            if (!fpdus[i].ends) continue;
            log.push_back("complete send " + std::to_string(fpdus[i].name.id));
            ++done;
        }
        return {IoStatus::kOk, sent, laid_out, error, std::max(cut, sent) - sent, done};
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
    bool completes = false;          // what ends, in the same call
    std::optional<int> copies_left;  // then everything is gone
    Script* script = nullptr;        // the stream, for those who go past the transport
    bool crc = false;
    int receives = 0, transmits = 0;  // calls past the transport
    std::uint32_t placed = 0;         // FPDUs
    std::size_t looked = 0;           // octets of the stream, those that it keeps counted each time

  private:
    static constexpr MemoryError gone_ = MemoryError::kInvalidStag;

    void end(const ForeignName& name, Ending* ending) {
        if (ending == nullptr || !completes) return;
        if (ending->invalidated && things_.erase({Kind::kTagged, *ending->invalidated}) == 0) return;
        log.push_back((name.kind == Kind::kRecv ? "complete receive " : "complete send ") + std::to_string(name.id));
        ending->done = true;
    }
    std::size_t length_of(const ForeignName& name) const {
        const auto found = things_.find({name.kind, name.id});
        return found == things_.end() ? 0 : found->second.size();
    }
    bool may_copy() {
        ++copies;
        return !copies_left || (*copies_left)-- > 0;
    }
    std::pair<MemoryError, std::byte*> find(const ForeignName& name, std::uint64_t length) {
        length = std::max<std::uint64_t>(length, name.whole);
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
    bool crc, markers, bypass;
    bool short_first = false;
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
        parameters.large_fpdu = parameters.short_first = GetParam().short_first;
        parameters.markers_rx = parameters.markers_tx = GetParam().markers;
        kernel.script.bypass = GetParam().bypass;
        memory.script = &kernel.script;
        memory.crc = GetParam().crc;
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

// RDMAP-13: the whole source is looked at before its first octet is sent.
TEST_P(ForeignMemoryTest, AReadThatReachesTooFarIsNotAnswered) {
    memory.add(Kind::kTagged, 0x1234, kLength - 1);
    plain_posts(WrOpcode::kRead, FakeMemory::kTo, 0x1234);
    plain.transmit();
    carry(plain, kernel);
    kernel.receive();
    kernel.transmit();
    const auto sent = ulpdus_of(kernel.script.outbound, GetParam().markers, GetParam().crc);
    ASSERT_EQ(sent.size(), 1u);
    EXPECT_EQ(opcode_of(sent[0]), Opcode::kTerminate);
    kernel.end();
    EXPECT_EQ(kernel.outbox.closed.at(0).terminate, wire::fault::kReadBounds);
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

// ---- past the transport

class BypassTest : public ForeignMemoryTest {
  protected:
    static constexpr std::size_t kBulk = 300'000;

    void SetUp() override {
        ForeignMemoryTest::SetUp();
        fill(bulk);
        bulk_stag = plain.region(bulk, kAllRights);
    }
    void peer_posts(WrOpcode opcode, std::uint64_t to, std::uint32_t rkey, std::size_t from, std::size_t length) {
        const Sge sge{reinterpret_cast<std::uintptr_t>(bulk.data() + from), static_cast<std::uint32_t>(length),
                      bulk_stag};
        ASSERT_EQ(plain.qp->post_send({1, opcode, send_flag::kSignaled, {&sge, 1}, to, rkey, rkey}), PostResult::kOk);
    }
    void kernel_takes(std::uint64_t sequence) {
        memory.add(Kind::kRecv, sequence, kBulk);
        const Sge sge{kForeignAddress, kBulk, 0};
        ASSERT_EQ(kernel.qp->post_recv({sequence, {&sge, 1}}), PostResult::kOk);
    }
    void kernel_asks(std::uint64_t sequence, WrOpcode opcode) {
        const Sge sge{kForeignAddress, kBulk, 0};
        const auto to = reinterpret_cast<std::uintptr_t>(bulk.data());
        ASSERT_EQ(kernel.qp->post_send({sequence, opcode, send_flag::kSignaled, {&sge, 1}, to, bulk_stag, 0}),
                  PostResult::kOk);
    }
    std::uint64_t count(Count what) { return kernel.qp->counters().get(what); }
    void cuts_change_nothing();

    Bytes bulk = Bytes(kBulk);
    std::uint32_t bulk_stag = 0;
};

TEST_P(BypassTest, NearlyAllOfABulkStreamIsPlacedByItsOwner) {
    Bytes& target = memory.add(Kind::kTagged, 0x1234, kBulk);
    peer_posts(WrOpcode::kWrite, FakeMemory::kTo, 0x1234, 0, kBulk);
    plain.transmit();
    carry(plain, kernel);
    kernel.receive();
    EXPECT_EQ(target, bulk);
    const std::uint64_t fpdus = count(Count::kRxFpdus);
    EXPECT_GT(fpdus, 200u);
    EXPECT_EQ(count(Count::kRxBytes), kBulk);
    EXPECT_EQ(count(Count::kRxWrites), 1u);
    EXPECT_GE(memory.placed + 2u, fpdus);
    EXPECT_LT(memory.receives, 10);
}

// As svcrdma answers a large read: each Write goes on where the one before has ended.
TEST_P(BypassTest, WritesThatContinueEachOtherArePlacedAsOne) {
    constexpr std::size_t kWrites = 6, kEach = 20'000;
    Bytes& target = memory.add(Kind::kTagged, 0x1234, kBulk);
    for (std::size_t i = 0; i < kWrites; ++i)
        peer_posts(WrOpcode::kWrite, FakeMemory::kTo + i * kEach, 0x1234, i * kEach, kEach);
    plain.transmit();
    carry(plain, kernel);
    kernel.receive();
    EXPECT_TRUE(std::equal(target.begin(), target.begin() + kWrites * kEach, bulk.begin()));
    EXPECT_EQ(count(Count::kRxWrites), kWrites);
    EXPECT_EQ(count(Count::kRxBytes), kWrites * kEach);
    EXPECT_GE(memory.placed + 2u, count(Count::kRxFpdus));
    EXPECT_LT(memory.receives, 5);
}

// What follows for another region stays in the stream until it is known where it goes.
TEST_P(BypassTest, WritesToSeveralRegionsArePlacedByTheirOwner) {
    constexpr std::size_t kRegions = 4, kEach = 70'000;
    for (std::uint32_t i = 0; i < kRegions; ++i) {
        memory.add(Kind::kTagged, 0x1200 + i, kEach);
        peer_posts(WrOpcode::kWrite, FakeMemory::kTo, 0x1200 + i, i * kEach, kEach);
    }
    plain.transmit();
    carry(plain, kernel);
    kernel.receive();
    for (std::uint32_t i = 0; i < kRegions; ++i)
        EXPECT_TRUE(std::equal(bulk.begin() + i * kEach, bulk.begin() + (i + 1) * kEach,
                               memory.at(Kind::kTagged, 0x1200 + i).begin()));
    EXPECT_EQ(count(Count::kRxBytes), kRegions * kEach);
    EXPECT_GE(memory.placed + 2u, count(Count::kRxFpdus));
    EXPECT_LT(memory.receives, 10);
}

TEST_P(BypassTest, ResponsesToSeveralReadsArePlacedByTheirOwner) {
    constexpr std::uint64_t kReads = 3;
    for (std::uint64_t id = 0; id < kReads; ++id) {
        memory.add(Kind::kSend, id, kBulk);
        kernel_asks(id, WrOpcode::kRead);
    }
    exchange();
    for (std::uint64_t id = 0; id < kReads; ++id)
        EXPECT_EQ(memory.at(Kind::kSend, id), bulk);
    EXPECT_GE(memory.placed + 2u, count(Count::kRxFpdus));
    EXPECT_LT(memory.receives, 20);
    EXPECT_EQ(kernel.poll(kernel.send_cq).size(), kReads);
}

// However many messages of middling length stand in the stream, each octet is looked at a few times.
TEST_P(BypassTest, WhatStaysInTheStreamIsNotLookedAtOftenInVain) {
    constexpr std::size_t kWrites = 50, kEach = 4000;
    Bytes& target = memory.add(Kind::kTagged, 0x1234, kBulk);
    for (std::size_t i = 0; i < kWrites; ++i) {
        const std::size_t at = (kWrites - 1 - i) * kEach;
        peer_posts(WrOpcode::kWrite, FakeMemory::kTo + at, 0x1234, at, kEach);
    }
    plain.transmit();
    carry(plain, kernel);
    kernel.receive();
    EXPECT_TRUE(std::equal(target.begin(), target.begin() + kWrites * kEach, bulk.begin()));
    EXPECT_LE(memory.receives, int{kWrites} + 1);
    EXPECT_LT(memory.looked, kWrites * kEach * 6);
}

// Nor are others taken for one, though the STag is the same.
TEST_P(BypassTest, WritesToDifferentPlacesGoThere) {
    Bytes& target = memory.add(Kind::kTagged, 0x1234, kBulk);
    peer_posts(WrOpcode::kWrite, FakeMemory::kTo, 0x1234, 0, 20'000);
    peer_posts(WrOpcode::kWrite, FakeMemory::kTo + 50'000, 0x1234, 50'000, 20'000);
    peer_posts(WrOpcode::kWrite, FakeMemory::kTo + 30'000, 0x1234, 30'000, 20'000);
    exchange();
    EXPECT_TRUE(std::equal(target.begin(), target.begin() + 20'000, bulk.begin()));
    EXPECT_TRUE(std::equal(target.begin() + 30'000, target.begin() + 70'000, bulk.begin() + 30'000));
    EXPECT_EQ(count(Count::kRxWrites), 3u);
    EXPECT_FALSE(kernel.qp->has_fault());
}

// A peer that says L too soon has not answered the Read, however well its segments continue each other.
TEST_P(BypassTest, AResponseThatEndsEarlyFailsTheRead) {
    memory.add(Kind::kSend, 0, kBulk);
    kernel_asks(0, WrOpcode::kRead);
    kernel.transmit();
    const auto sent = ulpdus_of(kernel.script.outbound, false, GetParam().crc);
    ASSERT_EQ(sent.size(), 1u);
    for (std::uint64_t at = 0; at < 10; ++at) {
        Bytes response = tagged(Opcode::kReadResponse, sink_of(sent[0]), at * 1400, 1400);
        if (at != 9) response[0] &= ~std::byte{0x40};
        append_fpdu(kernel.script.inbound, response, false, GetParam().crc);
    }
    kernel.receive();
    EXPECT_TRUE(kernel.qp->has_fault());
    kernel.end();
    EXPECT_EQ(only(kernel, kernel.send_cq).status, WcStatus::kBadRespErr);
    EXPECT_EQ(kernel.outbox.closed.at(0).terminate, wire::fault::kTaggedBounds);
}

TEST_P(BypassTest, WhatItsOwnerHasCompletedIsNotReported) {
    using Log = std::vector<std::string>;
    memory.completes = true;
    for (std::uint64_t i = 0; i < 3; ++i) {
        const std::uint64_t id = i * 4;
        memory.log.clear();
        memory.add(Kind::kSend, id, kBulk);
        memory.add(Kind::kSend, id + 1, kBulk);
        kernel_takes(id);
        kernel_takes(id + 1);
        peer_posts(WrOpcode::kSend, 0, 0, 0, 20'000);
        exchange();
        peer_posts(WrOpcode::kSend, 0, 0, 0, 100);
        exchange();
        kernel_asks(id, WrOpcode::kRead);
        exchange();
        kernel_asks(id + 1, WrOpcode::kWrite);
        exchange();
        const auto named = [](const char* what, std::uint64_t of) { return what + std::to_string(of); };
        EXPECT_EQ(memory.log, (Log{named("complete receive ", id), named("complete receive ", id + 1),
                                   named("complete send ", id), named("complete send ", id + 1)}));
    }
    EXPECT_TRUE(kernel.poll(kernel.recv_cq).empty());
    EXPECT_TRUE(kernel.poll(kernel.send_cq).empty());
    memory.completes = false;
    memory.add(Kind::kSend, 20, kBulk);
    kernel_asks(20, WrOpcode::kWrite);
    kernel_takes(21);
    peer_posts(WrOpcode::kSend, 0, 0, 0, 20'000);
    exchange();
    EXPECT_EQ(only(kernel, kernel.send_cq).wr_id, 20u);
    EXPECT_EQ(only(kernel, kernel.recv_cq).wr_id, 21u);
}

// What is cut off by a full socket is completed when the rest has gone, by whoever sends that.
TEST_P(BypassTest, ARequestThatIsSentInPartIsNotComplete) {
    memory.completes = true;
    memory.add(Kind::kSend, 0, kBulk);
    kernel_asks(0, WrOpcode::kWrite);
    kernel.script.window = 100'000;
    kernel.transmit();
    EXPECT_TRUE(memory.log.empty());
    EXPECT_TRUE(kernel.poll(kernel.send_cq).empty());
    kernel.script.window = kNoLimit;
    exchange();
    EXPECT_EQ(memory.log.size() + kernel.poll(kernel.send_cq).size(), 1u);
}

TEST_P(BypassTest, ItsOwnerInvalidatesWithTheCompletion) {
    memory.completes = true;
    memory.add(Kind::kTagged, 0x1234, 8);
    kernel_takes(0);
    kernel_takes(1);
    peer_posts(WrOpcode::kSendInv, 0, 0x1234, 0, 100);
    exchange();
    EXPECT_EQ(memory.log, std::vector<std::string>{"complete receive 0"});
    EXPECT_TRUE(kernel.poll(kernel.recv_cq).empty());
    peer_posts(WrOpcode::kSendInv, 0, 0x1234, 0, 20'000);
    exchange();
    EXPECT_EQ(memory.log.back(), "invalidate 4660");
    kernel.end();
    EXPECT_EQ(only(kernel, kernel.recv_cq).status, WcStatus::kRemInvReqErr);
}

TEST_P(BypassTest, NoneOfABulkStreamIsReadToBeSent) {
    memory.add(Kind::kSend, 0, kBulk) = bulk;
    const Bytes sent = bulk;
    std::fill(bulk.begin(), bulk.end(), std::byte(0));
    kernel_asks(0, WrOpcode::kWrite);
    exchange();
    EXPECT_EQ(bulk, sent);
    EXPECT_EQ(count(Count::kTxBytes), kBulk);
    EXPECT_EQ(memory.transmits, 2);
    EXPECT_EQ(only(kernel, kernel.send_cq).status, WcStatus::kSuccess);
}

// However the stream is cut, all kinds of messages come as they were sent.
void BypassTest::cuts_change_nothing() {
    for (const std::size_t most : {1u, 19u, 20u, 700u, 1024u, 1460u, 4000u, 100'000u}) {
        SCOPED_TRACE(most);
        const std::uint64_t id = most;
        kernel.script.most = most;
        Bytes& target = memory.add(Kind::kTagged, 0x1234, kBulk);
        memory.add(Kind::kSend, id, kBulk);
        kernel_takes(id);
        kernel_takes(id + 1);
        peer_posts(WrOpcode::kWrite, FakeMemory::kTo + 10, 0x1234, 10, 50'000);
        peer_posts(WrOpcode::kSend, 0, 0, 0, 20'000);
        kernel_asks(id, WrOpcode::kRead);
        peer_posts(WrOpcode::kSend, 0, 0, 0, 0);
        peer_posts(WrOpcode::kWrite, FakeMemory::kTo + 60'000, 0x1234, 60'000, 7'000);
        exchange();
        EXPECT_TRUE(std::equal(bulk.begin() + 10, bulk.begin() + 50'010, target.begin() + 10));
        EXPECT_TRUE(std::equal(bulk.begin() + 60'000, bulk.begin() + 67'000, target.begin() + 60'000));
        EXPECT_TRUE(std::equal(bulk.begin(), bulk.begin() + 20'000, memory.at(Kind::kRecv, id).begin()));
        EXPECT_EQ(memory.at(Kind::kSend, id), bulk);
        const auto received = kernel.poll(kernel.recv_cq);
        ASSERT_EQ(received.size(), 2u);
        EXPECT_EQ(received[0].byte_len, 20'000u);
        EXPECT_EQ(received[1].byte_len, 0u);
        EXPECT_EQ(only(kernel, kernel.send_cq).status, WcStatus::kSuccess);
        EXPECT_EQ(plain.poll(plain.send_cq).size(), 4u);
    }
}

TEST_P(BypassTest, CutsChangeNothing) {
    cuts_change_nothing();
}

class ShortFirstBypassTest : public BypassTest {};

TEST_P(ShortFirstBypassTest, CutsChangeNothing) {
    cuts_change_nothing();
}

TEST_P(BypassTest, AFullSocketChangesNothing) {
    std::uint64_t id = 0;
    for (const std::size_t window : {1u, 2u, 600u, 1459u, 1460u, 1461u, 50'000u, 140'000u}) {
        SCOPED_TRACE(window);
        std::fill(bulk.begin(), bulk.end(), std::byte(0));
        fill(memory.add(Kind::kSend, id, kBulk));
        kernel_asks(id, WrOpcode::kWrite);
        for (int i = 0; i < 5; ++i) {
            kernel.script.window = window;
            kernel.transmit();
        }
        kernel.script.window = kNoLimit;
        exchange();
        EXPECT_EQ(bulk, memory.at(Kind::kSend, id++));
        EXPECT_EQ(only(kernel, kernel.send_cq).status, WcStatus::kSuccess);
    }
}

class BypassCrcTest : public BypassTest {};

TEST_P(BypassCrcTest, AnErrorIsFoundAndItsFpduIsNotPlaced) {
    constexpr std::size_t kPayload = 1440, kFpdu = 1460, kBad = 100;
    Bytes& target = memory.add(Kind::kTagged, 0x1234, kBulk);
    peer_posts(WrOpcode::kWrite, FakeMemory::kTo, 0x1234, 0, kBulk);
    plain.transmit();
    ASSERT_EQ(wire::fpdu_size(wire::load_be16(plain.script.outbound.data())), kFpdu);
    plain.script.outbound[kBad * kFpdu + 700] ^= std::byte(1);
    carry(plain, kernel);
    kernel.receive();
    EXPECT_EQ(count(Count::kRxCrcErrors), 1u);
    EXPECT_TRUE(std::equal(bulk.begin(), bulk.begin() + kBad * kPayload, target.begin()));
    EXPECT_TRUE(
        std::all_of(target.begin() + kBad * kPayload, target.end(), [](std::byte b) { return b == std::byte(0); }));
    exchange();
    kernel.end();
    ASSERT_EQ(kernel.outbox.closed.size(), 1u);
    EXPECT_EQ(kernel.outbox.closed[0].terminate, wire::fault::kCrc);
}

// What is refused in the midst of a run is answered as it is elsewhere.
TEST_P(BypassTest, ARegionThatIsTooShortIsToldOf) {
    Bytes& target = memory.add(Kind::kTagged, 0x1234, 150'000);
    peer_posts(WrOpcode::kWrite, FakeMemory::kTo, 0x1234, 0, kBulk);
    exchange();
    kernel.end();
    ASSERT_EQ(kernel.outbox.closed.size(), 1u);
    EXPECT_EQ(kernel.outbox.closed[0].terminate, wire::fault::kTaggedBounds);
    EXPECT_TRUE(std::equal(bulk.begin(), bulk.begin() + 149'000, target.begin()));
}

TEST_P(BypassTest, AMessageThatIsTooLongIsToldOf) {
    memory.add(Kind::kRecv, 0, 150'000);
    const Sge sge{kForeignAddress, 150'000, 0};
    ASSERT_EQ(kernel.qp->post_recv({0, {&sge, 1}}), PostResult::kOk);
    peer_posts(WrOpcode::kSend, 0, 0, 0, kBulk);
    exchange();
    kernel.end();
    EXPECT_EQ(only(kernel, kernel.recv_cq).status, WcStatus::kLocLenErr);
    EXPECT_EQ(kernel.outbox.closed.at(0).terminate, wire::fault::kMessageTooLong);
}

// A header that must be refused is refused when its CRC is right, and not before.
TEST_P(BypassTest, AResponseToNothingIsRefusedWhole) {
    Bytes stream;
    append_fpdu(stream, tagged(Opcode::kReadResponse, 0x77, 0, 1400), false, GetParam().crc);
    kernel.script.inbound = Bytes(stream.begin(), stream.end() - 1);
    kernel.receive();
    EXPECT_FALSE(kernel.qp->has_fault());
    kernel.script.inbound = stream;
    kernel.receive();
    EXPECT_TRUE(kernel.qp->has_fault());
    kernel.end();
    EXPECT_EQ(kernel.outbox.closed.at(0).terminate, wire::fault::kUnexpectedReadResponse);
}

TEST_P(BypassTest, ALongSendWaitsForItsReceive) {
    peer_posts(WrOpcode::kSend, 0, 0, 0, 20'000);
    exchange();
    EXPECT_TRUE(kernel.poll(kernel.recv_cq).empty());
    EXPECT_EQ(count(Count::kRxStalls), 1u);
    kernel_takes(4);
    kernel.receive();
    exchange();
    EXPECT_EQ(only(kernel, kernel.recv_cq).byte_len, 20'000u);
    EXPECT_TRUE(std::equal(bulk.begin(), bulk.begin() + 20'000, memory.at(Kind::kRecv, 4).begin()));
}

TEST_P(BypassTest, TheEndOfTheStreamIsSeen) {
    memory.add(Kind::kTagged, 0x1234, kBulk);
    peer_posts(WrOpcode::kWrite, FakeMemory::kTo, 0x1234, 0, 20'000);
    plain.transmit();
    plain.script.outbound.resize(10'000);
    carry(plain, kernel);
    kernel.script.fin = true;
    EXPECT_EQ(kernel.receive(), Rx::Status::kBroken);
}

INSTANTIATE_TEST_SUITE_P(Streams, BypassTest,
                         testing::Values(Variant{"Plain", false, false, true}, Variant{"Crc", true, false, true}),
                         [](const auto& variant) { return variant.param.name; });

INSTANTIATE_TEST_SUITE_P(Streams, ShortFirstBypassTest,
                         testing::Values(Variant{"Plain", false, false, true, true},
                                         Variant{"Crc", true, false, true, true}),
                         [](const auto& variant) { return variant.param.name; });

INSTANTIATE_TEST_SUITE_P(Streams, BypassCrcTest, testing::Values(Variant{"Crc", true, false, true}),
                         [](const auto& variant) { return variant.param.name; });

INSTANTIATE_TEST_SUITE_P(Streams, ForeignMemoryTest,
                         testing::Values(Variant{"Plain", false, false, false}, Variant{"Crc", true, false, false},
                                         Variant{"Markers", true, true, false},
                                         Variant{"MarkersAndBypass", true, true, true},
                                         Variant{"BypassPlain", false, false, true},
                                         Variant{"BypassCrc", true, false, true}),
                         [](const auto& variant) { return variant.param.name; });

}  // namespace

}  // namespace swrnic::engine::test
