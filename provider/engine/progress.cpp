// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Who drives, and when: doorbells, polls, the background thread, timers. What the gates (sched/) decide is
// done here; the rules: docs/PROGRESS.md.
#include <poll.h>
#include <pthread.h>
#include <sched.h>

#include <algorithm>
#include <cerrno>
#include <climits>

#include "engine/engine_impl.h"
#include "signals.h"

namespace swrnic::engine {

using namespace tuning;

namespace {

constexpr std::size_t kThreadsPass = 1;  // those of callers begin at 0
constexpr Cycles kNever{INT64_MAX};
// What epoll tells of a stream from its beginning.
constexpr std::uint32_t kArrivals = EPOLLIN | EPOLLRDHUP | EPOLLET;

timespec to_timespec(std::int64_t nanoseconds) {
    return {static_cast<time_t>(nanoseconds / 1'000'000'000), static_cast<long>(nanoseconds % 1'000'000'000)};
}

}  // namespace

// ---- callers ----

void Engine::Impl::doorbell(DrivenQp& qp) {
    if (!qp.connected()) return doorbell_without_stream(qp);
    // EPOLLOUT will tell. An exchange on both sides: whoever lowers the flag after it was seen here sees the request
    // too.
    bool blocked = qp.tx_blocked.load(std::memory_order_relaxed);
    if (blocked && qp.tx_blocked.compare_exchange_strong(blocked, true)) return;
    const Cycles now = counter_.now();
    // Empty polls and req_notify calls: each ends all deferrals.
    const std::uint64_t epoch =
        empty_polls_.load(std::memory_order_relaxed) + arm_epoch_.load(std::memory_order_relaxed);
    const SendGate::Decision decision = qp.sends.on_post(times_, now, qp.posted_octets(), epoch);
    if (decision == SendGate::Decision::kGather) {
        deferred_at_.store(now, std::memory_order_relaxed);
        schedule(qp, kToSend);
        return;
    }
    // Written only if it is news: the thread reads it in each turn.
    if (const int here = sched_getcpu(); here != posted_on_.load(std::memory_order_relaxed))
        posted_on_.store(here, std::memory_order_relaxed);
    Pass pass = passes.begin();
    drive_tx(qp, pass, decision == SendGate::Decision::kCork ? Tx::Tail::kCork : Tx::Tail::kSend);
    deliver(pass);
    const Cycles flushed_at = counter_.now();
    qp.sends.on_flushed(flushed_at);
    want_report(flushed_at);
}

void Engine::Impl::doorbell_without_stream(DrivenQp& qp) {
    Pass pass = passes.begin();
    if (qp.state() == QpState::kErr) {
        flush(qp, pass);
    } else if (qp.is_wired()) {
        // seq_cst against connect(): either the stream is seen here, or connect() sees the request.
        std::atomic_thread_fence(std::memory_order_seq_cst);
        if (qp.connected()) {
            drive_tx(qp, pass, Tx::Tail::kSend);
        } else {
            await_peer(qp, pass);
        }
    }
    deliver(pass);
}

// A wired QP without a stream, whose requests wait for one.
void Engine::Impl::await_peer(DrivenQp& qp, Pass& pass) {
    if (!qp.send_queue_busy()) return;  // SQD
    const std::int64_t patience = qp.patience;
    if (qp.negotiated() && (patience == 0 || qp.init().unreliable)) {
        give_up_peer(qp, pass);  // it has been here, and gone: nobody would come any more
    } else if (patience != 0 && qp.peer_must_come_by == 0) {
        qp.peer_must_come_by = ticks(Clock::now()) + patience;
        arm_timer(qp, qp.peer_must_come_by);
    }
}

void Engine::Impl::give_up_peer(DrivenQp& qp, Pass& pass) {
    qp.peer_must_come_by = 0;
    RxGuard rx(qp.rx_lock());
    TxGuard tx(qp.tx_lock());
    qp.give_up_peer(rx, tx, pass);
}

void Engine::Impl::receive_posted(DrivenQp& qp) {
    if (qp.stalled_since != 0) {
        qp.rx_due = true;
        schedule(qp, kToReceive);
    }
    if (qp.state() == QpState::kErr && !qp.connected()) {
        Pass pass = passes.begin();
        flush(qp, pass);
        deliver(pass);
    }
}

void Engine::Impl::wake_waiters(Srq& srq) {
    Pass pass = passes.begin();  // keeps the waiters alive
    for (Qp* waiter : srq.take_waiters()) {
        auto& qp = static_cast<DrivenQp&>(*waiter);
        qp.rx_due = true;
        schedule(qp, kToReceive);
    }
}

void Engine::Impl::drive_from_poll() {
    poll(empty_polls_.fetch_add(1, std::memory_order_relaxed));
    polls_done_.fetch_add(1, std::memory_order_relaxed);
}

// The empty poll that so many have preceded.
void Engine::Impl::poll(std::uint64_t polls) {
    if (connected_.load(std::memory_order_relaxed) == 0 && ready_.empty()) return;
    const bool timed = polls % kTimedPolls == 0;
    const Time begin = timed ? Clock::now() : Time();
    Pass pass = passes.begin();
    DrivenQp* hot = hot_.load();  // seq_cst: either cool() is seen, or destroy_qp() waits for this pass
    if (hot != nullptr && hot->tx_blocked.load(std::memory_order_relaxed)) hot = nullptr;  // epoll tells of both sides
    const Cycles now = counter_.now();
    const bool flushes = !ready_.empty();
    const bool backs_off =
        hot != nullptr && now < hot->polls.next_look(times_, flushes, hot->sends.waits_for_peer(times_, now));
    if (backs_off && !flushes && news_.state(times_) == NewsGate::State::kSilent) return;
    const bool asks = hot == nullptr || news_.is_due(now);
    const std::uint32_t answered = hot != nullptr ? hot->reads().answered.load(std::memory_order_relaxed) : 0;
    bool waits_for_post = false;
    // While there are others to be driven, it is left to epoll like them.
    if (hot != nullptr && !backs_off && (hot->ready || !flushes)) {
        drive_rx(*hot, pass);
        // A program that has received is likely to answer: a Response goes with its post, or with the next poll.
        waits_for_post = !flushes && hot->tx().owes_responses_alone();
        if (waits_for_post) {
            schedule(*hot, kToSend);
        } else if (may_transmit(*hot)) {
            drive_tx(*hot, pass, Tx::Tail::kSend);
        }
    }
    bool others = false;
    if (asks) {
        Events events;
        const int count =
            static_cast<int>(syscall(SYS_epoll_pwait, epoll_.get(), events.data(), events.size(), 0, nullptr, 8));
        others = take_events(events, count, hot, pass);
        news_.on_asked(times_, now, others);
    }
    if (!waits_for_post || others) run_ready(pass, Tx::Tail::kCork);
    deliver(pass);
    if (hot != nullptr && hot->reads().answered.load(std::memory_order_relaxed) != answered &&
        has_polled_enough(*hot)) {
        arm_epoch_.fetch_add(1);
        end_yield();
    }
    if (!timed) return;
    const std::chrono::nanoseconds took = Clock::now() - begin;
    counters.poller_ns.fetch_add(static_cast<std::uint64_t>(took.count()) * kTimedPolls, std::memory_order_relaxed);
}

// The peer has placed all that was posted, and nobody else's message is waited for: its program may look at memory
// alone from now on. Where little was posted a wake-up would cost more than the message.
bool Engine::Impl::has_polled_enough(const DrivenQp& qp) {
    return qp.sends.ends_large() && !qp.send_queue_busy() && !qp.has_receives();
}

// Behind an increment of arm_epoch_: a thread that yields to pollers must take over at once.
void Engine::Impl::end_yield() {
    if (yields_.exchange(false)) sys::signal_event(kick_.get());
}

void Engine::Impl::notify_requested() {
    arm_epoch_.fetch_add(1);
    run_what_polls_left();
    end_yield();  // the caller is about to sleep
}

void Engine::Impl::run_what_polls_left() {
    if (ready_.empty()) return;
    Pass pass = passes.begin();
    run_ready(pass, Tx::Tail::kSend);
    deliver(pass);
}

void Engine::Impl::schedule(DrivenQp& qp, Reason reason) {
    if (ready_.push(qp, reason)) kick();  // else whoever pushed it does
}

void Engine::Impl::kick() {
    if (asleep_.exchange(false)) sys::signal_event(kick_.get());
}

// A QP has one timer, for the nearest of its deadlines; when it fires, check_deadlines() arms it for the next.
void Engine::Impl::arm_timer(DrivenQp& qp, std::int64_t when) {
    {
        const std::lock_guard hold(timer_lock_);
        if (qp.timer_at != 0 && qp.timer_at <= when) return;
        timers_.erase({qp.timer_at, qp.init().qpn});
        timers_.insert({when, qp.init().qpn});
        qp.timer_at = when;
        if (timers_.begin()->first != when) return;  // the thread wakes before that anyway
    }
    kick();
}

// A deadline may be a day away (SWRNIC_TIMEOUT), and programs make and destroy QPs all the time.
void Engine::Impl::disarm_timer(DrivenQp& qp) {
    const std::lock_guard hold(timer_lock_);
    timers_.erase({qp.timer_at, qp.init().qpn});
}

std::size_t Engine::Impl::armed_timers() {
    const std::lock_guard hold(timer_lock_);
    return timers_.size();
}

// ---- sockets ----

void Engine::Impl::ask_epoll(DrivenQp& qp, int operation, std::uint32_t events) {
    epoll_event event{};
    event.events = events;
    event.data.u64 = qp.init().qpn;
    syscall(SYS_epoll_ctl, epoll_.get(), operation, qp.fd.load(), &event);
}

void Engine::Impl::watch(DrivenQp& qp, int fd) {
    qp.fd = fd;
    ask_epoll(qp, EPOLL_CTL_ADD, kArrivals);
    connected_.fetch_add(1);
}

// Once its socket was full. Events tell of all that is there: where room is asked for, each arrival tells of it too.
void Engine::Impl::ask_for_room(DrivenQp& qp) {
    ask_epoll(qp, EPOLL_CTL_MOD, kArrivals | EPOLLOUT);
}

// A child that came by clone() or _Fork() may hold a copy of the socket for long: closing ours would leave it in the
// set.
void Engine::Impl::leave_epoll(int fd) {
    syscall(SYS_epoll_ctl, epoll_.get(), EPOLL_CTL_DEL, fd, nullptr);
}

void Engine::Impl::unwatch(DrivenQp& qp, const TcpTransport& socket) {
    leave_epoll(socket.fd());
    cool(qp);
    connected_.fetch_sub(1);
}

void Engine::Impl::cool(DrivenQp& qp) {
    DrivenQp* expected = &qp;
    hot_.compare_exchange_strong(expected, nullptr);
}

void Engine::Impl::linger(std::unique_ptr<TcpTransport> transport) {
    const std::lock_guard hold(linger_lock_);
    const std::uint64_t id = next_linger_++ & ~kLingerEvent;
    epoll_event event{};
    event.events = EPOLLIN | EPOLLRDHUP;
    event.data.u64 = kLingerEvent | id;
    syscall(SYS_epoll_ctl, epoll_.get(), EPOLL_CTL_ADD, transport->fd(), &event);
    lingering_.emplace(id, Lingering{std::move(transport), ticks(Clock::now() + kLinger)});
    kick();
}

void Engine::Impl::drain_lingering(std::uint64_t id, Pass& pass) {
    const std::lock_guard hold(linger_lock_);
    const auto found = lingering_.find(id);
    if (found == lingering_.end()) return;
    const IoSlice slice{pass.rx_staging().data(), pass.rx_staging().size()};
    for (int i = 0; i < 16; ++i) {
        const IoStatus status = found->second.transport->receive(&slice, 1).status;
        if (status == IoStatus::kOk) continue;
        if (status != IoStatus::kAgain && status != IoStatus::kEmpty) {
            leave_epoll(found->second.transport->fd());
            lingering_.erase(found);
        }
        return;
    }
}

// ---- the background thread ----

void Engine::Impl::start_thread() {
    const std::lock_guard hold(start_);
    if (thread_.joinable()) return;
    const BlockedSignals blocked;
    thread_ = std::thread([this] { run(); });
}

void Engine::Impl::stop_thread() {
    stop_ = true;
    if (!lost_) sys::signal_event(kick_.get());
    if (thread_.joinable()) thread_.join();
}

void Engine::Impl::run() {
    pthread_setname_np(pthread_self(), "swrnic");
    Events events;
    while (!stop_) {
        int count = 0;
        const bool control = wait(events, count);
        if (lost_) return lose_descriptors();
        // A pass must not be open here: control calls create and destroy.
        if (control && !host.control_readable()) {
            syscall(SYS_epoll_ctl, epoll_.get(), EPOLL_CTL_DEL, control_fd_, nullptr);
            control_fd_ = -1;
            abort_all();
        }
        Pass pass = passes.begin(kThreadsPass);
        take_events(events, count, nullptr, pass);
        if (!polled_meanwhile_) run_ready(pass, Tx::Tail::kSend);
        // What control_readable() posted is flushed with it: no burst to yield to.
        if (control) deferred_at_.store({}, std::memory_order_relaxed);
        run_timers(pass);
        deliver(pass);
        report();
        if (!options.leaves_poster) continue;
        const int here = sched_getcpu();
        if (placement_.should_leave(here, posted_on_.load(std::memory_order_relaxed), gate_.arms_seen()))
            leave_processor(here);
    }
}

// ---- reports ----

// After every turn of the thread, inside a pass. Something may have moved since, so there is one more report at least;
// when one has no news the thread may sleep for good, and doorbells that nobody answers wake it.
void Engine::Impl::report() {
    const std::int64_t now = ticks(Clock::now());
    if (now < report_at_) {
        report_due_ = true;
        return;
    }
    timespec cpu{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &cpu);
    counters.thread_ns.store(
        static_cast<std::uint64_t>(cpu.tv_sec) * 1'000'000'000 + static_cast<std::uint64_t>(cpu.tv_nsec),
        std::memory_order_relaxed);
    counters.empty_polls.store(empty_polls_.load(std::memory_order_relaxed), std::memory_order_relaxed);
    note_tcp_of_some();
    report_due_ = host.report();
    report_at_ = now + Clock::duration(kReportEvery).count();
    report_wanted_.store(report_due_ ? kNever : counter_.now() + times_.report_every, std::memory_order_relaxed);
}

// After a flush: a thread that sleeps for good must be told that there will be news.
void Engine::Impl::want_report(Cycles now) {
    if (now <= report_wanted_.load(std::memory_order_relaxed)) [[likely]]
        return;
    if (!asleep_.load(std::memory_order_relaxed) || !asleep_.exchange(false)) return;
    report_wanted_.store(kNever, std::memory_order_relaxed);
    sys::signal_event(kick_.get());
}

// In turn, so that many connections cost no more than some.
void Engine::Impl::note_tcp_of_some() {
    const std::lock_guard hold(table_);
    const std::size_t buckets = qps_.bucket_count();
    std::size_t asked = 0;
    for (std::size_t i = 0; i < buckets && asked < kSocketsPerReport; ++i) {
        next_bucket_ = (next_bucket_ + 1) % buckets;
        for (auto at = qps_.begin(next_bucket_); at != qps_.end(next_bucket_); ++at, ++asked)
            note_tcp(*at->second);
    }
}

std::uint64_t Engine::Impl::note_tcp(DrivenQp& qp) {
    const int fd = qp.fd;
    const std::uint64_t earlier = qp.earlier_retransmits;
    TcpStatistics tcp{};
    // Unchanged afterwards: it was not closed meanwhile, and the answer is of this stream.
    if (fd < 0 || !read_tcp_statistics(fd, tcp) || qp.fd != fd) return earlier;
    Counters& to = qp.counters();
    to.set(Count::kRetransmits, earlier + tcp.retransmits);
    to.set(Count::kRttUs, tcp.rtt_us);
    to.set(Count::kRttVarUs, tcp.rtt_var_us);
    to.set(Count::kState, static_cast<std::uint64_t>(qp.state()));
    return earlier + tcp.retransmits;
}

// How many polls have ended before how many began: read the other way, a poll that has just ended would be under way.
ThreadGate::Callers Engine::Impl::callers() const {
    const std::uint64_t polls_done = polls_done_.load(std::memory_order_relaxed);
    const std::uint64_t arms = arm_epoch_.load();
    return {polls_done, empty_polls_.load(std::memory_order_relaxed), arms,
            deferred_at_.load(std::memory_order_relaxed)};
}

// Waits for something to do; true if the control descriptor is readable.
bool Engine::Impl::wait(Events& events, int& count) {
    polled_meanwhile_ = false;
    const Cycles began = counter_.now();
    const ThreadGate::State state = gate_.look(times_, callers(), began);
    if (state == ThreadGate::State::kYield) return yield_to_poller();
    if (state == ThreadGate::State::kSleep || !busy_poll(began, events, count)) sleep(events, count);
    gate_.on_waited(times_, began, counter_.now());
    bool control = false;
    for (int i = 0; i < count; ++i) {
        const std::uint64_t about = events[static_cast<std::size_t>(i)].data.u64;
        control = control || about == kControlEvent;
        if (about == kKickEvent) sys::drain_event(kick_.get());
    }
    return control;
}

// Leaves everything but control to a poller for a while; true if the control descriptor is readable.
bool Engine::Impl::yield_to_poller() {
    yields_ = true;
    std::int64_t left = std::max<std::int64_t>(next_deadline() - ticks(Clock::now()), 0);
    // seq_cst against arm-then-kick: either a req_notify since the look is seen here, or it sees that we yield
    if (arm_epoch_.load() != gate_.arms_seen()) left = 0;
    std::array<pollfd, 2> fds{{{kick_.get(), POLLIN, 0}, {control_fd_, POLLIN, 0}}};
    timespec timeout = to_timespec(std::min<std::int64_t>(left, gate_.yields_for().count()));
    syscall(SYS_ppoll, fds.data(), control_fd_ >= 0 ? 2 : 1, &timeout, nullptr, 8);
    yields_ = false;
    const bool kicked = fds[0].revents != 0;
    if (kicked) sys::drain_event(kick_.get());
    polled_meanwhile_ = gate_.is_driven_by(times_, callers(), counter_.now(), kicked);
    return (fds[1].revents & POLLIN) != 0;
}

// Looks for events without sleeping, while nobody else wants the processor; true if there is something to do.
bool Engine::Impl::busy_poll(Cycles began, Events& events, int& count) {
    for (Cycles now = began; gate_.keeps_looking(times_, began, now);) {
        if (!ready_.empty() || stop_) return true;
        count = static_cast<int>(syscall(SYS_epoll_pwait, epoll_.get(), events.data(), events.size(), 0, nullptr, 8));
        if (count > 0) return true;
        const Cycles yielded_at = counter_.now();
        sched_yield();
        now = counter_.now();
        gate_.on_run_again(times_, yielded_at, now);
    }
    count = 0;
    return false;
}

void Engine::Impl::sleep(Events& events, int& count) {
    asleep_ = true;
    // seq_cst against push-then-kick: either the push, or timer, is seen here, or the kick sees that we sleep
    int timeout_ms = -1;
    const std::int64_t deadline = next_deadline();
    if (!ready_.empty() || stop_) {
        timeout_ms = 0;
    } else if (deadline != INT64_MAX) {
        const std::int64_t left = std::max<std::int64_t>(deadline - ticks(Clock::now()), 0);
        timeout_ms = static_cast<int>(std::min<std::int64_t>(left / 1'000'000 + 1, INT_MAX));
    }
    count =
        static_cast<int>(syscall(SYS_epoll_pwait, epoll_.get(), events.data(), events.size(), timeout_ms, nullptr, 8));
    if (count < 0 && errno != EINTR) lost_ = true;  // before anybody kicks in vain, or somebody else
    asleep_ = false;
}

// Turns events into entries of the ready queue; true if another QP than `known` has news.
bool Engine::Impl::take_events(const Events& events, int count, const DrivenQp* known, Pass& pass) {
    bool others = false;
    for (int i = 0; i < count; ++i) {
        const epoll_event& event = events[static_cast<std::size_t>(i)];
        const std::uint64_t about = event.data.u64;
        // The thread's. A poll that drained a kick would let it sleep on, and nobody kick it again.
        if (about == kControlEvent || about == kKickEvent) continue;
        if ((about & kLingerEvent) != 0) {
            drain_lingering(about & ~kLingerEvent, pass);
            continue;
        }
        if ((about & kDatagramEvent) != 0) {
            others = receive_datagrams(static_cast<std::uint32_t>(about), pass) || others;
            continue;
        }
        DrivenQp* qp = find(static_cast<std::uint32_t>(about));
        if (qp == nullptr) continue;
        if ((event.events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR)) != 0) qp->hung_up = true;
        if ((event.events & EPOLLOUT) != 0) {
            qp->tx_due = true;  // a sender that has not put up its flag yet sees this instead
            if (qp->tx_blocked.exchange(false)) ready_.push(*qp, kToSend);
        }
        // Edges tell of all that is there: one without EPOLLIN of a socket that is empty.
        if ((event.events & ~std::uint32_t{EPOLLOUT}) != 0) {
            qp->rx_due = true;
            ready_.push(*qp, kToReceive);
        }
        others = others || qp != known;
    }
    return others;
}

void Engine::Impl::run_ready(Pass& pass, Tx::Tail tail) {
    if (ready_.empty()) return;
    const Cycles begin = counter_.now();
    // No more than stand in it now: a QP with work left comes back behind the others.
    for (std::size_t left = ready_.size(); left != 0; --left) {
        const auto [qp, reasons] = ready_.pop();
        if (qp == nullptr) return;
        // What has come is what somebody waits for.
        const bool wakes = qp->rx_due && drive_rx(*qp, pass);
        if ((reasons & kToSend) == 0 && !wakes && !qp->has_fault()) continue;
        const bool flushes = qp->sends.take_gathered(qp->posted_octets());
        // Of a long burst alone, and not what was held before.
        const bool corks = flushes && qp->sends.state() == SendGate::State::kLong;
        if (may_transmit(*qp)) drive_tx(*qp, pass, corks ? tail : Tx::Tail::kSend);
        if (flushes) qp->sends.on_flushed(counter_.now());
        if (left > 1 && counter_.now() - begin > times_.long_turn) break;
    }
    if (!ready_.empty()) kick();
}

std::int64_t Engine::Impl::next_deadline() {
    std::int64_t next = INT64_MAX;
    {
        const std::lock_guard hold(timer_lock_);
        if (!timers_.empty()) next = timers_.begin()->first;
    }
    const std::lock_guard hold(linger_lock_);
    for (const auto& [id, lingering] : lingering_)
        next = std::min(next, lingering.until);
    // A period late: who moves something will have been woken by other things.
    if (report_due_) next = std::min(next, report_at_ + Clock::duration(kReportEvery).count());
    return next;
}

void Engine::Impl::run_timers(Pass& pass) {
    const Time now = Clock::now();
    for (;;) {
        std::uint32_t qpn = 0;
        {
            const std::lock_guard hold(timer_lock_);
            if (timers_.empty() || timers_.begin()->first > ticks(now)) break;
            qpn = timers_.begin()->second;
            timers_.erase(timers_.begin());
        }
        DrivenQp* qp = find(qpn);
        if (qp == nullptr) continue;
        {
            const std::lock_guard hold(timer_lock_);
            qp->timer_at = 0;
        }
        check_deadlines(*qp, pass, now);
    }
    const std::lock_guard hold(linger_lock_);
    std::erase_if(lingering_, [&](const auto& entry) {
        if (entry.second.until > ticks(now)) return false;
        leave_epoll(entry.second.transport->fd());
        return true;
    });
}

}  // namespace swrnic::engine
