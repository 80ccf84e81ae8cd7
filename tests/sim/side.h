// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// One end of the simulated stream: memory in zones, a Qp, the drive loop that engine/drive.cpp has around it, and the
// gates of engine/sched, which decide who drives by the time of the simulation.
#pragma once

#include <array>
#include <deque>
#include <memory>
#include <vector>

#include "engine/core/qp.h"
#include "engine/sched/poll_gate.h"
#include "engine/sched/send_gate.h"
#include "engine/sched/thread_gate.h"
#include "sim/observer.h"

namespace swrnic::engine::sim {

class SimRandom final : public RandomSource {
  public:
    explicit SimRandom(std::uint64_t seed) : rng_(seed) {}
    std::uint32_t next32() override { return static_cast<std::uint32_t>(rng_.next() >> 32); }

  private:
    Rng rng_;
};

struct Range {  // octets of a side's arena
    std::size_t offset;
    std::uint32_t length;
};

struct Region {
    Range at;
    std::uint64_t to;
    std::uint32_t stag, rights;
    std::uint64_t to_of(std::size_t offset) const { return to + (offset - at.offset); }
};

// A request of the send queue and what it has to bring about.
struct Op {
    std::uint64_t wr_id;
    WrOpcode opcode;
    bool signaled;
    Bytes payload;                  // what arrives: at the peer; for a Read and an atomic here
    std::vector<Range> sink;        // Writes: in the peer's arena; Reads and atomics: in ours
    std::uint32_t invalidated = 0;  // STag at the peer
    bool certain = false;           // is in memory for sure
    std::uint32_t imm_data = 0;

    bool takes_receive() const { return opcode != WrOpcode::kWrite && !awaits_response(opcode); }
};

struct Receive {
    std::uint64_t wr_id;
    std::vector<Range> sink;
    std::uint32_t capacity;
    bool certain = false;
};

struct Limits {
    std::uint32_t sq, rq, send_sge, recv_sge, max_inline, cq;
    bool sig_all;
};

class Side {
  public:
    static constexpr std::uint32_t kPd = 5;

    Side(int number, Rng& rng, std::size_t zone, const Limits& limits);

    // ---- the stream
    void connect(const StreamParameters& parameters, std::unique_ptr<Transport> transport);
    void drive_rx();
    void drive_tx(Tx::Tail tail = Tx::Tail::kSend);
    // Each drives if the gates let it: behind a post, in an empty poll, and in a turn of the background thread.
    void doorbell();
    void drive_from_poll();
    void drive_from_thread();
    void let_time_pass();
    void disconnect();
    void abort();
    void finish(CloseReason reason);
    void give_up_waiting();
    void flush();  // of what was posted after the end
    bool connected() const { return qp->connected(); }

    // ---- completions; checks what must always hold
    void poll();
    void expect_all_completed();

    void begin_words();  // of a life

    // Room in a zone that nothing else uses; false when it is used up.
    bool take(Range& zone, std::uint32_t length, Range& out);
    const Region& region_of(std::size_t offset) const;
    Sge sge(const Range& range) const;

    const int number;
    Rng& rng;
    const Limits limits;
    Bytes arena, initial;
    Range source{}, target{}, inbox{}, invalid{};  // zones; what is left of the last three
    Range target_zone{}, inbox_zone{}, invalid_zone{};
    std::vector<Region> regions;
    std::array<std::uint64_t, 4> words{};                   // for the peer's atomics alone
    std::array<std::vector<std::uint64_t>, 4> word_values;  // what each has been in this life, and is to become
    std::uint32_t words_stag = 0;                           // TOs are addresses

    PassPool passes;
    SimRandom random;
    MemoryTable memory{passes, random};
    Cq send_cq, recv_cq;
    std::unique_ptr<Qp> qp;
    Outbox outbox;

    std::deque<Op> ops;  // of this life of the stream, in order
    std::deque<Receive> receives;
    std::size_t ops_done = 0, receives_done = 0;  // taken from the CQ, or passed over unsignalled
    bool send_failed = false, recv_failed = false;
    std::uint64_t stalls = 0;
    bool fin_sent = false, lost = false;

    // Called for each good completion.
    Side* peer = nullptr;
    StreamTruth* truth = nullptr;
    bool only_flush = true;            // no request of ours fails by itself
    bool strict = true;                // nobody lies and nothing is corrupted: what completes is right
    unsigned failing_allocations = 0;  // percent of the engine's larger allocations that fail

  private:
    void note_turn();
    void collect(Pass& pass);
    void send_completed(const WorkCompletion& completion);
    void receive_completed(const WorkCompletion& completion);
    void expect_placed(const Bytes& payload, const std::vector<Range>& sink, const Bytes& in, const char* what);

    // Time has dice of its own.
    Rng clock_;
    Cycles now_{1'000'000'000};
    SendGate sends_;
    PollGate polls_;
    ThreadGate thread_;
    ThreadGate::Callers callers_{};
    Cycles yields_until_{};                           // the thread, to those who drive; 0: it does not
    std::uint64_t octets_seen_ = 0, fpdus_seen_ = 0;  // when the socket was empty the last time
};

}  // namespace swrnic::engine::sim
