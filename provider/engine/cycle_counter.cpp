// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "engine/cycle_counter.h"

#include <chrono>
#ifdef __x86_64__
#include <cpuid.h>
#endif

namespace swrnic::engine {

using Clock = std::chrono::steady_clock;

Cycles CycleCounter::now_otherwise() const {
    if (told_ != nullptr) return told_->load();
    return Cycles(std::chrono::nanoseconds(Clock::now().time_since_epoch()).count());
}

namespace {

using namespace std::chrono_literals;

constexpr std::chrono::microseconds kMeasuredFor = 200us;
constexpr std::int64_t kLeastPerMillisecond = 1'000;  // one that goes slower tells too little, or stands

#ifdef __x86_64__
// A virtual machine mostly hides that its host's counter is constant; but all hosts have such a one.
bool has_constant_counter() {
    constexpr unsigned kFeatures = 1, kHypervisor = 1u << 31;                // in ecx
    constexpr unsigned kPowerManagement = 0x80000007, kInvariant = 1u << 8;  // in edx
    unsigned a = 0, b = 0, c = 0, d = 0;
    if (__get_cpuid(kPowerManagement, &a, &b, &c, &d) != 0 && (d & kInvariant) != 0) return true;
    return __get_cpuid(kFeatures, &a, &b, &c, &d) != 0 && (c & kHypervisor) != 0;
}
#else
// ARM's is constant by its architecture.
constexpr bool has_constant_counter() {
    return kHasProcessorCounter;
}
#endif

struct Moment {
    std::int64_t counter;
    Clock::time_point time;
};

// The reading of both between which the least time passed: others were interrupted.
Moment read_both() {
    Moment best{};
    std::int64_t least = INT64_MAX;
    for (int i = 0; i < 8; ++i) {
        const std::int64_t before = read_processor_counter();
        const Clock::time_point time = Clock::now();
        const std::int64_t took = read_processor_counter() - before;
        if (i != 0 && took >= least) continue;
        least = took;
        best = {before + took / 2, time};
    }
    return best;
}

}  // namespace

// Also where the processor says its rate, since firmware may have set that wrong.
CycleCounter CycleCounter::measured() {
    if (!has_constant_counter()) return of_clock();
    const Moment begin = read_both();
    Moment end{};
    do
        end = read_both();
    while (end.time - begin.time < kMeasuredFor);
    const std::chrono::nanoseconds time = end.time - begin.time;
    const std::int64_t per_millisecond = (end.counter - begin.counter) * 1'000'000 / time.count();
    return per_millisecond < kLeastPerMillisecond ? of_clock()
                                                  : CycleCounter(nullptr, true, CycleRate(per_millisecond));
}

}  // namespace swrnic::engine
