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
        case EPROTONOSUPPORT:
            return "not a device of swrnic.ko";
        case EXDEV:
            return "of another network namespace, whose own swrnicd serves it";
        case EBUSY:
            return "another daemon serves it; waiting for its end";
        case EPERM:
            return "not permitted: CAP_SYS_ADMIN of the host is needed";
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

// Whether the error stays for as long as the device is there, and how loudly it is told.
std::optional<LogLevel> is_passed_over(int error) {
    switch (error) {
        case EPROTONOSUPPORT:
            return LogLevel::kDebug;
        case EXDEV:
            return LogLevel::kInfo;
        case EPERM:
        case ENOTTY:
        case EPROTO:
            return LogLevel::kError;
        default:
            return std::nullopt;
    }
}

}  // namespace

Supervisor::~Supervisor() {
    for (auto& [group, worker] : workers_)
        worker.line = Fd();
    for (const auto& [group, worker] : workers_)
        ::waitpid(worker.process, nullptr, 0);
}

void Supervisor::look() {
    const std::set<Group> died = let_go();
    const std::vector<UverbsNode> present = list_uverbs();
    const auto is_absent = [&](const UverbsNode& device) {
        return !std::binary_search(present.begin(), present.end(), device);
    };
    std::erase_if(passed_over_, is_absent);
    std::erase_if(waiting_, [&](const Group& group) { return is_absent(group.device); });
    for (const UverbsNode& device : present) {
        if (!wanted_.empty() && !wanted_.contains(device.device)) passed_over_.insert(device);
        take_up(device, died);
    }
}

std::size_t Supervisor::served() const {
    const auto begins_a_served_one = [this](const auto& entry) {
        return entry.first.number == 0 && is_served(entry.first.device);
    };
    return static_cast<std::size_t>(std::count_if(workers_.begin(), workers_.end(), begins_a_served_one));
}

bool Supervisor::is_served(const UverbsNode& device) const {
    for (unsigned number = 0; number < settings_.workers; ++number)
        if (!workers_.contains({device, number})) return false;
    return true;
}

std::optional<std::chrono::milliseconds> Supervisor::look_again() const {
    return waiting_.empty() ? std::nullopt : std::optional(kAgain);
}

std::set<Supervisor::Group> Supervisor::let_go() {
    std::set<Group> died;
    std::erase_if(workers_, [&died](const auto& entry) {
        int status = 0;
        if (::waitpid(entry.second.process, &status, WNOHANG) != entry.second.process) return false;
        const std::string& device = entry.first.device.device;
        if (WIFEXITED(status) && WEXITSTATUS(status) == 0) {
            if (entry.first.number == 0) log(LogLevel::kInfo, "{}: has gone", device);
        } else {
            log(LogLevel::kError, "{}: a worker of it has died (wait status {:#x})", device, status);
            died.insert(entry.first);
        }
        return true;
    });
    return died;
}

void Supervisor::take_up(const UverbsNode& device, const std::set<Group>& died) {
    const bool was_served = is_served(device);
    for (unsigned number = 0; number < settings_.workers && !passed_over_.contains(device); ++number) {
        const Group group{device, number};
        if (workers_.contains(group)) continue;
        if (died.contains(group)) {
            waiting_.insert(group);  // not at once: whatever killed it may do so again
        } else if (start(group)) {
            waiting_.erase(group);
        }
    }
    if (!was_served && is_served(device)) log(LogLevel::kInfo, "{}: serving", device.device);
}

bool Supervisor::start(const Group& group) {
    const std::string& device = group.device.device;
    Worker worker;
    const int error = start_worker(settings_, group.device, group.number, worker);
    if (const auto level = is_passed_over(error)) {
        log(*level, "{}: {}", device, why(error));
        passed_over_.insert(group.device);
        return true;
    }
    if (error != 0) {
        if (waiting_.insert(group).second) log(LogLevel::kError, "{}: {}", device, why(error));
        return false;
    }
    workers_.emplace(group, std::move(worker));
    return true;
}

}  // namespace swrnic::daemon
