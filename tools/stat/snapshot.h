// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// What all open devices that we may look at have counted, at one moment.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "stat_page.h"

namespace swrnic::tools {

using Sums = std::array<std::uint64_t, kStatSums>;
using Codes = std::map<std::uint32_t, std::uint64_t>;  // layer << 12 | type << 8 | code of a Terminate, and how many

struct Terminates {
    Codes sent, received;
    bool empty() const { return sent.empty() && received.empty(); }
};

struct QpStat {
    std::uint32_t qpn = 0, generation = 0;
    std::string local, peer;  // "10.0.0.1:4711", "[fd00::1]:4711", or empty
    std::uint64_t state = 0, rtt_us = 0, rtt_var_us = 0;
    Sums sums{};
    Terminates terminates;
};

// One device that one process has open; a process may have it open several times.
struct OpenDevice {
    std::string device;
    std::uint32_t pid = 0, descriptor = 0;
    std::string command;
    std::uint64_t thread_ns = 0, poller_ns = 0, empty_polls = 0;
    std::uint64_t gone_qps = 0;
    Sums sums{};  // over all QPs there have been
    Terminates terminates;
    std::vector<QpStat> qps;
};

// Sorted by device, process and descriptor. Processes that we may not look at are passed over: the kernel does not say
// whether they have a device.
std::vector<OpenDevice> take_snapshot();
// The same of pages in files: of a process that has ended, if somebody has kept its descriptor.
std::vector<OpenDevice> read_files(const std::vector<std::string>& paths);

// One page, from a descriptor; false: not one, or not to be believed. Fills all but pid, descriptor and command.
bool read_page(int fd, std::uint32_t& writer_pid, OpenDevice& out);

inline std::uint64_t get(const Sums& sums, StatCell which) {
    return sums[static_cast<std::size_t>(which)];
}
std::uint64_t tx_messages(const Sums& sums);
std::uint64_t rx_messages(const Sums& sums);
void add(Sums& to, const Sums& from);
void add(Terminates& to, const Terminates& from);

// How the outputs name things.
std::string state_name(std::uint64_t state);                // "RTS"
std::string code_name(std::uint32_t code);                  // "0/1/0"
std::string code_meaning(std::uint32_t code);               // "RDMAP: invalid STag", or empty
extern const std::array<const char*, kStatSums> kSumNames;  // "tx_bytes", ...

}  // namespace swrnic::tools
