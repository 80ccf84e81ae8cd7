// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "engine/placement.h"

#include <sched.h>

#include "engine/tuning.h"

namespace swrnic::engine {

bool Placement::should_leave(int here, int poster, std::uint64_t arms) {
    together_ = here == poster && arms == arms_ ? together_ + 1 : 0;
    arms_ = arms;
    if (together_ < tuning::kTogether * (left_before_ ? tuning::kTogether : 1)) return false;
    together_ = 0;
    left_before_ = true;
    return true;
}

void leave_processor(int processor) {
    cpu_set_t allowed;
    if (processor < 0 || sched_getaffinity(0, sizeof allowed, &allowed) != 0) return;
    cpu_set_t others = allowed;
    CPU_CLR(static_cast<std::size_t>(processor), &others);
    if (CPU_COUNT(&others) == 0 || sched_setaffinity(0, sizeof others, &others) != 0) return;
    sched_setaffinity(0, sizeof allowed, &allowed);
}

}  // namespace swrnic::engine
