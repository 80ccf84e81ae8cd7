// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "doctor/probe.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <infiniband/verbs.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <string>

#include "doctor/report.h"

namespace swrnic::tools {

namespace {

constexpr unsigned kProbeSeconds = 20;  // SIGALRM ends a probe that hangs

// The calls of libibverbs that the probe makes, found at run time: this command links no RDMA library.
struct Verbs {
    decltype(&::ibv_get_device_list) get_device_list = nullptr;
    decltype(&::ibv_open_device) open_device = nullptr;
    decltype(&::ibv_close_device) close_device = nullptr;
    decltype(&::ibv_query_device) query_device = nullptr;

    bool load() {
        void* library = ::dlopen("libibverbs.so.1", RTLD_NOW | RTLD_GLOBAL);
        return library != nullptr && find(library, "ibv_get_device_list", get_device_list) &&
               find(library, "ibv_open_device", open_device) && find(library, "ibv_close_device", close_device) &&
               find(library, "ibv_query_device", query_device);
    }

  private:
    template <class Function>
    static bool find(void* library, const char* name, Function& function) {
        function = reinterpret_cast<Function>(::dlsym(library, name));
        return function != nullptr;
    }
};

int say(int code, const std::string& line) {
    fmt::print("{}\n", line);
    return code;
}

int open_first(const Verbs& verbs) {
    int count = 0;
    ibv_device** list = verbs.get_device_list(&count);
    if (list == nullptr || count == 0) return say(1, "libibverbs lists no device");
    ibv_device* device = list[0];
    const char* kind = device->transport_type == IBV_TRANSPORT_IWARP ? "iWARP" : "not iWARP";
    ibv_context* context = verbs.open_device(device);
    if (context == nullptr) return say(1, fmt::format("{} cannot be opened: {}", device->name, ::strerror(errno)));
    ibv_device_attr attributes{};
    const int failed = verbs.query_device(context, &attributes);
    verbs.close_device(context);
    if (failed != 0) return say(1, fmt::format("{} does not answer: {}", device->name, ::strerror(failed)));
    return say(0, fmt::format("{} opens: {}, {} port, up to {} QPs", device->name, kind, attributes.phys_port_cnt,
                              attributes.max_qp));
}

std::string all_of(int fd) {
    std::string text;
    std::array<char, 512> piece{};
    for (;;) {
        const ssize_t got = ::read(fd, piece.data(), piece.size());
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0) break;
        text.append(piece.data(), static_cast<std::size_t>(got));
    }
    return text;
}

// One line for a report: the end of what the child said, which holds the reason when it failed.
std::string last_line(std::string text) {
    while (!text.empty() && text.back() == '\n')
        text.pop_back();
    const std::size_t before = text.rfind('\n');
    return before == std::string::npos ? text : text.substr(before + 1);
}

std::string ending(int status) {
    if (WIFSIGNALED(status))
        return fmt::format("ended by signal {}{}", WTERMSIG(status),
                           WTERMSIG(status) == SIGALRM ? ": it did not answer in time" : "");
    return fmt::format("ended with code {}", WEXITSTATUS(status));
}

}  // namespace

int probe() {
    ::alarm(kProbeSeconds);
    Verbs verbs;
    if (!verbs.load()) return say(1, "libibverbs cannot be loaded");
    return open_first(verbs);
}

Findings check_device() {
    const std::string self = own_path();
    std::array<int, 2> ends{};
    if (::pipe2(ends.data(), O_CLOEXEC) != 0)
        return {fail(fmt::format("cannot make a pipe: {}", ::strerror(errno)), "look at the limits of this process")};
    const pid_t child = ::fork();
    if (child == 0) {
        ::dup2(ends[1], STDOUT_FILENO);
        ::dup2(ends[1], STDERR_FILENO);
        ::alarm(kProbeSeconds);  // kept across exec
        ::execl(self.c_str(), "swrnic", "run", "--", self.c_str(), "probe", static_cast<char*>(nullptr));
        ::_exit(127);
    }
    ::close(ends[1]);
    const std::string said = last_line(all_of(ends[0]));
    ::close(ends[0]);
    int status = -1;
    if (child < 0 || ::waitpid(child, &status, 0) != child)
        return {fail("a child process cannot be started", "look at the limits of this process")};
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return {ok(said)};
    return {fail(fmt::format("a program that looks for the device fails ({}): {}", ending(status), said),
                 "mend what is marked FAIL above; else run it with SWRNIC_LOG=debug: swrnic run -- ibv_devinfo -v")};
}

}  // namespace swrnic::tools
