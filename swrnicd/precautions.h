// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// What keeps the daemon from waiting for memory whose release waits for the daemon: it carries a file system's traffic.
#pragma once

namespace swrnic::daemon {

// Once, before any worker, which inherits them. What the system refuses is logged, and done without.
void take_precautions();
// In each worker, since locks are not inherited; needs no rights behind take_precautions().
void lock_memory();

}  // namespace swrnic::daemon
