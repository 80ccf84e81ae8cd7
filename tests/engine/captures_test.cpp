// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// What Linux siw once sent (tests/golden/captures), digested by a real Qp in the peer's place: everything that siw used
// is there, so that nothing may fail, and no cut of the stream may change the result.
#include <gtest/gtest.h>

#include <map>
#include <set>

#include "engine/support.h"
#include "golden/pcap.h"
#include "wire/ddp.h"
#include "wire/rdmap.h"

namespace swrnic::engine::test {

namespace {

using wire::Opcode;

std::uint8_t octet(const Bytes& ulpdu, std::size_t at) {
    return std::to_integer<std::uint8_t>(ulpdu.at(at));
}

struct Range {  // of a region, by TO
    std::uint64_t begin = ~std::uint64_t{0}, end = 0;
    void cover(std::uint64_t to, std::uint64_t length) {
        begin = std::min(begin, to);
        end = std::max(end, to + length);
    }
};

// One direction, as a list of what is in it.
struct Traffic {
    Bytes stream;
    bool whole = true;  // ends at an FPDU boundary
    std::map<std::uint32_t, Range> regions;
    std::vector<std::pair<std::uint64_t, Bytes>> writes;  // TO, payload
    std::vector<std::uint32_t> write_stags;
    std::vector<wire::ReadRequest> requests;
    std::vector<Bytes> sends, responses;
    std::vector<std::uint32_t> invalidated;  // one per Send with Invalidate
    bool terminate = false;                  // siw's last word
    bool uses_invalidated = false;           // siw's user goes on with an STag that it has invalidated

    Traffic(std::span<const std::byte> octets, bool crc) : stream(octets.begin(), octets.end()) {
        std::size_t at = 0;
        bool send_ended = true, response_ended = true;
        std::set<std::uint32_t> dead;
        for (const Bytes& ulpdu : ulpdus_of(octets, false, crc)) {
            if (ulpdu.empty()) {
                whole = false;
                return;
            }
            const std::size_t size = wire::fpdu_size(ulpdu.size());
            const auto opcode = static_cast<Opcode>(octet(ulpdu, 1) & wire::kOpcodeMask);
            const bool last = wire::is_last(octet(ulpdu, 0));
            switch (opcode) {
                case Opcode::kWrite: {
                    const auto header = wire::TaggedHeader::parse(ulpdu.data());
                    const std::size_t length = ulpdu.size() - wire::kTaggedHeaderLen;
                    if (length == 0) break;  // the RTR
                    regions[header.stag].cover(header.to, length);
                    writes.emplace_back(header.to, Bytes(ulpdu.begin() + wire::kTaggedHeaderLen, ulpdu.end()));
                    write_stags.push_back(header.stag);
                    uses_invalidated |= dead.count(header.stag) != 0;
                    break;
                }
                case Opcode::kReadRequest:
                    requests.push_back(wire::ReadRequest::parse(ulpdu.data() + wire::kUntaggedHeaderLen));
                    regions[requests.back().source_stag].cover(requests.back().source_to, requests.back().size);
                    uses_invalidated |= dead.count(requests.back().source_stag) != 0;
                    break;
                case Opcode::kReadResponse:
                    if (response_ended) responses.emplace_back();
                    response_ended = last;
                    // siw's sink starts at an address, ours at 0: the peer's answer to our Request would say so.
                    rebase(at, ulpdu.size(), responses.back().size(), crc);
                    responses.back().insert(responses.back().end(), ulpdu.begin() + wire::kTaggedHeaderLen,
                                            ulpdu.end());
                    break;
                case Opcode::kTerminate:
                    terminate = true;
                    break;
                default:
                    if (send_ended) sends.emplace_back();
                    send_ended = last;
                    sends.back().insert(sends.back().end(), ulpdu.begin() + wire::kUntaggedHeaderLen, ulpdu.end());
                    if (opcode != Opcode::kSendInvalidate && opcode != Opcode::kSendSolicitedInvalidate) break;
                    if (!last) break;
                    invalidated.push_back(wire::UntaggedHeader::parse(ulpdu.data()).invalidate_stag);
                    dead.insert(invalidated.back());
                    regions[invalidated.back()];  // perhaps not used otherwise
                    break;
            }
            at += size;
        }
        sends_ended = send_ended;
        for (auto& [stag, range] : regions)
            if (range.end == 0) range.cover(0x1000, 1);
    }
    bool sends_ended = true;

  private:
    void rebase(std::size_t at, std::size_t ulpdu_len, std::uint64_t to, bool crc) {
        wire::store_be64(stream.data() + at + wire::kFpduHeaderLen + 6, to);
        wire::seal_fpdu(std::span(stream).subspan(at, wire::fpdu_size(ulpdu_len)), crc);
    }
};

// All that a Qp makes of a stream.
struct Result {
    Rx::Status last;
    QpState state;
    std::vector<std::string> completions, events;
    std::vector<Bytes> received, read;
    std::map<std::uint32_t, Bytes> regions;
    Bytes outbound;
    bool operator==(const Result&) const = default;
};

std::string text(const WorkCompletion& done) {
    std::string out;
    for (const std::uint64_t value :
         {done.wr_id, std::uint64_t(done.status), std::uint64_t(done.opcode), std::uint64_t(done.byte_len),
          std::uint64_t(done.wc_flags), std::uint64_t(done.invalidated_stag), std::uint64_t(done.vendor_err)})
        out += std::to_string(value) + " ";
    return out;
}

Sge registered(Rig& rig, Bytes& data) {
    return {reinterpret_cast<std::uintptr_t>(data.data()), static_cast<std::uint32_t>(data.size()),
            rig.region(data, access::kLocalWrite)};
}

Result digest(const Traffic& in, const std::vector<wire::ReadRequest>& reads, bool crc, std::size_t most,
              const std::vector<std::size_t>& cuts) {
    RigOptions options;
    options.max_send_wr = options.max_recv_wr = 4096;
    Rig rig(options);
    Result result{};
    StreamParameters parameters = plain_stream();
    parameters.crc = crc;
    parameters.ird = parameters.ord = 4096;
    EXPECT_TRUE(rig.start(parameters));
    for (const auto& [stag, range] : in.regions) {
        EXPECT_LT(range.end - range.begin, 1u << 24);
        Bytes& data = result.regions[stag];
        data.resize(std::max<std::uint64_t>(range.end - range.begin, 1));
        rig.random.wish(stag);
        EXPECT_EQ(rig.region(data, kAllRights, range.begin), stag);
    }
    result.received.reserve(in.sends.size());
    for (std::size_t i = 0; i < in.sends.size(); ++i) {
        const Sge sge = registered(rig, result.received.emplace_back(std::max<std::size_t>(in.sends[i].size(), 1)));
        EXPECT_EQ(rig.qp->post_recv({i, {&sge, 1}}), PostResult::kOk);
    }
    result.read.reserve(reads.size());
    for (std::size_t i = 0; i < reads.size(); ++i) {
        const Sge sge = registered(rig, result.read.emplace_back(reads[i].size));
        EXPECT_EQ(rig.qp->post_send({i,
                                     WrOpcode::kRead,
                                     send_flag::kSignaled,
                                     {&sge, reads[i].size == 0 ? 0u : 1u},
                                     reads[i].source_to,
                                     reads[i].source_stag,
                                     0}),
                  PostResult::kOk);
    }
    for (const wire::ReadRequest& read : reads)
        rig.random.wish(read.sink_stag);
    EXPECT_EQ(rig.transmit(), Tx::Status::kIdle);

    rig.script.inbound = in.stream;
    rig.script.most = most;
    rig.script.cuts = cuts;
    rig.script.fin = true;
    result.last = rig.receive();
    rig.transmit();
    rig.end();
    result.state = rig.qp->state();
    for (const auto& done : rig.poll(rig.recv_cq))
        result.completions.push_back("recv " + text(done));
    for (const auto& done : rig.poll(rig.send_cq))
        result.completions.push_back("send " + text(done));
    for (const auto& event : rig.outbox.events)
        result.events.push_back(std::to_string(static_cast<unsigned>(event.event)));
    for (const auto& closed : rig.outbox.closed) {
        result.events.push_back("closed " + std::to_string(static_cast<unsigned>(closed.reason)) + " " +
                                std::to_string(closed.terminate ? closed.terminate->packed() : 0) +
                                (closed.sent ? " sent" : ""));
    }
    result.outbound = rig.script.outbound;
    return result;
}

// The Requests of the captured requester, but for the sink's TO.
void check_requests(const std::vector<Bytes>& out, const std::vector<wire::ReadRequest>& reads) {
    ASSERT_GE(out.size(), reads.size());
    for (std::size_t i = 0; i < reads.size(); ++i) {
        ASSERT_EQ(out[i].size(), wire::kReadRequestSegmentLen);
        const auto request = wire::ReadRequest::parse(out[i].data() + wire::kUntaggedHeaderLen);
        EXPECT_EQ(request.sink_stag, reads[i].sink_stag);
        EXPECT_EQ(request.sink_to, 0u);
        EXPECT_EQ(request.size, reads[i].size);
        EXPECT_EQ(request.source_stag, reads[i].source_stag);
        EXPECT_EQ(request.source_to, reads[i].source_to);
    }
}

void check_placed(const Traffic& in, const Result& result) {
    std::map<std::uint32_t, Bytes> expected;
    for (const auto& [stag, range] : in.regions)
        expected[stag].resize(std::max<std::uint64_t>(range.end - range.begin, 1));
    for (std::size_t i = 0; i < in.writes.size(); ++i) {
        const auto& [to, payload] = in.writes[i];
        const std::uint32_t stag = in.write_stags[i];
        std::copy(payload.begin(), payload.end(),
                  expected[stag].begin() + static_cast<std::ptrdiff_t>(to - in.regions.at(stag).begin));
    }
    EXPECT_TRUE(result.regions == expected);
    for (std::size_t i = 0; i < in.sends.size(); ++i) {
        EXPECT_TRUE(std::equal(in.sends[i].begin(), in.sends[i].end(), result.received[i].begin())) << "Send " << i;
    }
    for (std::size_t i = 0; i < in.responses.size(); ++i)
        EXPECT_TRUE(in.responses[i] == result.read[i]) << "Response " << i;
}

void check_completions(const Traffic& in, std::size_t reads, const Result& result) {
    ASSERT_EQ(result.completions.size(), in.sends.size() + reads);
    std::size_t invalidated = 0;
    for (std::size_t i = 0; i < in.sends.size(); ++i) {
        WorkCompletion done = make_completion(0, i, WcStatus::kSuccess, WcOpcode::kRecv);
        done.byte_len = static_cast<std::uint32_t>(in.sends[i].size());
        if (!in.invalidated.empty() && i + in.invalidated.size() >= in.sends.size()) {  // they come last
            done.wc_flags = wc_flag::kWithInv;
            done.invalidated_stag = in.invalidated[invalidated++];
        }
        EXPECT_EQ(result.completions[i], "recv " + text(done));
    }
    for (std::size_t i = 0; i < in.responses.size(); ++i) {
        WorkCompletion done = make_completion(0, i, WcStatus::kSuccess, WcOpcode::kRead);
        done.byte_len = static_cast<std::uint32_t>(in.responses[i].size());
        EXPECT_EQ(result.completions[in.sends.size() + i], "send " + text(done));
    }
}

struct Seen {
    unsigned streams = 0, terminates = 0, own = 0, writes = 0, reads = 0, sends = 0;
};

void digest_direction(std::span<const std::byte> octets, std::span<const std::byte> other,
                      const golden::Direction& direction, bool crc, Seen& seen) {
    const Traffic in(octets, crc);
    const Traffic theirs(other, crc);
    ASSERT_TRUE(in.whole && in.sends_ended);
    std::vector<std::size_t> cuts;
    const std::size_t startup = direction.bytes.size() - octets.size();
    for (const std::size_t cut : direction.cuts) {
        if (cut > startup) cuts.push_back(cut - startup);
    }
    const Result whole = digest(in, theirs.requests, crc, kNoLimit, {});
    EXPECT_TRUE(digest(in, theirs.requests, crc, kNoLimit, cuts) == whole) << "TCP's cuts";
    EXPECT_TRUE(digest(in, theirs.requests, crc, 1, {}) == whole) << "octets";
    EXPECT_TRUE(digest(in, theirs.requests, crc, 1461, {}) == whole);

    const auto out = ulpdus_of(whole.outbound, false, crc);
    check_requests(out, theirs.requests);
    check_placed(in, whole);
    check_completions(in, theirs.requests.size(), whole);
    EXPECT_EQ(whole.state, QpState::kErr);  // as after every end
    const bool terminated = !out.empty() && out.back().size() > 1 &&
                            (octet(out.back(), 1) & wire::kOpcodeMask) == unsigned(Opcode::kTerminate);
    ASSERT_FALSE(whole.events.empty());
    if (in.uses_invalidated) {
        ASSERT_TRUE(terminated);
        EXPECT_EQ(wire::parse_terminate(out.back()).code, wire::fault::kReadInvalidStag);
        ++seen.own;
    } else if (in.terminate) {
        EXPECT_FALSE(terminated) << "a Terminate is never answered";
        EXPECT_EQ(whole.events.front(), std::to_string(static_cast<unsigned>(AsyncEvent::kQpFatal)));
    } else {
        EXPECT_FALSE(terminated);
        EXPECT_EQ(whole.last, Rx::Status::kEof);
        EXPECT_EQ(whole.events, std::vector<std::string>{"closed 0 0"});
        EXPECT_EQ(in.responses.size(), theirs.requests.size());
        std::size_t responses = 0;
        for (const Bytes& ulpdu : out)
            responses += (octet(ulpdu, 1) & wire::kOpcodeMask) == unsigned(Opcode::kReadResponse) &&
                         wire::is_last(octet(ulpdu, 0));
        EXPECT_EQ(responses, in.requests.size());
    }
    ++seen.streams;
    seen.terminates += in.terminate;
    seen.writes += in.writes.size();
    seen.reads += in.requests.size();
    seen.sends += in.sends.size();
}

TEST(EngineCaptures, DigestsSiwHoweverItIsCut) {
    Seen seen;
    for (const auto& file : golden::captures()) {
        for (const golden::Connection& connection : golden::read_pcap(file)) {
            const auto c = golden::split_mpa(connection);
            if (!c || c->rejected) continue;
            ASSERT_FALSE(c->markers_to_client || c->markers_to_server);
            const std::string place =
                file.filename().string() + " client port " + std::to_string(connection.client.port);
            {
                SCOPED_TRACE(place + " to the server");
                digest_direction(c->to_server, c->to_client, connection.to_server, c->crc, seen);
            }
            SCOPED_TRACE(place + " to the client");
            digest_direction(c->to_client, c->to_server, connection.to_client, c->crc, seen);
        }
    }
    EXPECT_GE(seen.streams, 120u);
    EXPECT_EQ(seen.terminates, 9u);  // captures/README.md
    EXPECT_EQ(seen.own, 1u);         // term-inv
    EXPECT_GE(seen.writes, 450u);
    EXPECT_GE(seen.reads, 60u);
    EXPECT_GE(seen.sends, 100u);
}

}  // namespace

}  // namespace swrnic::engine::test
