// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// A process for each group of a device's QPs: what talks to peers has no rights, and what has rights talks to none.
//
// The module lets the process that was allowed to serve go on whatever its credentials are later. So the worker opens
// the device, asks to serve it, and gives up all rights before it takes the first connection.
#pragma once

#include <sys/types.h>

#include "fd.h"
#include "settings.h"
#include "uverbs.h"

namespace swrnic::daemon {

struct Worker {
    pid_t process = -1;
    Fd line;  // it ends when this closes, so with its parent too
};

// Starts one for that group; waits until it serves, or says why it cannot. 0 with it in worker, or an errno: as
// open_context(), and of SWRNIC_IOC_SERVE. The caller has one thread. A worker ends with its device, too; the caller
// reaps it.
int start_worker(const Settings& settings, const UverbsNode& node, unsigned group, Worker& worker);

}  // namespace swrnic::daemon
