// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// The part of Engine::poll_cq that is worth inlining into the caller's conversion.
#pragma once

#include "engine/core/cq.h"

namespace swrnic::engine {

template <typename Sink>
int Engine::poll_cq(Cq& cq, int max, Sink&& sink) {
    int count = cq.poll(max, sink);
    if (count == 0) {
        drive_from_poll();
        count = cq.poll(max, sink);
    }
    return count;
}

}  // namespace swrnic::engine
