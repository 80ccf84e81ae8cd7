// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "stat/stat.h"

#include <stdio.h>
#include <unistd.h>

#include <chrono>
#include <string>
#include <thread>

#include "stat/output.h"

namespace swrnic::tools {

namespace {

bool print(const std::string& text) {
    return ::fwrite(text.data(), 1, text.size(), stdout) == text.size() && ::fflush(stdout) == 0;
}

}  // namespace

int stat(const StatOptions& options) {
    using Clock = std::chrono::steady_clock;
    std::vector<OpenDevice> before;
    Clock::time_point before_at{};
    for (unsigned long look = 0;; ++look) {
        std::vector<OpenDevice> now = options.pages.empty() ? take_snapshot() : read_files(options.pages);
        const Clock::time_point now_at = Clock::now();
        const bool rates = look != 0;
        std::string text;
        if (options.json) {
            text = as_json(now);
        } else if (options.prometheus) {
            text = as_prometheus(now);
        } else {
            const std::chrono::duration<double> since = now_at - before_at;
            // A terminal shows one table, anything else one after the other.
            if (options.watch && ::isatty(STDOUT_FILENO) != 0) text = "\033[H\033[J";
            text += as_table(now, rates ? &before : nullptr, since.count());
        }
        if (!print(text)) return 1;  // nobody reads any more
        if (!options.watch || look + 1 == options.count) return 0;
        before = std::move(now);
        before_at = now_at;
        std::this_thread::sleep_for(std::chrono::duration<double>(options.interval));
    }
}

}  // namespace swrnic::tools
