// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "buffer.h"

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "failure.h"

namespace checker {

namespace {
constexpr std::uint64_t kPoisonSeed = 0x706f69736f6eU;
constexpr std::uint64_t kCanarySeed = 0x63616e617279U;
constexpr std::size_t kPage = 4096;
constexpr std::uint32_t kMaxMisalign = 67;
}  // namespace

void Buffer::Free::operator()(std::uint8_t* p) const {
    std::free(p);
}

Buffer::Buffer(std::size_t size, std::size_t misalign) : size_(size), front_(kGuard + misalign) {
    const std::size_t total = (front_ + size_ + kGuard + kPage - 1) / kPage * kPage;
    memory_.reset(static_cast<std::uint8_t*>(std::aligned_alloc(kPage, total)));
    expect(memory_ != nullptr, "no memory for {} octets", total);
    pattern_fill(whole().first(front_), kCanarySeed, 0);
    pattern_fill(whole().last(kGuard), kCanarySeed, 0);
    poison();
}

void Buffer::poison() {
    pattern_fill(bytes(), kPoisonSeed, 0);
}

void Buffer::expect_pattern(std::uint64_t seed, std::uint64_t offset, std::size_t length, std::string_view what) const {
    const std::size_t at = pattern_mismatch({data(), length}, seed, offset);
    expect(at == length, "{}: byte {} of {} is {:#04x}, expected {:#04x}{}", what, at, length, data()[at % (size_ + 1)],
           pattern_byte(seed, offset + at),
           at < length && data()[at] == pattern_byte(kPoisonSeed, at) ? " (never written)" : "");
}

void Buffer::expect_poison(std::size_t from, std::string_view what) const {
    const std::size_t rest = size_ - from;
    const std::size_t at = pattern_mismatch({data() + from, rest}, kPoisonSeed, from);
    expect(at == rest, "{}: byte {} of the buffer was written, the message ends at {}", what, from + at, from);
}

void Buffer::expect_canaries(std::string_view what) const {
    const std::size_t before = pattern_mismatch({memory_.get(), front_}, kCanarySeed, 0);
    expect(before == front_, "{}: a byte {} octets before the buffer was written", what, front_ - before);
    const std::size_t after = pattern_mismatch({data() + size_, kGuard}, kCanarySeed, 0);
    expect(after == kGuard, "{}: a byte {} octets behind the buffer was written", what, after + 1);
}

Mr::Mr(ibv_pd* pd, std::span<std::uint8_t> memory, int access)
    : mr_(ibv_reg_mr(pd, memory.data(), memory.size(), access)) {
    expect(mr_ != nullptr, "ibv_reg_mr of {} octets, access {:#x}: {}", memory.size(), access, Errno{});
}

Mr::~Mr() {
    if (mr_ != nullptr) ibv_dereg_mr(mr_);
}

void Mr::deregister() {
    const int rc = ibv_dereg_mr(mr_);
    mr_ = nullptr;
    expect(rc == 0, "ibv_dereg_mr: {}", std::strerror(rc));
}

Sg::Sg(ibv_pd* pd, std::span<const std::size_t> sizes, int access, Rng& rng) {
    buffers_.reserve(sizes.size());
    mrs_.reserve(sizes.size());
    for (const std::size_t size : sizes)
        add(pd, size, access, rng);
}

Sg::Sg(ibv_pd* pd, std::size_t size, int access, Rng& rng) : Sg(pd, std::span(&size, 1), access, rng) {}

void Sg::add(ibv_pd* pd, std::size_t size, int access, Rng& rng) {
    Buffer& buffer = buffers_.emplace_back(size, rng.below(kMaxMisalign));
    // An exact registration tests the bounds, a wide one lets a misplaced byte reach a canary.
    const bool wide = size == 0 || rng.one_in(2);
    mrs_.emplace_back(pd, wide ? buffer.whole() : buffer.bytes(), access);
    list_.push_back({.addr = reinterpret_cast<std::uintptr_t>(buffer.data()),
                     .length = static_cast<std::uint32_t>(size),
                     .lkey = mrs_.back().lkey()});
}

void Sg::fill(std::uint64_t seed) {
    std::uint64_t offset = 0;
    for (Buffer& buffer : buffers_) {
        buffer.fill(seed, offset);
        offset += buffer.size();
    }
}

void Sg::poison() {
    for (Buffer& buffer : buffers_)
        buffer.poison();
}

std::size_t Sg::size() const {
    std::size_t sum = 0;
    for (const Buffer& buffer : buffers_)
        sum += buffer.size();
    return sum;
}

void Sg::expect_message(std::uint64_t seed, std::size_t length, std::string_view what, std::uint64_t offset) const {
    for (const Buffer& buffer : buffers_) {
        const std::size_t here = std::min(length, buffer.size());
        buffer.expect_pattern(seed, offset, here, what);
        buffer.expect_poison(here, what);
        buffer.expect_canaries(what);
        offset += here;
        length -= here;
    }
    expect(length == 0, "{}: the message is {} octets longer than the buffers", what, length);
}

}  // namespace checker
