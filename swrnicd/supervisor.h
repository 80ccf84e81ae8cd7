// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Which devices are served: those that are there, as they come and go.
#pragma once

#include <chrono>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "settings.h"
#include "uverbs.h"
#include "worker.h"

namespace swrnic::daemon {

// In a process of one thread. Its children are its workers (worker.h), and it has no others.
class Supervisor {
  public:
    // wanted: names of devices; empty: all of ours.
    Supervisor(const Settings& settings, std::set<std::string> wanted)
        : settings_(settings), wanted_(std::move(wanted)) {}
    // Ends the workers, and waits for that.
    ~Supervisor();
    Supervisor(const Supervisor&) = delete;
    Supervisor& operator=(const Supervisor&) = delete;

    // Takes up devices that have come, and lets go of workers that have ended. Behind SIGCHLD too.
    void look();
    // When it should look again though nobody says so: a device could not be taken up yet.
    std::optional<std::chrono::milliseconds> look_again() const;
    // Those all of whose groups have a worker.
    std::size_t served() const;

  private:
    // A group of a device's QPs: what a worker serves.
    struct Group {
        UverbsNode device;
        unsigned number;
        auto operator<=>(const Group&) const = default;
    };

    // Returns those whose workers have died.
    std::set<Group> let_go();
    // Starts a worker for each group that has none, but for those whose last one has died just now.
    void take_up(const UverbsNode& device, const std::set<Group>& died);
    // False: try again.
    bool start(const Group& group);
    bool is_served(const UverbsNode& device) const;

    const Settings settings_;
    const std::set<std::string> wanted_;
    std::map<Group, Worker> workers_;
    std::set<UverbsNode> passed_over_;  // not ours, or not wanted
    std::set<Group> waiting_;           // until it looks again; why was logged
};

}  // namespace swrnic::daemon
