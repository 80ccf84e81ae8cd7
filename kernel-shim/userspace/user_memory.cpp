// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "user_memory.h"

#include <linux/futex.h>
#include <pthread.h>

#include <climits>
#include <cstring>

#include "real.h"

namespace swrnic::shim {
namespace {

constexpr std::uintptr_t kPage = 4096;  // the smallest there is
constexpr std::size_t kSignalSet = 8;   // the kernel's

// The set is read before the order, which does not exist, is looked at.
bool page_readable(std::uintptr_t address) {
    constexpr int kNoSuchOrder = -1;
    const std::uintptr_t set = address & ~std::uintptr_t{kSignalSet - 1};
    if (set == 0) return false;  // there it means that no set is given
    return sys::call(SYS_rt_sigprocmask, kNoSuchOrder, set, nullptr, kSignalSet) != -EFAULT;
}

// Atomically ORs 0 into the word: whoever else writes there loses nothing, whoever waits there is not woken.
bool page_writable(std::uintptr_t address) {
    std::uint32_t nobody_waits_here = 0;
    constexpr int kOrNothing = FUTEX_OP(FUTEX_OP_OR, 0, FUTEX_OP_CMP_EQ, 0);
    return sys::call(SYS_futex, &nobody_waits_here, FUTEX_WAKE_OP | FUTEX_PRIVATE_FLAG, 0, 0L,
                     address & ~std::uintptr_t{3}, kOrNothing) != -EFAULT;
}

struct Stack {
    std::uintptr_t low = 0, high = 0;  // both 0: not known
};

Stack stack_of_this_thread() {
    pthread_attr_t attributes;
    if (pthread_getattr_np(pthread_self(), &attributes) != 0) return {};
    void* low = nullptr;
    std::size_t size = 0;
    const bool known = pthread_attr_getstack(&attributes, &low, &size) == 0;
    pthread_attr_destroy(&attributes);
    const auto start = reinterpret_cast<std::uintptr_t>(low);
    return known ? Stack{start, start + size} : Stack{};
}

// Commands and responses stand mostly in their caller's frame. What lies between our own and the end of the thread's
// stack is there, whatever the rest of the address space is; on another stack (a coroutine's, a signal's) nothing is
// known of that.
bool in_callers_frames(std::uintptr_t first, std::uintptr_t last) {
    static constinit thread_local Stack stack;
    static constinit thread_local bool asked = false;
    if (!asked) {
        asked = true;
        stack = stack_of_this_thread();
    }
    const auto here = reinterpret_cast<std::uintptr_t>(__builtin_frame_address(0));
    return stack.low <= here && here <= first && last < stack.high;
}

template <typename Probe>
bool each_page(const void* start, std::size_t size, std::size_t known, Probe probe) {
    const auto first = reinterpret_cast<std::uintptr_t>(start);
    if (size == 0) return true;
    if (first + (size - 1) < first) return false;
    if (in_callers_frames(first, first + (size - 1))) return true;
    if (known == 0 && !probe(first)) return false;
    const auto page_of = [](std::uintptr_t address) { return address & ~(kPage - 1); };
    std::uintptr_t page = page_of(first + (known != 0 ? known - 1 : 0));
    while (page < page_of(first + (size - 1))) {
        page += kPage;
        if (!probe(page)) return false;
    }
    return true;
}

}  // namespace

bool readable(const void* address, std::size_t size, std::size_t known) {
    return each_page(address, size, known, page_readable);
}
bool writable(const void* address, std::size_t size) {
    return each_page(address, size, 0, page_writable);
}

bool readable_string(const char* text) {
    for (std::size_t seen = 0; seen < PATH_MAX;) {
        const auto here = reinterpret_cast<std::uintptr_t>(text + seen);
        if (!page_readable(here)) return false;
        const std::size_t in_page = kPage - (here & (kPage - 1));
        if (memchr(text + seen, '\0', in_page) != nullptr) return true;
        seen += in_page;
    }
    return false;
}

}  // namespace swrnic::shim
