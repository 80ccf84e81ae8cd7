// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "user_memory.h"

#include <linux/futex.h>

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

template <typename Probe>
bool each_page(const void* start, std::size_t size, std::size_t known, Probe probe) {
    const auto first = reinterpret_cast<std::uintptr_t>(start);
    if (size == 0) return true;
    if (first + (size - 1) < first) return false;
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

}  // namespace swrnic::shim
