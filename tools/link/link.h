// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// `swrnic link add|del|show`: devices of the kernel module, as rdma(8) makes them, with the errors explained.
#pragma once

#include <string>
#include <vector>

namespace swrnic::tools {

// The words behind `link`. Returns the exit code.
int link(const std::vector<std::string>& words);

}  // namespace swrnic::tools
