// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// A snapshot as text of several kinds.
#pragma once

#include <string>
#include <vector>

#include "stat/snapshot.h"

namespace swrnic::tools {

// With `before` and the seconds since, amounts are per second; what has no earlier number counts from 0.
std::string as_table(const std::vector<OpenDevice>& now, const std::vector<OpenDevice>* before, double seconds);
std::string as_json(const std::vector<OpenDevice>& now);
std::string as_prometheus(const std::vector<OpenDevice>& now);

}  // namespace swrnic::tools
