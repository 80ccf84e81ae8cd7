// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// swrnicd: carries the RDMA streams of consumers in the kernel (NFS over RDMA).
#include <fmt/format.h>
#include <poll.h>
#include <swrnic-serve.h>
#include <sys/signalfd.h>
#include <systemd/sd-daemon.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstring>
#include <exception>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "fd.h"
#include "log.h"
#include "precautions.h"
#include "rights.h"
#include "settings.h"
#include "supervisor.h"
#include "uevents.h"

namespace swrnic::daemon {

namespace {

constexpr int kExitRefused = 2;
constexpr unsigned kMostWorkers = 4;               // unless more are asked for: each has its memory locked
constexpr std::int64_t kLongestBusyPoll = 10'000;  // microseconds
constexpr int kSlowLook = 5000;                    // milliseconds; where the kernel does not tell of devices

constexpr const char* kText =
    R"(Serves every device of the kernel module swrnic.ko: without it consumers in the kernel, such as NFS over RDMA, get no connection.
Programs need it not. It starts with CAP_SYS_ADMIN, in the foreground; systemd starts it as swrnicd.service.
Settings: SWRNIC_LOG, SWRNIC_TIMEOUT, SWRNIC_RNR_TIMEOUT, SWRNIC_CRC, SWRNIC_FPDU, SWRNIC_TRACE, by environment or in /etc/swrnic.conf;
see swrnic.conf(5). A connection has what was set when its daemon began.)";

// SIGTERM and SIGINT, and SIGCHLD of workers, as a descriptor.
Fd catch_signals() {
    sigset_t signals;
    sigemptyset(&signals);
    sigaddset(&signals, SIGTERM);
    sigaddset(&signals, SIGINT);
    sigaddset(&signals, SIGCHLD);
    ::pthread_sigmask(SIG_BLOCK, &signals, nullptr);
    return Fd(::signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK));
}

// Whether one of them says that the end has come.
bool told_to_end(int signals) {
    signalfd_siginfo signal{};
    bool end = false;
    while (::read(signals, &signal, sizeof signal) == sizeof signal)
        end = end || signal.ssi_signo != SIGCHLD;
    return end;
}

int serve(const Settings& settings, const std::set<std::string>& devices) {
    const Fd signals = catch_signals();
    take_precautions();
    if (!keep_the_right_to_serve()) log(LogLevel::kWarn, "cannot give up capabilities: {}", std::strerror(errno));
    Uevents uevents;
    Supervisor supervisor(settings, devices);
    supervisor.look();
    ::sd_notifyf(0, "READY=1\nSTATUS=%zu devices served", supervisor.served());
    if (supervisor.served() == 0 && !supervisor.look_again())
        log(LogLevel::kWarn, "no device of the module swrnic.ko: waiting for one");
    for (;;) {
        std::array<pollfd, 2> fds{{{signals.get(), POLLIN, 0}, {uevents.fd(), POLLIN, 0}}};
        int timeout = uevents.fd() >= 0 ? -1 : kSlowLook;
        if (const auto again = supervisor.look_again()) timeout = static_cast<int>(again->count());
        const int ready = ::poll(fds.data(), fds.size(), timeout);
        if (ready < 0) continue;
        if (fds[0].revents != 0 && told_to_end(signals.get())) break;
        const bool told = fds[1].revents != 0 && uevents.drain();
        if (ready != 0 && fds[0].revents == 0 && !told) continue;
        supervisor.look();
        ::sd_notifyf(0, "STATUS=%zu devices served", supervisor.served());
    }
    ::sd_notify(0, "STOPPING=1");
    log(LogLevel::kInfo, "told to end");
    return 0;
}

// A processor for each, as far as there are such: a connection waits for another only where both have the same worker.
unsigned default_workers() {
    return std::clamp(std::thread::hardware_concurrency(), 1U, kMostWorkers);
}

int run(int argc, char** argv) {
    CLI::App app{"swrnicd: carries the RDMA connections of the kernel's own consumers"};
    app.name("swrnicd");
    app.set_version_flag("--version", "swrnicd " SWRNIC_VERSION);
    app.footer(kText);
    std::vector<std::string> devices;
    app.add_option("--device", devices, "serve only the device of this name; may be given several times")
        ->type_name("NAME")
        ->allow_extra_args(false);
    std::int64_t busy_poll = 0;
    app.add_option("--busy-poll", busy_poll, "how long to look for the next message before sleeping")
        ->type_name("MICROSECONDS")
        ->check(CLI::Range(std::int64_t{0}, kLongestBusyPoll));
    unsigned workers = default_workers();
    app.add_option("--workers", workers, "processes for each device, among which its connections are shared out")
        ->type_name("NUMBER")
        ->check(CLI::Range(1U, unsigned{SWRNIC_SERVE_GROUPS}));
    try {
        app.parse(argc, argv);
    } catch (const CLI::ParseError& error) {
        return app.exit(error) == 0 ? 0 : kExitRefused;
    }
    Settings settings{.config = {}, .busy_poll = std::chrono::microseconds(busy_poll), .workers = workers};
    std::string wrong;
    if (!load_config(settings.config, wrong)) {
        fmt::print(stderr, "swrnicd: {}\n", wrong);
        return kExitRefused;
    }
    set_log_level(settings.config.log);
    return serve(settings, {devices.begin(), devices.end()});
}

}  // namespace

}  // namespace swrnic::daemon

int main(int argc, char** argv) {
    try {
        return swrnic::daemon::run(argc, argv);
    } catch (const std::exception& error) {
        fmt::print(stderr, "swrnicd: unexpected: {}\n", error.what());
        return 1;
    }
}
