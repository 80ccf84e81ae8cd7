// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Memory for objects that come in numbers, in chunks whose pages the kernel makes present in one call: where a page
// fault is dear (up to 15 us in a virtual machine), the first touch of each page of the heap costs more than the
// object.
#pragma once

#include <sys/mman.h>

#include <memory_resource>
#include <mutex>
#include <new>

namespace swrnic {

// Any thread. Chunks grow with what is in use, up to 64 objects of a size, and stay until the pool goes. A child of
// fork() has its copy.
class PopulatedPool final : public std::pmr::memory_resource {
    class Chunks final : public std::pmr::memory_resource {
        void* do_allocate(std::size_t size, std::size_t) override {
            void* const made =
                ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
            if (made == MAP_FAILED) throw std::bad_alloc();
            return made;
        }
        void do_deallocate(void* memory, std::size_t size, std::size_t) override { ::munmap(memory, size); }
        bool do_is_equal(const std::pmr::memory_resource& other) const noexcept override { return this == &other; }
    };

    std::pmr::memory_resource& source() {
#ifdef __SANITIZE_ADDRESS__  // which is to see the end of each object
        return *std::pmr::new_delete_resource();
#else
        return pool_;
#endif
    }
    void* do_allocate(std::size_t size, std::size_t alignment) override {
        const std::lock_guard hold(mutex_);
        return source().allocate(size, alignment);
    }
    void do_deallocate(void* memory, std::size_t size, std::size_t alignment) override {
        const std::lock_guard hold(mutex_);
        source().deallocate(memory, size, alignment);
    }
    bool do_is_equal(const std::pmr::memory_resource& other) const noexcept override {
        return this == &other;
    }

    Chunks chunks_;
    std::mutex mutex_;
    std::pmr::unsynchronized_pool_resource pool_{{.max_blocks_per_chunk = 64, .largest_required_pool_block = 4096},
                                                 &chunks_};
};

}  // namespace swrnic
