// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// The event file (swrnic-abi.h) as an engine's host uses it: records up, records down, what was counted.
#pragma once

#include <swrnic-abi.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "engine/engine.h"
#include "host/statistics.h"

namespace swrnic::host {

engine::Connection to_connection(const swrnic_connected& from);

// Owns the descriptor. Threads: tell() from any; drain() from one at a time, and report().
class EventFile {
  public:
    explicit EventFile(int fd) : fd_(fd) {}
    ~EventFile();
    EventFile(const EventFile&) = delete;
    EventFile& operator=(const EventFile&) = delete;

    int fd() const { return fd_; }
    // SWRNIC_UP_KEEP. -1 is none.
    void keep(std::span<const int> descriptors) const { tell_of(descriptors, 1); }
    void let_go(std::span<const int> descriptors) const { tell_of(descriptors, 0); }
    // What is refused is logged.
    void tell(std::uint32_t type, std::uint32_t id, std::uint32_t aux) const;
    // SWRNIC_UP_COUNTED: what has grown since the last time, in one write. False: nothing.
    bool report(Statistics& statistics);
    // Hands every record that waits to sink(const swrnic_down&). False: the device has gone.
    template <typename Sink>
    bool drain(Sink&& sink) {
        std::array<swrnic_down, 16> records;
        while (const std::optional<std::size_t> count = read(records)) {
            for (std::size_t i = 0; i < *count; ++i)
                sink(static_cast<const swrnic_down&>(records[i]));
            if (*count < records.size()) return true;  // what comes now makes it readable again
        }
        return false;
    }
    // The number may be anybody's now: nothing more is told or read.
    void lose() { fd_ = -1; }
    // In a forked child: closes the child's copy, and tells nothing more.
    void abandon_after_fork();

  private:
    void tell_of(std::span<const int> descriptors, std::uint32_t kept) const;
    // Nothing: the device has gone.
    std::optional<std::size_t> read(std::span<swrnic_down> records) const;

    std::atomic<int> fd_;
    Statistics::Sums told_{};  // by report()
    bool knows_counters_ = true;
};

}  // namespace swrnic::host
