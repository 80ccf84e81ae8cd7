// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Memory that knows what it must hold: a payload between two canaries, and registered lists of such payloads.
#pragma once

#include <infiniband/verbs.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "pattern.h"

namespace checker {

// `size` octets of payload at `misalign` octets behind a page-aligned address, with canaries right before and after.
// The payload starts out as poison, a pattern that no message carries.
class Buffer {
  public:
    explicit Buffer(std::size_t size, std::size_t misalign = 0);
    std::uint8_t* data() { return memory_.get() + front_; }
    const std::uint8_t* data() const { return memory_.get() + front_; }
    std::size_t size() const { return size_; }
    std::span<std::uint8_t> bytes() { return {data(), size_}; }
    // Everything, canaries included: what a "wide" registration covers.
    std::span<std::uint8_t> whole() { return {memory_.get(), front_ + size_ + kGuard}; }
    void poison();
    void fill(std::uint64_t seed, std::uint64_t offset = 0) { pattern_fill(bytes(), seed, offset); }

    // Throw Failure on the first wrong byte. `offset` is the place of our first byte in the pattern.
    void expect_pattern(std::uint64_t seed, std::uint64_t offset, std::size_t length, std::string_view what) const;
    void expect_poison(std::size_t from, std::string_view what) const;
    void expect_canaries(std::string_view what) const;

  private:
    static constexpr std::size_t kGuard = 64;
    struct Free {
        void operator()(std::uint8_t* p) const;
    };
    std::size_t size_;
    std::size_t front_;
    std::unique_ptr<std::uint8_t, Free> memory_;
};

// A registration of memory that it does not own; deregistered on destruction.
class Mr {
  public:
    Mr(ibv_pd* pd, std::span<std::uint8_t> memory, int access);
    Mr(Mr&& other) noexcept : mr_(other.mr_) { other.mr_ = nullptr; }
    Mr& operator=(Mr&&) = delete;
    ~Mr();
    void deregister();
    std::uint32_t lkey() const { return mr_->lkey; }
    std::uint32_t rkey() const { return mr_->rkey; }

  private:
    ibv_mr* mr_;
};

// One message's memory: one or more buffers, each with its own registration, holding one continuous pattern.
class Sg {
  public:
    // Element sizes may be 0. Alignments, and whether a registration covers the canaries too, are drawn from rng.
    Sg(ibv_pd* pd, std::span<const std::size_t> sizes, int access, Rng& rng);
    Sg(ibv_pd* pd, std::size_t size, int access, Rng& rng);
    void fill(std::uint64_t seed);
    void poison();
    // The first `length` octets are the pattern from `offset`, the rest is untouched, the canaries stand.
    void expect_message(std::uint64_t seed, std::size_t length, std::string_view what, std::uint64_t offset = 0) const;
    std::size_t size() const;
    std::vector<ibv_sge>& list() { return list_; }
    Buffer& buffer(std::size_t i = 0) { return buffers_[i]; }
    Mr& mr(std::size_t i = 0) { return mrs_[i]; }
    std::uint64_t address() { return reinterpret_cast<std::uintptr_t>(buffers_[0].data()); }
    std::uint32_t rkey() const { return mrs_[0].rkey(); }

  private:
    void add(ibv_pd* pd, std::size_t size, int access, Rng& rng);
    std::vector<Buffer> buffers_;
    std::vector<Mr> mrs_;
    std::vector<ibv_sge> list_;
};

// Where the other side may write and read, as it tells us.
struct Remote {
    std::uint64_t address;
    std::uint32_t rkey;
};

inline constexpr int kLocal = IBV_ACCESS_LOCAL_WRITE;
// REMOTE_WRITE on Read sinks: what a portable program does on iWARP.
inline constexpr int kSink = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE;
inline constexpr int kRemote = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;
inline constexpr int kAtomic = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_ATOMIC;

}  // namespace checker
