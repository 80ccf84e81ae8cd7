// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "startup.h"

#include <fcntl.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <signal.h>
#include <sys/eventfd.h>

#include <algorithm>
#include <array>
#include <utility>

#include "device_limits.h"
#include "event_file.h"
#include "log.h"
#include "port_space.h"
#include "signals.h"
#include "state.h"

namespace swrnic::shim {
namespace {

constexpr std::uint64_t kWakeKey = 0;
// Most sockets leave by close(), which is seen; this is for those that do not.
constexpr auto kAwayPeriod = std::chrono::milliseconds(20);
// cmtime is done with its plain socket at once; who keeps one wants both.
constexpr auto kMissedAfter = std::chrono::seconds(1);
// What a listener's socket has been told, and the next one at its port is to be told too.
constexpr std::array<std::pair<int, int>, 6> kKeptOptions{{{SOL_SOCKET, SO_REUSEADDR},
                                                           {SOL_SOCKET, SO_KEEPALIVE},
                                                           {IPPROTO_TCP, TCP_NODELAY},
                                                           {IPPROTO_IP, IP_TOS},
                                                           {IPPROTO_IPV6, IPV6_TCLASS},
                                                           {IPPROTO_IPV6, IPV6_V6ONLY}}};

bool start_thread(void* (*entry)(void*), void* argument) {
    const BlockedSignals blocked;
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    pthread_t thread;
    const int error = pthread_create(&thread, &attributes, entry, argument);
    pthread_attr_destroy(&attributes);
    return error == 0;
}

}  // namespace

std::atomic<int> Startup::aside_{0};

Startup* Startup::get(Locked& locked) {
    if (locked->startup != nullptr) return locked->startup;
    const int epoll = sys::epoll_create();
    const int wake = sys::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    auto* startup = new Startup(epoll, wake);
    epoll_event event{};
    event.events = EPOLLIN;
    event.data.u64 = kWakeKey;
    if (epoll < 0 || wake < 0 || sys::epoll_ctl(epoll, EPOLL_CTL_ADD, wake, &event) != 0 ||
        !start_thread(thread_main, startup)) {
        log(LogLevel::kError, "cannot start the connection thread");
        sys::close(epoll);
        sys::close(wake);
        delete startup;
        return nullptr;
    }
    locked->fds.keep(locked, epoll);
    locked->fds.keep(locked, wake);
    locked->startup = startup;
    return startup;
}

void* Startup::thread_main(void* self) {
    pthread_setname_np(pthread_self(), "swrnic-cm");
    static_cast<Startup*>(self)->run();
    return nullptr;
}

void Startup::run() {
    constexpr int kBatch = 64;
    epoll_event events[kBatch];
    for (int timeout = -1;;) {  // as planned_wake_ says at first
        const int count = sys::epoll_wait(epoll_, events, kBatch, timeout);
        if (count < 0 && count != -EINTR)
            return;  // the descriptor was closed under us: the process is tearing itself down
        Locked locked;
        run_once(locked, events, std::max(count, 0));
        timeout = wait_ms(locked);
    }
}

int Startup::wait_ms(Locked&) {
    planned_wake_ = deadlines_.empty() ? Clock::time_point::max() : deadlines_.begin()->first;
    if (deadlines_.empty()) return -1;
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(planned_wake_ - Clock::now()).count();
    return static_cast<int>(std::clamp<long>(left, 0, 60'000));
}

void Startup::wake() {
    const std::uint64_t one = 1;
    sys::write(wake_, &one, sizeof(one));
}

// Keys, not pointers, come back from epoll: what an earlier event of the batch removed is simply not found.
void Startup::run_once(Locked& locked, const epoll_event* events, int count) {
    planned_wake_ = Clock::time_point::min();  // it looks at the deadlines before it sleeps again
    for (int i = 0; i < count; ++i) {
        const std::uint64_t key = events[i].data.u64;
        if (key == kWakeKey) {
            std::uint64_t ignored;
            sys::read(wake_, &ignored, sizeof(ignored));
        } else if (const auto listener = listeners_.find(key); listener != listeners_.end()) {
            accept_all(locked, key);
        } else if (const auto pending = pending_.find(key); pending != pending_.end()) {
            on_socket(locked, pending->second, events[i].events);
        }
    }
    expire(locked);
}

void Startup::expire(Locked& locked) {
    const auto now = Clock::now();
    while (!deadlines_.empty() && deadlines_.begin()->first <= now) {
        const std::uint64_t key = deadlines_.begin()->second;
        deadlines_.erase(deadlines_.begin());
        if (const auto it = listeners_.find(key); it != listeners_.end()) {
            resume(it->second);
            if (!come_back(it->second)) look_again(it->second);
            tell_if_missed(it->second);
            continue;
        }
        const auto it = pending_.find(key);
        if (it == pending_.end()) continue;
        Pending& pending = it->second;
        pending.deadline = Clock::time_point::max();
        if (pending.stage == Stage::kAwaitReady) {
            const auto qp = locked->qps.find(pending.qpn);
            log(LogLevel::kInfo, "qp {:#x} peer {}: no first FPDU in time", pending.qpn, pending.peer);
            if (qp != locked->qps.end()) order_error(locked, *qp->second);
            remove(key, true);
        } else if (pending.stage == Stage::kInTurn) {
            on_request(locked, pending);
            drive(locked, key);  // a refusal is to be said
        } else if (pending.stage == Stage::kPausing) {
            const auto waiter = pending.waiter.lock();
            remove(key, false);
            if (waiter != nullptr) waiter->try_again(locked);
        } else if (pending.stage == Stage::kControl) {
            const auto owner = pending.owner.lock();
            remove(key, true);
            if (owner != nullptr) owner->peer_has_ended(locked);
        } else if (pending.stage == Stage::kConnecting) {
            const auto owner = pending.owner.lock();
            remove(key, true);
            if (owner != nullptr) owner->failed(locked, -ETIMEDOUT, {});
        } else {
            on_event(locked, pending, swrnic_mpa_timeout(&pending.mpa));
        }
    }
}

// ---- the tables ----

Startup::Pending& Startup::add_pending(Locked&, int fd) {
    Pending& pending = pending_[next_key_];
    pending.key = next_key_++;
    pending.fd = fd;
    return pending;
}

void Startup::set_deadline(Pending& pending, std::uint32_t ms) {
    set_deadline(pending, ms == 0 ? Clock::time_point::max() : Clock::now() + std::chrono::milliseconds(ms));
}

void Startup::set_deadline(Pending& pending, Clock::time_point at) {
    deadlines_.erase({pending.deadline, pending.key});
    pending.deadline = at;
    if (at == Clock::time_point::max()) return;
    deadlines_.insert({pending.deadline, pending.key});
    if (pending.deadline < planned_wake_) wake();
}

void Startup::watch(Pending& pending, std::uint32_t interest) {
    if (interest == pending.interest) return;
    epoll_event event{};
    event.events = interest;
    event.data.u64 = pending.key;
    sys::epoll_ctl(epoll_, pending.interest == 0 ? EPOLL_CTL_ADD : EPOLL_CTL_MOD, pending.fd, &event);
    pending.interest = interest;
}

void Startup::unwatch(Pending& pending) {
    if (pending.fd >= 0 && pending.interest != 0) sys::epoll_ctl(epoll_, EPOLL_CTL_DEL, pending.fd, nullptr);
    pending.interest = 0;
}

void Startup::remove(std::uint64_t key, bool close_socket) {
    const auto it = pending_.find(key);
    if (it == pending_.end()) return;
    Pending& pending = it->second;
    deadlines_.erase({pending.deadline, key});
    unwatch(pending);
    if (pending.fd >= 0 && close_socket && pending.stage != Stage::kWatching) sys::close(pending.fd);
    leave_half_open(pending);
    leave_turns(pending);
    pending_.erase(it);
}

void Startup::cancel(Locked&, std::uint64_t key) {
    const auto it = listeners_.find(key);
    if (it == listeners_.end()) return remove(key, true);
    const std::deque<std::uint64_t> half_open = std::move(it->second.half_open);
    sys::epoll_ctl(epoll_, EPOLL_CTL_DEL, it->second.fd, nullptr);  // a child may hold a copy
    sys::close(it->second.fd);
    if (it->second.aside) --aside_;
    listeners_.erase(it);
    std::erase_if(deadlines_, [&](const Deadline& deadline) { return deadline.second == key; });
    for (const std::uint64_t child : half_open)
        remove(child, true);
}

// In the child only its copies are closed. The epoll set is the parent's: nothing is taken out of it.
void Startup::forked() {
    aside_ = 0;
    sys::close(epoll_);
    sys::close(wake_);
    for (const auto& [key, listener] : listeners_)
        sys::close(listener.fd);
    for (const auto& [key, pending] : pending_) {
        if (pending.fd >= 0 && pending.stage != Stage::kWatching) sys::close(pending.fd);
    }
}

bool Startup::same_host(std::uint64_t key) const {
    const auto it = pending_.find(key);
    return it != pending_.end() && it->second.same_host;
}

// ---- what commands start ----

int Startup::listen(Locked&, const std::shared_ptr<StartupListener>& owner, int socket, int backlog,
                    std::uint64_t& key) {
    // Inherited by what it accepts. A stream whose user has yet to decide has no other deadline.
    leave_pacing(socket);
    sys::set_option(socket, SOL_SOCKET, SO_KEEPALIVE, 1);
    free_port_later(socket);
    // No other listener of rdma_cm's shares its port; a plain socket that was there first does.
    const Address local = Address::local_of(socket);
    const bool joins = sys::get_option(socket, SOL_SOCKET, SO_REUSEPORT) != 0 && plain_socket_admits(local);
    sys::set_option(socket, SOL_SOCKET, SO_REUSEPORT, joins ? 1 : 0);
    int error = sys::listen(socket, backlog);
    if (error == 0 && joins) error = join_port(socket);
    if (error != 0) return error;
    epoll_event event{};
    event.events = EPOLLIN;
    event.data.u64 = next_key_;
    if (const int failed = sys::epoll_ctl(epoll_, EPOLL_CTL_ADD, socket, &event); failed != 0) return failed;
    key = next_key_++;
    listeners_.emplace(key, Listener{key, socket, owner, local, {}, backlog});
    return 0;
}

bool Startup::share_port(Locked&, const Address& wanted) {
    for (auto& [key, listener] : listeners_) {
        const auto owner = listener.owner.lock();
        if (listener.aside || owner == nullptr || !owner->has_own_port_space() || !(listener.local == wanted)) continue;
        return shim::share_port(listener.fd, listener.local) == 0;
    }
    return false;
}

// What listens cannot be made to stop and keep its port, so another socket takes its number.
bool Startup::step_aside(Locked&, const Address& wanted) {
    bool any = false;
    for (auto& [key, listener] : listeners_) {
        const auto owner = listener.owner.lock();
        if (listener.aside || owner == nullptr || !owner->has_own_port_space() ||
            listener.local.port() != wanted.port())
            continue;
        const int fresh = open_socket(listener.local.family(), SOCK_STREAM | SOCK_NONBLOCK, 0);
        if (fresh < 0) continue;
        for (const auto& [level, name] : kKeptOptions)
            sys::set_option(fresh, level, name, sys::get_option(listener.fd, level, name));
        leave_pacing(fresh);
        sys::epoll_ctl(epoll_, EPOLL_CTL_DEL, listener.fd, nullptr);
        sys::call(SYS_dup3, fresh, listener.fd, O_CLOEXEC);
        sys::close(fresh);
        listener.aside = any = true;
        listener.paused = false;
        ++aside_;
        sys::bind(listener.fd, listener.local.get(), listener.local.size());
        log(LogLevel::kInfo, "listener {}: away while another socket has its port", listener.local);
        listener.missed_from = Clock::now() + kMissedAfter;
        look_again(listener);
    }
    return any;
}

void Startup::tell_if_missed(Listener& listener) {
    if (!listener.aside || !listener.missed_from || Clock::now() < *listener.missed_from) return;
    listener.missed_from.reset();
    log(LogLevel::kWarn,
        "nobody can connect by rdma_cm at {} while a plain socket of this program listens there: here rdma_cm's ports "
        "are "
        "TCP's; give the two different ports",
        listener.local);
}

void Startup::look_again(Listener& listener) {
    const auto at = Clock::now() + kAwayPeriod;
    deadlines_.insert({at, listener.key});
    if (at < planned_wake_) wake();
}

void Startup::step_back(Locked&) {
    for (auto& [key, listener] : listeners_)
        come_back(listener);
}

// false: somebody still listens there.
bool Startup::come_back(Listener& listener) {
    if (!listener.aside) return true;
    sys::bind(listener.fd, listener.local.get(), listener.local.size());  // unless that has been possible before
    if (sys::listen(listener.fd, listener.backlog) != 0) return false;
    epoll_event event{};
    event.events = EPOLLIN;
    event.data.u64 = listener.key;
    sys::epoll_ctl(epoll_, EPOLL_CTL_ADD, listener.fd, &event);
    listener.aside = false;
    --aside_;
    return true;
}

// Within one host. What the system gives is asked for once.
void Startup::leave_pacing(int fd) {
    if (!pacing_) pacing_ = pacing_of(fd);
    if (!pacing_->empty()) set_congestion_control(fd, "reno");
}

// 0: the entry is watched. Else -errno.
int Startup::begin_to_connect(Pending& pending) {
    pending.stage = Stage::kConnecting;
    pending.same_host = on_same_host(pending.local, pending.peer);
    if (pending.same_host) leave_pacing(pending.fd);
    free_port_later(pending.fd);
    pending.traffic_class = mark_connect(pending.fd);
    int error = sys::connect(pending.fd, pending.peer.get(), pending.peer.size());
    if (error != 0 && error != -EINPROGRESS) return error;
    error = pending.same_host ? send_at_once(pending) : -EAGAIN;
    if (error == -EAGAIN) watch(pending, EPOLLOUT);
    return error == -EAGAIN ? 0 : error;
}

int Startup::connect(Locked& locked, const std::shared_ptr<StartupOwner>& owner, int socket, Ends ends, const Qp* qp,
                     const Terms& terms, std::uint64_t& key) {
    Pending& pending = add_pending(locked, socket);
    const auto size = static_cast<std::uint32_t>(terms.private_data.size());
    if (swrnic_mpa_initiate(&pending.mpa, &terms.params, terms.private_data.data(), size) != 0) {
        remove(pending.key, false);
        return -EINVAL;
    }
    key = pending.key;
    pending.terms = terms.params;
    pending.private_data.assign(terms.private_data.begin(), terms.private_data.end());
    pending.initiator = true;
    pending.owner = owner;
    pending.qpn = qp != nullptr ? qp->qpn : 0;
    pending.local = ends.local;
    pending.peer = ends.peer;
    pending.timeout_ms = qp != nullptr ? swrnic_startup_ms(&qp->startup) : SWR_STARTUP_TIMEOUT_MS;
    pending.rnr_retry = terms.rnr_retry;
    if (const int error = begin_to_connect(pending); error != 0) {
        remove(pending.key, true);
        owner->failed(locked, error, {});  // as an event, like every outcome of a connect
        return 0;
    }
    set_deadline(pending, pending.timeout_ms);
    return 0;
}

std::uint64_t Startup::call_later(Locked& locked, std::weak_ptr<StartupWaiter> waiter, std::uint32_t ms) {
    Pending& pending = add_pending(locked, -1);
    pending.waiter = std::move(waiter);
    pending.stage = Stage::kPausing;
    set_deadline(pending, ms);
    return pending.key;
}

int Startup::watch(Locked& locked, std::weak_ptr<StartupWaiter> waiter, int socket, std::uint64_t& key) {
    epoll_event event{};
    event.events = EPOLLIN;
    event.data.u64 = next_key_;
    if (const int error = sys::epoll_ctl(epoll_, EPOLL_CTL_ADD, socket, &event); error != 0) return error;
    Pending& pending = add_pending(locked, socket);
    pending.interest = EPOLLIN;
    pending.waiter = std::move(waiter);
    pending.stage = Stage::kWatching;
    key = pending.key;
    return 0;
}

int Startup::accept(Locked& locked, std::uint64_t key, const Qp* qp, const Terms& terms) {
    const auto it = pending_.find(key);
    if (it == pending_.end()) return -ECONNRESET;
    Pending& pending = it->second;
    if (has_ended(pending.fd)) {
        log(LogLevel::kInfo, "peer {}: gone before its request was accepted", pending.peer);
        remove(pending.key, true);
        return -ECONNRESET;
    }
    const auto size = static_cast<std::uint32_t>(terms.private_data.size());
    if (swrnic_mpa_accept(&pending.mpa, &terms.params, terms.private_data.data(), size) != 0) return -EINVAL;
    pending.qpn = qp != nullptr ? qp->qpn : 0;
    pending.timeout_ms = qp != nullptr ? swrnic_startup_ms(&qp->startup) : SWR_STARTUP_TIMEOUT_MS;
    pending.rnr_retry = terms.rnr_retry;
    pending.stage = Stage::kFrames;
    set_deadline(pending, pending.timeout_ms);
    drive(locked, pending.key);
    return 0;
}

int Startup::reject(Locked& locked, std::uint64_t key, PrivateData private_data) {
    const auto it = pending_.find(key);
    if (it == pending_.end()) return 0;  // nobody is left to be told
    it->second.owner.reset();
    Pending& pending = it->second;
    if (swrnic_mpa_reject(&pending.mpa, private_data.data(), static_cast<std::uint32_t>(private_data.size())) != 0) {
        remove(pending.key, true);
        return -EINVAL;
    }
    pending.stage = Stage::kFrames;
    set_deadline(pending, SWR_STARTUP_TIMEOUT_MS);
    drive(locked, pending.key);
    return 0;
}

// ---- connections without a stream

namespace {

// An FPDU with an empty RDMA Write, as RFC 6581 has it for the Initiator's first (RTR kind C).
constexpr std::array<std::uint8_t, 20> kReady{0, 14, 0xc1, 0x40, 0, 0, 0, 1};

}  // namespace

void Startup::say_ready(Locked&, std::uint64_t key) {
    const auto it = pending_.find(key);
    if (it != pending_.end()) sys::send(it->second.fd, kReady.data(), kReady.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
}

void Startup::finish(Locked&, std::uint64_t key) {
    const auto it = pending_.find(key);
    if (it == pending_.end()) return;
    sys::shutdown(it->second.fd, SHUT_WR);
    set_deadline(it->second, SWR_STARTUP_TIMEOUT_MS);
}

}  // namespace swrnic::shim
