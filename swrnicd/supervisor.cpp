// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "supervisor.h"

#include <sys/wait.h>

#include <algorithm>
#include <cerrno>
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
            return "not permitted: CAP_SYS_ADMIN of the host is needed, and the network namespace of the device";
        case EACCES:
            return "may not be opened: run as root";
        case EPROTO:
            return "the module swrnic.ko that made it speaks another version of the interface: upgrade both";
        case ENOTTY:
            return "the module swrnic.ko that made it knows no daemon as new as this one: a newer module is needed";
        case ECHILD:
            return "its worker has died before it served";
        default:
            return std::strerror(error);
    }
}

}  // namespace

Supervisor::~Supervisor() {
    for (auto& [node, worker] : served_)
        worker.line = Fd();
    for (const auto& [node, worker] : served_)
        ::waitpid(worker.process, nullptr, 0);
}

void Supervisor::look() {
    const std::set<UverbsNode> died = let_go();
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
        } else if (died.contains(node)) {
            waiting_.insert(node);  // not at once: whatever killed it may do so again
        } else if (take_up(node)) {
            waiting_.erase(node);
        }
    }
}

std::optional<std::chrono::milliseconds> Supervisor::look_again() const {
    return waiting_.empty() ? std::nullopt : std::optional(kAgain);
}

std::set<UverbsNode> Supervisor::let_go() {
    std::set<UverbsNode> died;
    std::erase_if(served_, [&died](const auto& entry) {
        int status = 0;
        if (::waitpid(entry.second.process, &status, WNOHANG) != entry.second.process) return false;
        if (WIFEXITED(status) && WEXITSTATUS(status) == 0) {
            log(LogLevel::kInfo, "{}: has gone", entry.first.device);
        } else {
            log(LogLevel::kError, "{}: its worker has died (wait status {:#x})", entry.first.device, status);
            died.insert(entry.first);
        }
        return true;
    });
    return died;
}

bool Supervisor::take_up(const UverbsNode& node) {
    Worker worker;
    const int error = start_worker(config_, node, worker);
    if (error == EPROTONOSUPPORT) {
        log(LogLevel::kDebug, "{}: not a device of swrnic.ko", node.device);
        passed_over_.insert(node);
        return true;
    }
    if (error == EPERM || error == ENOTTY || error == EPROTO) {  // it stays so while the device is there
        log(LogLevel::kError, "{}: {}", node.device, why(error));
        passed_over_.insert(node);
        return true;
    }
    if (error != 0) {
        if (waiting_.insert(node).second) log(LogLevel::kError, "{}: {}", node.device, why(error));
        return false;
    }
    log(LogLevel::kInfo, "{}: serving", node.device);
    served_.emplace(node, std::move(worker));
    return true;
}

}  // namespace swrnic::daemon
