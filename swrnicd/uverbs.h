// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Devices of our module, without libibverbs: its provider would start an engine of its own.
#pragma once

#include <string>
#include <vector>

#include "fd.h"

namespace swrnic::daemon {

struct UverbsNode {
    std::string node;    // "uverbs0"
    std::string device;  // "swr0"
    auto operator<=>(const UverbsNode&) const = default;
};

// What the kernel has, of whatever driver.
std::vector<UverbsNode> list_uverbs();

struct Context {
    Fd uverbs;  // the context lives as long as this
    Fd events;  // the event file
};

// Opens a context. 0 or an errno; EPROTONOSUPPORT: not a device of ours.
int open_context(const std::string& node, Context& out);

}  // namespace swrnic::daemon
