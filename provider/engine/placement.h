// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Where the background thread runs, beside a program that posts and then spins on its memory.
//
// The scheduler wakes a thread where it slept last. If its program spins there, each message interrupts that processor
// from another one and takes the program's place: where an interrupt is dear, as in a virtual machine, that is many
// times what a message costs. Somewhere else the thread takes the time of who sends the message, in the sender's own
// system call.
#pragma once

#include <cstdint>

namespace swrnic::engine {

class Placement {
  public:
    // After a turn of the thread on the processor `here`; `poster`: that of who posted last; `arms`: counts
    // req_notify calls, since who waits for events sleeps and is in nobody's way. True: it should leave.
    bool should_leave(int here, int poster, std::uint64_t arms);

  private:
    std::uint32_t together_ = 0;  // turns in a row on its poster's processor
    std::uint64_t arms_ = 0;
    bool left_before_ = false;
};

// The calling thread goes on elsewhere, if it may run elsewhere; its affinity is as before.
void leave_processor(int processor);

}  // namespace swrnic::engine
