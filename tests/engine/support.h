// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// One real Qp on a scripted stream: the test writes what comes in and reads what goes out.
#pragma once

#include <algorithm>
#include <cstring>
#include <deque>
#include <functional>
#include <limits>
#include <memory>
#include <mutex>
#include <vector>

#include "engine/core/qp.h"
#include "golden/vectors.h"
#include "wire/fpdu.h"

namespace swrnic::engine {

// The few counters that no stream of reasonable length can bring to their limits.
struct CoreTestAccess {
    static std::uint32_t& next_msn(Rx& rx, std::uint32_t qn) { return rx.segment_.msn_[qn]; }
    static std::uint32_t& send_offset(Rx& rx) { return rx.segment_.send_mo_; }
    static unsigned recent_large(const Rx& rx) { return rx.sizes_.recent_large(); }  // the last message in bit 0
};

namespace test {

using golden::Bytes;
inline constexpr std::size_t kNoLimit = std::numeric_limits<std::size_t>::max();
inline constexpr std::uint32_t kAllRights =
    access::kLocalWrite | access::kRemoteWrite | access::kRemoteRead | access::kRemoteAtomic;

// Seeded, except for the numbers that a test wishes for, which come first.
class TestRandom final : public RandomSource {
  public:
    explicit TestRandom(std::uint64_t seed = 1) : state_(seed) {}
    void wish(std::uint32_t value) {
        const std::lock_guard hold(mutex_);
        wishes_.push_back(value);
    }
    std::uint32_t next32() override {
        const std::lock_guard hold(mutex_);
        if (!wishes_.empty()) {
            const std::uint32_t value = wishes_.front();
            wishes_.pop_front();
            return value;
        }
        std::uint64_t z = state_ += 0x9e3779b97f4a7c15;
        z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
        z = (z ^ z >> 27) * 0x94d049bb133111eb;
        return static_cast<std::uint32_t>((z ^ z >> 31) >> 32);
    }

  private:
    std::mutex mutex_;
    std::uint64_t state_;
    std::deque<std::uint32_t> wishes_;
};

// What the peer and its TCP would be. The test owns it; the transport borrows it.
struct Script {
    Bytes inbound;
    std::size_t taken = 0;             // of inbound
    std::size_t most = kNoLimit;       // octets of one receive()
    std::vector<std::size_t> cuts;     // offsets that one receive() does not cross, rising
    bool fin = false, broken = false;  // behind inbound
    bool fault = false;                // receive() finds its memory unmapped
    std::span<const std::byte> place;  // octets that receive() puts elsewhere are counted as
    std::size_t elsewhere = 0;
    bool bypass = false;  // foreign memory may come here by itself
    Bytes outbound;
    std::size_t window = kNoLimit;  // octets that send() still takes
    std::size_t slices = 0;         // of the last send()
    std::uint32_t emss = 1460;
    bool fin_sent = false;
    std::function<void()> inside_send;  // TCP has taken the octets, and send() has not come back
};

class ScriptTransport final : public Transport {
  public:
    explicit ScriptTransport(Script& script) : script_(script) {}

    IoResult receive(const IoSlice* slices, std::size_t count) override {
        std::size_t left = std::min(script_.inbound.size() - script_.taken, script_.most);
        const auto cut = std::upper_bound(script_.cuts.begin(), script_.cuts.end(), script_.taken);
        if (cut != script_.cuts.end()) left = std::min(left, *cut - script_.taken);
        if (script_.fault) return {IoStatus::kFault, 0};
        if (left == 0) {
            if (script_.broken) return {IoStatus::kBroken, 0};
            return {script_.fin ? IoStatus::kEof : IoStatus::kAgain, 0};
        }
        std::size_t moved = 0;
        for (std::size_t i = 0; i < count && left != 0; ++i) {
            const std::size_t part = std::min(slices[i].length, left);
            std::memcpy(slices[i].base, script_.inbound.data() + script_.taken, part);
            script_.taken += part;
            if (slices[i].base < script_.place.data() || slices[i].base >= script_.place.data() + script_.place.size())
                script_.elsewhere += part;
            moved += part;
            left -= part;
        }
        return {IoStatus::kOk, moved};
    }

    IoResult send(const IoSlice* slices, std::size_t count) override {
        std::size_t moved = 0;
        script_.slices = count;
        for (std::size_t i = 0; i < count && script_.window != 0; ++i) {
            const std::size_t part = std::min(slices[i].length, script_.window);
            script_.outbound.insert(script_.outbound.end(), slices[i].base, slices[i].base + part);
            if (script_.window != kNoLimit) script_.window -= part;
            moved += part;
            if (part != slices[i].length) break;
        }
        if (script_.inside_send) script_.inside_send();
        return moved != 0 ? IoResult{IoStatus::kOk, moved} : IoResult{IoStatus::kAgain, 0};
    }

    bool may_be_bypassed() const override { return script_.bypass; }
    void finish_sending() override { script_.fin_sent = true; }
    std::uint32_t emss() const override { return script_.emss; }

  private:
    Script& script_;
};

// Appends one FPDU to a stream.
inline void append_fpdu(Bytes& stream, std::span<const std::byte> ulpdu, bool markers, bool crc) {
    const std::uint64_t position = stream.size();
    Bytes logical(wire::kFpduHeaderLen + ulpdu.size() + wire::pad_len(ulpdu.size()));
    wire::store_be16(logical.data(), static_cast<std::uint16_t>(ulpdu.size()));
    std::copy(ulpdu.begin(), ulpdu.end(), logical.begin() + wire::kFpduHeaderLen);
    Bytes raw(markers ? wire::fpdu_size_with_markers(position, ulpdu.size()) : wire::fpdu_size(ulpdu.size()));
    if (markers) {
        wire::insert_markers(position, logical, raw);
    } else {
        std::copy(logical.begin(), logical.end(), raw.begin());
    }
    wire::seal_fpdu(raw, crc);
    stream.insert(stream.end(), raw.begin(), raw.end());
}

// The ULPDUs of a stream; an unfinished FPDU at its end, or an error, shows as one empty ULPDU.
inline std::vector<Bytes> ulpdus_of(std::span<const std::byte> stream, bool markers, bool crc) {
    auto deframer = std::make_unique<wire::FpduStream>(crc, markers);
    std::vector<Bytes> ulpdus;
    for (;;) {
        switch (deframer->feed(stream)) {
            case wire::FpduStream::Event::kUlpdu:
                ulpdus.emplace_back(deframer->ulpdu().begin(), deframer->ulpdu().end());
                break;
            case wire::FpduStream::Event::kError:
                ulpdus.emplace_back();
                return ulpdus;
            case wire::FpduStream::Event::kNeedMore:
                if (deframer->finish() != wire::MpaError::kNone) ulpdus.emplace_back();
                return ulpdus;
        }
    }
}

struct RigOptions {
    std::uint32_t max_send_wr = 64, max_recv_wr = 64;
    std::uint32_t max_send_sge = 8, max_recv_sge = 8;
    std::uint32_t max_inline = 256;
    bool sq_sig_all = false;
    std::uint32_t cq_entries = 1024;
    ForeignMemory* memory = nullptr;
};

inline StreamParameters plain_stream() {
    StreamParameters parameters{};
    parameters.initiator = true;
    parameters.ird = parameters.ord = 4;
    return parameters;
}

struct Rig {
    static constexpr std::uint32_t kPd = 1, kQpn = 77, kSendCq = 1001, kRecvCq = 1002;

    explicit Rig(const RigOptions& options = {})
        : memory(passes, random, options.memory),
          send_cq(options.cq_entries, kSendCq),
          recv_cq(options.cq_entries, kRecvCq),
          qp(std::make_unique<Qp>(
              QpInit{kQpn, kPd, &send_cq, &recv_cq, options.max_send_wr, options.max_recv_wr, options.max_send_sge,
                     options.max_recv_sge, options.max_inline, options.sq_sig_all},
              memory, random)) {
        qp->set_access(kAllRights);
        qp->apply(QpEvent::kToInit);
    }

    bool start(const StreamParameters& parameters) {
        RxGuard rx(qp->rx_lock());
        TxGuard tx(qp->tx_lock());
        std::unique_ptr<Transport> transport = std::make_unique<ScriptTransport>(script);
        return qp->start(rx, tx, parameters, transport);
    }

    std::uint32_t region(std::vector<std::byte>& data, std::uint32_t rights, std::uint64_t to = 0,
                         std::uint32_t pd = kPd) {
        if (to == 0) to = reinterpret_cast<std::uintptr_t>(data.data());
        return memory.add(pd, data.data(), data.size(), to, rights);
    }

    // Until there is nothing more to be had.
    Rx::Status receive() {
        RxGuard guard(qp->rx_lock());
        Rx::Status status;
        do {
            Pass pass = passes.begin();
            if (!qp->settle_receives(guard, pass)) return Rx::Status::kMoved;  // as drive_rx(): it comes again
            status = qp->receive(guard, pass);
            collect(pass);
        } while (status == Rx::Status::kMoved);
        return status;
    }
    Tx::Status transmit(Tx::Tail tail = Tx::Tail::kSend) {
        TxGuard guard(qp->tx_lock());
        Tx::Status status;
        do {
            Pass pass = passes.begin();
            status = qp->transmit(guard, pass, tail);
            collect(pass);
        } while (status == Tx::Status::kMoved);
        return status;
    }
    void give_up_waiting() {
        RxGuard guard(qp->rx_lock());
        qp->rx().give_up_waiting(guard);
    }
    void end(CloseReason reason = CloseReason::kGraceful) {
        RxGuard rx(qp->rx_lock());
        TxGuard tx(qp->tx_lock());
        Pass pass = passes.begin();
        qp->end(rx, tx, pass, reason);
        collect(pass);
    }
    std::vector<WorkCompletion> poll(Cq& cq) {
        std::vector<WorkCompletion> found;
        cq.poll(1 << 20, [&](const WorkCompletion& completion) { found.push_back(completion); });
        return found;
    }

    void collect(Pass& pass) {
        Outbox& from = pass.outbox();
        outbox.notify.insert(outbox.notify.end(), from.notify.begin(), from.notify.end());
        outbox.events.insert(outbox.events.end(), from.events.begin(), from.events.end());
        outbox.ready.insert(outbox.ready.end(), from.ready.begin(), from.ready.end());
        outbox.closed.insert(outbox.closed.end(), from.closed.begin(), from.closed.end());
        from = Outbox{};
    }

    TestRandom random;
    PassPool passes;
    MemoryTable memory;
    Cq send_cq, recv_cq;
    Script script;
    std::unique_ptr<Qp> qp;
    Outbox outbox;  // all that the passes have told so far
};

}  // namespace test
}  // namespace swrnic::engine
