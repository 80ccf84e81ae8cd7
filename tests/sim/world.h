// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Two engines' QPs joined in memory, a random workload in both directions, and what may go wrong with it. All of it
// follows from the seed.
#pragma once

#include <memory>
#include <optional>

#include "sim/byzantine.h"
#include "sim/side.h"

namespace swrnic::engine::sim {

enum class Mode {
    kClean,        // everything is delivered, then a graceful end
    kDisconnect,   // a graceful end in the middle of traffic
    kAbort,        // modify_qp(ERR), or destruction, in the middle
    kBreak,        // connection lost
    kCut,          // FIN anywhere, mostly inside an FPDU
    kFlipChecked,  // one bit, CRC on
    kFlip,         // one bit, CRC off
    kByzantine,    // well framed nonsense
    kRevoke,       // a region goes away
    kNoReceive,    // receives are no longer posted
    kNoMemory,     // allocations fail
};
inline constexpr int kModes = 11;
const char* name(Mode mode);

class World {
  public:
    World(std::uint64_t seed, std::optional<Mode> mode);
    void run();
    Mode mode() const { return mode_; }
    const Lies& lies() const { return lies_; }

  private:
    void make_sides();
    void connect();
    void life(bool last);
    void work();
    void drain();
    void misfortune();
    void until_over();
    void end_of_life(bool last);
    void step(Side& side);
    void act(Side& side);

    bool post_op(Side& side);
    bool post_receive(Side& side);
    void plan_receive(Side& receiver, std::uint32_t at_least);
    std::uint32_t random_size();
    bool build(Side& side, WrOpcode opcode, std::uint32_t size, Op& op, SendWr& wr, std::vector<Sge>& sges);
    bool build_write(Side& side, std::uint32_t size, Op& op, SendWr& wr, std::vector<Sge>& sges);
    bool build_send(Side& side, std::uint32_t size, Op& op, SendWr& wr, std::vector<Sge>& sges);
    bool build_read(Side& side, std::uint32_t size, Op& op, SendWr& wr, std::vector<Sge>& sges);
    bool build_atomic(Side& side, Op& op, SendWr& wr, std::vector<Sge>& sges);
    std::uint32_t room_to_receive(const Side& side, std::uint32_t size);
    WrOpcode rfc7306_kin(Side& side, WrOpcode opcode);
    static void note_atomic(Side& at, const SendWr& wr);
    void announce(const Side& side, const Op& op, const SendWr& wr);
    void gather(Side& side, std::uint32_t size, Op& op, std::vector<Sge>& sges);
    bool scatter(Side& side, std::uint32_t size, std::uint32_t pieces, std::vector<Range>& sink);

    bool all_done();
    std::uint32_t reserve() const { return 8 * max_size_ + 1024; }  // of an inbox, for Sends that need a receive
    std::uint64_t progress() const;
    void verify(Side& side);
    void verify_words(const Side& side) const;
    void verify_strict(const Side& side, Bytes& image) const;
    void verify_contained(const Side& side, Bytes& image) const;
    bool strict() const { return mode_ != Mode::kFlip && mode_ != Mode::kByzantine; }

    Rng rng_;
    Mode mode_;
    Weather weather_;
    Lies lies_{};
    std::uint32_t zone_, max_size_, ops_per_side_;
    StreamParameters parameters_[2];
    std::unique_ptr<Side> sides_[2];

    Link links_[2];  // [i]: sent by side i
    StreamTruth truth_;
    std::unique_ptr<Observer> observers_[2];
    std::unique_ptr<Tap> wires_[2];

    std::deque<std::vector<Range>> planned_[2];  // of the receives to come, by receiver
    std::size_t receives_due_[2] = {0, 0};       // what was posted in this life that takes one, by sender
    std::uint64_t next_wr_id_ = 1;
    bool receives_stopped_ = false;
    struct Revoked {
        Side* side;
        Region region;
        Bytes content;
    };
    std::vector<Revoked> revoked_;
};

}  // namespace swrnic::engine::sim
