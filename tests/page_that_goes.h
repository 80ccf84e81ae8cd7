// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Memory that a program takes away while it is registered.
#pragma once

#include <sys/mman.h>
#include <sys/random.h>
#include <unistd.h>

#include <cstddef>
#include <cstdlib>

namespace swrnic::test {

// A page that can be unmapped while its neighbours stay: what malloc maps meanwhile, which is larger, does not come to
// lie there. Nor does the page that glibc 2.41 and later map for a thread's first random number.
class PageThatGoes {
  public:
    PageThatGoes()
        : size_(static_cast<std::size_t>(sysconf(_SC_PAGESIZE))),
          start_(static_cast<std::byte*>(
              mmap(nullptr, 3 * size_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0))) {
        unsigned number = 0;
        if (getrandom(&number, sizeof number, 0) < 0) std::abort();
    }
    ~PageThatGoes() { munmap(start_, 3 * size_); }
    PageThatGoes(const PageThatGoes&) = delete;
    PageThatGoes& operator=(const PageThatGoes&) = delete;

    std::byte* data() const { return start_ + size_; }
    std::size_t size() const { return size_; }
    void unmap() const { munmap(data(), size_); }
    void protect(int rights) const { mprotect(data(), size_, rights); }

  private:
    const std::size_t size_;
    std::byte* const start_;
};

}  // namespace swrnic::test
