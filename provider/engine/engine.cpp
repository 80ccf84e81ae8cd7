// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// The engine's objects: QPs by number, their connections, creation and destruction.
#include "engine/engine.h"

#include <cerrno>
#include <new>
#include <vector>

#include "engine/engine_impl.h"
#include "engine/fault_recovery.h"

namespace swrnic::engine {

std::uint32_t SystemRandom::next32() {
    const std::lock_guard hold(mutex_);
    while (left_ == 0) {
        // up to 256 octets come at once and whole (getrandom(2))
        if (syscall(SYS_getrandom, pool_.data(), sizeof pool_, 0) == static_cast<long>(sizeof pool_))
            left_ = pool_.size();
    }
    return std::exchange(pool_[--left_], 0);
}

Engine::Impl::Impl(const EngineOptions& engine_options, Host& engine_host, int control_fd, const CycleCounter& counter)
    : options(engine_options),
      host(engine_host),
      counters(engine_options.counters != nullptr ? *engine_options.counters : own_counters),
      counter_(counter),
      control_fd_(control_fd),
      epoll_(static_cast<int>(syscall(SYS_epoll_create1, EPOLL_CLOEXEC))),
      kick_(static_cast<int>(syscall(SYS_eventfd2, 0, EFD_CLOEXEC | EFD_NONBLOCK))) {
    epoll_event event{};
    event.events = EPOLLIN;
    event.data.u64 = kKickEvent;
    syscall(SYS_epoll_ctl, epoll_.get(), EPOLL_CTL_ADD, kick_.get(), &event);
    if (control_fd_ < 0) return;
    event.data.u64 = kControlEvent;
    syscall(SYS_epoll_ctl, epoll_.get(), EPOLL_CTL_ADD, control_fd_, &event);
}

Engine::Impl::~Impl() {
    stop_thread();
    if (lost_) {
        epoll_.lose();
        kick_.lose();
    }
    for (auto& [qpn, qp] : qps_) {
        if (!qp->connected()) continue;
        Pass pass = passes.begin();
        RxGuard rx(qp->rx_lock());
        TxGuard tx(qp->tx_lock());
        qp->end(rx, tx, pass, CloseReason::kLost);
        pass.outbox() = Outbox{};
    }
}

DrivenQp* Engine::Impl::find(std::uint32_t qpn) {
    const std::lock_guard hold(table_);
    const auto found = qps_.find(qpn);
    return found != qps_.end() ? found->second.get() : nullptr;
}

DrivenQp* Engine::Impl::add_qp(const QpInit& init) {
    std::pmr::polymorphic_allocator<> allocator(&pool_);
    DrivenQpPtr made(allocator.new_object<DrivenQp>(init, memory, random), PutBack{&pool_});
    DrivenQp* qp = made.get();
    {
        const std::lock_guard hold(table_);
        if (!qps_.emplace(init.qpn, std::move(made)).second) return nullptr;
    }
    start_thread();
    return qp;
}

void Engine::Impl::destroy_qp(DrivenQp& qp) {
    {
        Pass pass = passes.begin();
        {
            const RxGuard rx(qp.rx_lock());
            if (!qp.connected()) qp.apply(QpEvent::kAbort);  // takes no stream that comes now
        }
        if (qp.connected()) {
            start_disconnect(qp, pass);
            if (qp.is_wired()) drive(qp, pass);  // the peer may have asked what it waits to hear
            finish(qp, pass, CloseReason::kGraceful, Ending::kDrain);
        }
        deliver(pass);
    }
    if (qp.binds()) memory.unbind_all(qp.init().qpn);
    DrivenQpPtr last;
    {
        const std::lock_guard hold(table_);
        const auto found = qps_.find(qp.init().qpn);
        last = std::move(found->second);
        qps_.erase(found);
    }
    // It has no stream, so it waits for no receive again.
    if (qp.init().srq != nullptr) qp.init().srq->forget(qp);
    ready_.retire(qp);
    cool(qp);  // whoever ended its stream may not have come to it yet
    // Nobody finds it any more, in whatever place; those who found it before are in a pass.
    passes.synchronize();
    disarm_timer(qp);
    qp.init().send_cq->purge(qp.init().qpn);
    qp.init().recv_cq->purge(qp.init().qpn);
}

void Engine::Impl::connect(std::uint32_t qpn, const Connection& connection) {
    auto socket = std::make_unique<TcpTransport>(connection, options.user_timeout);
    if (options.trace != nullptr) socket->trace_with(std::make_unique<StreamTrace>(*options.trace, connection));
    std::unique_ptr<Transport> transport = std::move(socket);
    Pass pass = passes.begin();
    DrivenQp* qp = find(qpn);
    if (qp == nullptr) return;
    qp->fin_sent = qp->sending_broke = false;
    qp->hung_up = qp->tx_blocked = false;
    qp->peer_must_come_by = 0;
    qp->rnr_retry = static_cast<std::int8_t>(connection.rnr_retry ? *connection.rnr_retry : -1);
    bool taken;
    {
        RxGuard rx(qp->rx_lock());
        TxGuard tx(qp->tx_lock());
        taken = qp->start(rx, tx, connection, transport);
        if (taken) watch(*qp, connection.fd);  // the stream cannot end before
        // The program may connect again as soon as it hears of this connection, and its peer is to have the RTR before
        // that Request. What answers the RTR is of an established connection, so it is not received before.
        if (taken && connection.initiator && connection.p2p) qp->transmit(tx, pass);
        tx.unlock();
        // A Responder with RTR is ready when the first FPDU is in (MPA-53).
        const bool fenced = !connection.initiator && connection.p2p;
        if (taken && !fenced && connection.terminate == 0) host.qp_ready(qpn);
    }
    if (!taken) {
        host.qp_closed(qpn, CloseReason::kError);
        return;
    }
    std::atomic_thread_fence(std::memory_order_seq_cst);  // see doorbell_without_stream()
    // What the peer has sent by now, epoll tells of; but whoever heard of it found the locks taken, and left it to us.
    if (qp->rx_due) drive_rx(*qp, pass);
    if (may_transmit(*qp)) drive_tx(*qp, pass, Tx::Tail::kSend);
    deliver(pass);
}

void Engine::Impl::disconnect(std::uint32_t qpn) {
    Pass pass = passes.begin();
    if (DrivenQp* qp = find(qpn); qp != nullptr) start_disconnect(*qp, pass);
    deliver(pass);
}

// The device has gone.
void Engine::Impl::abort_all() {
    std::vector<std::uint32_t> numbers;
    {
        const std::lock_guard hold(table_);
        for (const auto& [qpn, qp] : qps_)
            numbers.push_back(qpn);
    }
    for (const std::uint32_t qpn : numbers)
        abort(qpn);
    Pass pass = passes.begin();
    for (DatagramQp* qp : datagram_qps())
        qp->fail(pass);
    deliver(pass);
}

// All numbers may be others' by now, so nothing is closed. Whoever polls for completions gets them.
void Engine::Impl::lose_descriptors() {
    host.descriptors_lost();
    Pass pass = passes.begin();
    std::vector<DrivenQp*> qps;
    {
        const std::lock_guard hold(table_);
        for (const auto& [qpn, qp] : qps_)
            qps.push_back(qp.get());
    }
    for (DrivenQp* qp : qps) {
        RxGuard rx(qp->rx_lock());
        TxGuard tx(qp->tx_lock());
        const std::unique_ptr<Transport> transport = qp->end(rx, tx, pass, CloseReason::kLost);
        if (!transport) continue;
        static_cast<TcpTransport&>(*transport).lose();
        qp->fd = -1;
        connected_.fetch_sub(1);
        cool(*qp);
    }
    for (DatagramQp* qp : datagram_qps())
        qp->lose(pass);
    {
        const std::lock_guard hold(linger_lock_);
        for (auto& [id, lingering] : lingering_)
            lingering.transport->lose();
        lingering_.clear();
    }
    deliver(pass);
}

void Engine::Impl::abort(std::uint32_t qpn) {
    Pass pass = passes.begin();
    DrivenQp* qp = find(qpn);
    const bool has_no_end = qp != nullptr && qp->is_wired() && !qp->connected() && qp->state() != QpState::kErr;
    // rdma_disconnect() on an adapter of InfiniBand begins with ERROR, by which nothing is lost that was confirmed.
    const bool in_order = qp != nullptr && qp->init().infiniband && qp->connected() && !qp->has_fault();
    if (in_order) drive(*qp, pass);
    if (qp != nullptr && qp->apply(QpEvent::kAbort)) {
        if (has_no_end) qp->tell_last_wqe(pass);  // else the end of its stream does
        finish(*qp, pass, CloseReason::kError, in_order ? Ending::kDrain : Ending::kReset);
        flush(*qp, pass);
    }
    deliver(pass);
}

// When it returns nobody is left who would yet tell the host of a stream of this QP.
void Engine::Impl::abandon(DrivenQp& qp) {
    qp.apply(QpEvent::kAbort);
    {
        Pass pass = passes.begin();
        std::unique_ptr<Transport> transport;
        {
            RxGuard rx(qp.rx_lock());
            TxGuard tx(qp.tx_lock());
            transport = qp.abandon(rx, tx, pass);
        }
        // What was completed may not have left yet: FIN goes behind it.
        if (transport != nullptr && !qp.fin_sent.exchange(true)) transport->finish_sending();
        if (transport != nullptr) put_away(qp, std::move(transport), Ending::kDrain);
        deliver(pass);
    }
    passes.synchronize();
}

void Engine::Impl::set_rnr_retry(DrivenQp& qp, std::uint8_t retries) {
    Pass pass = passes.begin();
    {
        const TxGuard tx(qp.tx_lock());
        qp.tx().set_rnr_retry(tx, retries);
    }
    drive_tx(qp, pass, Tx::Tail::kSend);
    deliver(pass);
}

// SQD of a wired QP.
bool Engine::Impl::drain(DrivenQp& qp) {
    Pass pass = passes.begin();
    bool drains;
    {
        RxGuard rx(qp.rx_lock());
        TxGuard tx(qp.tx_lock());
        drains = qp.drain(rx, tx, pass);
    }
    drive(qp, pass);  // whoever found the locks taken has left it to us
    deliver(pass);
    return drains;
}

// RTS of a wired QP. When it returns nobody is left who would yet tell the host that it has drained.
bool Engine::Impl::send_again(DrivenQp& qp) {
    const bool held = qp.state() == QpState::kSqd;
    if (!qp.send_again()) return false;
    if (!held) return true;
    passes.synchronize();
    doorbell(qp);
    return true;
}

bool Engine::Impl::modify_state(DrivenQp& qp, QpState to) {
    switch (to) {
        case QpState::kReset: {
            if (qp.is_wired()) abandon(qp);
            if (qp.connected() || !qp.apply(QpEvent::kToReset)) return false;
            if (qp.binds()) memory.unbind_all(qp.init().qpn);  // no window outlives its stream into the next
            RxGuard rx(qp.rx_lock());
            TxGuard tx(qp.tx_lock());
            qp.reset(rx, tx);
            qp.peer_must_come_by = 0;
            qp.init().send_cq->purge(qp.init().qpn);
            qp.init().recv_cq->purge(qp.init().qpn);
            return true;
        }
        case QpState::kInit:
            return qp.apply(QpEvent::kToInit);
        case QpState::kRtr:
            return qp.apply(QpEvent::kToRtr);
        case QpState::kRts:
            return qp.is_wired() ? send_again(qp) : qp.apply(QpEvent::kToRts);
        case QpState::kSqd: {
            if (qp.is_wired()) return drain(qp);
            if (qp.state() != QpState::kRts) return qp.apply(QpEvent::kDisconnect);
            disconnect(qp.init().qpn);
            return true;
        }
        case QpState::kSqe: {
            const bool idle = qp.state() == QpState::kRtr && !qp.is_wired();
            if (idle || qp_transition(qp.state(), QpEvent::kFault).kind == QpTransition::kRefused) return false;
            qp.raise(Fault::answered(wire::fault::kLocalFailure, AsyncEvent::kQpFatal));
            Pass pass = passes.begin();
            drive_tx(qp, pass, Tx::Tail::kSend);
            deliver(pass);
            return true;
        }
        case QpState::kErr:
            abort(qp.init().qpn);
            passes.synchronize();  // somebody else may have ended the stream, and be about to tell the host
            return true;
    }
    return false;
}

void Engine::Impl::before_fork() {
    table_.lock();
    linger_lock_.lock();
}

void Engine::Impl::after_fork_in_parent() {
    linger_lock_.unlock();
    table_.unlock();
}

void Engine::Impl::abandon_after_fork() {
    // Other locks may be held by threads that do not exist here; descriptors are all that is let go of.
    for (auto& [qpn, qp] : qps_) {
        if (qp->fd >= 0) syscall(SYS_close, qp->fd.load());
    }
    for (auto& [qpn, qp] : datagram_qps_) {
        for (const int socket : qp->sockets())
            syscall(SYS_close, socket);
    }
    for (auto& [id, lingering] : lingering_)
        syscall(SYS_close, lingering.transport->fd());
    epoll_.reset();
    kick_.reset();
}

// ---- the public face ----

Engine::Engine(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Engine::~Engine() = default;

std::unique_ptr<Engine> Engine::create(const EngineOptions& options, Host& host, int control_fd) {
    try {
        auto impl = std::make_unique<Impl>(options, host, control_fd);
        if (!impl->usable()) return nullptr;
        if (options.memory == nullptr) recover_from_faults();
        return std::make_unique<Engine>(std::move(impl));
    } catch (const std::bad_alloc&) {
        return nullptr;
    }
}

std::array<int, 2> Engine::descriptors() const {
    return impl_->descriptors();
}

void Engine::start() {
    impl_->start_thread();
}

void Engine::stop() {
    impl_->stop_thread();
}

std::uint32_t Engine::register_region(std::uint32_t pd, std::uint64_t addr, std::uint64_t length, std::uint64_t to,
                                      std::uint32_t access_flags) {
    try {
        auto* data = reinterpret_cast<std::byte*>(static_cast<std::uintptr_t>(addr));
        recover_from_faults();  // once more: programs set their handlers when they like
        return impl_->memory.add(pd, data, length, to, access_flags);
    } catch (const std::bad_alloc&) {
        return 0;
    }
}

bool Engine::deregister_region(std::uint32_t stag) {
    return impl_->memory.remove(stag);
}

int Engine::change_access(std::uint32_t stag, std::uint32_t access_flags) {
    try {
        return impl_->memory.change_access(stag, access_flags) ? 0 : EBUSY;
    } catch (const std::bad_alloc&) {
        return ENOMEM;
    }
}

std::uint32_t Engine::create_window(std::uint32_t pd, WindowType type) {
    try {
        return impl_->memory.add_window(pd, type);
    } catch (const std::bad_alloc&) {
        return 0;
    }
}

void Engine::destroy_window(std::uint32_t stag) {
    impl_->memory.remove_window(stag);
}

Cq* Engine::create_cq(std::uint32_t min_entries, std::uint32_t handle, CompletionClock clock) {
    try {
        return new Cq(min_entries, handle, clock);
    } catch (const std::bad_alloc&) {
        return nullptr;
    }
}

std::uint32_t Engine::cq_entries(const Cq& cq) const {
    return cq.entries();
}

bool Engine::resize_cq(Cq& cq, std::uint32_t min_entries) {
    try {
        return cq.resize(min_entries);
    } catch (const std::bad_alloc&) {
        return false;
    }
}

void Engine::destroy_cq(Cq* cq) {
    impl_->passes.synchronize();
    delete cq;
}

void Engine::drive_from_poll() {
    impl_->drive_from_poll();
}

void Engine::req_notify(Cq& cq, bool solicited_only) {
    cq.arm(solicited_only);
    impl_->notify_requested();
}

int Engine::take_completions(Cq& cq, std::span<WorkCompletion> out) {
    cq.arm(false);
    int count = 0;
    return cq.poll(static_cast<int>(out.size()),
                   [&](const WorkCompletion& done) { out[static_cast<std::size_t>(count++)] = done; });
}

Srq* Engine::create_srq(std::uint32_t pd, std::uint32_t max_wr, std::uint32_t max_sge, std::uint32_t handle) {
    try {
        return new Srq(pd, max_wr, max_sge, handle);
    } catch (const std::bad_alloc&) {
        return nullptr;
    }
}

PostResult Engine::post_srq_recv(Srq& srq, const RecvWr& wr) {
    const PostResult result = srq.post(wr);
    if (result == PostResult::kOk && srq.has_waiters()) impl_->wake_waiters(srq);
    return result;
}

bool Engine::arm_srq_limit(Srq& srq, std::uint32_t limit) {
    if (!srq.arm_limit(limit)) return false;
    Pass pass = impl_->passes.begin();
    srq.tell(pass.outbox());
    impl_->deliver(pass);
    return true;
}

bool Engine::resize_srq(Srq& srq, std::uint32_t max_wr) {
    try {
        return srq.resize(max_wr);
    } catch (const std::bad_alloc&) {
        return false;
    }
}

SrqAttributes Engine::query_srq(const Srq& srq) {
    return srq.attributes();
}

void Engine::destroy_srq(Srq* srq) {
    impl_->passes.synchronize();
    delete srq;
}

// A program that makes a QP has turned from those that it has: perftest connects it at the next moment, to a server
// that listens once its last message is confirmed, by a Response that a poll has left to the next post.
Qp* Engine::create_qp(const QpInit& init) {
    impl_->run_what_polls_left();
    try {
        return impl_->add_qp(init);
    } catch (const std::bad_alloc&) {
        return nullptr;
    }
}

void Engine::destroy_qp(Qp* qp) {
    impl_->destroy_qp(static_cast<DrivenQp&>(*qp));
}

bool Engine::modify_state(Qp& qp, QpState to) {
    return impl_->modify_state(static_cast<DrivenQp&>(qp), to);
}

void Engine::set_access(Qp& qp, std::uint32_t access_flags) {
    qp.set_access(access_flags);
}

void Engine::wire(Qp& qp, bool confirms) {
    qp.wire(confirms);
}

void Engine::set_retries(Qp& qp, std::chrono::nanoseconds patience, bool reads) {
    qp.allow_reads(reads);
    static_cast<DrivenQp&>(qp).patience = patience.count();
}

void Engine::set_rnr_retry(Qp& qp, std::uint8_t retries) {
    impl_->set_rnr_retry(static_cast<DrivenQp&>(qp), retries);
}

void Engine::set_rnr_timer(Qp& qp, std::chrono::nanoseconds timer) {
    static_cast<DrivenQp&>(qp).rnr_timer = Clock::duration(timer).count();
}

void Engine::set_drain_notice(Qp& qp, bool wanted) {
    qp.set_drain_notice(wanted);
}

QpAttributes Engine::query(Qp& qp) {
    QpAttributes attributes;
    {
        const RxGuard guard(qp.rx_lock());  // a connection that comes up sets the parameters
        const StreamParameters& parameters = qp.parameters();
        attributes = {qp.state(), qp.access(), qp.is_wired(), qp.negotiated(), parameters.ird, parameters.ord};
        attributes.draining = attributes.state == QpState::kSqd && (!attributes.wired || qp.send_queue_busy());
    }
    // A driver that found the lock taken has left it to us.
    if (auto& driven = static_cast<DrivenQp&>(qp); driven.rx_due) impl_->schedule(driven, kToReceive);
    return attributes;
}

PostResult Engine::post_send(Qp& qp, const SendWr& wr) {
    return qp.post_send(wr);
}

PostResult Engine::post_sends(Qp& qp, std::span<const SendWr> wrs) {
    return qp.post_sends(wrs);
}

void Engine::ring_doorbell(Qp& qp) {
    impl_->doorbell(static_cast<DrivenQp&>(qp));
}

PostResult Engine::post_recv(Qp& qp, const RecvWr& wr) {
    const PostResult result = qp.post_recv(wr);
    if (result == PostResult::kOk) impl_->receive_posted(static_cast<DrivenQp&>(qp));
    return result;
}

void Engine::look_for_receive(Qp& qp) {
    impl_->receive_posted(static_cast<DrivenQp&>(qp));
}

void Engine::connect(std::uint32_t qpn, const Connection& connection) {
    impl_->connect(qpn, connection);
}

void Engine::disconnect(std::uint32_t qpn) {
    impl_->disconnect(qpn);
}

void Engine::abort(std::uint32_t qpn) {
    impl_->abort(qpn);
}

void Engine::before_fork() {
    impl_->before_fork();
}

void Engine::after_fork_in_parent() {
    impl_->after_fork_in_parent();
}

void Engine::abandon_after_fork() {
    impl_->abandon_after_fork();
}

}  // namespace swrnic::engine
