// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// A file of its own: a compiler that sees both sides calls free() of what new made a mistake.
#include "deallocations.h"

#include <cstdlib>
#include <new>

namespace swrnic::test {

std::atomic<unsigned> deallocations{0};

}  // namespace swrnic::test

void* operator new(std::size_t size) {
    void* const memory = std::malloc(size);
    if (memory == nullptr) throw std::bad_alloc();
    return memory;
}

void operator delete(void* memory) noexcept {
    ++swrnic::test::deallocations;
    std::free(memory);
}

void operator delete(void* memory, std::size_t) noexcept {
    ++swrnic::test::deallocations;
    std::free(memory);
}
