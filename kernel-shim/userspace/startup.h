// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// TCP connection setup and MPA startup, driven by one thread per process.
//
// Commands start and end things under the lock; the thread waits without it and works under it, so that cancelling is
// immediate and nothing is half done. The thread blocks all signals, is started on first use and lives as long as the
// process.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <deque>
#include <map>
#include <memory>
#include <memory_resource>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "net.h"
#include "populated_pool.h"
#include "swrnic_mpa.h"
#include "uverbs.h"

namespace swrnic::shim {

using PrivateData = std::span<const std::uint8_t>;

// Whom the thread calls, under the lock: once the time is there, or while his socket can be read.
class StartupWaiter {
  public:
    virtual ~StartupWaiter() = default;
    virtual void try_again(Locked&) {}
    virtual void readable(Locked&) {}
};

// Who has a stream set up, and hears what becomes of it. All calls come under the lock.
class StartupOwner : public StartupWaiter {
  public:
    // TCP is connected, from here.
    virtual void connected_from(const Address& local) = 0;
    // A socket for a second try from this address, whose port is 0; or -errno.
    virtual int new_socket(Locked& locked, const Address& local) = 0;
    // Both ends agree, and the QP has been told of its stream: QP_READY comes next. terminated: to say what the peer
    // did wrong is all that the stream is for; failed() follows.
    virtual void full_operation(Locked& locked, const swrnic_connected& agreed, PrivateData said, bool terminated) = 0;
    // Startup is over, without a stream. error: negative; -ECONNREFUSED: the peer's Reply said no.
    virtual void failed(Locked& locked, int error, PrivateData said) = 0;
    // Both ends agree, and no QP was named: the connection stays with startup, for what the two below tell.
    virtual void agreed(Locked&, PrivateData /*said*/) {}
    // The peer has called say_ready().
    virtual void peer_is_ready(Locked&) {}
    // The peer has closed it, or was given up. So have we now.
    virtual void peer_has_ended(Locked&) {}
    // request() has named it: it may accept or reject from now on, at once or later.
    virtual void decide(Locked&, std::uint64_t /*key*/) {}
};

// Who decides about the Requests that come to a port.
class StartupListener {
  public:
    struct Request {
        std::uint64_t key;  // accept() and reject() take it
        const Address& local;
        const Address& peer;
        const swrnic_mpa_peer_info& asked;
        PrivateData said;
    };
    virtual ~StartupListener() = default;
    // A whole Request. Whose it is from now on; nullptr: it is refused at once.
    virtual std::shared_ptr<StartupOwner> request(Locked& locked, const Request& request) = 0;
    // Whether its port is rdma_cm's, whose space is not TCP's to a program.
    virtual bool has_own_port_space() const { return false; }
};

class Startup {
  public:
    // The process's own; nullptr when the thread cannot be made.
    static Startup* get(Locked& locked);

    struct Terms {  // of connect or accept
        swrnic_mpa_params params;
        PrivateData private_data;
        std::uint8_t rnr_retry = 0;  // as in swrnic_connected
    };

    // Both take the socket, which is bound, and set key. 0 or -errno; then the socket is the caller's still. A connect
    // that fails is told to its owner, within the call at the earliest. Without a QP there is to be no stream:
    // StartupOwner::agreed().
    int listen(Locked& locked, const std::shared_ptr<StartupListener>& owner, int socket, int backlog,
               std::uint64_t& key);
    struct Ends {
        const Address &local, &peer;
    };
    int connect(Locked& locked, const std::shared_ptr<StartupOwner>& owner, int socket, Ends ends, const Qp* qp,
                const Terms& terms, std::uint64_t& key);
    // What is decided about a Request. -ECONNRESET: the peer went away meanwhile.
    int accept(Locked& locked, std::uint64_t key, const Qp* qp, const Terms& terms);
    // The owner hears nothing more.
    int reject(Locked& locked, std::uint64_t key, PrivateData private_data);

    // Of a connection without a stream that both have agreed on: the owner's part of it is done; and its end, which the
    // peer is to answer.
    void say_ready(Locked& locked, std::uint64_t key);
    void finish(Locked& locked, std::uint64_t key);

    // Has try_again() called, once, by the thread. The key is for cancel().
    std::uint64_t call_later(Locked& locked, std::weak_ptr<StartupWaiter> waiter, std::uint32_t ms);
    // Has readable() called for as long as the socket has something, until cancel(). The socket stays the caller's.
    int watch(Locked& locked, std::weak_ptr<StartupWaiter> waiter, int socket, std::uint64_t& key);

    // A plain socket of the program is to have the port at which rdma_cm listens (port_space.h). At the same address
    // both can be, if the socket has SO_REUSEPORT. Elsewhere nothing tells them apart, so the listener stays away until
    // the socket has gone. Whether there was any.
    bool share_port(Locked& locked, const Address& wanted);
    bool step_aside(Locked& locked, const Address& wanted);
    void step_back(Locked& locked);
    static bool any_aside() { return aside_.load(std::memory_order_relaxed) > 0; }

    bool same_host(std::uint64_t key) const;

    // Forgets a listener with its half-open connections, or one startup; closes what it has open.
    void cancel(Locked& locked, std::uint64_t key);
    // The engine must report QP_READY by the deadline, or the stream is ordered to end.
    void ready(Locked& locked, std::uint64_t key) { cancel(locked, key); }

    void forked();

  private:
    using Clock = std::chrono::steady_clock;
    using Deadline = std::pair<Clock::time_point, std::uint64_t>;

    enum class Stage : std::uint8_t {
        kConnecting,
        kFrames,
        kInTurn,  // its Request is whole, and told of behind ESTABLISHED of a connection before it
        kDeciding,
        kAwaitReady,
        kControl,
        kPausing,
        kWatching
    };

    struct Pending {
        std::uint64_t key = 0;
        int fd = -1;
        bool initiator = false;
        Stage stage = Stage::kFrames;
        std::uint32_t interest = 0;           // what epoll watches
        std::uint64_t listener = 0;           // while its Request is not complete
        std::weak_ptr<StartupOwner> owner;    // from the Request on, or from connect()
        std::weak_ptr<StartupWaiter> waiter;  // of kPausing and kWatching
        std::uint32_t qpn = 0;                // 0: no stream
        Address local, peer;
        bool same_host = false;
        Clock::time_point since = Clock::now();
        Clock::time_point deadline = Clock::time_point::max();
        std::uint32_t timeout_ms = 0;
        int traffic_class = 0;  // of kConnecting: the socket's once it is connected
        std::uint8_t rnr_retry = 0;
        swrnic_mpa_params terms{};               // an Initiator's, for a second try
        std::vector<std::uint8_t> private_data;  // the same
        bool retried = false;
        std::uint32_t read = 0;             // octets of startup
        int stream = -1;                    // of kAwaitReady: the engine's by now, only to be asked about
        Clock::time_point in_turn_by = {};  // when kInTurn has lasted long enough
        swrnic_mpa mpa{};
    };

    struct Listener {
        std::uint64_t key;
        int fd;
        std::weak_ptr<StartupListener> owner;
        Address local;
        std::deque<std::uint64_t> half_open;
        int backlog;
        bool paused = false;                             // connections wait in the kernel's backlog
        bool aside = false;                              // its socket is bound, if that, and does not listen
        std::optional<Clock::time_point> missed_from{};  // when its being aside is to be told of
    };

    // Of kInTurn: it may come behind so many of the unready, which are those that were there before it.
    struct Waiting {
        std::uint64_t key;
        std::size_t behind;
    };

    // Of one peer at one port here.
    struct Turns {
        std::vector<std::uint64_t> unready;  // Responders of kAwaitReady whose peers say when they are ready
        std::deque<Waiting> waiting;         // as their Requests came
    };
    using PeerAndPort = std::pair<std::array<std::uint8_t, 16>, std::uint16_t>;

    Startup(int epoll, int wake) : epoll_(epoll), wake_(wake) {}
    static void* thread_main(void* self);
    void run();
    void run_once(Locked& locked, const epoll_event* events, int count);
    void look_again(Listener& listener);
    bool come_back(Listener& listener);
    static void tell_if_missed(Listener& listener);
    static std::atomic<int> aside_;  // how many listeners are

    // startup.cpp
    Pending& add_pending(Locked& locked, int fd);
    void leave_pacing(int fd);
    int begin_to_connect(Pending& pending);
    void set_deadline(Pending& pending, std::uint32_t ms);  // 0: none
    void set_deadline(Pending& pending, Clock::time_point at);
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
    static PeerAndPort peer_and_port(const Pending& pending);
    bool is_in_turn(Pending& pending);
    bool comes_behind(Waiting& request, const std::vector<std::uint64_t>& unready) const;
    void leave_turns(const Pending& pending);
    void on_full_operation(Locked& locked, Pending& pending, bool terminate);
    void on_agreed(Locked& locked, Pending& pending);
    void on_control(Locked& locked, Pending& pending);
    void on_rejected(Locked& locked, Pending& pending);
    void on_failed(Locked& locked, Pending& pending);
    bool retry_unenhanced(Locked& locked, StartupOwner& owner, Pending& failed);
    void finish_reject(Pending& pending);

    const int epoll_, wake_;
    std::uint64_t next_key_ = 1;
    PopulatedPool pool_;
    std::pmr::unordered_map<std::uint64_t, Pending> pending_{&pool_};
    std::map<std::uint64_t, Listener> listeners_;
    std::pmr::set<Deadline> deadlines_{&pool_};
    std::map<PeerAndPort, Turns> turns_;
    Clock::time_point planned_wake_ = Clock::time_point::max();
    std::optional<std::string> pacing_;  // what the system gives to new sockets, once known; empty: nothing that paces
};

}  // namespace swrnic::shim
