// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "wire/rdmap.h"

namespace swrnic::wire {

std::string_view opcode_name(std::uint8_t control) {
    static constexpr std::array<std::string_view, 16> kNames{"RDMA Write",
                                                             "RDMA Read Request",
                                                             "RDMA Read Response",
                                                             "Send",
                                                             "Send with Invalidate",
                                                             "Send with SE",
                                                             "Send with SE and Invalidate",
                                                             "Terminate",
                                                             "Immediate Data",
                                                             "Immediate Data with SE",
                                                             "Atomic Request",
                                                             "Atomic Response",
                                                             "opcode 12",
                                                             "opcode 13",
                                                             "opcode 14",
                                                             "opcode 15"};
    return kNames[control & kOpcodeMask];
}

std::uint64_t AtomicRequest::result(std::uint64_t original) const {
    if (opcode == AtomicOpcode::kCmpSwap)
        return ((original ^ compare) & compare_mask) == 0 ? (original & ~mask) | (data & mask) : original;
    // Without the top bit of each field no carry leaves it; that bit's sum has no carry to give.
    return ((original & ~mask) + (data & ~mask)) ^ ((original ^ data) & mask);
}

}  // namespace swrnic::wire
