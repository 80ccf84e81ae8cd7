// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// What the threads of this process do.
#pragma once

#include <chrono>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>

namespace swrnic::test {

// A thread, by its directory in /proc/self/task.
inline bool sleeps(const std::filesystem::path& task) {
    std::string line;
    std::ifstream status(task / "status");
    while (!line.starts_with("State:") && std::getline(status, line)) {
    }
    return line.find("S (sleeping)") != std::string::npos;
}

// The engines' threads sleep, for so long that one who returns from each wait at once would have been met awake.
inline bool engine_threads_sleep() {
    for (int looks = 0; looks < 20; ++looks) {
        if (looks > 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
        for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
            std::string name;
            std::ifstream(task.path() / "comm") >> name;
            if (name == "swrnic" && !sleeps(task.path())) return false;
        }
    }
    return true;
}

}  // namespace swrnic::test
