// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// What a thread of ours in a program of somebody else's does with signals.
#pragma once

#include <pthread.h>
#include <signal.h>

namespace swrnic {

// While it lives a thread that is created takes no signal, since handlers are the program's own threads' matter, but
// those of its own faults: blocked, they would end the process whatever handler there is. The creator's mask comes
// back.
class BlockedSignals {
  public:
    BlockedSignals() {
        sigset_t blocked;
        sigfillset(&blocked);
        for (const int fault : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS})
            sigdelset(&blocked, fault);
        pthread_sigmask(SIG_SETMASK, &blocked, &before_);
    }
    ~BlockedSignals() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
    BlockedSignals(const BlockedSignals&) = delete;
    BlockedSignals& operator=(const BlockedSignals&) = delete;

  private:
    sigset_t before_{};
};

}  // namespace swrnic
