// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Whether the program's pointers in a command lead anywhere: a kernel says EFAULT where plain copies would end the
// program.
//
// The kernel is asked for each page by a system call that fails before it does anything, or that changes nothing. That
// is a fifth of what process_vm_readv costs, and no container forbids these calls. A page that another thread unmaps
// between the question and the copy still ends the program. What lies in the caller's own frames is there without being
// asked for: that was 30 of a server's 82 system calls for a connection of cmtime, and 4 of 12 for a Send that wakes
// its receiver.
#pragma once

#include <cstddef>

namespace swrnic::shim {

// known: so many of the first octets have been asked for already.
bool readable(const void* address, std::size_t size, std::size_t known = 0);
bool writable(const void* address, std::size_t size);
// A text to its end, of PATH_MAX at most. Asks the kernel even where the others need not: they look up the thread's
// stack once, which is nothing for a signal handler's open().
bool readable_string(const char* text);

}  // namespace swrnic::shim
