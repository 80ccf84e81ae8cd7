// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Which libibverbs a process has. The provider registers with libibverbs.so.1 alone, so one that has another name, as
// Python wheels bring with them, or that is linked into the program, finds devices but no driver for them, and says
// nothing. So we do.
#pragma once

namespace swrnic::shim {

// When a libibverbs asks for the device: a line in the log, once for a process. Not under the lock, since it takes the
// loader's.
void tell_of_libibverbs_without_driver();

}  // namespace swrnic::shim
