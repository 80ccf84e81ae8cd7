// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "supervisor.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "log.h"

namespace swrnic::daemon {

namespace {

constexpr std::chrono::milliseconds kAgain{1000};

const char* why(int error) {
    switch (error) {
        case EBUSY:
            return "another daemon serves it; waiting for its end";
        case EPERM:
            return "not permitted: CAP_NET_ADMIN is needed";
        case EACCES:
            return "may not be opened: run as root";
        default:
            return std::strerror(error);
    }
}

}  // namespace

Supervisor::Supervisor(const Config& config, std::set<std::string> wanted)
    : config_(config), wanted_(std::move(wanted)), gone_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}

void Supervisor::look() {
    eventfd_t count;
    ::eventfd_read(gone_.get(), &count);
    let_go();
    const std::vector<UverbsNode> present = list_uverbs();
    const auto is_absent = [&](const UverbsNode& node) {
        return !std::binary_search(present.begin(), present.end(), node);
    };
    std::erase_if(passed_over_, is_absent);
    std::erase_if(waiting_, is_absent);
    for (const UverbsNode& node : present) {
        if (served_.contains(node) || passed_over_.contains(node)) continue;
        if (!wanted_.empty() && !wanted_.contains(node.device)) {
            passed_over_.insert(node);
        } else if (take_up(node)) {
            waiting_.erase(node);
        }
    }
}

std::optional<std::chrono::milliseconds> Supervisor::look_again() const {
    return waiting_.empty() ? std::nullopt : std::optional(kAgain);
}

void Supervisor::let_go() {
    std::erase_if(served_, [](const auto& entry) {
        if (!entry.second.server->gone()) return false;
        log(LogLevel::kInfo, "{}: has gone", entry.first.device);
        return true;
    });
}

bool Supervisor::take_up(const UverbsNode& node) {
    Context context;
    int error = open_context(node.node, context);
    std::unique_ptr<Ioctls> calls;
    if (error == 0) {
        calls = std::make_unique<Ioctls>(context.events.get());
        error = calls->call(SWRNIC_IOC_SERVE, nullptr);
    }
    if (error == EPROTONOSUPPORT) {
        log(LogLevel::kDebug, "{}: not a device of swrnic.ko", node.device);
        passed_over_.insert(node);
        return true;
    }
    if (error == ENOTTY) {
        log(LogLevel::kError, "{}: the module swrnic.ko that made it knows no daemon: a newer one is needed",
            node.device);
        passed_over_.insert(node);
        return true;
    }
    std::unique_ptr<Server> server;
    if (error == 0) {
        server = Server::create(config_, node.device, context.events.release(), std::move(calls), gone_.get());
        if (!server) error = ENOMEM;
    }
    if (error != 0) {
        if (waiting_.insert(node).second) log(LogLevel::kError, "{}: {}", node.device, why(error));
        return false;
    }
    log(LogLevel::kInfo, "{}: serving", node.device);
    served_.emplace(node, Served{std::move(context.uverbs), std::move(server)});
    return true;
}

}  // namespace swrnic::daemon
