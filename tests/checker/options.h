// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// What the command line can say, and the one deadline that all waits share.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

namespace checker {

using Clock = std::chrono::steady_clock;

struct Options {
    std::string address = "127.0.0.1";  // of the passive side; IPv4 or IPv6
    std::uint16_t port = 7471;          // of the control connection; the RDMA ports are chosen freely
    std::uint64_t seed = 1;
    std::vector<std::string> groups;  // empty: all that are not marked as "on request"
    std::vector<std::string> skip;
    bool small = false;                 // fewer sizes and rounds
    bool either_first = false;          // the passive side may send first (MPA revision 2 with peer-to-peer)
    bool rnr_wait = false;              // a Send may wait for its receive a while
    bool send_inv = false;              // SEND_WITH_INV works on plain regions, whatever device_cap_flags says
    bool ordered = false;               // connection requests come in the order in which they were made
    double seconds = 3;                 // of the groups that run for a time
    std::chrono::seconds patience{20};  // longest wait for anything
    unsigned connections = 16;          // of the group "many"
};

// One wait: passed by value, asked often.
class Deadline {
  public:
    explicit Deadline(Clock::duration length) : end_(Clock::now() + length) {}
    bool over() const { return Clock::now() >= end_; }
    int left_ms() const {
        const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(end_ - Clock::now()).count();
        return left < 0 ? 0 : static_cast<int>(left);
    }

  private:
    Clock::time_point end_;
};

}  // namespace checker
