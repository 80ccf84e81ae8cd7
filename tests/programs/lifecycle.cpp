// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// What programs do to themselves while traffic runs, and what the other side sees of it.
//
//   lifecycle peer ADDRESS PORT          serves one connection after the other; a line of JSON for each
//   lifecycle WAY ADDRESS PORT [PORT2]   connects, lets traffic flow both ways, and does what WAY says (see ways())
#include "lifecycle.h"

#include <dirent.h>
#include <linux/close_range.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <functional>
#include <map>

namespace {

using namespace lifecycle;

long resident_kib() {
    std::ifstream status("/proc/self/status");
    for (std::string line; std::getline(status, line);)
        if (line.starts_with("VmRSS:")) return std::stol(line.substr(6));
    return 0;
}
long entries(const char* directory) {
    long count = -2;  // "." and ".."
    DIR* const open = ::opendir(directory);
    while (::readdir(open) != nullptr)
        ++count;
    ::closedir(open);
    return count;
}

// ---- the peer ----

// From CONNECT_REQUEST until every request has completed and DISCONNECTED has come.
void serve(rdma_event_channel* events, int number) {
    rdma_cm_id* const id = next(events, RDMA_CM_EVENT_CONNECT_REQUEST);
    auto link = std::make_unique<Link>(id);
    rdma_conn_param parameters{};
    require(rdma_accept(id, &parameters) == 0, "rdma_accept");
    next(events, RDMA_CM_EVENT_ESTABLISHED);
    std::printf("{\"established\": %d}\n", number);
    bool disconnected = false;
    std::int64_t disconnected_us = 0;
    while (!disconnected || !link->all_completed()) {
        link->turn();
        if (link->last_received()) link->say_last();
        pollfd both[] = {{link->descriptor(), POLLIN, 0}, {disconnected ? -1 : events->fd, POLLIN, 0}};
        ::poll(both, 2, disconnected ? 10 : 100);
        if (both[0].revents != 0) link->event();
        if (both[1].revents != 0) {
            next(events, RDMA_CM_EVENT_DISCONNECTED);
            disconnected = true;
            disconnected_us = now_us();
        }
        if (disconnected && now_us() - disconnected_us > 5'000'000) break;
    }
    const std::int64_t all_us = now_us();
    const std::size_t never = link->outstanding();
    const std::uint64_t sent = link->sent(), received = link->received();
    const std::int64_t error_us = link->error_us();
    link.reset();
    std::printf(
        "{\"connection\": %d, \"sent\": %lu, \"received\": %lu, \"never_completed\": %zu, \"error_us\": %ld, "
        "\"disconnected_us\": %ld, \"all_us\": %ld, \"threads\": %ld, \"kib\": %ld}\n",
        number, sent, received, never, error_us, disconnected_us, all_us, entries("/proc/self/task"), resident_kib());
}

int peer(const sockaddr_in& address) {
    setvbuf(stdout, nullptr, _IOLBF, 0);
    rdma_event_channel* const events = rdma_create_event_channel();
    require(events != nullptr, "rdma_create_event_channel");
    rdma_cm_id* listener = nullptr;
    sockaddr_in own = address;
    require(rdma_create_id(events, &listener, nullptr, RDMA_PS_TCP) == 0, "rdma_create_id");
    require(rdma_bind_addr(listener, reinterpret_cast<sockaddr*>(&own)) == 0, "rdma_bind_addr");
    require(rdma_listen(listener, 16) == 0, "rdma_listen");
    for (int number = 0;; ++number)
        serve(events, number);
}

// ---- the side that does things ----

struct Where {
    const char* self;
    sockaddr_in first;
};

void pause_ms(int ms) {
    std::this_thread::sleep_for(std::chrono::milliseconds(ms));
}

// Traffic goes on, or the process ends here.
void while_it_flows(const Where& where, const std::function<void(Session&)>& what) {
    Session session(where.first);
    session.start();
    what(session);
    const std::uint64_t before = session.progress();
    while (session.progress() < before + 200 && !session.over())
        pause_ms(1);
    session.finish();
}

// Ends the process while traffic runs: in the main thread, or in one of its own.
void end_by(const Where& where, bool in_main, void (*end)(int)) {
    static Session* session = nullptr;  // the thread of traffic goes on using it while destructors run
    session = new Session(where.first);
    session->start();
    if (in_main) end(0);
    std::thread([end] { end(0); }).detach();
    for (;;)
        ::pause();
}

int status_of(pid_t child) {
    int status = 0;
    while (waitpid(child, &status, 0) != child)
        require(errno == EINTR, "waitpid");
    return WIFEXITED(status) ? WEXITSTATUS(status) : 255;
}

void run_programs(const Where& where) {
    char* const arguments[] = {const_cast<char*>(where.self), const_cast<char*>("descriptors"), nullptr};
    for (int i = 0; i < 10; ++i) {
        pid_t child = fork();
        if (child == 0) {
            execv(where.self, arguments);
            _exit(99);
        }
        require(status_of(child) == 0, "fork and exec: no descriptor of ours reaches the program");
        child = vfork();
        if (child == 0) {
            execv(where.self, arguments);
            _exit(99);
        }
        require(status_of(child) == 0, "vfork and exec");
        require(posix_spawn(&child, where.self, nullptr, nullptr, arguments, environ) == 0, "posix_spawn");
        require(status_of(child) == 0, "the spawned program");
    }
}

void fork_and_leave(Session&) {
    for (int i = 0; i < 20; ++i) {
        const pid_t child = fork();
        if (child == 0) _exit(7);
        require(status_of(child) == 7, "a child that does nothing");
    }
}

// All that a child may do with verbs that its parent uses: its own objects, in a context of its own. (librdmacm keeps
// the contexts that it has once opened, so connections need an exec.)
void use_verbs_afresh() {
    ibv_device** const devices = ibv_get_device_list(nullptr);
    require(devices != nullptr && devices[0] != nullptr, "ibv_get_device_list");
    ibv_context* const context = ibv_open_device(devices[0]);
    require(context != nullptr, "ibv_open_device");
    ibv_free_device_list(devices);
    ibv_pd* const pd = ibv_alloc_pd(context);
    ibv_comp_channel* const channel = ibv_create_comp_channel(context);
    require(pd != nullptr && channel != nullptr, "ibv_create_comp_channel");
    ibv_cq* const cq = ibv_create_cq(context, 16, nullptr, channel, 0);
    require(cq != nullptr, "ibv_create_cq");
    ibv_qp_init_attr attr{};
    attr.send_cq = attr.recv_cq = cq;
    attr.qp_type = IBV_QPT_RC;
    attr.cap = {.max_send_wr = 1, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1, .max_inline_data = 0};
    ibv_qp* const qp = ibv_create_qp(pd, &attr);
    require(qp != nullptr, "ibv_create_qp");
    require(ibv_destroy_qp(qp) == 0 && ibv_destroy_cq(cq) == 0, "ibv_destroy_cq");
    require(ibv_destroy_comp_channel(channel) == 0 && ibv_dealloc_pd(pd) == 0, "ibv_dealloc_pd");
    require(ibv_close_device(context) == 0, "ibv_close_device");
}

void fork_afresh(const Where& where, const char* address, const char* port) {
    while_it_flows(where, [&](Session&) {
        for (int i = 0; i < 5; ++i) {
            const pid_t child = fork();
            if (child == 0) {
                use_verbs_afresh();
                std::exit(8);
            }
            require(status_of(child) == 8, "the child opens the device afresh");
        }
        const pid_t child = fork();
        if (child == 0) {
            execl(where.self, where.self, "steady", address, port, nullptr);
            _exit(99);
        }
        require(status_of(child) == 0, "the program that a child becomes has a connection of its own");
    });
}

// The child outlives its parent, and holds nothing of it.
void orphan(const Where& where) {
    auto* const session = new Session(where.first);
    session->start();
    if (fork() == 0) {
        pause_ms(4000);
        _exit(0);
    }
    _exit(0);
}

std::atomic<long> g_signals{0}, g_foreign{0};
pthread_t g_main, g_traffic;

void on_alarm(int) {
    ++g_signals;
    if (!pthread_equal(pthread_self(), g_main) && !pthread_equal(pthread_self(), g_traffic)) ++g_foreign;
}

void signals(const Where& where) {
    g_main = pthread_self();
    Session session(where.first);
    struct sigaction action {};
    action.sa_handler = on_alarm;  // without SA_RESTART
    sigaction(SIGALRM, &action, nullptr);
    const itimerval often{{0, 500}, {0, 500}};
    session.start();
    g_traffic = session.thread();
    setitimer(ITIMER_REAL, &often, nullptr);
    while ((g_signals < 500 || session.progress() < 500) && !session.over()) {
        timespec rest{0, 1'000'000};
        nanosleep(&rest, nullptr);
        pthread_kill(session.thread(), SIGALRM);
    }
    const itimerval never{};
    setitimer(ITIMER_REAL, &never, nullptr);
    session.finish();
    require(g_foreign == 0, "no thread of the library's takes a signal");
}

void cancel(const Where& where) {
    Session session(where.first);
    for (int i = 0; i < 10; ++i) {
        session.start();
        session.cancel();
    }
    session.start();
    session.finish();
}

// A daemon's way: all descriptors closed, whatever they are. Nothing hangs; the peer sees the end.
void close_all(const Where& where) {
    auto* const session = new Session(where.first);
    session->start();
    all_closed = true;
    close_range(3, ~0u, 0);
    pause_ms(300);
    std::exit(0);
}

// The passive side speaks first: at once where startup lets it, else not before this side has spoken.
void listen_first(const Where& where, bool allowed) {
    Session session(where.first);
    session.listen_first(allowed ? 100 : 1, std::chrono::milliseconds(allowed ? 20'000 : 700));
    errno = 0;
    require(session.heard() >= 100 || !allowed, "the peer speaks first");
    require(session.heard() == 0 || allowed, "the peer waits to be spoken to");
    session.start();
    session.finish();
}

using Way = std::function<void(const Where&)>;
const std::map<std::string, Way>& ways() {
    static const std::map<std::string, Way> all = {
        {"steady", [](const Where& w) { while_it_flows(w, [](Session&) {}); }},
        {"server_first", [](const Where& w) { listen_first(w, true); }},
        {"server_must_wait", [](const Where& w) { listen_first(w, false); }},
        {"five_seconds", [](const Where& w) { while_it_flows(w, [](Session&) { pause_ms(5000); }); }},
        {"until_broken",
         [](const Where& w) {
             Session session(w.first);
             session.start();
             std::printf("{\"flows\": 1}\n");
             std::fflush(stdout);
             session.until_broken();
         }},
        // With an empty receive queue, which may stay empty for a second only.
        {"stopped_stalled",
         [](const Where& w) {
             Session session(w.first);
             pause_ms(300);
             raise(SIGSTOP);
             session.start();
             session.finish();
         }},
        {"stopped", [](const Where& w) { while_it_flows(w, [](Session&) { raise(SIGSTOP); }); }},
        {"exit", [](const Where& w) { end_by(w, true, std::exit); }},
        {"exit_in_thread", [](const Where& w) { end_by(w, false, std::exit); }},
        {"_exit", [](const Where& w) { end_by(w, true, ::_exit); }},
        {"_exit_in_thread", [](const Where& w) { end_by(w, false, ::_exit); }},
        {"quick_exit", [](const Where& w) { end_by(w, true, std::quick_exit); }},
        {"quick_exit_in_thread", [](const Where& w) { end_by(w, false, std::quick_exit); }},
        {"programs", [](const Where& w) { while_it_flows(w, [&](Session&) { run_programs(w); }); }},
        {"forks", [](const Where& w) { while_it_flows(w, fork_and_leave); }},
        {"orphan", orphan},
        {"signals", signals},
        {"cancel", cancel},
        {"cloexec",
         [](const Where& w) {
             while_it_flows(w, [](Session&) { require(close_range(3, ~0u, CLOSE_RANGE_CLOEXEC) == 0, "close_range"); });
         }},
        {"close_all", close_all},
    };
    return all;
}

}  // namespace

int main(int argc, char** argv) {
    // How many descriptors came along by exec, beyond the three and that of the directory.
    if (argc == 2 && std::strcmp(argv[1], "descriptors") == 0) return static_cast<int>(entries("/proc/self/fd") - 4);
    if (argc < 4) return 2;
    const sockaddr_in address = parse(argv[2], argv[3]);
    if (std::strcmp(argv[1], "peer") == 0) return peer(address);
    const auto way = ways().find(argv[1]);
    if (std::strcmp(argv[1], "fork_afresh") == 0 && argc == 5) {
        fork_afresh({argv[0], address}, argv[2], argv[4]);
        return 0;
    }
    if (way == ways().end()) return 2;
    way->second({argv[0], address});
    return 0;
}
