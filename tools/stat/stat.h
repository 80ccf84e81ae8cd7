// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// `swrnic stat`: what the open devices have counted.
#pragma once

#include <string>
#include <vector>

namespace swrnic::tools {

struct StatOptions {
    bool json = false, prometheus = false;
    bool watch = false;
    double interval = 1;             // seconds between two looks
    std::vector<std::string> pages;  // read these files, not what /proc shows
    unsigned long count = 0;         // looks; 0: until the reader has enough
};

int stat(const StatOptions& options);

}  // namespace swrnic::tools
