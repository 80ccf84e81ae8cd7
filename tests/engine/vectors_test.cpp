// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Every DDP segment and sequence on record against a real Qp, in each framing and cut.
#include <gtest/gtest.h>

#include <cstring>
#include <map>
#include <variant>

#include "engine/modes.h"
#include "engine/support.h"
#include "wire/terminate.h"

namespace swrnic::engine::test {

namespace {

using golden::Vector;

constexpr Mode kVectorModes[] = {{"plain", false, false, kNoLimit},  {"plain_octets", false, false, 1},
                                 {"crc", true, false, kNoLimit},     {"crc_octets", true, false, 1},
                                 {"markers", false, true, kNoLimit}, {"crc_markers_sevens", true, true, 7}};

// What this engine does differently from the main result, and why.
struct Exception {
    std::size_t step;
    const char* outcome;  // a Terminate, or "accept"
    std::vector<std::string> effects;
    const char* reason;
};
const std::map<std::string, Exception> kExceptions{
    {"RDMAP-E-007", {0, "accept", {"complete-receive-imm"}, "RFC 7306 is always supported"}},
    {"RDMAP-E-046", {0, "0/2/6", {}, "RFC 7306 is always supported, so queue 3 exists"}},
    {"DDP-E-005", {0, "accept", {"place-tagged"}, "no region is bound to a stream: the protection domain decides"}},
    {"RDMAP-E-019", {0, "accept", {"respond-read:16"}, "no region is bound to a stream"}},
    {"RDMAP-E-027",
     {0,
      "accept",
      {"place-untagged", "invalidate:0x00012c09", "complete-receive:16"},
      "no region is shared in that sense: all regions belong to the protection domain"}},
};

std::string triple(wire::TerminateCode code) {
    return std::to_string(code.layer) + "/" + std::to_string(code.type) + "/" + std::to_string(code.code);
}

wire::TerminateCode code_of(const std::string& text) {
    unsigned layer = 0, type = 0, code = 0;
    std::sscanf(text.c_str(), "%u/%u/%u", &layer, &type, &code);
    return {static_cast<std::uint8_t>(layer), static_cast<std::uint8_t>(type), static_cast<std::uint8_t>(code)};
}

std::uint8_t opcode_in(const Bytes& segment) {
    return segment.size() < 2 ? 0xff : std::to_integer<std::uint8_t>(segment[1]) & wire::kOpcodeMask;
}

bool is_tagged_segment(const Bytes& segment) {
    return !segment.empty() && wire::is_tagged(std::to_integer<std::uint8_t>(segment[0]));
}

struct Region {
    std::uint32_t stag;
    std::uint64_t base;
    Bytes data, expected;
};

// One vector in one mode.
class Trial {
  public:
    Trial(const Vector& vector, const Mode& mode) : vector_(vector), mode_(mode) {}

    void run(const std::vector<Bytes>& segments, const std::vector<nlohmann::json>& expects) {
        ASSERT_NO_FATAL_FAILURE(build());
        const auto found = kExceptions.find(vector().id);
        for (std::size_t i = 0; i < segments.size(); ++i) {
            const Exception* exception =
                found != kExceptions.end() && found->second.step == i ? &found->second : nullptr;
            SCOPED_TRACE("step " + std::to_string(i));
            ASSERT_NO_FATAL_FAILURE(step(segments[i], expects[i], exception));
        }
        if (dead_) {
            expect_failed_end(*dead_);
        } else if (received_terminate_) {
            rig_.end();
            ASSERT_EQ(rig_.outbox.closed.size(), 1u);
            EXPECT_EQ(rig_.outbox.closed[0].reason, CloseReason::kError);
            EXPECT_FALSE(rig_.outbox.closed[0].sent);
            ASSERT_EQ(rig_.outbox.events.size(), 1u);
            EXPECT_EQ(rig_.outbox.events[0].event, AsyncEvent::kQpFatal);
        } else if (rig_.qp->connected()) {
            expect_responses();
        }
    }

  private:
    const Vector& vector() const { return vector_; }
    const Mode& mode() const { return mode_; }

    void build() {
        const nlohmann::json& context = vector().context;
        std::uint8_t fill = 0x10;
        for (const auto& mr : context.at("mrs")) {
            regions_.push_back({static_cast<std::uint32_t>(number(mr.at("stag"))), number(mr.at("base")), {}, {}});
            Region& region = regions_.back();
            region.data.assign(number(mr.at("len")), std::byte(fill++));
            std::uint32_t rights = 0;
            for (const auto& right : mr.at("access")) {
                if (right == "local_write") rights |= access::kLocalWrite;
                if (right == "remote_write") rights |= access::kRemoteWrite;
                if (right == "remote_read") rights |= access::kRemoteRead;
                if (right == "remote_atomic") rights |= access::kRemoteAtomic;
            }
            rig_.random.wish(region.stag);
            const auto pd = static_cast<std::uint32_t>(number(mr.at("pd")));
            ASSERT_EQ(rig_.region(region.data, rights, region.base, pd), region.stag);
            if (!mr.value("valid", true)) rig_.memory.invalidate_remote(pd, region.stag);
        }
        std::uint64_t wr_id = 0;
        for (const auto& size : context.at("rq")) {
            receives_.push_back({0, 0, Bytes(number(size), std::byte(fill++)), {}});
            Region& buffer = receives_.back();
            buffer.base = reinterpret_cast<std::uintptr_t>(buffer.data.data());
            buffer.stag = rig_.region(buffer.data, access::kLocalWrite);
            const Sge sge{buffer.base, static_cast<std::uint32_t>(buffer.data.size()), buffer.stag};
            ASSERT_EQ(rig_.qp->post_recv({wr_id++, {&sge, 1}}), PostResult::kOk);
        }
        StreamParameters parameters = plain_stream();
        parameters.crc = mode().crc;
        parameters.markers_rx = parameters.markers_tx = mode().markers;
        parameters.ird = static_cast<std::uint16_t>(number(context.at("ird")));
        parameters.rfc7306 = true;
        ASSERT_TRUE(rig_.start(parameters));
        post_reads(context);
        // as it was before anything came in
        for (Region& region : regions_)
            region.expected = region.data;
        for (Region& buffer : receives_)
            buffer.expected = buffer.data;
        rig_.script.most = mode().most;
        set_counters(context);
    }

    void post_reads(const nlohmann::json& context) {
        for (const auto& read : context.at("reads_outstanding")) {
            const Sge sge{number(read.at("sink_to")), static_cast<std::uint32_t>(number(read.at("len"))),
                          static_cast<std::uint32_t>(number(read.at("sink_stag")))};
            sink_to_ = sge.addr;
            if (sge.lkey != 0) rig_.random.wish(sge.lkey);
            ASSERT_EQ(rig_.qp->post_send({900, WrOpcode::kRead, send_flag::kSignaled, {&sge, 1}, 0x1000, 0x2000, 0}),
                      PostResult::kOk);
        }
        for (const auto& id : context.at("atomics_outstanding")) {
            result_stag_ = rig_.region(result_, access::kLocalWrite);
            const Sge sge{reinterpret_cast<std::uintptr_t>(result_.data()), 8, result_stag_};
            rig_.random.wish(static_cast<std::uint32_t>(number(id)));
            ASSERT_EQ(
                rig_.qp->post_send({901, WrOpcode::kFetchAdd, send_flag::kSignaled, {&sge, 1}, 0x1000, 0x2000, 0}),
                PostResult::kOk);
        }
        rig_.transmit();
        outbound_before_ = ulpdus_of(rig_.script.outbound, mode().markers, mode().crc).size();
    }

    void set_counters(const nlohmann::json& context) {
        for (const std::uint32_t qn : {0u, 1u, 2u, 3u})
            CoreTestAccess::next_msn(rig_.qp->rx(), qn) =
                static_cast<std::uint32_t>(number(context.at("next_msn").at(std::to_string(qn))));
        // The slots that are taken, by Requests that bring the MSN to where the vector wants it.
        const auto used = static_cast<std::uint32_t>(number(context.at("ird_used")));
        CoreTestAccess::next_msn(rig_.qp->rx(), 1) -= used;
        for (std::uint32_t i = 0; i < used; ++i) {
            std::array<std::byte, wire::kReadRequestSegmentLen> request;
            wire::emit_read_request_segment({1, 0, 0, 1, 0}, CoreTestAccess::next_msn(rig_.qp->rx(), 1),
                                            request.data());
            ASSERT_EQ(feed(Bytes(request.begin(), request.end())), Rx::Status::kAgain);
        }
        // The part of the message that is in already.
        if (const auto mo = static_cast<std::uint32_t>(number(context.at("mo").at("0"))); mo != 0) {
            Bytes part(wire::kUntaggedHeaderLen + mo, std::byte(0x77));
            wire::UntaggedHeader{false, wire::rdmap_control(wire::Opcode::kSend),   0,
                                 0,     CoreTestAccess::next_msn(rig_.qp->rx(), 0), 0}
                .emit(part.data());
            ASSERT_EQ(feed(part), Rx::Status::kAgain);
            std::fill_n(receives_[0].expected.begin(), mo, std::byte(0x77));
            received_ = mo;
        }
    }

    Rx::Status feed(const Bytes& ulpdu) {
        append_fpdu(rig_.script.inbound, ulpdu, mode().markers, mode().crc);
        return rig_.receive();
    }

    // Our Reads name a sink that starts at 0, whatever the buffer's address is.
    Bytes translated(Bytes ulpdu, std::size_t at = 0) const {
        if (sink_to_ == 0 || ulpdu.size() < at + wire::kTaggedHeaderLen) return ulpdu;
        if (opcode_in(Bytes(ulpdu.begin() + static_cast<std::ptrdiff_t>(at), ulpdu.end())) != 2) return ulpdu;
        wire::store_be64(ulpdu.data() + at + 6, wire::load_be64(ulpdu.data() + at + 6) - sink_to_);
        return ulpdu;
    }

    void expect_memory() {
        for (const Region& region : regions_)
            EXPECT_EQ(region.data, region.expected) << "region " << std::hex << region.stag;
        for (std::size_t i = 0; i < receives_.size(); ++i)
            EXPECT_EQ(receives_[i].data, receives_[i].expected) << "receive " << i;
    }

    void place(const Bytes& segment) {
        const std::size_t header = is_tagged_segment(segment) ? wire::kTaggedHeaderLen : wire::kUntaggedHeaderLen;
        const auto payload = std::span(segment).subspan(header);
        if (!is_tagged_segment(segment)) {
            Bytes& into = receives_.at(next_receive_).expected;
            std::copy(payload.begin(), payload.end(), into.begin() + static_cast<std::ptrdiff_t>(received_));
            received_ += payload.size();
            return;
        }
        const auto fields = wire::TaggedHeader::parse(segment.data());
        for (Region& region : regions_)
            if (region.stag == fields.stag)
                std::copy(payload.begin(), payload.end(),
                          region.expected.begin() + static_cast<std::ptrdiff_t>(fields.to - region.base));
    }

    // What an atomic does to its target.
    void change(const wire::AtomicRequest& request) {
        for (Region& region : regions_) {
            if (region.stag != request.stag) continue;
            std::byte* const at = region.expected.data() + (request.to - region.base);
            std::uint64_t value = 0;
            std::memcpy(&value, at, sizeof value);
            originals_.push_back(value);
            value = request.result(value);
            std::memcpy(at, &value, sizeof value);
        }
    }

    void accept(const Bytes& segment, const std::vector<std::string>& effects) {
        rig_.recv_cq.arm(true);
        rig_.outbox.notify.clear();
        ASSERT_EQ(feed(translated(segment)), Rx::Status::kAgain);
        ASSERT_FALSE(rig_.qp->has_fault());
        std::vector<WorkCompletion> receives = rig_.poll(rig_.recv_cq), sends = rig_.poll(rig_.send_cq);
        bool event = false;
        std::size_t completed_receives = 0, completed_reads = 0;
        for (const std::string& effect : effects) {
            const std::string argument = effect.find(':') != effect.npos ? effect.substr(effect.find(':') + 1) : "";
            if (effect.starts_with("place-")) {
                place(segment);
                if (is_tagged_segment(segment))
                    written_ = static_cast<std::uint32_t>(segment.size() - wire::kTaggedHeaderLen);
            } else if (effect.starts_with("complete-receive:")) {
                ASSERT_EQ(receives.size(), 1u);
                EXPECT_EQ(receives[0].status, WcStatus::kSuccess);
                EXPECT_EQ(receives[0].opcode, WcOpcode::kRecv);
                EXPECT_EQ(receives[0].wr_id, next_receive_);
                EXPECT_EQ(receives[0].byte_len, std::stoul(argument));
                ++next_receive_, ++completed_receives;
                received_ = 0;
            } else if (effect.starts_with("invalidate:")) {
                const auto stag = static_cast<std::uint32_t>(number(argument));
                ASSERT_EQ(receives.size(), 1u);
                EXPECT_EQ(receives[0].wc_flags, wc_flag::kWithInv);
                EXPECT_EQ(receives[0].invalidated_stag, stag);
                EXPECT_EQ(rig_.memory.invalidate_remote(Rig::kPd, stag), MemoryError::kInvalidStag);
            } else if (effect == "complete-receive-imm") {
                ASSERT_EQ(receives.size(), 1u);
                EXPECT_EQ(receives[0].status, WcStatus::kSuccess);
                EXPECT_EQ(receives[0].opcode, WcOpcode::kRecvRdmaWithImm);
                EXPECT_EQ(receives[0].wr_id, next_receive_);
                EXPECT_EQ(receives[0].byte_len, written_);
                EXPECT_EQ(receives[0].wc_flags, wc_flag::kWithImm);
                EXPECT_EQ(std::memcmp(&receives[0].imm_data, segment.data() + wire::kUntaggedHeaderLen, 4), 0);
                ++next_receive_, ++completed_receives;
            } else if (effect == "respond-atomic") {
                const std::uint32_t waiting = rig_.qp->reads().irq.size();
                ASSERT_EQ(waiting, ++responses_due_);
                const wire::AtomicRequest& got = rig_.qp->reads().irq.peek(waiting - 1).atomic;
                EXPECT_EQ(got, wire::AtomicRequest::parse(segment.data() + wire::kUntaggedHeaderLen));
                requests_.push_back(got);
            } else if (effect == "complete-atomic") {
                ASSERT_EQ(sends.size(), 1u);
                EXPECT_EQ(sends[0].status, WcStatus::kSuccess);
                EXPECT_EQ(sends[0].opcode, WcOpcode::kFetchAdd);
                EXPECT_EQ(sends[0].wr_id, 901u);
                EXPECT_EQ(sends[0].byte_len, 8u);
                std::uint64_t result = 0;
                std::memcpy(&result, result_.data(), sizeof result);
                EXPECT_EQ(result, wire::AtomicResponse::parse(segment.data() + wire::kUntaggedHeaderLen).original);
                ++completed_reads;
            } else if (effect == "complete-read") {
                ASSERT_EQ(sends.size(), 1u);
                EXPECT_EQ(sends[0].status, WcStatus::kSuccess);
                EXPECT_EQ(sends[0].opcode, WcOpcode::kRead);
                EXPECT_EQ(sends[0].wr_id, 900u);
                ++completed_reads;
            } else if (effect.starts_with("respond-read:")) {
                const std::uint32_t waiting = rig_.qp->reads().irq.size();
                ASSERT_EQ(waiting, ++responses_due_);
                const wire::ReadRequest& got = rig_.qp->reads().irq.peek(waiting - 1).request;
                EXPECT_EQ(got, wire::ReadRequest::parse(segment.data() + wire::kUntaggedHeaderLen));
                EXPECT_EQ(got.size, std::stoul(argument));
                requests_.push_back(got);
            } else if (effect == "event") {
                event = true;
            } else {
                FAIL() << "unknown effect " << effect;
            }
        }
        EXPECT_EQ(receives.size(), completed_receives);
        EXPECT_EQ(sends.size(), completed_reads);
        EXPECT_EQ(rig_.outbox.notify, event ? std::vector{Rig::kRecvCq} : std::vector<std::uint32_t>{});
        expect_memory();
    }

    static bool is_invalidate(wire::TerminateCode code) { return code.layer == 0 && code.code == 9; }

    // docs/spec/verbs.md section 5, detecting side.
    static AsyncEvent event_for(wire::TerminateCode code, const Bytes& segment) {
        const std::uint8_t opcode = opcode_in(segment);
        if (is_invalidate(code) || (code.layer == 0 && code.type == 1)) return AsyncEvent::kQpAccessErr;
        if (code.layer == 1 && code.type == 1 && code.code != 4)
            return opcode == 2 ? AsyncEvent::kQpFatal : AsyncEvent::kQpAccessErr;
        if (opcode == 11 && code == wire::fault::kUnknownAtomicId) return AsyncEvent::kQpFatal;
        const bool buffer = code.layer == 1 && code.type == 2 && (code.code == 2 || code.code == 5);
        const bool send = opcode >= 3 && opcode <= 6;
        return buffer && send ? AsyncEvent::kQpFatal : AsyncEvent::kQpReqErr;
    }

    void terminate(const Bytes& segment, const std::string& expected, const std::string& octets) {
        const wire::TerminateCode code = code_of(expected);
        Rx::Status status = feed(translated(segment));
        if (status == Rx::Status::kStalled) {
            EXPECT_EQ(expected, "1/2/2");
            expect_memory();
            rig_.give_up_waiting();
            status = rig_.receive();
        }
        ASSERT_EQ(status, Rx::Status::kAgain);
        ASSERT_TRUE(rig_.qp->has_fault());
        EXPECT_EQ(rig_.qp->state(), QpState::kSqe);
        if (is_invalidate(code)) place(segment);  // it is the delivery that fails
        expect_memory();
        failed_ = segment;

        const Tx::Status sent = rig_.transmit();
        EXPECT_EQ(sent, Tx::Status::kLast);
        const auto out = ulpdus_of(rig_.script.outbound, mode().markers, mode().crc);
        ASSERT_EQ(out.size(), outbound_before_ + 1);  // nothing but the Terminate
        const auto parsed = wire::parse_terminate(out.back());
        ASSERT_TRUE(parsed.ok());
        EXPECT_EQ(triple(parsed.code), expected);
        if (!octets.empty()) {
            // The quoted header stands behind the Terminate's own, its control field and the length.
            const Bytes wanted = translated(golden::from_hex(octets), wire::kUntaggedHeaderLen + 6);
            EXPECT_EQ(golden::to_hex(out.back()), golden::to_hex(wanted));
        }
    }

    // The end of a failed stream: one event, one Terminate reported, everything completed, in order.
    void expect_failed_end(wire::TerminateCode code) {
        rig_.end();
        EXPECT_EQ(rig_.qp->state(), QpState::kErr);
        ASSERT_EQ(rig_.outbox.events.size(), 1u);
        EXPECT_EQ(rig_.outbox.events[0].event, event_for(code, failed_));
        ASSERT_EQ(rig_.outbox.closed.size(), 1u);
        EXPECT_EQ(rig_.outbox.closed[0].reason, CloseReason::kError);
        EXPECT_EQ(rig_.outbox.closed[0].terminate, code);
        EXPECT_TRUE(rig_.outbox.closed[0].sent);

        WcStatus first = WcStatus::kWrFlushErr;
        if (is_invalidate(code)) first = WcStatus::kRemInvReqErr;
        if (code == wire::fault::kMessageTooLong && opcode_in(failed_) != 1) first = WcStatus::kLocLenErr;
        const auto receives = rig_.poll(rig_.recv_cq);
        ASSERT_EQ(receives.size(), receives_.size() - next_receive_);
        for (std::size_t i = 0; i < receives.size(); ++i) {
            EXPECT_EQ(receives[i].wr_id, next_receive_ + i);
            EXPECT_EQ(receives[i].status, i == 0 ? first : WcStatus::kWrFlushErr);
        }
        const auto sends = rig_.poll(rig_.send_cq);
        const bool read =
            !vector().context.at("reads_outstanding").empty() || !vector().context.at("atomics_outstanding").empty();
        ASSERT_EQ(sends.size(), read ? 1u : 0u);
        if (read) {
            EXPECT_EQ(sends[0].status, WcStatus::kBadRespErr);
        }
    }

    void expect_responses() {
        rig_.transmit();
        auto out = ulpdus_of(rig_.script.outbound, mode().markers, mode().crc);
        out.erase(out.begin(), out.begin() + static_cast<std::ptrdiff_t>(outbound_before_));
        std::size_t at = 0, atomics = 0;
        for (const auto& any : requests_) {
            if (const auto* atomic = std::get_if<wire::AtomicRequest>(&any)) {
                change(*atomic);
                ASSERT_LT(at, out.size());
                Bytes expected(wire::kAtomicResponseSegmentLen);
                wire::UntaggedHeader{true,
                                     wire::rdmap_control(wire::Opcode::kAtomicResponse),
                                     0,
                                     3,
                                     static_cast<std::uint32_t>(++atomics),
                                     0}
                    .emit(expected.data());
                wire::AtomicResponse{atomic->id, originals_.back()}.emit(expected.data() + wire::kUntaggedHeaderLen);
                EXPECT_EQ(golden::to_hex(out[at++]), golden::to_hex(expected));
                continue;
            }
            const wire::ReadRequest& request = std::get<wire::ReadRequest>(any);
            Bytes got;
            bool last = false;
            while (!last) {
                ASSERT_LT(at, out.size());
                const auto header = wire::TaggedHeader::parse(out[at].data());
                EXPECT_EQ(header.rdmap_control, wire::rdmap_control(wire::Opcode::kReadResponse));
                EXPECT_EQ(header.stag, request.sink_stag);
                EXPECT_EQ(header.to, request.sink_to + got.size());
                got.insert(got.end(), out[at].begin() + wire::kTaggedHeaderLen, out[at].end());
                last = header.last;
                ++at;
            }
            ASSERT_EQ(got.size(), request.size);
            for (const Region& region : regions_) {
                if (region.stag != request.source_stag || request.size == 0) continue;
                const auto source = region.data.begin() + static_cast<std::ptrdiff_t>(request.source_to - region.base);
                EXPECT_TRUE(std::equal(got.begin(), got.end(), source));
            }
        }
        EXPECT_EQ(at, out.size());
        expect_memory();
    }

    // What is exceptional must differ from the main result, and nothing else may.
    void step(const Bytes& segment, const nlohmann::json& expect, const Exception* exception) {
        const std::string outcome = expect.at("outcome");
        if (exception != nullptr) {
            const std::string main = outcome == "terminate" ? expect.at("terminate").get<std::string>() : outcome;
            ASSERT_NE(main, exception->outcome) << "no exception any more: " << exception->reason;
            if (std::string(exception->outcome) == "accept") return accept(segment, exception->effects);
            std::array<std::byte, wire::kMaxTerminateUlpdu> ulpdu;
            const std::size_t length =
                wire::build_terminate(code_of(exception->outcome), segment, segment.size(), ulpdu);
            terminate(segment, exception->outcome, golden::to_hex(std::span(ulpdu).first(length)));
            return expect_failed_end(code_of(exception->outcome));
        }
        if (outcome == "accept") return accept(segment, expect.at("effects"));
        if (outcome == "terminate") {
            terminate(segment, expect.at("terminate"), expect.value("terminate_ulpdu", ""));
            dead_ = code_of(expect.at("terminate"));
            return;
        }
        if (outcome == "dropped") {
            feed(segment);
            EXPECT_TRUE(rig_.poll(rig_.recv_cq).empty());
            return expect_memory();
        }
        ASSERT_EQ(outcome, "terminated");
        feed(segment);
        EXPECT_EQ(rig_.transmit(), Tx::Status::kLast);
        EXPECT_TRUE(rig_.script.outbound.empty());  // never answered
        received_terminate_ = code_of(expect.at("code"));
    }

    const Vector& vector_;
    const Mode& mode_;
    Rig rig_;
    std::vector<Region> regions_, receives_;
    std::vector<std::variant<wire::ReadRequest, wire::AtomicRequest>> requests_;
    std::vector<std::uint64_t> originals_;
    std::vector<std::byte> result_ = std::vector<std::byte>(8);
    std::uint32_t result_stag_ = 0, written_ = 0;
    std::uint64_t sink_to_ = 0;
    std::size_t outbound_before_ = 0, next_receive_ = 0, received_ = 0;
    std::uint32_t responses_due_ = 0;
    Bytes failed_;
    std::optional<wire::TerminateCode> dead_, received_terminate_;
};

class Vectors : public testing::TestWithParam<Vector> {};

TEST_P(Vectors, HoldInEveryFramingAndCut) {
    for (const Mode& mode : kVectorModes) {
        SCOPED_TRACE(mode.name);
        Trial trial(GetParam(), mode);
        if (GetParam().kind == "ddp_segment") {
            trial.run({GetParam().bytes}, {GetParam().expect});
        } else {
            trial.run(GetParam().segments, GetParam().expect.at("steps").get<std::vector<nlohmann::json>>());
        }
    }
}

INSTANTIATE_TEST_SUITE_P(Segment, Vectors, testing::ValuesIn(golden::vectors("ddp_segment")), golden::VectorName{});
INSTANTIATE_TEST_SUITE_P(Sequence, Vectors, testing::ValuesIn(golden::vectors("ddp_sequence")), golden::VectorName{});

TEST(VectorExceptions, NameVectorsOnRecord) {
    std::size_t known = 0;
    for (const char* kind : {"ddp_segment", "ddp_sequence"})
        for (const Vector& vector : golden::vectors(kind))
            known += kExceptions.count(vector.id);
    EXPECT_EQ(known, kExceptions.size());
}

}  // namespace
}  // namespace swrnic::engine::test
