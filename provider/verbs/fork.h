// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// What a forked child must do with the contexts of its parent: their threads are gone, their sockets are the parent's.
#pragma once

#include "objects.h"

namespace swrnic::verbs {

void watch_forks(Context& context);    // from now on a child of fork() abandons this context
void unwatch_forks(Context& context);  // before it is freed

}  // namespace swrnic::verbs
