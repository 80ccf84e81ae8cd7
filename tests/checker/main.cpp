// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// swrnic-checker: verifies every byte, completion and error of an RDMA device between two processes, on plain
// libibverbs and librdmacm. It knows nothing of swrnic and runs on any device that speaks rdma_cm.
#include <sys/socket.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <csignal>
#include <cstdio>
#include <mutex>
#include <thread>

#include "failure.h"
#include "session.h"

namespace checker {

namespace {

bool named(const std::vector<std::string>& list, std::string_view name) {
    return std::find(list.begin(), list.end(), name) != list.end();
}

// Our first device's facts; a connection may use another one, but mixed hosts are not our case.
Facts own_facts() {
    int count = 0;
    ibv_context** devices = rdma_get_devices(&count);
    expect(devices != nullptr && count > 0, "no RDMA device");
    ibv_device_attr attr{};
    const int rc = ibv_query_device(devices[0], &attr);
    rdma_free_devices(devices);
    expect(rc == 0, "ibv_query_device failed");
    return {.max_sge = static_cast<std::uint32_t>(attr.max_sge),
            .max_sge_rd = static_cast<std::uint32_t>(attr.max_sge_rd),
            .invalidate = (attr.device_cap_flags & IBV_DEVICE_MEM_MGT_EXTENSIONS) != 0 ? 1U : 0U,
            .srq = attr.max_srq > 0 ? 1U : 0U,
            .windows = (attr.device_cap_flags & IBV_DEVICE_MEM_WINDOW_TYPE_2B) != 0 ? 1U : 0U,
            .rfc7306 = attr.atomic_cap != IBV_ATOMIC_NONE ? 1U : 0U};
}

Facts common_facts(Control& control) {
    const Facts mine = own_facts();
    const Facts theirs = control.exchange(mine);
    return {.max_sge = std::min(mine.max_sge, theirs.max_sge),
            .max_sge_rd = std::min(mine.max_sge_rd, theirs.max_sge_rd),
            .invalidate = std::min(mine.invalidate, theirs.invalidate),
            .srq = std::min(mine.srq, theirs.srq),
            .windows = std::min(mine.windows, theirs.windows),
            .rfc7306 = std::min(mine.rfc7306, theirs.rfc7306)};
}

void print_line(const std::string& line) {
    static std::mutex mutex;
    const std::lock_guard lock(mutex);
    fmt::print("{}\n", line);
    std::fflush(stdout);
}

// Returns whether the group passed on both sides.
bool run_group(Session& s, const Group& group) {
    const char* side = s.active ? "client" : "server";
    const auto start = Clock::now();
    s.cases = 0;
    s.octets = 0;
    std::string how;
    try {
        s.control.barrier(group.name);
        group.run(s);
    } catch (const Failure& failure) {
        how = failure.what();
        if (how.empty()) how = "failed";
    }
    const std::string theirs = s.control.end_group(how);
    const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
    if (!how.empty()) {
        print_line(fmt::format("FAIL {} {}: {}", side, group.name, how));
    } else if (!theirs.empty()) {
        print_line(fmt::format("FAIL {} {}: the other side: {}", side, group.name, theirs));
    } else {
        print_line(fmt::format("ok   {} {}: {} cases, {:.1f} MiB, {:.2f} s", side, group.name, s.cases,
                               static_cast<double>(s.octets) / (1024.0 * 1024.0), seconds));
    }
    return how.empty() && theirs.empty();
}

bool selected(const Options& options, const Group& group) {
    if (named(options.skip, group.name)) return false;
    return options.groups.empty() ? !group.on_request : named(options.groups, group.name);
}

// The group "load" ends by the death of the other side, so it has no common end.
bool run_load_alone(Session& s) {
    try {
        run_load(s);
    } catch (const Failure& failure) {
        print_line(fmt::format("FAIL {} load: {}", s.active ? "client" : "server", failure.what()));
        return false;
    }
    print_line(fmt::format("ok   {} load: {} requests", s.active ? "client" : "server", s.cases));
    return true;
}

bool run_side(const Options& options, Control control, bool active) {
    try {
        Session session{.options = options, .control = control, .active = active};
        session.facts = common_facts(control);
        if (options.send_inv) session.facts.invalidate = 1;
        if (options.groups == std::vector<std::string>{"load"}) return run_load_alone(session);
        unsigned failed = 0;
        unsigned passed = 0;
        for (const Group& group : all_groups()) {
            if (!selected(options, group)) continue;
            if (const char* why = group.unfit(session)) {
                print_line(fmt::format("skip {} {}: {}", active ? "client" : "server", group.name, why));
                continue;
            }
            ++(run_group(session, group) ? passed : failed);
        }
        print_line(fmt::format("{} {}: {} groups passed, {} failed", failed == 0 ? "PASS" : "FAIL",
                               active ? "client" : "server", passed, failed));
        return failed == 0 && passed > 0;
    } catch (const Failure& failure) {
        print_line(fmt::format("FAIL {}: {}", active ? "client" : "server", failure.what()));
        return false;
    }
}

// Both sides in one process, one thread each.
bool run_self(const Options& options) {
    int pair[2];
    expect(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) == 0, "socketpair: {}", Errno{});
    bool server_ok = false;
    std::thread server([&] { server_ok = run_side(options, Control(pair[0], options.patience), false); });
    const bool client_ok = run_side(options, Control(pair[1], options.patience), true);
    server.join();
    return server_ok && client_ok;
}

void check_names(const std::vector<std::string>& names) {
    for (const std::string& name : names) {
        const auto& groups = all_groups();
        const bool known = std::any_of(groups.begin(), groups.end(), [&](const Group& g) { return name == g.name; });
        expect(known, "no group is called '{}'; see --list", name);
    }
}

}  // namespace

}  // namespace checker

int main(int argc, char** argv) {
    using namespace checker;
    Options options;
    CLI::App app("Checks an RDMA device between a server and a client, byte by byte. Exit status 0: all passed.");
    bool server = false;
    bool client = false;
    bool self = false;
    bool list = false;
    int patience = 20;
    unsigned limit = 600;
    app.add_flag("-s,--server", server, "be the server (the passive side)");
    app.add_flag("-c,--client", client, "be the client (the active side)");
    app.add_flag("--self", self, "both sides in this process, one thread each");
    app.add_option("-a,--address", options.address, "IPv4 or IPv6 address of the server")->capture_default_str();
    app.add_option("-p,--port", options.port, "TCP port of the control connection")->capture_default_str();
    app.add_option("-g,--groups", options.groups, "groups to run, with commas; default: all but scribble and load")
        ->delimiter(',');
    app.add_option("--skip", options.skip, "groups to leave out, with commas")->delimiter(',');
    app.add_option("--seed", options.seed, "of all patterns and random choices; the same on both sides")
        ->capture_default_str();
    app.add_option("--seconds", options.seconds, "length of scribble")->capture_default_str();
    app.add_option("--patience", patience, "longest wait for anything, in seconds")
        ->check(CLI::Range(1, 3600))
        ->capture_default_str();
    app.add_option("--time-limit", limit, "the whole run ends after so many seconds")->capture_default_str();
    app.add_option("--connections", options.connections, "of the group many")
        ->check(CLI::Range(1, 10000))
        ->capture_default_str();
    app.add_flag("--small", options.small, "fewer sizes and rounds; the same on both sides");
    app.add_flag("--either-first", options.either_first, "the passive side may send first (not with MPA revision 1)");
    app.add_flag("--rnr-wait", options.rnr_wait, "a Send waits at least 0.5 s for its receive");
    app.add_flag("--ordered", options.ordered, "connection requests come in the order in which they were made");
    app.add_flag("--send-inv", options.send_inv, "SEND_WITH_INV works on plain regions, whatever the device says");
    app.add_flag("--list", list, "list the groups");
    CLI11_PARSE(app, argc, argv);
    options.patience = std::chrono::seconds(patience);
    if (list) {
        for (const Group& g : all_groups())
            fmt::print("{:14} {}{}\n", g.name, g.what, g.on_request ? " (on request)" : "");
        return 0;
    }
    if (server + client + self != 1) {
        fmt::print(stderr, "one of --server, --client, --self must be given\n");
        return 2;
    }
    std::signal(SIGPIPE, SIG_IGN);
    alarm(limit);  // no handler: the process dies, the caller sees the signal
    try {
        check_names(options.groups);
        check_names(options.skip);
        if (self) return run_self(options) ? 0 : 1;
        return run_side(options, server ? Control::accept_one(options) : Control::connect_to(options), client) ? 0 : 1;
    } catch (const Failure& failure) {
        fmt::print(stderr, "{}\n", failure.what());
        return 1;
    }
}
