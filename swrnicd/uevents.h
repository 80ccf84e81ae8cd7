// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// The kernel's word that devices come and go.
#pragma once

#include "fd.h"

namespace swrnic::daemon {

class Uevents {
  public:
    Uevents();
    // To be polled for input; -1: there is no such word here.
    int fd() const { return socket_.get(); }
    // Takes what waits; true if verbs devices have come or gone, or word of it may have been lost.
    bool drain();

  private:
    Fd socket_;
};

}  // namespace swrnic::daemon
