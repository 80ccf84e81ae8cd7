// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// What the daemon was told: SWRNIC_* as for programs, and its own options.
#pragma once

#include <chrono>

#include "config.h"

namespace swrnic::daemon {

struct Settings {
    Config config;
    std::chrono::microseconds busy_poll;  // --busy-poll
    unsigned workers;                     // --workers: for each device, 1 to SWRNIC_SERVE_GROUPS
};

}  // namespace swrnic::daemon
