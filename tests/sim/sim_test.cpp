// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// sim_test [--seeds=N] [--first=S] [--mode=NAME]: N simulated connections, each made from its seed alone.
#include <algorithm>
#include <charconv>
#include <cstdio>
#include <string_view>

#include "sim/world.h"

namespace {

using swrnic::engine::sim::Mode;
using swrnic::engine::sim::World;

bool number(std::string_view text, std::string_view key, std::uint64_t& out) {
    if (!text.starts_with(key)) return false;
    text.remove_prefix(key.size());
    return std::from_chars(text.data(), text.data() + text.size(), out).ec == std::errc{};
}

std::optional<Mode> mode_named(std::string_view name) {
    for (int i = 0; i < swrnic::engine::sim::kModes; ++i)
        if (name == swrnic::engine::sim::name(Mode(i))) return Mode(i);
    return std::nullopt;
}

}  // namespace

int main(int argc, char** argv) {
    std::uint64_t seeds = 100, first = 1;
    std::optional<Mode> mode;
    for (int i = 1; i < argc; ++i) {
        const std::string_view argument = argv[i];
        if (number(argument, "--seeds=", seeds) || number(argument, "--first=", first)) continue;
        if (argument.starts_with("--mode=")) mode = mode_named(argument.substr(7));
        if (!mode) {
            std::fprintf(stderr, "usage: sim_test [--seeds=N] [--first=S] [--mode=NAME]\n");
            return 2;
        }
    }
    int failures = 0;
    std::uint64_t per_mode[swrnic::engine::sim::kModes] = {};
    swrnic::engine::sim::Lies lies{};
    for (std::uint64_t seed = first; seed < first + seeds; ++seed) {
        World world(seed, mode);
        ++per_mode[static_cast<int>(world.mode())];
        try {
            world.run();
        } catch (const swrnic::engine::sim::Failure& failure) {
            std::printf("FAILED seed %llu (%s): %s\n    sim_test --first=%llu --seeds=1%s%s\n",
                        static_cast<unsigned long long>(seed), swrnic::engine::sim::name(world.mode()), failure.what(),
                        static_cast<unsigned long long>(seed), mode ? " --mode=" : "",
                        mode ? swrnic::engine::sim::name(*mode) : "");
            if (++failures == 10) break;
        }
        for (std::size_t i = 0; i < lies.size(); ++i)
            lies[i] += world.lies()[i];
    }
    for (int i = 0; i < swrnic::engine::sim::kModes; ++i)
        std::printf("%s %llu  ", swrnic::engine::sim::name(Mode(i)), static_cast<unsigned long long>(per_mode[i]));
    std::printf("\nlies about");
    for (std::size_t i = 0; i < lies.size(); ++i)
        std::printf(" %s %llu,", swrnic::engine::sim::kLiedAbout[i], static_cast<unsigned long long>(lies[i]));
    std::printf(" allocations that failed %llu",
                static_cast<unsigned long long>(swrnic::engine::sim::AllocationFailures::failed()));
    // What a run of this length has not tried, it does not show.
    using swrnic::engine::sim::AllocationFailures;
    const bool byzantine = mode ? *mode == Mode::kByzantine && seeds >= 300 : seeds >= 10000;
    const bool failing_allocations = mode ? *mode == Mode::kNoMemory && seeds >= 100 : seeds >= 1000;
    const bool whole = (!byzantine || std::find(lies.begin(), lies.end(), std::uint64_t{0}) == lies.end()) &&
                       (!failing_allocations || AllocationFailures::failed() != 0);
    if (!whole) {
        std::printf("\nFAILED: something was never tried");
        ++failures;
    }
    std::printf("\n%s\n", failures == 0 ? "all good" : "FAILED");
    return failures == 0 ? 0 : 1;
}
