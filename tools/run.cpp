// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "run.h"

#include <errno.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>

#include "config.h"
#include "environment.h"
#include "host.h"
#include "locate.h"
#include "log.h"
#include "sanitizer.h"

namespace swrnic::tools {

namespace {

int refuse(const std::string& why) {
    log(LogLevel::kError, "{}", why);
    return kExitRefused;
}

void warn_about_the_surroundings(const KernelRdma& kernel) {
    for (const std::string& name : unknown_variables())
        log(LogLevel::kWarn, "{} is set but is not a setting; `swrnic run --help` lists them", name);
    if (kernel.character_devices && !kernel.swrnic_module)
        log(LogLevel::kWarn, "this host has RDMA devices of its own; the command will see those, not swr0");
    if (::geteuid() != ::getuid()) log(LogLevel::kWarn, "set-user-id: the loader will not preload the device");
}

// An empty file that only its owner may read: payload goes into it. Devices append, wherever the command has gone by
// then.
bool begin_trace(const std::string& path, std::string& error) {
    const int fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOCTTY, 0600);
    char* const absolute = fd >= 0 ? ::realpath(path.c_str(), nullptr) : nullptr;
    const bool set = absolute != nullptr && ::setenv("SWRNIC_TRACE", absolute, 1) == 0;
    if (!set) error = fmt::format("cannot write the trace {}: {}", path, ::strerror(errno));
    ::free(absolute);
    if (fd >= 0) ::close(fd);
    return set;
}

// Every connection takes a descriptor of the program, and the usual soft limit of 1024 is meant for other programs. Not
// beyond this: some programs close all descriptors that they might have.
void raise_descriptor_limit() {
    constexpr rlim_t kEnough = 65536;
    rlimit limit{};
    if (::getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= kEnough) return;
    limit.rlim_cur = std::min(limit.rlim_max, kEnough);
    ::setrlimit(RLIMIT_NOFILE, &limit);
}

int execute(const std::vector<std::string>& command) {
    std::vector<char*> arguments;
    arguments.reserve(command.size() + 1);
    for (const std::string& argument : command)
        arguments.push_back(const_cast<char*>(argument.c_str()));
    arguments.push_back(nullptr);
    ::execvp(arguments[0], arguments.data());
    const int why = errno;
    // Not through log(): SWRNIC_LOG=off must not hide that nothing was started.
    fmt::print(stderr, "swrnic: cannot run '{}': {}{}\n", command.front(), ::strerror(why),
               why == ENOENT ? "; is it installed? `swrnic doctor` tells what is" : "");
    return why == ENOENT ? kExitNotFound : kExitCannotExecute;
}

}  // namespace

int run(const std::vector<std::string>& command, const RunOptions& options) {
    Config config;
    std::string error;
    if (!options.trace.empty() && !begin_trace(options.trace, error)) return refuse(error);
    if (!options.persona.empty() && ::setenv("SWRNIC_PERSONA", options.persona.c_str(), 1) != 0)
        return refuse("cannot set SWRNIC_PERSONA");
    if (options.only && ::setenv("SWRNIC_ONLY", "on", 1) != 0) return refuse("cannot set SWRNIC_ONLY");
    if (!load_config(config, error)) return refuse(error);
    set_log_level(config.log);
    const KernelRdma kernel = config.only ? KernelRdma{} : look_at_kernel_rdma();
    warn_about_the_surroundings(kernel);
    if (!prepare_environment(find_libraries(own_path()), kernel, sanitizer_runtime(find_program(command.front())),
                             error)) {
        set_log_level(LogLevel::kError);
        return refuse(error);
    }
    raise_descriptor_limit();
    return execute(command);
}

}  // namespace swrnic::tools
