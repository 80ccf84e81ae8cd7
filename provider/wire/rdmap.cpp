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

}  // namespace swrnic::wire
