// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Every error of docs/spec that a peer can commit: errors.json against a real Qp, in both roles and every framing.
// "in" are ULPDUs, "raw" octets as they are on the wire. What the victim answers is compared octet by octet, its
// completions and events one by one, and its memory as a whole, with what lies between the regions. Then the Terminate
// goes to an engine that did what the peer did, if verbs can ask for that ("post"), or else has a Read outstanding.
#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <set>
#include <sstream>

#include "engine/messages.h"
#include "engine/modes.h"
#include "wire/terminate.h"

namespace swrnic::engine::test {

namespace {

using nlohmann::json;

constexpr Mode kErrorModes[] = {{"plain", false, false, kNoLimit},
                                {"crc", true, false, 7},
                                {"markers", false, true, kNoLimit},
                                {"crc_markers", true, true, 1}};

json load_table() {
    std::ifstream file(SWRNIC_ENGINE_TEST_DIR "/errors.json");
    return json::parse(file);
}

const json& table() {
    static const json loaded = load_table();
    return loaded;
}

WcStatus status_of(const std::string& name) {
    static const std::map<std::string, WcStatus> kNames{{"SUCCESS", WcStatus::kSuccess},
                                                        {"LOC_LEN_ERR", WcStatus::kLocLenErr},
                                                        {"LOC_PROT_ERR", WcStatus::kLocProtErr},
                                                        {"WR_FLUSH_ERR", WcStatus::kWrFlushErr},
                                                        {"BAD_RESP_ERR", WcStatus::kBadRespErr},
                                                        {"REM_INV_REQ_ERR", WcStatus::kRemInvReqErr},
                                                        {"REM_ACCESS_ERR", WcStatus::kRemAccessErr},
                                                        {"REM_OP_ERR", WcStatus::kRemOpErr},
                                                        {"REM_INV_RD_REQ_ERR", WcStatus::kRemInvRdReqErr}};
    return kNames.at(name);
}

AsyncEvent event_of(const std::string& name) {
    static const std::map<std::string, AsyncEvent> kNames{{"QP_FATAL", AsyncEvent::kQpFatal},
                                                          {"QP_REQ_ERR", AsyncEvent::kQpReqErr},
                                                          {"QP_ACCESS_ERR", AsyncEvent::kQpAccessErr}};
    return kNames.at(name);
}

std::string text(const json& row, const char* key) {
    return row.value(key, std::string());
}

void expect_completions(const std::vector<WorkCompletion>& found, const json& wanted, std::uint64_t first_id,
                        std::uint32_t vendor_err) {
    ASSERT_EQ(found.size(), wanted.size());
    for (std::size_t i = 0; i < found.size(); ++i) {
        EXPECT_EQ(found[i].wr_id, first_id + i);
        EXPECT_EQ(found[i].status, status_of(wanted[i])) << "completion " << i;
        const bool own = found[i].status != WcStatus::kSuccess && found[i].status != WcStatus::kWrFlushErr;
        EXPECT_EQ(found[i].vendor_err, own ? vendor_err : 0) << "completion " << i;  // VERBS-16
    }
}

StreamParameters parameters_of(bool initiator, const Mode& mode) {
    StreamParameters parameters{};
    parameters.initiator = initiator;
    parameters.crc = mode.crc;
    parameters.markers_rx = parameters.markers_tx = mode.markers;
    parameters.ird = 2;
    parameters.ord = 4;
    return parameters;
}

const Bytes kRtr = tagged(Opcode::kWrite, 1, 0, 0);

// One piece of the victim's memory; octets that belong to nobody lie around it.
struct Piece {
    const char* name;
    std::uint32_t stag;
    std::uint64_t base;
    std::uint32_t length, rights, pd;
};
constexpr std::uint32_t kRemote = access::kRemoteWrite | access::kRemoteRead;
constexpr Piece kPieces[] = {
    {"good", 0x00012a01, 0x10000, 64, access::kLocalWrite | kRemote, Rig::kPd},
    {"read only", 0x00012b02, 0x20000, 64, access::kRemoteRead, Rig::kPd},
    {"write only", 0x00012c03, 0x30000, 64, access::kLocalWrite | access::kRemoteWrite, Rig::kPd},
    {"other PD", 0x00012d04, 0x40000, 64, access::kLocalWrite | kRemote, Rig::kPd + 1},
    {"local", 0x00012e05, 0x50000, 64, access::kLocalWrite, Rig::kPd},
    {"invalidated", 0x00012f06, 0x60000, 64, access::kLocalWrite | kRemote, Rig::kPd},
    {"top", 0x00013007, 0xffffffffffffffbf, 64, access::kLocalWrite | kRemote, Rig::kPd},
    {"receive 0", 0x00013108, 0x70000, 16, access::kLocalWrite, Rig::kPd},
    {"receive 1", 0x00013209, 0x80000, 16, access::kLocalWrite, Rig::kPd},
    {"sink", 0x0001330a, 0x90000, 16, access::kLocalWrite, Rig::kPd},
};
constexpr std::uint32_t kSinkOnTheWire = 0x0000d001, kPeersSink = 0x000000ab;

class Victim {
  public:
    Victim(const json& row, const Mode& mode, bool initiator) : row_(row), mode_(mode), initiator_(initiator) {}

    void run() {
        ASSERT_NO_FATAL_FAILURE(build());
        ASSERT_NO_FATAL_FAILURE(begin());
        inject();
        end();
        expect_answer();
        expect_told();
        EXPECT_EQ(golden::to_hex(arena_), golden::to_hex(image_));
    }

  private:
    static constexpr std::size_t kRoom = 192, kMargin = 64;  // of a piece; in front of it

    void build() {
        arena_.resize(std::size(kPieces) * kRoom);
        for (std::size_t i = 0; i < arena_.size(); ++i)
            arena_[i] = std::byte(i * 7 + 3);
        for (std::size_t i = 0; i < std::size(kPieces); ++i) {
            const Piece& piece = kPieces[i];
            rig_.random.wish(piece.stag);
            ASSERT_EQ(
                rig_.memory.add(piece.pd, arena_.data() + i * kRoom + kMargin, piece.length, piece.base, piece.rights),
                piece.stag);
            if (piece.name == std::string("invalidated")) rig_.memory.invalidate_remote(piece.pd, piece.stag);
        }
        image_ = arena_;
        for (const json& placed : row_.value("placed", json::array())) {
            const Bytes octets = golden::from_hex(placed.at(2).get<std::string>());
            const std::size_t at = place_of(placed.at(0)) + placed.at(1).get<std::size_t>();
            std::copy(octets.begin(), octets.end(), image_.begin() + static_cast<std::ptrdiff_t>(at));
        }
        if (row_.contains("qp_access"))
            rig_.qp->set_access(row_["qp_access"][0] == "REMOTE_READ" ? access::kRemoteRead : access::kRemoteWrite);
        rig_.script.most = mode_.most;
    }

    static std::size_t place_of(const std::string& name) {
        for (std::size_t i = 0; i < std::size(kPieces); ++i)
            if (name == kPieces[i].name) return i * kRoom + kMargin;
        throw std::runtime_error("no piece " + name);
    }

    static Sge whole(std::size_t piece) { return {kPieces[piece].base, kPieces[piece].length, kPieces[piece].stag}; }

    // Two receives, a Read, a Send.
    void begin() {
        for (int i = 0; i < row_.value("rq", 2); ++i) {
            Sge sge = whole(7 + static_cast<std::size_t>(i));
            if (row_.contains("receive_key")) sge.lkey ^= 1;
            ASSERT_EQ(rig_.qp->post_recv({100 + static_cast<std::uint64_t>(i), {&sge, 1}}), PostResult::kOk);
        }
        StreamParameters parameters = parameters_of(initiator_, mode_);
        parameters.terminate = row_.value("start", std::uint8_t{0});
        parameters.p2p = !initiator_;
        parameters.rtr = initiator_ ? 0 : rtr::kWrite;
        ASSERT_TRUE(rig_.start(parameters));
        if (!initiator_ && !row_.contains("first")) {
            append_fpdu(rig_.script.inbound, kRtr, mode_.markers, mode_.crc);
            ASSERT_EQ(rig_.receive(), Rx::Status::kAgain);
        }
        const Sge sink = whole(9);
        rig_.random.wish(kSinkOnTheWire);
        first_id_ = row_.value("reads", 1) == 0 ? 2 : 1;
        if (first_id_ == 1) {
            ASSERT_EQ(post(rig_, 1, WrOpcode::kRead, {&sink, 1}), PostResult::kOk);
        }
        ASSERT_EQ(post(rig_, 2, WrOpcode::kSend), PostResult::kOk);
        if (!row_.contains("start")) rig_.transmit();
        before_ = rig_.script.outbound.size();
        if (row_.contains("sink")) {
            ASSERT_TRUE(rig_.memory.remove(kPieces[9].stag));
        }
    }

    void inject() {
        for (const json& ulpdu : row_.value("in", json::array()))
            append_fpdu(rig_.script.inbound, golden::from_hex(ulpdu.get<std::string>()), mode_.markers, mode_.crc);
        if (row_.contains("raw")) {
            const Bytes octets = golden::from_hex(text(row_["raw"], initiator_ ? "initiator" : "responder"));
            rig_.script.inbound.insert(rig_.script.inbound.end(), octets.begin(), octets.end());
        }
        rig_.script.fin = text(row_, "end") == "fin";
        rig_.script.broken = text(row_, "end") == "reset";
    }

    // As engine/drive.cpp does it.
    void end() {
        Rx::Status status = rig_.receive();
        if (status == Rx::Status::kStalled) {
            EXPECT_EQ(golden::to_hex(arena_), golden::to_hex(image_));
            rig_.give_up_waiting();
            status = rig_.receive();
        }
        if (status == Rx::Status::kEof) {
            rig_.qp->apply(QpEvent::kPeerFin);
            return rig_.end(CloseReason::kGraceful);
        }
        if (status == Rx::Status::kBroken) {
            Fault lost;
            lost.event = AsyncEvent::kQpFatal;
            rig_.qp->raise(lost);
            return rig_.end(CloseReason::kLost);
        }
        EXPECT_EQ(rig_.qp->state(), QpState::kSqe);
        EXPECT_EQ(rig_.transmit(), Tx::Status::kLast);
        rig_.end(CloseReason::kError);
    }

    void expect_answer() {
        Bytes wanted(rig_.script.outbound.begin(), rig_.script.outbound.begin() + static_cast<std::ptrdiff_t>(before_));
        if (const std::string answer = text(row_, "terminate"); !answer.empty())
            append_fpdu(wanted, golden::from_hex(answer), mode_.markers, mode_.crc);
        EXPECT_EQ(golden::to_hex(rig_.script.outbound), golden::to_hex(wanted));
    }

    void expect_told() {
        EXPECT_EQ(rig_.qp->state(), QpState::kErr);
        const std::string event = text(row_, "event");
        ASSERT_EQ(rig_.outbox.events.size(), event.empty() ? 0u : 1u);
        if (!event.empty()) {
            EXPECT_EQ(rig_.outbox.events[0].event, event_of(event));
        }
        ASSERT_EQ(rig_.outbox.closed.size(), 1u);
        const Bytes answer = golden::from_hex(text(row_, "terminate"));
        std::uint32_t vendor_err = 0;
        if (!answer.empty()) {
            const wire::TerminateCode code = wire::parse_terminate(answer).code;
            vendor_err = code.packed();
            EXPECT_EQ(rig_.outbox.closed[0].terminate, code);
            EXPECT_TRUE(rig_.outbox.closed[0].sent);
        }
        expect_completions(rig_.poll(rig_.recv_cq), row_.at("receives"), 100, vendor_err);
        expect_completions(rig_.poll(rig_.send_cq), row_.at("sends"), first_id_, vendor_err);
    }

    const json& row_;
    const Mode& mode_;
    const bool initiator_;
    Rig rig_;
    Bytes arena_, image_;
    std::size_t before_ = 0;
    std::uint64_t first_id_ = 1;
};

// The engine that the Terminate goes to.
class Guilty {
  public:
    Guilty(const json& row, bool initiator, bool behind_read)
        : row_(row), initiator_(initiator), behind_read_(behind_read), memory_(256), lkey_(0) {}

    void run() {
        for (std::size_t i = 0; i < memory_.size(); ++i)
            memory_[i] = std::byte(0x30 + i % 16);
        lkey_ = rig_.region(memory_, access::kLocalWrite);
        StreamParameters parameters = parameters_of(initiator_, kErrorModes[0]);
        parameters.p2p = initiator_;
        parameters.rtr = initiator_ ? rtr::kWrite : 0;
        ASSERT_TRUE(rig_.start(parameters));
        if (!initiator_) append_fpdu(rig_.script.inbound, kRtr, false, false);
        ASSERT_EQ(rig_.receive(), Rx::Status::kAgain);
        rig_.random.wish(kPeersSink);
        ASSERT_NO_FATAL_FAILURE(commit());
        const std::size_t before = rig_.script.outbound.size();
        ASSERT_EQ(post(rig_, 2, WrOpcode::kSend), PostResult::kOk);  // never goes out
        append_fpdu(rig_.script.inbound, golden::from_hex(text(row_, "terminate")), false, false);
        rig_.receive();
        EXPECT_EQ(rig_.transmit(), Tx::Status::kLast);
        EXPECT_EQ(rig_.script.outbound.size(), before);
        rig_.end(CloseReason::kError);
        ASSERT_EQ(rig_.outbox.events.size(), 1u);
        EXPECT_EQ(rig_.outbox.events[0].event, AsyncEvent::kQpFatal);
        const auto code = wire::parse_terminate(golden::from_hex(text(row_, "terminate"))).code;
        expect_completions(rig_.poll(rig_.send_cq), row_.at(behind_read_ ? "peer_behind_read" : "peer"),
                           behind_read_ ? 0 : 1, code.packed());
    }

  private:
    void commit() {
        const Sge sink{reinterpret_cast<std::uintptr_t>(memory_.data()), 16, lkey_};
        if (behind_read_) {
            ASSERT_EQ(post(rig_, 0, WrOpcode::kRead, {&sink, 1}), PostResult::kOk);
        }
        if (!row_.contains("post")) {
            ASSERT_EQ(post(rig_, 1, WrOpcode::kRead, {&sink, 1}), PostResult::kOk);
            rig_.transmit();
            return;
        }
        const json& wr = row_["post"];
        const std::string op = text(wr, "op");
        const Sge sge{sink.addr, wr.at("length").get<std::uint32_t>(), lkey_};
        const WrOpcode opcode = op == "write"                ? WrOpcode::kWrite
                                : op == "read"               ? WrOpcode::kRead
                                : op.starts_with("send_inv") ? WrOpcode::kSendInv
                                                             : WrOpcode::kSend;
        const std::uint32_t flags = send_flag::kSignaled | (op.ends_with("solicited") ? send_flag::kSolicited : 0);
        const auto stag = static_cast<std::uint32_t>(number(wr.at("stag")));
        ASSERT_EQ(rig_.qp->post_send({1, opcode, flags, {&sge, 1}, number(wr.at("to")), stag, stag}), PostResult::kOk);
        rig_.transmit();
        auto out = ulpdus_of(rig_.script.outbound, false, false);
        out.erase(out.begin(), out.begin() + (initiator_ ? 1 : 0) + (behind_read_ ? 1 : 0));
        ASSERT_EQ(out.size(), row_.at("in").size());
        for (std::size_t i = 0; i < out.size(); ++i)
            EXPECT_EQ(golden::to_hex(out[i]), row_.at("in")[i].get<std::string>());
    }

    const json& row_;
    const bool initiator_, behind_read_;
    Rig rig_;
    std::vector<std::byte> memory_;
    std::uint32_t lkey_;
};

bool lists(const json& row, const char* key, const std::string& name) {
    return !row.contains(key) || std::find(row[key].begin(), row[key].end(), name) != row[key].end();
}

class Errors : public testing::TestWithParam<std::size_t> {
  protected:
    const json& row() const { return table().at("rows").at(GetParam()); }
};

TEST_P(Errors, AreAnsweredAndTold) {
    int runs = 0;
    for (const char* role : {"initiator", "responder"}) {
        if (!lists(row(), "roles", role) || (row().contains("raw") && !row()["raw"].contains(role))) continue;
        for (const Mode& mode : kErrorModes) {
            if (!lists(row(), "modes", mode.name)) continue;
            SCOPED_TRACE(std::string(role) + ", " + mode.name);
            Victim(row(), mode, role == std::string("initiator")).run();
            ++runs;
        }
    }
    EXPECT_GT(runs, 0);
}

TEST_P(Errors, HitTheRequestThatCommittedThem) {
    for (const bool initiator : {true, false}) {
        SCOPED_TRACE(initiator ? "initiator" : "responder");
        if (row().contains("peer")) Guilty(row(), initiator, false).run();
        if (row().contains("peer_behind_read")) Guilty(row(), initiator, true).run();
    }
    EXPECT_EQ(row().contains("peer"), !text(row(), "terminate").empty()) << "a Terminate goes to somebody";
}

INSTANTIATE_TEST_SUITE_P(Row, Errors, testing::Range(std::size_t{0}, table().at("rows").size()),
                         [](const auto& row) { return text(table().at("rows").at(row.param), "id"); });

// ---- whether the table is whole ----

std::set<std::string> named() {
    std::set<std::string> ids;
    for (const json& row : table().at("rows"))
        for (const json& id : row.at("req"))
            ids.insert(id.get<std::string>());
    return ids;
}

// Ids of docs/PROTOCOL.md, and what each says in short: "| [MPA-1](spec/mpa.md#mpa-1) | MUST | what | tests |".
std::map<std::string, std::string> requirements() {
    std::ifstream file(SWRNIC_ENGINE_TEST_DIR "/../../docs/PROTOCOL.md");
    std::map<std::string, std::string> found;
    for (std::string line; std::getline(file, line);) {
        std::vector<std::string> cells;
        std::istringstream row(line);
        for (std::string cell; std::getline(row, cell, '|');)
            cells.push_back(cell);
        const std::size_t end = cells.size() > 3 ? cells[1].find(']') : std::string::npos;
        if (end == std::string::npos || cells[1].compare(0, 2, " [") != 0) continue;
        const std::string id = cells[1].substr(2, end - 2);
        if (id.find('-') != std::string::npos) found[id] = cells[3].substr(1);
    }
    return found;
}

// As Terminate codes are written: layer/type/code.
bool names_a_code(const std::string& text) {
    for (std::size_t i = 0; i + 5 <= text.size(); ++i) {
        const auto digit = [&](std::size_t at, char most) { return text[i + at] >= '0' && text[i + at] <= most; };
        if (digit(0, '2') && text[i + 1] == '/' && digit(2, '9') && text[i + 3] == '/' && digit(4, '9')) return true;
    }
    return false;
}

// Those that a vector breaks, or whose line names a code.
std::set<std::string> errors_of_the_reference() {
    std::set<std::string> ids;
    for (const auto& [id, what] : requirements())
        if (names_a_code(what)) ids.insert(id);
    for (const char* kind : {"mpa_request", "mpa_reply", "fpdu_stream", "ddp_segment", "ddp_sequence"}) {
        for (const golden::Vector& vector : golden::vectors(kind)) {
            const std::string expect = vector.expect.dump();
            for (const char* bad : {"\"terminate\"", "\"error\"", "\"close\""})
                if (expect.find(bad) != expect.npos) ids.insert(vector.requirements.begin(), vector.requirements.end());
        }
    }
    return ids;
}

TEST(ErrorTable, NamesEveryErrorOfTheReference) {
    const std::set<std::string> rows = named();
    const auto known = requirements();
    ASSERT_GT(known.size(), 200u);
    for (const std::string& id : rows)
        EXPECT_EQ(known.count(id), 1u) << id << " is no requirement";
    const json& exceptions = table().at("exceptions");
    const std::set<std::string> wanted = errors_of_the_reference();
    ASSERT_GT(wanted.size(), 60u);
    for (const std::string& id : wanted)
        EXPECT_NE(rows.count(id) != 0, exceptions.contains(id)) << id << ": a row, or an exception with its reason";
    for (const auto& [id, why] : exceptions.items())
        EXPECT_EQ(wanted.count(id), 1u) << id << " needs no exception";
}

TEST(ErrorTable, HasEveryCodeOfTerminate) {
    std::set<std::string> sent;
    for (const json& row : table().at("rows")) {
        const Bytes octets = golden::from_hex(text(row, "terminate"));
        if (octets.empty()) continue;
        const auto code = wire::parse_terminate(octets).code;
        sent.insert(std::to_string(code.layer) + "/" + std::to_string(code.type) + "/" + std::to_string(code.code));
    }
    const json& unsent = table().at("unsent");
    for (std::uint8_t layer = 0; layer < 3; ++layer) {
        for (std::uint8_t type = 0; type < 3; ++type) {
            for (unsigned code = 0; code < 256; ++code) {
                const wire::TerminateCode triple{layer, type, static_cast<std::uint8_t>(code)};
                const std::string_view name = wire::terminate_name(triple);
                if (name.find("nknown") != name.npos || (name.find("Local Cat") != name.npos && code != 0)) continue;
                const std::string id = std::to_string(layer) + "/" + std::to_string(type) + "/" + std::to_string(code);
                EXPECT_NE(sent.count(id) != 0, unsent.contains(id)) << id << " " << name;
            }
        }
    }
}

}  // namespace

}  // namespace swrnic::engine::test
