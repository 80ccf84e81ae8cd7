// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// The environment that makes a program see the device.
#pragma once

#include <string>
#include <vector>

#include "host.h"
#include "locate.h"

namespace swrnic::tools {

// Changes this process's environment for the program that it is about to become. runtime: what the program insists on
// having loaded first (sanitizer.h), or empty. On failure returns false with what happened, why and what to do in
// error; the environment may then be half changed.
bool prepare_environment(const Libraries& libraries, const KernelRdma& kernel, const std::string& runtime,
                         std::string& error);

// SWRNIC_ variables that are set but mean nothing: most likely misspelt.
std::vector<std::string> unknown_variables();

}  // namespace swrnic::tools
