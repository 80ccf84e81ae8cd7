// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// What keeps the daemon from waiting for memory whose release waits for the daemon: it carries a file system's traffic.
#pragma once

namespace swrnic::daemon {

// Once, before any thread. What the system refuses is logged, and done without.
void take_precautions();

}  // namespace swrnic::daemon
