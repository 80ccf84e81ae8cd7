// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// A random mix of Sends, Writes and Reads on one connection, both sides sending at once, every byte verified.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "buffer.h"
#include "endpoint.h"
#include "pattern.h"

namespace checker {

// Both sides make one with the same seed and the same numbers, exchange mine(), then call step() until done().
// Owned by one thread at a time. The endpoint must have kReceives receive slots and two elements per request.
class Mixer {
  public:
    static constexpr std::uint32_t kReceives = 2000;
    struct Remote {
        std::uint64_t source;  // what the peer may read: the pattern of its source_seed, `length` octets
        std::uint64_t target;  // where the peer may write: one slot per Write, never written twice
        std::uint32_t source_key;
        std::uint32_t target_key;
    };

    Mixer(Endpoint& ep, std::uint64_t seed, bool active, std::size_t largest, std::uint32_t requests);
    Remote mine();
    void set_remote(const Remote& remote) { remote_ = remote; }
    // Posts what fits and takes one completion of each queue; true when something moved.
    bool step();
    bool done() const { return completed_ == requests_ && received_ == sends_to_come_; }
    // After both sides are done: what the peer has written, and that nothing else was touched.
    void verify_end();
    std::uint64_t messages() const { return requests_; }
    std::uint64_t octets() const { return octets_; }
    std::string where() const;

  private:
    enum class Kind : std::uint8_t { kSend, kWrite, kRead };
    struct Plan {
        Kind kind;
        std::size_t size;
        std::uint64_t place;  // Write: offset in the target; Read: offset in the source; Send: its number
        bool signalled;
    };
    struct Flight {
        std::uint64_t id;
        Plan plan;
        std::unique_ptr<Sg> memory;
    };
    std::vector<Plan> make_plan(std::uint64_t seed) const;
    void post_next();
    bool reap_send();
    bool reap_recv();

    Endpoint& ep_;
    std::uint64_t seed_mine_;
    std::uint64_t seed_theirs_;
    std::size_t largest_;
    std::uint32_t requests_;
    Rng rng_;
    std::vector<Plan> plan_;
    std::vector<Plan> peer_plan_;
    Sg source_;
    Sg target_;
    Remote remote_{};
    std::deque<Flight> flight_;
    std::vector<std::unique_ptr<Sg>> receives_;
    std::vector<std::size_t> receive_sizes_;
    std::uint32_t posted_ = 0;
    std::uint32_t completed_ = 0;
    std::uint32_t received_ = 0;
    std::uint32_t sends_to_come_ = 0;
    std::uint64_t octets_ = 0;
};

}  // namespace checker
