// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// What a small message costs the engine, without a kernel: engine_cost MODE MESSAGES moves that many, and prints the
// calls of the transport that it took. cost_test.py counts the instructions and holds both against cost-limits.txt.
#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>

#include "engine/support.h"
#include "wire/byteorder.h"

namespace {

namespace wire = swrnic::wire;

using namespace swrnic::engine;
using namespace swrnic::engine::test;

constexpr std::uint32_t kBurst = 100;  // messages between two polls, as perftest's

// Takes everything, brings the same stream again and again, and counts the calls.
class LoopTransport final : public Transport {
  public:
    explicit LoopTransport(std::uint64_t& calls) : calls_(calls) {}
    void bring(std::span<const std::byte> stream) {
        stream_ = stream;
        taken_ = 0;
    }
    IoResult receive(const IoSlice* slices, std::size_t count) override {
        ++calls_;
        std::size_t moved = 0;
        for (std::size_t i = 0; i < count && taken_ != stream_.size(); ++i) {
            const std::size_t part = std::min(slices[i].length, stream_.size() - taken_);
            std::memcpy(slices[i].base, stream_.data() + taken_, part);
            taken_ += part;
            moved += part;
        }
        return moved != 0 ? IoResult{IoStatus::kOk, moved} : IoResult{IoStatus::kAgain, 0};
    }
    IoResult send(const IoSlice* slices, std::size_t count) override {
        ++calls_;
        if (slices[0].length >= beginning_.size()) std::memcpy(beginning_.data(), slices[0].base, beginning_.size());
        std::size_t moved = 0;
        for (std::size_t i = 0; i < count; ++i)
            moved += slices[i].length;
        return {IoStatus::kOk, moved};
    }
    // Of what was sent last, which is a Read Request: the STag of its sink.
    std::uint32_t sink() const { return wire::load_be32(beginning_.data() + kSinkAt); }
    void finish_sending() override {}
    std::uint32_t emss() const override { return 32768; }

  private:
    static constexpr std::size_t kSinkAt = wire::kFpduHeaderLen + wire::kUntaggedHeaderLen;

    std::array<std::byte, kSinkAt + 4> beginning_{};
    std::uint64_t& calls_;
    std::span<const std::byte> stream_;
    std::size_t taken_ = 0;
};

struct Bench {
    // asks: the QP is wired by hand, and its requests are complete when the peer has placed them.
    explicit Bench(bool asks) : rig({.max_send_wr = 128, .max_recv_wr = 256, .max_send_sge = 1, .max_recv_sge = 1}) {
        auto made = std::make_unique<LoopTransport>(calls);
        transport = made.get();
        std::unique_ptr<Transport> handed = std::move(made);
        StreamParameters parameters = plain_stream();
        parameters.large_fpdu = true;
        if (asks) {
            rig.qp->wire(true);
            rig.qp->apply(QpEvent::kToRtr);
            rig.qp->apply(QpEvent::kToRtsWired);
        }
        RxGuard rx(rig.qp->rx_lock());
        TxGuard tx(rig.qp->tx_lock());
        rig.qp->start(rx, tx, parameters, handed);
        sge = {reinterpret_cast<std::uintptr_t>(memory.data()), 64, rig.region(memory, kAllRights)};
    }

    std::uint64_t poll(Cq& cq) {
        std::uint64_t found = 0;
        cq.poll(1024, [&](const WorkCompletion&) { ++found; });
        return found;
    }

    void transmit() {
        TxGuard guard(rig.qp->tx_lock());
        Pass pass = rig.passes.begin();
        while (rig.qp->transmit(guard, pass) == Tx::Status::kMoved) {
        }
    }

    void receive(const Bytes& stream) {
        transport->bring(stream);
        RxGuard guard(rig.qp->rx_lock());
        Pass pass = rig.passes.begin();
        while (rig.qp->receive(guard, pass) == Rx::Status::kMoved) {
        }
    }

    void send(WrOpcode opcode, std::uint64_t messages) {
        for (std::uint64_t i = 0; i < messages; ++i) {
            const bool last = i % kBurst == kBurst - 1;
            rig.qp->post_send({i, opcode, last ? send_flag::kSignaled : 0, {&sge, 1}, sge.addr, sge.lkey, 0});
            if (!last) continue;
            transmit();
            while (poll(rig.send_cq) == 0) {
                receive(answer);
                transmit();
            }
        }
    }

    // One at a time: it takes the peer's answer to complete.
    void read(std::uint64_t messages) {
        Bytes stream;
        append_fpdu(stream, Bytes(wire::kTaggedHeaderLen + sge.length), false, false);
        for (std::uint64_t i = 0; i < messages; ++i) {
            rig.qp->post_send({i, WrOpcode::kRead, send_flag::kSignaled, {&sge, 1}, sge.addr, sge.lkey, 0});
            transmit();
            wire::TaggedHeader{true, wire::rdmap_control(wire::Opcode::kReadResponse), transport->sink(), 0}.emit(
                stream.data() + wire::kFpduHeaderLen);
            receive(stream);
            poll(rig.send_cq);
        }
    }

    // The peer's, one at a time.
    void answer_reads(std::uint64_t messages) {
        Bytes request(wire::kReadRequestSegmentLen), stream;
        for (std::uint64_t i = 0; i < messages; ++i) {
            wire::emit_read_request_segment({sge.lkey, sge.addr, sge.length, sge.lkey, sge.addr},
                                            static_cast<std::uint32_t>(i + 1), request.data());
            stream.clear();
            append_fpdu(stream, request, false, false);
            receive(stream);
            transmit();
        }
    }

    // asked: the peer asks behind each burst whether it is placed.
    void receive(wire::Opcode opcode, std::uint64_t messages, bool asked) {
        Bytes stream;
        for (std::uint64_t i = 0; i < messages; i += kBurst) {
            stream.clear();
            for (std::uint32_t j = 0; j < kBurst; ++j)
                append(stream, opcode, static_cast<std::uint32_t>(i + j + 1));
            if (asked) append_question(stream, static_cast<std::uint32_t>(i / kBurst + 1));
            if (opcode == wire::Opcode::kSend) {
                for (std::uint32_t j = 0; j < kBurst; ++j)
                    rig.qp->post_recv({j, {&sge, 1}});
            }
            receive(stream);
            if (asked) transmit();
            poll(rig.recv_cq);
        }
    }

    static void append_question(Bytes& stream, std::uint32_t msn) {
        Bytes question(wire::kReadRequestSegmentLen);
        wire::emit_read_request_segment({1, 0, 0, 1, 0}, msn, question.data());
        append_fpdu(stream, question, false, false);
    }
    static Bytes make_answer() {
        Bytes response(wire::kTaggedHeaderLen), stream;
        wire::TaggedHeader{true, wire::rdmap_control(wire::Opcode::kReadResponse), 1, 0}.emit(response.data());
        append_fpdu(stream, response, false, false);
        return stream;
    }

    // By hand: append_fpdu()'s cost would be counted too.
    void append(Bytes& stream, wire::Opcode opcode, std::uint32_t msn) const {
        const bool tagged = opcode == wire::Opcode::kWrite;
        const std::size_t header = tagged ? wire::kTaggedHeaderLen : wire::kUntaggedHeaderLen;
        const std::size_t at = stream.size(), ulpdu = header + sge.length;
        stream.resize(at + wire::kFpduHeaderLen + ulpdu + wire::pad_len(ulpdu) + wire::kCrcLen);
        stream[at] = static_cast<std::byte>(ulpdu >> 8);
        stream[at + 1] = static_cast<std::byte>(ulpdu);
        std::byte* to = stream.data() + at + wire::kFpduHeaderLen;
        if (tagged) {
            wire::TaggedHeader{true, wire::rdmap_control(opcode), sge.lkey, sge.addr}.emit(to);
        } else {
            wire::UntaggedHeader{true, wire::rdmap_control(opcode), 0, wire::kSendQueue, msn, 0}.emit(to);
        }
    }

    const Bytes answer = make_answer();
    std::uint64_t calls = 0;
    std::vector<std::byte> memory = std::vector<std::byte>(4096);
    Rig rig;
    LoopTransport* transport = nullptr;
    Sge sge{};
};

}  // namespace

int main(int argc, char** argv) {
    std::string mode = argc > 2 ? argv[1] : "";
    const std::uint64_t messages = argc > 2 ? std::strtoull(argv[2], nullptr, 10) : 0;
    constexpr std::string_view kPlaced = "_placed";
    const bool placed = mode.ends_with(kPlaced);
    if (placed) mode.resize(mode.size() - kPlaced.size());
    Bench bench(placed && mode.starts_with("send"));
    if (mode == "send_write") {
        bench.send(WrOpcode::kWrite, messages);
    } else if (mode == "send_send") {
        bench.send(WrOpcode::kSend, messages);
    } else if (mode == "receive_write") {
        bench.receive(wire::Opcode::kWrite, messages, placed);
    } else if (mode == "receive_send") {
        bench.receive(wire::Opcode::kSend, messages, placed);
    } else if (mode == "send_read") {
        bench.read(messages);
    } else if (mode == "receive_read") {
        bench.answer_reads(messages);
    } else {
        fmt::print(stderr, "usage: engine_cost (send|receive)_(write|send)[_placed]|(send|receive)_read MESSAGES\n");
        return 2;
    }
    if (bench.rig.qp->has_fault()) {
        fmt::print(stderr, "the stream failed\n");
        return 1;
    }
    fmt::print("{}\n", bench.calls);
    return 0;
}
