// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// The hidden command `swrnic probe`: lists and opens devices through libibverbs, as any program would.
#pragma once

namespace swrnic::tools {

// Prints one line about the first device; 0 when it could be opened and its port is active.
int probe();

}  // namespace swrnic::tools
