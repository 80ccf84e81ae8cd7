// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

namespace swrnic::engine {

// From now on copy_octets() recovers from SIGSEGV and SIGBUS, in every thread that does not block them. All other such
// signals go on to the handler that the program has set; so does a fault in a copy that write or read protection has
// caused, since a program that protects its pages, as some collectors of garbage do, lifts that in its handler. May be
// called again, for a handler that was set since. Thread-safe, not async-signal-safe. For the process: there is no way
// back, and a forked child inherits it.
void recover_from_faults();

}  // namespace swrnic::engine
