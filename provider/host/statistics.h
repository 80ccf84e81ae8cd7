// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// The counters of one open device: the page that `swrnic stat` reads (stat_page.h), and their sums.
//
// Threads: everything may be called from any thread. Fork: the child has no such mapping; abandon_after_fork() there,
// and nothing else. Where there is no memfd to be had, private memory takes its place and nobody sees the counters.
#pragma once

#include <swrnic-abi.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "engine/core/counters.h"
#include "stat_page.h"

namespace swrnic::host {

class Statistics {
  public:
    using Sums = std::array<std::uint64_t, kStatSums>;

    // Null without memory.
    static std::unique_ptr<Statistics> create(const char* device);
    ~Statistics();
    Statistics(const Statistics&) = delete;
    Statistics& operator=(const Statistics&) = delete;

    int fd() const { return fd_; }  // of the page; -1: it is seen by nobody
    engine::EngineCounters& engine() { return *engine_; }
    // Null: the page is full, and this QP is not seen.
    bool has_qp(std::uint32_t qpn);
    engine::Counters* add_qp(std::uint32_t qpn);
    void remove_qp(std::uint32_t qpn);
    // Notes both ends.
    void connected(std::uint32_t qpn, const swrnic_connected& stream);
    // "QP 0x1234", and "(peer 10.0.0.2:4711)" once it has been connected: how log lines name a QP.
    struct Name {
        Statistics& statistics;
        std::uint32_t qpn;
        std::string text() const;
    };
    Name name_of(std::uint32_t qpn) { return {*this, qpn}; }
    // Over all QPs that have ever been.
    Sums sums();
    void lose_descriptor() { fd_ = -1; }  // it was closed by others
    void abandon_after_fork();

  private:
    struct Entry {
        std::uint32_t slot;
        StatAddress peer;
    };
    static constexpr std::uint32_t kNoSlot = ~std::uint32_t{0};
    class Change;

    Statistics(int fd, void* memory, const char* device);
    StatSlot& slot(std::uint32_t index);
    engine::Counters& counters(std::uint32_t index);
    void keep(const engine::Counters& of);
    void keep_codes(const engine::Counters& of, engine::Count first, std::uint64_t* to);

    std::atomic<int> fd_;
    std::byte* memory_;
    StatHeader* header_;
    engine::EngineCounters* engine_;

    std::mutex mutex_;
    std::unordered_map<std::uint32_t, Entry> qps_;
    std::vector<std::uint32_t> free_;
    std::uint32_t used_ = 0;
};

}  // namespace swrnic::host
