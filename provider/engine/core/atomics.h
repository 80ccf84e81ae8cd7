// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Atomic operations of the peer on memory that a program has registered. The processor's own instructions do them, so
// they are atomic among all threads of all processes, whatever QP or device they came by.
#pragma once

#include <cstddef>
#include <cstdint>

#include "wire/rdmap.h"

namespace swrnic::engine {

// `target` is a multiple of 8. False: it cannot be read or written, and nothing was changed.
[[nodiscard]] bool change_atomically(std::byte* target, const wire::AtomicRequest& request, std::uint64_t& original);

}  // namespace swrnic::engine
