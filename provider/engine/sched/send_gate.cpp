// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "engine/sched/send_gate.h"

#include <array>

namespace swrnic::engine {

std::string_view name(SendGate::State state) {
    constexpr std::array<std::string_view, 4> kNames{"first", "second", "burst", "long"};
    return kNames[static_cast<std::size_t>(state)];
}

std::string_view name(SendGate::Decision decision) {
    constexpr std::array<std::string_view, 3> kNames{"flush", "gather", "cork"};
    return kNames[static_cast<std::size_t>(decision)];
}

}  // namespace swrnic::engine
