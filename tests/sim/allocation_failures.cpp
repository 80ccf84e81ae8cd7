// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "sim/allocation_failures.h"

#include <cstdlib>
#include <new>

namespace swrnic::engine::sim {

namespace {

constexpr std::size_t kLarge = 512;

struct State {
    unsigned percent = 0;
    int plenty = 0;
    std::uint64_t random = 0, failed = 0;
};
State state;  // the simulation has one thread

bool refuse(std::size_t size) {
    if (state.percent == 0 || state.plenty != 0 || size < kLarge) return false;
    state.random = state.random * 6364136223846793005 + 1442695040888963407;
    if ((state.random >> 33) % 100 >= state.percent) return false;
    ++state.failed;
    return true;
}

void* allocate(std::size_t size) {
    void* const memory = refuse(size) ? nullptr : std::malloc(size != 0 ? size : 1);
    if (memory == nullptr) throw std::bad_alloc();
    return memory;
}

}  // namespace

AllocationFailures::AllocationFailures(unsigned percent, std::uint64_t seed) {
    state.percent = percent;
    state.random = seed;
}
AllocationFailures::~AllocationFailures() {
    state.percent = 0;
}
std::uint64_t AllocationFailures::failed() {
    return state.failed;
}
Plenty::Plenty() {
    ++state.plenty;
}
Plenty::~Plenty() {
    --state.plenty;
}

}  // namespace swrnic::engine::sim

void* operator new(std::size_t size) {
    return swrnic::engine::sim::allocate(size);
}
void* operator new[](std::size_t size) {
    return swrnic::engine::sim::allocate(size);
}
void operator delete(void* memory) noexcept {
    std::free(memory);
}
void operator delete[](void* memory) noexcept {
    std::free(memory);
}
void operator delete(void* memory, std::size_t) noexcept {
    std::free(memory);
}
void operator delete[](void* memory, std::size_t) noexcept {
    std::free(memory);
}
