// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Memory for objects that come in numbers, in chunks whose pages the kernel makes present in one call: where a page
// fault is dear (it takes a virtual machine up to 15 us), the first touch of each page of the heap costs more than the
// object.
#pragma once

#include <sys/mman.h>

#include <memory_resource>
#include <new>

namespace swrnic {

// Whole pages. Any thread. After fork() the child has its copy.
class PopulatedMemory final : public std::pmr::memory_resource {
    void* do_allocate(std::size_t size, std::size_t) override {
        void* const made =
            ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
        if (made == MAP_FAILED) throw std::bad_alloc();
        return made;
    }
    void do_deallocate(void* memory, std::size_t size, std::size_t) override { ::munmap(memory, size); }
    bool do_is_equal(const std::pmr::memory_resource& other) const noexcept override { return this == &other; }
};

// Pool: std::pmr::unsynchronized_pool_resource or synchronized_pool_resource.
template <typename Pool>
class PopulatedPool {
  public:
#ifdef __SANITIZE_ADDRESS__
    std::pmr::memory_resource* get() {
        return std::pmr::new_delete_resource();
    }  // that it sees the end of each object
#else
    std::pmr::memory_resource* get() {
        return &pool_;
    }

  private:
    PopulatedMemory chunks_;
    Pool pool_{{.max_blocks_per_chunk = 64, .largest_required_pool_block = 4096}, &chunks_};
#endif
};

}  // namespace swrnic
