// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// A payload is read to its place before its header is there, where the place is known: what comes of it when the header
// says something else.
#include <gtest/gtest.h>

#include <array>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "engine/messages.h"

namespace swrnic::engine::test {

namespace {

constexpr std::size_t kUsual = 24'000;  // payload of a segment; read to its place
constexpr std::size_t kLength = 3 * kUsual + 20'000;
constexpr std::size_t kGuard = 64;  // octets before and behind each piece of the sink, which are the program's
constexpr std::size_t kFirst = 1000;
constexpr std::uint64_t kRegionTo = 0x1000;

std::byte pattern(std::size_t at) {
    return static_cast<std::byte>(at * 167 + at / 251 + 1);
}

struct Outcome {
    Rx::Status last{};
    std::vector<Bytes> sink;  // its pieces, with their guards
    Bytes region;
    std::vector<Bytes> received;
    std::vector<std::string> completions, events;
    Bytes outbound;
    bool operator==(const Outcome&) const = default;
};

// A Read of kLength octets is outstanding, its sink in three pieces, and the peer's stream is told step by step. The
// first header comes alone: all else finds a large payload in progress.
class Story {
  public:
    explicit Story(unsigned receives = 4, bool short_first = false)
        : region_(kLength), received_(receives, Bytes(kUsual)) {
        StreamParameters parameters = plain_stream();
        parameters.large_fpdu = parameters.short_first = short_first;
        EXPECT_TRUE(rig_.start(parameters));
        rig_.script.cuts = {kFirst};
        std::vector<Sge> sges;
        for (const std::size_t size : {kUsual / 2, 2 * kUsual + 7, kLength - kUsual / 2 - 2 * kUsual - 7}) {
            Bytes& piece = sink_.emplace_back(size + 2 * kGuard);
            keys_.push_back(rig_.region(piece, access::kLocalWrite));
            sges.push_back({reinterpret_cast<std::uintptr_t>(piece.data()) + kGuard, static_cast<std::uint32_t>(size),
                            keys_.back()});
        }
        EXPECT_EQ(post(rig_, 1, WrOpcode::kRead, sges), PostResult::kOk);
        EXPECT_EQ(rig_.transmit(), Tx::Status::kIdle);
        stag_ = sink_of(ulpdus_of(rig_.script.outbound, false, false).at(0));
        region_stag_ = rig_.region(region_, kAllRights, kRegionTo);
        for (unsigned i = 0; i < receives; ++i)
            post_receive(i);
    }

    void post_receive(unsigned index) {
        Bytes& data = received_[index];
        const Sge sge = sge_of(data, rig_.region(data, access::kLocalWrite));
        ASSERT_EQ(rig_.qp->post_recv({100 + index, {&sge, 1}}), PostResult::kOk);
    }
    void more_receives() {
        post_receive(static_cast<unsigned>((received_.emplace_back(kUsual), received_.size() - 1)));
    }

    Story& response(std::size_t payload, bool last = false) { return response_at(stag_, told_, payload, last); }
    Story& response_at(std::uint32_t stag, std::uint64_t to, std::size_t payload, bool last = false) {
        Bytes ulpdu = filled(wire::kTaggedHeaderLen, told_, payload);
        wire::TaggedHeader{last, wire::rdmap_control(Opcode::kReadResponse), stag, to}.emit(ulpdu.data());
        told_ += payload;
        return say(ulpdu);
    }
    Story& rest() {
        while (kLength - told_ > kUsual)
            response(kUsual);
        return response(kLength - told_, true);
    }
    Story& write(std::size_t payload) {
        Bytes ulpdu = filled(wire::kTaggedHeaderLen, 7, payload);
        wire::TaggedHeader{true, wire::rdmap_control(Opcode::kWrite), region_stag_, kRegionTo}.emit(ulpdu.data());
        return say(ulpdu);
    }
    Story& send(std::size_t payload) {
        Bytes ulpdu = filled(wire::kUntaggedHeaderLen, 9, payload);
        wire::UntaggedHeader{true, wire::rdmap_control(Opcode::kSend), 0, wire::kSendQueue, ++sends_, 0}.emit(
            ulpdu.data());
        return say(ulpdu);
    }
    Story& request() { return say(read_request({0x77, 0, 40, region_stag_, kRegionTo}, ++requests_)); }
    Story& say(std::span<const std::byte> ulpdu) {
        append_fpdu(rig_.script.inbound, ulpdu, false, false);
        return *this;
    }

    Outcome end() {
        Outcome outcome;
        outcome.last = rig_.receive();
        rig_.transmit();
        rig_.end();
        for (Cq* const cq : {&rig_.send_cq, &rig_.recv_cq}) {
            for (const WorkCompletion& done : rig_.poll(*cq)) {
                outcome.completions.push_back(std::to_string(done.wr_id) + " " + std::to_string(unsigned(done.status)) +
                                              " " + std::to_string(done.byte_len) + " " +
                                              std::to_string(done.vendor_err));
            }
        }
        for (const auto& event : rig_.outbox.events)
            outcome.events.push_back(std::to_string(unsigned(event.event)));
        outcome.sink = sink_;
        outcome.region = region_;
        outcome.received = received_;
        outcome.outbound = rig_.script.outbound;
        return outcome;
    }

    Rig& rig() { return rig_; }
    std::uint32_t stag() const { return stag_; }
    std::uint32_t key(std::size_t piece) const { return keys_[piece]; }
    std::size_t told() const { return told_; }
    std::uint64_t calls() { return rig_.qp->counters().get(Count::kRxCalls); }

  private:
    static Bytes filled(std::size_t header, std::size_t from, std::size_t payload) {
        Bytes ulpdu(header + payload);
        for (std::size_t i = 0; i < payload; ++i)
            ulpdu[header + i] = pattern(from + i);
        return ulpdu;
    }

    Rig rig_;
    std::vector<Bytes> sink_;
    std::vector<std::uint32_t> keys_;
    Bytes region_;
    std::vector<Bytes> received_;
    std::uint32_t stag_ = 0, region_stag_ = 0, sends_ = 0, requests_ = 0;
    std::size_t told_ = 0;
};

using Tale = std::function<void(Story&)>;

Outcome told(const Tale& tale, bool short_first, std::size_t most, std::size_t cut = kFirst) {
    Story story(4, short_first);
    tale(story);
    story.rig().script.most = most;
    story.rig().script.cuts = {kFirst, cut};
    return story.end();
}

// All that was asked for, and not an octet beside it.
void expect_whole_sink(const Outcome& outcome) {
    std::size_t at = 0;
    for (const Bytes& piece : outcome.sink) {
        Bytes expected(piece.size());
        for (std::size_t i = kGuard; i < piece.size() - kGuard; ++i)
            expected[i] = pattern(at++);
        EXPECT_TRUE(piece == expected);
    }
    EXPECT_EQ(at, kLength);
}

struct Named {
    const char* name;
    Tale tale;
};

// What a peer may say in the midst of a Response, for which a payload of kUsual octets is predicted.
const Named kWellFormed[] = {
    {"as predicted", [](Story& s) { s.rest(); }},
    {"a smaller segment", [](Story& s) { s.response(kUsual).response(17'000).response(100).rest(); }},
    {"a larger segment", [](Story& s) { s.response(kUsual).response(2 * kUsual).rest(); }},
    {"an empty segment", [](Story& s) { s.response(kUsual).response(0).rest(); }},
    {"padding", [](Story& s) { s.response(16'385).response(16'386).response(16'387).rest(); }},
    {"a large end", [](Story& s) { s.response(2 * kUsual).response(kUsual).response(kLength - 3 * kUsual, true); }},
    {"a Send", [](Story& s) { s.response(kUsual).send(300).rest(); }},
    {"a large Send", [](Story& s) { s.response(kUsual).send(kUsual).response(kUsual).send(kUsual - 4).rest(); }},
    {"an empty Send", [](Story& s) { s.response(kUsual).send(0).rest(); }},
    {"many Sends", [](Story& s) { s.response(kUsual).send(40).send(8000).send(40).send(9).rest(); }},
    {"a Write", [](Story& s) { s.response(kUsual).write(kUsual).rest(); }},
    {"a small Write", [](Story& s) { s.response(kUsual).write(4).write(5).write(6000).rest(); }},
    {"a Read Request", [](Story& s) { s.response(kUsual).request().rest(); }},
};

TEST(Predicted, AnythingElseIsTakenFromThereAgain) {
    for (const auto& [name, tale] : kWellFormed) {
        SCOPED_TRACE(name);
        const Outcome one_by_one = told(tale, false, 1);
        expect_whole_sink(one_by_one);
        EXPECT_EQ(one_by_one.last, Rx::Status::kAgain);
        ASSERT_FALSE(one_by_one.completions.empty());
        EXPECT_EQ(one_by_one.completions[0], "1 0 " + std::to_string(kLength) + " 0");
        for (const std::size_t most : {kNoLimit, kUsual, kUsual + 14 + 6, kUsual + 40, std::size_t(1999)})
            EXPECT_TRUE(told(tale, false, most) == one_by_one) << most;
        // All of a Response but its first segment would be the largest. What breaks that only harms itself.
        const Outcome broken = told(tale, true, kNoLimit);
        expect_whole_sink(broken);
        EXPECT_EQ(broken.completions, one_by_one.completions);
        EXPECT_TRUE(broken.received == one_by_one.received);
    }
}

// Around every boundary of an FPDU, so that each of the four parts of a read ends somewhere within.
TEST(Predicted, WhereverTheStreamIsCut) {
    for (const auto& [name, tale] : kWellFormed) {
        SCOPED_TRACE(name);
        const Outcome one_by_one = told(tale, false, 1);
        const std::size_t second = wire::fpdu_size(wire::kTaggedHeaderLen + kUsual);
        for (const std::size_t boundary : {second, 2 * second, 3 * second}) {
            for (std::size_t cut = boundary - 8; cut < boundary + 30; ++cut)
                EXPECT_TRUE(told(tale, false, kNoLimit, cut) == one_by_one) << cut;
        }
    }
}

TEST(Predicted, FaultsAreWhatTheyWere) {
    const auto wrong_version = [](Story& s) {
        Bytes ulpdu(wire::kTaggedHeaderLen + kUsual, std::byte(0x5a));
        wire::TaggedHeader{false, wire::rdmap_control(Opcode::kReadResponse), s.stag(), s.told()}.emit(ulpdu.data());
        ulpdu[1] |= std::byte(0xc0);
        s.response(kUsual).say(ulpdu).rest();
    };
    const Named kFaults[] = {
        {"STag", [](Story& s) { s.response(kUsual).response_at(s.stag() + 1, kUsual, kUsual).rest(); }},
        {"TO", [](Story& s) { s.response(kUsual).response_at(s.stag(), kUsual + 1, kUsual).rest(); }},
        {"too long", [](Story& s) { s.response(kUsual).response(60'000).response(60'000, true); }},
        {"ends too early", [](Story& s) { s.response(kUsual).response(kUsual, true); }},
        {"version", wrong_version},
        {"a Send too large", [](Story& s) { s.response(kUsual).send(kUsual + 1).send(0).rest(); }},
        {"short", [](Story& s) { s.response(kUsual).say(Bytes(1)).rest(); }},
    };
    for (const auto& [name, tale] : kFaults) {
        SCOPED_TRACE(name);
        const Outcome one_by_one = told(tale, false, 1);
        const Outcome whole = told(tale, false, kNoLimit);
        ASSERT_FALSE(whole.events.empty());
        EXPECT_EQ(whole.completions, one_by_one.completions);
        EXPECT_EQ(whole.events, one_by_one.events);
        EXPECT_TRUE(whole.outbound == one_by_one.outbound);
        EXPECT_TRUE(whole.region == one_by_one.region);
        EXPECT_TRUE(whole.received == one_by_one.received);
        for (const Bytes& piece : whole.sink) {
            EXPECT_EQ(std::count(piece.begin(), piece.begin() + kGuard, std::byte(0)), int(kGuard));
            EXPECT_EQ(std::count(piece.end() - kGuard, piece.end(), std::byte(0)), int(kGuard));
        }
    }
}

// A Send that finds no receive stands where a payload was predicted: all that came behind it waits, in its order.
TEST(Predicted, AStalledSendKeepsWhatCameBehindIt) {
    for (const std::size_t payload : {std::size_t(0), std::size_t(300), kUsual}) {
        SCOPED_TRACE(payload);
        Story story(0);
        story.response(kUsual).send(payload).rest();
        EXPECT_EQ(story.rig().receive(), Rx::Status::kStalled);
        EXPECT_TRUE(story.rig().poll(story.rig().send_cq).empty());
        story.more_receives();
        const Outcome outcome = story.end();
        EXPECT_EQ(outcome.last, Rx::Status::kAgain);
        expect_whole_sink(outcome);
        EXPECT_EQ(outcome.completions, (std::vector<std::string>{"1 0 " + std::to_string(kLength) + " 0",
                                                                 "100 0 " + std::to_string(payload) + " 0"}));
        for (std::size_t i = 0; i < payload; ++i)
            ASSERT_EQ(outcome.received[0][i], pattern(9 + i)) << i;
    }
}

// What it is for: two payloads for a receive call.
TEST(Predicted, TwoPayloadsComeWithOneCall) {
    Story story;
    story.rest();
    expect_whole_sink(story.end());
    // The first header; two payloads; the third and the last, which is shorter; and that there is no more.
    EXPECT_EQ(story.calls(), 4u);
}

// The rest of the sink is gone while the Response is under way: it is found out at the segment that goes there.
TEST(Predicted, AnElementOfTheSinkThatIsGone) {
    Story story;
    story.response(kUsual / 2).rest();
    story.rig().memory.remove(story.key(2));
    const Outcome outcome = story.end();
    ASSERT_EQ(outcome.completions.size(), 5u);
    EXPECT_EQ(outcome.completions[0].substr(0, 4), "1 " + std::to_string(unsigned(WcStatus::kLocProtErr)) + " ");
    for (std::size_t i = 0; i < kUsual / 2; ++i)
        ASSERT_EQ(outcome.sink[0][kGuard + i], pattern(i)) << i;
    EXPECT_EQ(outcome.sink[2], Bytes(outcome.sink[2].size()));
}

// ---- short first: every segment of a message but the first is the largest

constexpr std::size_t kLargest = wire::kMaxUlpdu - wire::kTaggedHeaderLen;
constexpr std::size_t kLargestSend = wire::kMaxUlpdu - wire::kUntaggedHeaderLen;

enum class MessageKind { kWrite, kSend, kRead };

// Two messages of up to `length` octets, told by their segments, to one place each: regions at the same TO, receives,
// or the sinks of Reads.
class Messages {
  public:
    Messages(MessageKind kind, std::size_t length, bool short_first = true) : kind_(kind), length_(length) {
        StreamParameters parameters = plain_stream();
        parameters.large_fpdu = true;
        parameters.short_first = short_first;
        EXPECT_TRUE(rig_.start(parameters));
        for (Bytes& place : places_) {
            place.resize(length + 2 * kGuard);
            const Sge sge{reinterpret_cast<std::uintptr_t>(place.data()) + kGuard, static_cast<std::uint32_t>(length),
                          kind == MessageKind::kWrite ? rig_.region(place, kAllRights, kRegionTo)
                                                      : rig_.region(place, access::kLocalWrite)};
            stags_.push_back(sge.lkey);
            if (kind == MessageKind::kRead) {
                EXPECT_EQ(post(rig_, 1, WrOpcode::kRead, {&sge, 1}), PostResult::kOk);
            }
            if (kind == MessageKind::kSend) {
                EXPECT_EQ(rig_.qp->post_recv({1, {&sge, 1}}), PostResult::kOk);
            }
        }
        EXPECT_EQ(rig_.transmit(), Tx::Status::kIdle);
        if (kind != MessageKind::kRead) return;
        const auto requests = ulpdus_of(rig_.script.outbound, false, false);
        for (std::size_t i = 0; i < places_.size(); ++i)
            stags_[i] = sink_of(requests.at(i));
    }

    // Of the message in progress; the last segment ends it.
    Messages& segment(std::size_t payload, bool last = false) {
        const std::size_t header = kind_ == MessageKind::kSend ? wire::kUntaggedHeaderLen : wire::kTaggedHeaderLen;
        Bytes ulpdu(header + payload);
        for (std::size_t i = 0; i < payload; ++i)
            ulpdu[header + i] = pattern(message_ * 3 + at_ + i);
        if (kind_ == MessageKind::kSend) {
            wire::UntaggedHeader{last,
                                 wire::rdmap_control(Opcode::kSend),
                                 0,
                                 wire::kSendQueue,
                                 static_cast<std::uint32_t>(message_ + 1),
                                 static_cast<std::uint32_t>(at_)}
                .emit(ulpdu.data());
        } else {
            const bool write = kind_ == MessageKind::kWrite;
            const std::uint64_t to = write ? kRegionTo + kGuard + at_ : at_;
            wire::TaggedHeader{last, wire::rdmap_control(write ? Opcode::kWrite : Opcode::kReadResponse),
                               stags_[message_], to}
                .emit(ulpdu.data());
        }
        append_fpdu(rig_.script.inbound, ulpdu, false, false);
        at_ += payload;
        if (last) {
            ++message_;
            at_ = 0;
        }
        return *this;
    }
    Messages& go_to(std::size_t message, std::size_t at) {
        message_ = message;
        at_ = at;
        return *this;
    }
    Messages& whole() {  // as our own sender cuts it
        const std::size_t largest = kind_ == MessageKind::kSend ? kLargestSend : kLargest;
        for (std::size_t part = length_ % largest; at_ + part < length_; part = largest)
            segment(part);
        return segment(length_ - at_, true);
    }

    void receive(std::size_t most, std::size_t cut) {
        rig_.script.most = most;
        rig_.script.cuts = {kFirst, cut};
        EXPECT_EQ(rig_.receive(), Rx::Status::kAgain);
        for (std::size_t message = 0; message < places_.size(); ++message) {
            Bytes expected(length_ + 2 * kGuard);
            for (std::size_t i = 0; i < length_; ++i)
                expected[kGuard + i] = pattern(message * 3 + i);
            EXPECT_TRUE(places_[message] == expected) << "message " << message;
        }
        if (kind_ == MessageKind::kWrite) {
            EXPECT_EQ(rig_.qp->counters().get(Count::kRxWrites), places_.size());
            return;
        }
        const auto done = rig_.poll(kind_ == MessageKind::kSend ? rig_.recv_cq : rig_.send_cq);
        ASSERT_EQ(done.size(), places_.size());
        for (const WorkCompletion& completion : done) {
            EXPECT_EQ(completion.status, WcStatus::kSuccess);
            EXPECT_EQ(completion.byte_len, length_);
        }
    }
    std::span<const std::byte> place(std::size_t message) const {
        return std::span(places_[message]).subspan(kGuard, length_);
    }
    Rig& rig() { return rig_; }
    std::uint64_t calls() { return rig_.qp->counters().get(Count::kRxCalls); }

  private:
    MessageKind kind_;
    std::size_t length_;
    Rig rig_;
    std::array<Bytes, 2> places_;
    std::vector<std::uint32_t> stags_;
    std::size_t message_ = 0, at_ = 0;
};

TEST(ShortFirst, TwoPayloadsComeWithOneCall) {
    for (const MessageKind kind : {MessageKind::kWrite, MessageKind::kSend, MessageKind::kRead}) {
        SCOPED_TRACE(unsigned(kind));
        Messages messages(kind, 12'000 + 3 * kLargestSend);
        messages.whole().whole().receive(kNoLimit, kFirst);
        // 1,000 octets; then of each message two and two; and that there is no more.
        EXPECT_EQ(messages.calls(), 6u);
    }
}

TEST(ShortFirst, HoweverTheStreamIsCut) {
    for (const MessageKind kind : {MessageKind::kWrite, MessageKind::kSend, MessageKind::kRead}) {
        SCOPED_TRACE(unsigned(kind));
        for (const std::size_t length : {2 * kLargest, 100 + 2 * kLargestSend, 2000 + kLargest, std::size_t(30'000)}) {
            for (const std::size_t most : {std::size_t(1), std::size_t(1999), std::size_t(70'000)}) {
                Messages messages(kind, length);
                messages.whole().whole().receive(most, kFirst);
            }
        }
        const std::size_t header = kind == MessageKind::kSend ? wire::kUntaggedHeaderLen : wire::kTaggedHeaderLen;
        for (const std::size_t boundary :
             {wire::fpdu_size(header + 2000), wire::fpdu_size(header + 2000) + wire::fpdu_size(wire::kMaxUlpdu)}) {
            for (std::size_t cut = boundary - 8; cut < boundary + 30; ++cut) {
                Messages messages(kind, 2000 + kLargest + (kind == MessageKind::kSend ? kLargestSend - kLargest : 0));
                messages.whole().whole().receive(kNoLimit, cut);
            }
        }
    }
}

// A peer that does not keep to it gets all its segments to their places. What it may spoil are the next 64 KiB of the
// same region, receive or sink, where it could write as well; here its own segments come over all that.
TEST(ShortFirst, APeerThatBreaksItIsUnderstood) {
    for (const MessageKind kind : {MessageKind::kWrite, MessageKind::kSend, MessageKind::kRead}) {
        SCOPED_TRACE(unsigned(kind));
        Messages messages(kind, 100'000);
        messages.segment(20'000).segment(30'000).segment(0).segment(30'000).segment(20'000, true);
        messages.segment(10'000).segment(5).segment(60'000).segment(29'995, true);
        messages.receive(kNoLimit, kFirst);
    }
}

TEST(ShortFirst, APeerThatGoesElsewhereIsUnderstood) {
    Messages regions(MessageKind::kWrite, 20'000 + kLargest);
    regions.segment(20'000).go_to(1, 0).segment(20'000).go_to(0, 20'000).segment(kLargest, true);
    regions.go_to(1, 20'000).segment(kLargest, true);
    regions.receive(kNoLimit, wire::fpdu_size(wire::kTaggedHeaderLen + 20'000) + 1000);
    Messages offsets(MessageKind::kWrite, 20'000 + 2 * kLargest);
    offsets.segment(20'000).go_to(0, 20'000 + kLargest).segment(kLargest).go_to(0, 20'000).segment(kLargest, true);
    offsets.whole().receive(kNoLimit, kFirst);
}

// Where less than the largest payload has room, nothing is predicted.
TEST(ShortFirst, NothingIsPredictedBehindTheEndOfAPlace) {
    for (const MessageKind kind : {MessageKind::kWrite, MessageKind::kSend}) {
        SCOPED_TRACE(unsigned(kind));
        Messages messages(kind, 60'000);
        messages.segment(20'000).segment(40'000, true).whole().receive(kNoLimit, kFirst);
    }
}

// Other peers' messages may end where they like, and what stands behind them is the program's.
TEST(ShortFirst, WithoutItNothingBehindAMessageIsTouched) {
    for (const MessageKind kind : {MessageKind::kWrite, MessageKind::kSend}) {
        SCOPED_TRACE(unsigned(kind));
        Messages messages(kind, 100'000, false);
        messages.segment(20'000).segment(100, true).segment(30'000).segment(5, true);
        messages.rig().script.cuts = {kFirst};
        EXPECT_EQ(messages.rig().receive(), Rx::Status::kAgain);
        for (const auto& [message, end] : {std::pair(0u, 20'100u), std::pair(1u, 30'005u)}) {
            const auto rest = messages.place(message).subspan(end);
            EXPECT_EQ(messages.place(message)[end - 1], pattern(message * 3 + end - 1));
            EXPECT_EQ(std::count(rest.begin(), rest.end(), std::byte(0)), std::ptrdiff_t(rest.size()));
        }
    }
}

std::vector<std::pair<std::size_t, bool>> cut_of(WrOpcode opcode, std::size_t length, bool short_first) {
    Rig rig;
    StreamParameters parameters = plain_stream();
    parameters.large_fpdu = true;
    parameters.short_first = short_first;
    EXPECT_TRUE(rig.start(parameters));
    std::vector<std::byte> data(length);
    for (std::size_t i = 0; i < length; ++i)
        data[i] = pattern(i);
    const Sge sge = sge_of(data, rig.region(data, kAllRights));
    if (opcode == WrOpcode::kRead) {  // the Response to one of the peer's
        append_fpdu(rig.script.inbound, read_request({1, 0, static_cast<std::uint32_t>(length), sge.lkey, sge.addr}, 1),
                    false, false);
        rig.receive();
    } else {
        EXPECT_EQ(post(rig, 1, opcode, {&sge, 1}), PostResult::kOk);
    }
    EXPECT_EQ(rig.transmit(), Tx::Status::kIdle);
    std::vector<std::pair<std::size_t, bool>> segments;
    Bytes all;
    for (const Bytes& ulpdu : ulpdus_of(rig.script.outbound, false, false)) {
        const std::size_t header = opcode == WrOpcode::kSend ? wire::kUntaggedHeaderLen : wire::kTaggedHeaderLen;
        segments.emplace_back(ulpdu.size() - header, wire::is_last(std::to_integer<std::uint8_t>(ulpdu[0])));
        all.insert(all.end(), ulpdu.begin() + static_cast<std::ptrdiff_t>(header), ulpdu.end());
    }
    EXPECT_TRUE(all == data);
    return segments;
}

TEST(ShortFirst, OurOwnMessagesAreCutSo) {
    using Segments = std::vector<std::pair<std::size_t, bool>>;
    for (const WrOpcode opcode : {WrOpcode::kWrite, WrOpcode::kSend, WrOpcode::kRead}) {
        SCOPED_TRACE(unsigned(opcode));
        const std::size_t largest = opcode == WrOpcode::kSend ? kLargestSend : kLargest;
        EXPECT_EQ(cut_of(opcode, 9, true), (Segments{{9, true}}));
        EXPECT_EQ(cut_of(opcode, largest, true), (Segments{{largest, true}}));
        EXPECT_EQ(cut_of(opcode, largest + 1, true), (Segments{{1, false}, {largest, true}}));
        EXPECT_EQ(cut_of(opcode, 2 * largest, true), (Segments{{largest, false}, {largest, true}}));
        EXPECT_EQ(cut_of(opcode, 2 * largest + 7, true), (Segments{{7, false}, {largest, false}, {largest, true}}));
        EXPECT_EQ(cut_of(opcode, 2 * largest + 7, false), (Segments{{largest, false}, {largest, false}, {7, true}}));
    }
}

}  // namespace

}  // namespace swrnic::engine::test
