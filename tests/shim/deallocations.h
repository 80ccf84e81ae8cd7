// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// How often C++ has given memory back in this process, the userspace shim included.
#pragma once

#include <atomic>

namespace swrnic::test {

extern std::atomic<unsigned> deallocations;

}  // namespace swrnic::test
