// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// `swrnic run`: becomes the given command, with the device present.
#pragma once

#include <string>
#include <vector>

namespace swrnic::tools {

// Exit codes of our own; anything else is the command's.
inline constexpr int kExitRefused = 2;          // wrong settings or usage, or the libraries are not there
inline constexpr int kExitCannotExecute = 126;  // as env(1)
inline constexpr int kExitNotFound = 127;

struct RunOptions {
    std::string trace;    // a file for what the QPs send and receive, or empty
    std::string persona;  // of SWRNIC_PERSONA, or empty
    bool only = false;    // swr0, though the kernel has devices
};

// Returns only if the command could not be started.
int run(const std::vector<std::string>& command, const RunOptions& options);

}  // namespace swrnic::tools
