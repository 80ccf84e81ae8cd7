// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Which devices are served: those that are there, as they come and go.
#pragma once

#include <chrono>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "config.h"
#include "server.h"
#include "uverbs.h"

namespace swrnic::daemon {

// One thread's.
class Supervisor {
  public:
    // wanted: names of devices; empty: all of ours.
    Supervisor(const Config& config, std::set<std::string> wanted);

    // Readable when a device has gone.
    int gone_fd() const { return gone_.get(); }
    // Takes up devices that have come, and lets go of those that have gone.
    void look();
    // When it should look again though nobody says so: a device could not be taken up yet.
    std::optional<std::chrono::milliseconds> look_again() const;
    std::size_t served() const { return served_.size(); }

  private:
    struct Served {
        Fd uverbs;
        std::unique_ptr<Server> server;  // before the context
    };

    void let_go();
    // False: try again.
    bool take_up(const UverbsNode& node);

    const Config config_;
    const std::set<std::string> wanted_;
    const Fd gone_;
    std::map<UverbsNode, Served> served_;
    std::set<UverbsNode> passed_over_;  // not ours, or not wanted
    std::set<UverbsNode> waiting_;      // why was logged
};

}  // namespace swrnic::daemon
