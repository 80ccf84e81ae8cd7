// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// TCP connection setup and MPA startup, driven by one thread per process.
//
// Commands start and end things under the lock; the thread waits without it and works under it, so that cancelling is
// immediate and nothing is half done. The thread blocks all signals, is started on first use and lives as long as the
// process.
#pragma once

#include <chrono>
#include <deque>
#include <map>
#include <memory>
#include <memory_resource>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>

#include "populated_pool.h"
#include "swrnic_mpa.h"
#include "ucma.h"

namespace swrnic::shim {

class Startup {
  public:
    // The process's own; nullptr when the thread cannot be made.
    static Startup* get(Locked& locked);

    struct Terms {  // of connect or accept
        swrnic_mpa_params params;
        std::span<const std::uint8_t> private_data;
    };

    // All take the id's socket, or make one, and set id.startup. 0 or -errno.
    int listen(Locked& locked, CmId& id, int backlog);
    int connect(Locked& locked, CmId& id, const Qp& qp, const Terms& terms);
    // The child's decision. -ECONNRESET: the peer went away while the application thought about it.
    int accept(Locked& locked, CmId& child, const Qp& qp, const Terms& terms);
    int reject(Locked& locked, CmId& child, std::span<const std::uint8_t> private_data);

    bool same_host(std::uint64_t key) const;

    // Forgets a listener with its half-open connections, or one startup; closes what it has open.
    void cancel(Locked& locked, std::uint64_t key);
    // The engine must report QP_READY by the deadline, or the stream is ordered to end.
    void ready(Locked& locked, std::uint64_t key) { cancel(locked, key); }

    void forked();

  private:
    using Clock = std::chrono::steady_clock;
    using Deadline = std::pair<Clock::time_point, std::uint64_t>;

    enum class Stage : std::uint8_t { kConnecting, kFrames, kDeciding, kAwaitReady };

    struct Pending {
        std::uint64_t key = 0;
        int fd = -1;
        bool initiator = false;
        Stage stage = Stage::kFrames;
        std::uint32_t interest = 0;  // what epoll watches
        std::uint64_t listener = 0;  // while its Request is not complete
        std::uint32_t cm_id = 0;     // from the Request on, or from connect()
        std::uint32_t qpn = 0;
        Address local, peer;
        bool same_host = false;
        Clock::time_point since = Clock::now();
        Clock::time_point deadline = Clock::time_point::max();
        std::uint32_t timeout_ms = 0;
        swrnic_mpa_params terms{};               // an Initiator's, for a second try
        std::vector<std::uint8_t> private_data;  // the same
        bool retried = false;
        swrnic_mpa mpa{};
    };

    struct Listener {
        std::uint64_t key;
        int fd;
        std::uint32_t cm_id;
        Address local;
        std::deque<std::uint64_t> half_open;
        bool paused = false;  // connections wait in the kernel's backlog
    };

    Startup(int epoll, int wake) : epoll_(epoll), wake_(wake) {}
    static void* thread_main(void* self);
    void run();
    void run_once(Locked& locked, const epoll_event* events, int count);

    // startup.cpp
    Pending& add_pending(Locked& locked, int fd);
    void leave_pacing(int fd);
    int begin_to_connect(Pending& pending);
    void set_deadline(Pending& pending, std::uint32_t ms);
    void watch(Pending& pending, std::uint32_t interest);
    void unwatch(Pending& pending);
    void remove(std::uint64_t key, bool close_socket);
    void expire(Locked& locked);
    int wait_ms(Locked& locked);
    void wake();
    // startup_frames.cpp
    void accept_all(Locked& locked, std::uint64_t listener_key);
    bool make_room(Listener& listener);
    void pause(Listener& listener, Clock::time_point until);
    void resume(Listener& listener);
    void leave_half_open(Pending& pending);
    void on_socket(Locked& locked, Pending& pending, std::uint32_t events);
    static bool meets_itself(const Pending& pending);
    int send_at_once(Pending& pending);
    void on_connected(Locked& locked, Pending& pending, bool failed);
    void drive(Locked& locked, std::uint64_t key);
    void await_peer(Pending& pending);
    bool step(Locked& locked, Pending& pending, swrnic_mpa_event& event);
    void on_event(Locked& locked, Pending& pending, swrnic_mpa_event event);
    void on_request(Locked& locked, Pending& pending);
    void on_full_operation(Locked& locked, Pending& pending, bool terminate);
    void on_rejected(Locked& locked, Pending& pending);
    void on_failed(Locked& locked, Pending& pending);
    bool retry_unenhanced(Locked& locked, CmId& id, Pending& failed);
    void finish_reject(Pending& pending);

    const int epoll_, wake_;
    std::uint64_t next_key_ = 1;
    PopulatedPool pool_;
    std::pmr::unordered_map<std::uint64_t, Pending> pending_{&pool_};
    std::map<std::uint64_t, Listener> listeners_;
    std::pmr::set<Deadline> deadlines_{&pool_};
    Clock::time_point planned_wake_ = Clock::time_point::max();
    std::optional<std::string> pacing_;  // what the system gives to new sockets, once known; empty: nothing that paces
};

}  // namespace swrnic::shim
