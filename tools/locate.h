// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Where the libraries are that belong to this very command: beside it in a build tree, or where the package put them.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "abi/layout.h"

namespace swrnic::tools {

struct Provider {
    std::string path;   // absolute, .../libswrnic-rdmav34.so
    unsigned pabi = 0;  // the number in its name
};

struct Libraries {
    std::string preload;                // absolute path of libswrnic-preload.so; empty: not found
    std::vector<Provider> providers;    // all that stand beside each other; empty: none found
    std::string driver_name;            // what IBV_DRIVERS wants: the provider's path without "-rdmavN.so"
    bool registered = false;            // libibverbs finds the provider by itself (a .driver file names it)
    std::vector<std::string> searched;  // directories, for messages
};

// Absolute path of the running command, links resolved; empty when /proc is not there.
std::string own_path();

Libraries find_libraries(const std::string& command_path);

// The libibverbs that a program would load from this environment, unless it brings its own; nothing: none is installed.
std::optional<abi::Library> find_libibverbs();

// The provider that this libibverbs loads, by the number in its name. Null, and why: libibverbs would pass over all of
// them in silence.
const Provider* provider_for(const abi::Library& library, const Libraries& libraries, std::string& why);

}  // namespace swrnic::tools
