// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Static probes for perf, bpftrace and SystemTap: a nop each, and a note in the library that says where it is and what
// it carries (swrnic(7) lists them). sys/sdt.h holds assembler notes and no system call; without it there are no
// probes.
#pragma once

#if __has_include(<sys/sdt.h>)
#define SDT_USE_VARIADIC
#include <sys/sdt.h>
#define SWRNIC_PROBE(...) STAP_PROBEV(swrnic, __VA_ARGS__)
#else
#define SWRNIC_PROBE(...) static_cast<void>(0)
#endif
