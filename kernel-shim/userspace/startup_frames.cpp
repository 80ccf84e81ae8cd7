// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// The sockets of startup: accept, connect, frames in and out, and what becomes of each.
#include <linux/tcp.h>

#include <algorithm>
#include <array>
#include <utility>

#include "device_limits.h"
#include "event_file.h"
#include "log.h"
#include "net.h"
#include "startup.h"
#include "state.h"

namespace swrnic::shim {
namespace {

constexpr int kAcceptsPerTurn = 64;  // so that a flood on one port does not starve the others
constexpr auto kPause = std::chrono::milliseconds(100);
constexpr auto kTurn = std::chrono::milliseconds(250);

PrivateData private_data_of(const swrnic_mpa& mpa) {
    return {swrnic_mpa_peer_private(&mpa), swrnic_mpa_peer(&mpa)->private_len};
}

// Since the connection was made, read or not.
std::uint64_t octets_received(int fd) {
    tcp_info info{};
    socklen_t size = sizeof(info);
    return sys::getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &size) == 0 ? info.tcpi_bytes_received : 0;
}

}  // namespace

// ---- listeners ----

void Startup::pause(Listener& listener, Clock::time_point until) {
    epoll_event event{};
    event.data.u64 = listener.key;
    sys::epoll_ctl(epoll_, EPOLL_CTL_MOD, listener.fd, &event);
    listener.paused = true;
    deadlines_.insert({until, listener.key});
    if (until < planned_wake_) wake();
}

void Startup::resume(Listener& listener) {
    if (!listener.paused) return;
    epoll_event event{};
    event.events = EPOLLIN;
    event.data.u64 = listener.key;
    sys::epoll_ctl(epoll_, EPOLL_CTL_MOD, listener.fd, &event);
    listener.paused = false;
}

// A burst of honest peers waits its turn in the kernel's backlog; silent ones hold a place for the grace time only.
bool Startup::make_room(Listener& listener) {
    if (listener.half_open.size() < SWR_MAX_HALF_OPEN) return true;
    const std::uint64_t oldest = listener.half_open.front();
    const auto grace_ends = pending_.at(oldest).since + std::chrono::milliseconds(SWR_HALF_OPEN_GRACE_MS);
    if (grace_ends > Clock::now()) {
        pause(listener, grace_ends);
        return false;
    }
    log(LogLevel::kInfo, "listener {}: too many silent peers, {} goes", listener.local, pending_.at(oldest).peer);
    remove(oldest, true);
    return true;
}

void Startup::leave_half_open(Pending& pending) {
    const auto it = listeners_.find(std::exchange(pending.listener, 0));
    if (it == listeners_.end()) return;
    std::erase(it->second.half_open, pending.key);
    resume(it->second);
}

void Startup::accept_all(Locked& locked, std::uint64_t listener_key) {
    for (int i = 0; i < kAcceptsPerTurn; ++i) {
        const auto it = listeners_.find(listener_key);
        if (it == listeners_.end() || !make_room(it->second)) return;
        Listener& listener = it->second;
        Address peer;
        const int fd = accept_one(listener.fd, peer);
        if (fd == -EMFILE || fd == -ENFILE || fd == -ENOBUFS || fd == -ENOMEM) {
            log(LogLevel::kWarn, "listener {}: accept: error {}, trying again later", listener.local, -fd);
            return pause(listener, Clock::now() + kPause);
        }
        if (fd == -EAGAIN) return;
        if (fd < 0) continue;  // a connection that was reset while it waited
        locked->fds.keep(locked, fd);
        Pending& pending = add_pending(locked, fd);
        pending.listener = listener_key;
        pending.local = listener.local.is_any() ? Address::local_of(fd) : listener.local;
        pending.peer = peer;
        pending.same_host = on_same_host(pending.local, pending.peer);
        if (!pending.same_host && !pacing_->empty()) set_congestion_control(fd, *pacing_);
        swrnic_mpa_respond_init(&pending.mpa, 0);
        // Read at once only where no other waits for its Request: epoll tells of Requests in the order of their
        // arrival, and this one would overtake those of connections accepted before it. perftest pairs its QPs by the
        // order of the requests alone.
        const bool alone = listener.half_open.empty();
        listener.half_open.push_back(pending.key);
        if (alone)
            drive(locked, pending.key);
        else
            await_peer(pending);
    }
}

// ---- sockets ----

void Startup::on_socket(Locked& locked, Pending& pending, std::uint32_t events) {
    switch (pending.stage) {
        case Stage::kConnecting:
            on_connected(locked, pending, (events & (EPOLLERR | EPOLLHUP)) != 0);
            return;
        case Stage::kFrames:
            drive(locked, pending.key);
            return;
        case Stage::kWatching:
            if (const auto waiter = pending.waiter.lock(); waiter != nullptr) waiter->readable(locked);
            return;
        case Stage::kControl:
            on_control(locked, pending);
            return;
        case Stage::kInTurn:
        case Stage::kDeciding:
        case Stage::kAwaitReady:
        case Stage::kPausing:
            return;
    }
}

// TCP lets a socket that is bound to the port it connects to meet itself. Nobody listens there.
bool Startup::meets_itself(const Pending& pending) {
    return pending.local.same_host_part(pending.peer) && pending.local.port() == pending.peer.port();
}

// Within one host TCP's handshake is over when connect() returns, and the Request can go without a turn of the thread.
// 0: it is under way, and the entry watched; -EAGAIN: the connection is not there yet; else why it failed.
int Startup::send_at_once(Pending& pending) {
    if (pending.local.port() == 0 || meets_itself(pending)) return -EAGAIN;
    std::uint32_t out = 0;
    const std::uint8_t* frame = swrnic_mpa_out(&pending.mpa, &out);
    const long sent = sys::send(pending.fd, frame, out, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent == -EINTR) return -EAGAIN;
    if (sent < 0) return static_cast<int>(sent);
    swrnic_mpa_sent(&pending.mpa, static_cast<std::uint32_t>(sent));
    set_traffic_class(pending.fd, pending.traffic_class);
    pending.stage = Stage::kFrames;
    watch(pending, EPOLLIN | (static_cast<std::uint32_t>(sent) < out ? std::uint32_t{EPOLLOUT} : 0u));
    return 0;
}

void Startup::on_connected(Locked& locked, Pending& pending, bool failed) {
    int error = 0;
    socklen_t size = sizeof(error);
    if (failed) sys::getsockopt(pending.fd, SOL_SOCKET, SO_ERROR, &error, &size);
    if (pending.local.port() == 0) pending.local = Address::local_of(pending.fd);
    if (error == 0 && meets_itself(pending)) error = ECONNREFUSED;
    const auto owner = pending.owner.lock();
    if (error != 0 || owner == nullptr) {
        remove(pending.key, true);
        if (owner != nullptr) owner->failed(locked, -error, {});
        return;
    }
    set_traffic_class(pending.fd, pending.traffic_class);
    owner->connected_from(pending.local);
    pending.stage = Stage::kFrames;
    drive(locked, pending.key);
}

// Moves octets until the socket or the machine has nothing more to give, or an answer is to be waited for. The machine
// may end in any step, and with it the entry.
void Startup::drive(Locked& locked, std::uint64_t key) {
    for (;;) {
        const auto it = pending_.find(key);
        if (it == pending_.end()) return;
        Pending& pending = it->second;
        if (pending.stage != Stage::kFrames) return;
        swrnic_mpa_event event = SWRNIC_MPA_EV_NONE;
        const bool moved = step(locked, pending, event);
        if (event != SWRNIC_MPA_EV_NONE) {
            on_event(locked, pending, event);
        } else if (!moved) {
            return await_peer(pending);
        }
    }
}

void Startup::await_peer(Pending& pending) {
    std::uint32_t waiting = 0;
    swrnic_mpa_out(&pending.mpa, &waiting);
    watch(pending, EPOLLIN | (waiting > 0 ? std::uint32_t{EPOLLOUT} : 0u));
    if (pending.deadline == Clock::time_point::max())  // for a Request that is not whole yet
        set_deadline(pending, swrnic_mpa_deadline_ms(&pending.mpa));
}

bool Startup::step(Locked&, Pending& pending, swrnic_mpa_event& event) {
    swrnic_mpa* mpa = &pending.mpa;
    std::uint32_t out = 0;
    const std::uint8_t* frame = swrnic_mpa_out(mpa, &out);
    if (out > 0) {
        const long sent = sys::send(pending.fd, frame, out, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (sent > 0) {
            event = swrnic_mpa_sent(mpa, static_cast<std::uint32_t>(sent));
            return static_cast<std::uint32_t>(sent) < out;  // an answer takes a while, and epoll tells of it
        }
        if (sent != -EAGAIN && sent != -EINTR) event = swrnic_mpa_reset(mpa);
        return sent == -EINTR;
    }
    const std::uint32_t want = swrnic_mpa_want(mpa);
    if (want == 0) return false;
    const long got = sys::recv(pending.fd, swrnic_mpa_in(mpa), want, MSG_DONTWAIT);
    if (got > 0) {
        pending.read += static_cast<std::uint32_t>(got);
        event = swrnic_mpa_received(mpa, static_cast<std::uint32_t>(got));
        return true;
    }
    if (got == 0) {
        event = swrnic_mpa_eof(mpa);
    } else if (got != -EAGAIN && got != -EINTR) {
        event = swrnic_mpa_reset(mpa);
    }
    return got == -EINTR;
}

// ---- outcomes ----

void Startup::on_event(Locked& locked, Pending& pending, swrnic_mpa_event event) {
    switch (event) {
        case SWRNIC_MPA_EV_NONE:
            return;
        case SWRNIC_MPA_EV_REQUEST:
            return on_request(locked, pending);
        case SWRNIC_MPA_EV_ESTABLISHED:
            return on_full_operation(locked, pending, false);
        case SWRNIC_MPA_EV_TERMINATE:
            return on_full_operation(locked, pending, true);
        case SWRNIC_MPA_EV_REJECTED:
            return on_rejected(locked, pending);
        case SWRNIC_MPA_EV_REJECT_SENT:
            return finish_reject(pending);
        case SWRNIC_MPA_EV_FAILED:
            return on_failed(locked, pending);
    }
}

Startup::PeerAndPort Startup::peer_and_port(const Pending& pending) {
    return {pending.peer.as_gid(), pending.local.port()};
}

// A peer that connects again does so when the connection before is established, and on an adapter that is told first:
// the two come one behind the other. Here the Request has a socket of its own, and may be read before the engine has
// come to the RTR. Whether the RTR is there TCP knows, so nobody waits for a peer that keeps silent: a connection that
// has none is passed over for good. The last is mostly told of last, and asked about first, so that the thread seldom
// looks in vain.
bool Startup::comes_behind(Waiting& request, const std::vector<std::uint64_t>& unready) const {
    for (; request.behind != 0; --request.behind) {
        const Pending& before = pending_.at(unready[request.behind - 1]);
        if (octets_received(before.stream) > before.read) return true;
    }
    return false;
}

// What waits is not overtaken by what its peer has sent behind it.
bool Startup::is_in_turn(Pending& pending) {
    const auto turns = turns_.find(peer_and_port(pending));
    if (turns == turns_.end()) return true;
    auto& [unready, waiting] = turns->second;
    const auto now = Clock::now();
    if (pending.stage != Stage::kInTurn) {
        waiting.push_back({pending.key, unready.size()});
        pending.in_turn_by = now + kTurn;
    }
    const bool is_first = waiting.front().key == pending.key;
    if (is_first && (now >= pending.in_turn_by || !comes_behind(waiting.front(), unready))) {
        leave_turns(pending);
        return true;
    }
    pending.stage = Stage::kInTurn;
    unwatch(pending);
    set_deadline(pending, is_first ? pending.in_turn_by : Clock::time_point::max());
    return false;
}

// The thread looks anew at the first that waits, when what it was seen to wait for is over or it has become the first.
void Startup::leave_turns(const Pending& pending) {
    const auto turns = turns_.find(peer_and_port(pending));
    if (turns == turns_.end()) return;
    auto& [unready, waiting] = turns->second;
    bool first_may_go = !waiting.empty() && waiting.front().key == pending.key;
    std::erase_if(waiting, [&](const Waiting& request) { return request.key == pending.key; });
    if (const auto own = std::find(unready.begin(), unready.end(), pending.key); own != unready.end()) {
        const auto at = static_cast<std::size_t>(own - unready.begin());
        first_may_go |= !waiting.empty() && waiting.front().behind == at + 1;
        for (Waiting& request : waiting)
            if (at < request.behind) --request.behind;
        unready.erase(own);
    }
    if (first_may_go && !waiting.empty()) set_deadline(pending_.at(waiting.front().key), Clock::now());
    if (waiting.empty() && unready.empty()) turns_.erase(turns);
}

void Startup::on_request(Locked& locked, Pending& pending) {
    const auto it = listeners_.find(pending.listener);
    const auto listener = it != listeners_.end() ? it->second.owner.lock() : nullptr;
    std::shared_ptr<StartupOwner> owner;
    if (listener != nullptr && listener->has_own_port_space() && !is_in_turn(pending)) return;
    if (listener != nullptr) {
        owner = listener->request(locked, {pending.key, pending.local, pending.peer, *swrnic_mpa_peer(&pending.mpa),
                                           private_data_of(pending.mpa)});
    }
    if (owner == nullptr) {
        pending.stage = Stage::kFrames;
        if (swrnic_mpa_reject(&pending.mpa, nullptr, 0) != 0) remove(pending.key, true);
        return;
    }
    leave_half_open(pending);
    pending.owner = owner;
    pending.stage = Stage::kDeciding;
    set_deadline(pending, 0);
    unwatch(pending);  // accept() looks whether the peer is still there
    owner->decide(locked, pending.key);
}

// Without a stream: the socket stays here.
void Startup::on_agreed(Locked& locked, Pending& pending) {
    const auto owner = pending.owner.lock();
    if (owner == nullptr) return remove(pending.key, true);
    pending.stage = Stage::kControl;
    set_deadline(pending, 0);
    sys::set_option(pending.fd, SOL_SOCKET, SO_KEEPALIVE, 1);
    watch(pending, EPOLLIN);
    owner->agreed(locked, private_data_of(pending.mpa));
}

void Startup::on_control(Locked& locked, Pending& pending) {
    const auto owner = pending.owner.lock();
    std::array<std::uint8_t, 64> said;
    const long got = sys::recv(pending.fd, said.data(), said.size(), MSG_DONTWAIT);
    if (got == -EAGAIN || got == -EINTR) return;
    if (got > 0) {
        if (owner != nullptr) owner->peer_is_ready(locked);
        return;
    }
    // The end that disconnected hears of it by the close, and takes it that this end has heard, as InfiniBand's DREP
    // says.
    if (owner != nullptr) owner->peer_has_ended(locked);
    remove(pending.key, true);
}

void Startup::on_full_operation(Locked& locked, Pending& pending, bool terminate) {
    if (pending.qpn == 0 && !terminate) return on_agreed(locked, pending);
    const auto owner = pending.owner.lock();
    const auto qp = locked->qps.find(pending.qpn);
    EventFile* file = qp != locked->qps.end() ? qp->second->context->event_file(locked) : nullptr;
    swrnic_connected connected{};
    if (owner == nullptr || file == nullptr || swrnic_mpa_connected(&pending.mpa, &connected) != 0) {
        remove(pending.key, true);
        if (owner != nullptr) owner->failed(locked, -ECONNABORTED, {});
        return;
    }
    connected.fd = pending.fd;
    connected.flags |= SWRNIC_CONN_NODELAY;  // open_socket()
    if (pending.same_host) connected.flags |= SWRNIC_CONN_SAME_HOST;
    connected.local = pending.local.for_abi();
    connected.peer = pending.peer.for_abi();
    connected.rnr_retry = pending.rnr_retry;
    // The socket changes hands; the entry stays to see that QP_READY comes, within the time that startup has.
    unwatch(pending);
    pending.stream = std::exchange(pending.fd, -1);
    pending.stage = Stage::kAwaitReady;
    if (!pending.initiator && (connected.flags & SWRNIC_CONN_P2P) != 0)
        turns_[peer_and_port(pending)].unready.push_back(pending.key);
    qp->second->ird = swrnic_shown_depth(connected.ird);
    qp->second->ord = swrnic_shown_depth(connected.ord);
    file->hand_over(locked, *qp->second, connected);
    log(LogLevel::kInfo, "qp {:#x} peer {}: {} in full operation, flags {:#x} ird {} ord {} rtr {}", qp->first,
        pending.peer, pending.initiator ? "initiator" : "responder", connected.flags, connected.ird, connected.ord,
        connected.rtr);
    const std::uint64_t key = pending.key;
    owner->full_operation(locked, connected, private_data_of(pending.mpa), terminate);
    if (!terminate) return;
    remove(key, false);
    owner->failed(locked, -EPROTO, {});
}

void Startup::on_rejected(Locked& locked, Pending& pending) {
    const std::uint64_t key = pending.key;
    if (const auto owner = pending.owner.lock(); owner != nullptr)
        owner->failed(locked, -ECONNREFUSED, private_data_of(pending.mpa));  // VERBS-52
    remove(key, true);
}

void Startup::finish_reject(Pending& pending) {
    sys::shutdown(pending.fd, SHUT_WR);
    remove(pending.key, true);
}

void Startup::on_failed(Locked& locked, Pending& pending) {
    const int error = swrnic_failure_errno(swrnic_mpa_failure_class(&pending.mpa));
    log(LogLevel::kInfo, "peer {}: startup failed: {}", pending.peer,
        swrnic_mpa_reason_name(swrnic_mpa_failure(&pending.mpa)));
    const auto owner = pending.owner.lock();
    if (owner != nullptr && retry_unenhanced(locked, *owner, pending)) return;
    remove(pending.key, true);
    if (owner != nullptr) owner->failed(locked, error, {});
}

// RFC 6581 10: a Responder of revision 1 closes on an enhanced Request. One more connection, within the same deadline.
bool Startup::retry_unenhanced(Locked& locked, StartupOwner& owner, Pending& failed) {
    if (!failed.initiator || failed.retried || swrnic_mpa_retry_rev1(&failed.mpa) == 0) return false;
    Address source = failed.local;
    source.set_port(0);
    const int fd = owner.new_socket(locked, source);
    if (fd < 0) return false;
    failed.terms.rev = 1;
    failed.terms.p2p = 0;
    const std::vector<std::uint8_t>& said = failed.private_data;
    if (swrnic_mpa_initiate(&failed.mpa, &failed.terms, said.data(), static_cast<std::uint32_t>(said.size())) != 0) {
        sys::close(fd);
        return false;
    }
    log(LogLevel::kInfo, "peer {}: no answer to an enhanced Request, trying revision 1", failed.peer);
    sys::epoll_ctl(epoll_, EPOLL_CTL_DEL, failed.fd, nullptr);
    sys::close(failed.fd);
    failed.fd = fd;
    failed.local = source;  // its port is not known yet
    failed.interest = 0;
    failed.retried = true;
    if (const int error = begin_to_connect(failed); error != 0) {
        remove(failed.key, true);
        owner.failed(locked, error, {});
    }
    return true;
}

}  // namespace swrnic::shim
