// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Copies of payload, from and to memory that a program has registered, and atomic operations on it. The program may
// have unmapped that memory since, or protected it, and its peer chooses the moment: a fault in there ends the stream
// and not the process.
#pragma once

#include <cstddef>
#include <cstdint>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#include <cstring>
#endif
#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#endif
#if defined(__SANITIZE_THREAD__)
extern "C" void __tsan_read_range(void* from, unsigned long length);
extern "C" void __tsan_write_range(void* to, unsigned long length);
#endif

namespace swrnic::engine {

// copy.S has the routine for these; elsewhere it is memcpy, whose faults end the process.
#if defined(__x86_64__) || defined(__aarch64__)
#define SWRNIC_RECOVERS_FROM_FAULTS 1
#else
#define SWRNIC_RECOVERS_FROM_FAULTS 0
#endif

extern "C" {
// Use copy_octets(). Who meets a fault between its beginning and its end may go on at `failed`, where it returns false.
// Where faults are not recovered from there are no such places.
bool swrnic_copy(std::byte* to, const std::byte* from, std::size_t length);
// Use fetch_add() and compare_swap(). They lie between the same marks.
bool swrnic_fetch_add(std::byte* at, std::uint64_t add, std::uint64_t* original);
bool swrnic_compare_swap(std::byte* at, std::uint64_t compare, std::uint64_t swap, std::uint64_t* original);
extern const char swrnic_copy_end[], swrnic_copy_failed[];
}

// As memcpy. False: part of the memory cannot be read or written; how much was copied is not known.
[[nodiscard]] inline bool copy_octets(std::byte* to, const std::byte* from, std::size_t length) {
#if defined(__SANITIZE_ADDRESS__)
    // memcpy reports what is wrong with them.
    if (__asan_region_is_poisoned(to, length) != nullptr ||
        __asan_region_is_poisoned(const_cast<std::byte*>(from), length) != nullptr)
        std::memcpy(to, from, length);
#endif
#if defined(__SANITIZE_THREAD__)
    __tsan_read_range(const_cast<std::byte*>(from), length);
    __tsan_write_range(to, length);
#endif
    return swrnic_copy(to, from, length);
}

// Of eight octets, aligned, in host order, by one instruction of the processor. False: they cannot be read and written.
[[nodiscard]] inline bool fetch_add(std::byte* at, std::uint64_t add, std::uint64_t& original) {
    return swrnic_fetch_add(at, add, &original);
}
[[nodiscard]] inline bool compare_swap(std::byte* at, std::uint64_t compare, std::uint64_t swap,
                                       std::uint64_t& original) {
    return swrnic_compare_swap(at, compare, swap, &original);
}

}  // namespace swrnic::engine
