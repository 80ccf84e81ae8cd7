// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "precautions.h"

#include <fcntl.h>
#include <linux/prctl.h>
#include <malloc.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdlib>
#include <cstring>

#include "log.h"

namespace swrnic::daemon {

namespace {

constexpr std::size_t kThreadStack = std::size_t{512} * 1024;  // of each thread: all of it is locked
constexpr int kNice = -20;  // among those who look for memory that only our work frees, we must not wait our turn
constexpr std::size_t kHeap = std::size_t{8} * 1024 * 1024;  // asked for at the beginning, never given back

void report(const char* what, const char* without, int error) {
    log(LogLevel::kWarn, "{}: {}: {}", what, std::strerror(error), without);
}

void keep_from_oom_killer() {
    constexpr char kNever[] = "-1000";
    const int fd = ::open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);
    if (fd < 0 || ::write(fd, kNever, sizeof kNever - 1) < 0)
        report("oom_score_adj -1000", "the OOM killer may choose this process, and connections break", errno);
    if (fd >= 0) ::close(fd);
}

}  // namespace

void take_precautions() {
    // Freed memory stays ours, in one arena, so that under pressure nothing need be asked for.
    ::mallopt(M_ARENA_MAX, 1);
    ::mallopt(M_TRIM_THRESHOLD, 1 << 30);
    ::mallopt(M_MMAP_THRESHOLD, 32 << 20);
    pthread_attr_t attributes;
    ::pthread_attr_init(&attributes);
    ::pthread_attr_setstacksize(&attributes, kThreadStack);
    ::pthread_setattr_default_np(&attributes);
    ::pthread_attr_destroy(&attributes);
    constexpr rlimit kAll{RLIM_INFINITY, RLIM_INFINITY};
    if (::setrlimit(RLIMIT_MEMLOCK, &kAll) != 0) report("RLIMIT_MEMLOCK", "not all memory may be locked", errno);
    void* volatile heap = std::malloc(kHeap);  // else the compiler sees that nobody uses it, and leaves it out
    std::free(heap);
    // Our allocations must not wait for writing that goes through us.
    if (::prctl(PR_SET_IO_FLUSHER, 1, 0, 0, 0) != 0)
        report("PR_SET_IO_FLUSHER", "memory pressure may block this process behind its own mounts", errno);
    if (::setpriority(PRIO_PROCESS, 0, kNice) != 0)
        report("setpriority -20", "memory pressure may leave this process little of the processors", errno);
    keep_from_oom_killer();
}

void lock_memory() {
    if (::mlockall(MCL_CURRENT | MCL_FUTURE) != 0)
        report("mlockall", "memory pressure may swap this process out and stop mounts", errno);
}

}  // namespace swrnic::daemon
