// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "worker.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstring>
#include <exception>
#include <memory>
#include <utility>

#include "log.h"
#include "precautions.h"
#include "rights.h"
#include "server.h"

namespace swrnic::daemon {

namespace {

static_assert(static_cast<int>(CrcMode::kAuto) == SWRNIC_CRC_AUTO && static_cast<int>(CrcMode::kOn) == SWRNIC_CRC_ON &&
              static_cast<int>(CrcMode::kOff) == SWRNIC_CRC_OFF);
static_assert(static_cast<int>(FpduMode::kAuto) == SWRNIC_FPDU_AUTO &&
              static_cast<int>(FpduMode::kEmss) == SWRNIC_FPDU_EMSS &&
              static_cast<int>(FpduMode::k64k) == SWRNIC_FPDU_64K);

// The device's context and its server, which ends before.
struct Served {
    Context context;
    std::unique_ptr<Server> server;
};

int take_up(const Settings& settings, const UverbsNode& node, unsigned group, int gone_fd, Served& served) {
    if (const int error = open_context(node.node, served.context); error != 0) return error;
    auto calls = std::make_unique<Ioctls>(served.context.events.get());
    swrnic_serve serve{};
    serve.version = SWRNIC_SERVE_NEWEST;
    serve.crc_mode = static_cast<std::uint8_t>(settings.config.crc);
    serve.fpdu_mode = static_cast<std::uint8_t>(settings.config.fpdu);
    serve.group = static_cast<std::uint8_t>(group);
    if (const int error = calls->call(SWRNIC_IOC_SERVE, &serve); error != 0) return error;
    if (serve.version < SWRNIC_SERVE_OLDEST) return EPROTO;
    served.server = Server::create(settings, node.device, served.context.events.release(), std::move(calls), gone_fd);
    if (!served.server) return ENOMEM;
    if (!give_up_rights()) {
        log(LogLevel::kError, "{}: its worker's rights cannot be given up: {}", node.device, std::strerror(errno));
        return EIO;  // EPERM would say that it may not serve
    }
    lock_memory();
    served.server->start();
    return 0;
}

constexpr int kLine = 3;  // behind standard error the only descriptor that a worker has of its parent

// The worker's whole life.
void work(const Settings& settings, const UverbsNode& node, unsigned group) {
    const Fd gone(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    sigset_t ends;
    sigemptyset(&ends);
    sigaddset(&ends, SIGTERM);
    const Fd signals(::signalfd(-1, &ends, SFD_CLOEXEC | SFD_NONBLOCK));
    Served served;
    const int error = take_up(settings, node, group, gone.get(), served);
    if (::send(kLine, &error, sizeof error, MSG_NOSIGNAL) != sizeof error || error != 0) return;
    std::array<pollfd, 3> fds{{{signals.get(), POLLIN, 0}, {gone.get(), POLLIN, 0}, {kLine, POLLIN, 0}}};
    while (::poll(fds.data(), fds.size(), -1) < 0) {
    }
}

[[noreturn]] void become_worker(const Settings& settings, const UverbsNode& node, unsigned group, int line) {
    if (line != kLine) ::dup2(line, kLine);
    ::close_range(kLine + 1, ~0U, 0);
    try {
        work(settings, node, group);
    } catch (const std::exception& error) {
        log(LogLevel::kError, "{}: unexpected: {}", node.device, error.what());
        ::_exit(1);
    }
    ::_exit(0);
}

}  // namespace

int start_worker(const Settings& settings, const UverbsNode& node, unsigned group, Worker& worker) {
    std::array<int, 2> ends{};
    if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends.data()) != 0) return errno;
    worker.line = Fd(ends[0]);
    Fd its(ends[1]);
    worker.process = ::fork();
    if (worker.process == 0) become_worker(settings, node, group, its.get());
    if (worker.process < 0) return errno;
    its = Fd();
    int error = 0;
    ssize_t got;
    do {
        got = ::recv(worker.line.get(), &error, sizeof error, 0);
    } while (got < 0 && errno == EINTR);
    if (got != sizeof error) error = ECHILD;  // it ended without a word
    if (error != 0) ::waitpid(worker.process, nullptr, 0);
    return error;
}

}  // namespace swrnic::daemon
