// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Memory that runs out: while a Scarcity lives, some of the larger allocations fail, but none inside a Plenty. Larger:
// what holds octets of a stream. What an engine notes down in a few octets (events, timers) has no answer to that yet.
#pragma once

#include <cstdint>

namespace swrnic::engine::sim {

class Scarcity {
  public:
    // percent of the allocations that fail
    explicit Scarcity(unsigned percent, std::uint64_t seed);
    ~Scarcity();
    Scarcity(const Scarcity&) = delete;
    Scarcity& operator=(const Scarcity&) = delete;
    static std::uint64_t failed();  // allocations, since the program began
};

class Plenty {
  public:
    Plenty();
    ~Plenty();
    Plenty(const Plenty&) = delete;
    Plenty& operator=(const Plenty&) = delete;
};

}  // namespace swrnic::engine::sim
