// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// The whole state table against state_table.golden, so that any change of it shows in review.
#include <gtest/gtest.h>

#include <cstdio>
#include <fstream>
#include <sstream>

#include "machine.h"

namespace swrnic::mpatest {
namespace {

std::string print_table() {
    std::string text = "# state + input -> next state, event. A pair that is not listed does nothing.\n";
    for (int s = 0; s < SWRNIC_MPA_ST_COUNT; ++s) {
        const auto state = static_cast<swrnic_mpa_state>(s);
        text += "\n";
        bool any = false;
        for (int i = 0; i < SWRNIC_MPA_IN_COUNT; ++i) {
            const auto input = static_cast<swrnic_mpa_input>(i);
            swrnic_mpa_state next{};
            swrnic_mpa_event event{};
            if (!swrnic_mpa_lookup(state, input, &next, &event)) continue;
            any = true;
            char line[128];
            std::snprintf(line, sizeof(line), "%-14s + %-14s -> %-14s %s\n", swrnic_mpa_state_name(state),
                          swrnic_mpa_input_name(input), swrnic_mpa_state_name(next), swrnic_mpa_event_name(event));
            text += line;
        }
        if (!any) text += std::string(swrnic_mpa_state_name(state)) + " is final\n";
    }
    return text;
}

TEST(MpaTable, IsAsReviewed) {
    std::ifstream file(SWRNIC_MPA_TEST_DIR "/state_table.golden");
    std::stringstream golden;
    golden << file.rdbuf();
    EXPECT_EQ(print_table(), golden.str()) << "if the change is meant, put the printed table into state_table.golden";
}

TEST(MpaTable, RefusesWhatIsOutOfRange) {
    swrnic_mpa_state next{};
    swrnic_mpa_event event{};
    EXPECT_EQ(swrnic_mpa_lookup(SWRNIC_MPA_ST_COUNT, SWRNIC_MPA_IN_EOF, &next, &event), 0);
    EXPECT_EQ(swrnic_mpa_lookup(SWRNIC_MPA_ST_IDLE, SWRNIC_MPA_IN_COUNT, &next, &event), 0);
    EXPECT_STREQ(swrnic_mpa_state_name(SWRNIC_MPA_ST_COUNT), "?");
    EXPECT_STREQ(swrnic_mpa_input_name(SWRNIC_MPA_IN_COUNT), "?");
    EXPECT_STREQ(swrnic_mpa_reason_name(static_cast<swrnic_mpa_reason>(SWRNIC_MPA_NO_COMMON_RTR + 1)), "?");
    EXPECT_STREQ(swrnic_mpa_event_name(static_cast<swrnic_mpa_event>(SWRNIC_MPA_EV_FAILED + 1)), "?");
}

TEST(MpaTable, NamesEverything) {
    for (int r = 0; r <= SWRNIC_MPA_NO_COMMON_RTR; ++r)
        EXPECT_NE(swrnic_mpa_reason_name(static_cast<swrnic_mpa_reason>(r)), nullptr) << r;
    EXPECT_STREQ(swrnic_mpa_event_name(SWRNIC_MPA_EV_FAILED), "FAILED");
    EXPECT_STREQ(swrnic_mpa_state_name(SWRNIC_MPA_ST_FAILED), "FAILED");
    EXPECT_STREQ(swrnic_mpa_input_name(SWRNIC_MPA_IN_ABANDON), "ABANDON");
}

}  // namespace
}  // namespace swrnic::mpatest
