// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// For tests of gates (provider/engine/sched): a clock of their own, and the tables on record.
#pragma once

#include <gtest/gtest.h>

#include <fstream>
#include <sstream>
#include <string>

#include "engine/sched/times.h"

namespace swrnic::engine::test {

using namespace std::chrono_literals;

inline constexpr CycleRate kRate{2'445'000};  // no whole number of cycles in a nanosecond
inline constexpr Times kTimes{kRate};
inline constexpr Cycles kBegin{1'000'000'000'000};

constexpr Cycles cycles(std::chrono::nanoseconds time) {
    return kRate.cycles_in(time);
}

inline void expect_as_on_record(const std::string& file, const std::string& table) {
    std::ifstream recorded(SWRNIC_ENGINE_TEST_DIR "/" + file);
    ASSERT_TRUE(recorded) << file;
    std::stringstream contents;
    contents << recorded.rdbuf();
    EXPECT_EQ(contents.str(), table) << file;
}

}  // namespace swrnic::engine::test
