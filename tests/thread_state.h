// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// What the threads of this process do.
#pragma once

#include <chrono>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>

namespace swrnic::test {

// The engines' threads sleep, for so long that one who returns from each wait at once would have been met awake.
inline bool engine_threads_sleep() {
    for (int looks = 0; looks < 20; ++looks) {
        if (looks > 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
        for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
            std::string name, line;
            std::ifstream(task.path() / "comm") >> name;
            if (name != "swrnic") continue;
            std::ifstream status(task.path() / "status");
            while (!line.starts_with("State:") && std::getline(status, line)) {
            }
            if (line.find("S (sleeping)") == std::string::npos) return false;
        }
    }
    return true;
}

}  // namespace swrnic::test
