// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "engine/core/atomics.h"

#include "engine/core/copy.h"

namespace swrnic::engine {

bool change_atomically(std::byte* target, const wire::AtomicRequest& request, std::uint64_t& original) {
    if (request.opcode == wire::AtomicOpcode::kFetchAdd && request.mask == 0)
        return fetch_add(target, request.data, original);
    // A guess that is wrong changes nothing and brings what is there. Where the operation leaves the memory as it is,
    // the same value is stored.
    std::uint64_t guess = request.compare;
    while (compare_swap(target, guess, request.result(guess), original)) {
        if (original == guess) return true;
        guess = original;
    }
    return false;
}

}  // namespace swrnic::engine
