// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Memory that runs out: while a AllocationFailures lives, some of the larger allocations fail, but none inside a
// Plenty. Larger: what holds octets of a stream. What an engine notes down in a few octets (events, timers) has no
// answer to that yet.
#pragma once

#include <cstdint>

namespace swrnic::engine::sim {

class AllocationFailures {
  public:
    // percent of the allocations that fail
    explicit AllocationFailures(unsigned percent, std::uint64_t seed);
    ~AllocationFailures();
    AllocationFailures(const AllocationFailures&) = delete;
    AllocationFailures& operator=(const AllocationFailures&) = delete;
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
