// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// The engine's queue pairs of datagrams: their table, their sockets in epoll's set, and what stands of them in Engine.
// epoll tells of their sockets for as long as there is something in them (level-triggered): whoever finds another
// thread at it may leave it.
#include <new>

#include "engine/engine.h"
#include "engine/engine_impl.h"

namespace swrnic::engine {

DatagramQp* Engine::Impl::find_datagram_qp(std::uint32_t qpn) {
    const std::lock_guard hold(table_);
    const auto found = datagram_qps_.find(qpn);
    return found != datagram_qps_.end() ? found->second.get() : nullptr;
}

std::vector<DatagramQp*> Engine::Impl::datagram_qps() {
    std::vector<DatagramQp*> all;
    const std::lock_guard hold(table_);
    for (const auto& [qpn, qp] : datagram_qps_)
        all.push_back(qp.get());
    return all;
}

DatagramQp* Engine::Impl::add_datagram_qp(const QpInit& init) {
    auto made = std::make_unique<DatagramQp>(init, memory);
    DatagramQp* qp = made.get();
    {
        const std::lock_guard hold(table_);
        if (!datagram_qps_.emplace(init.qpn, std::move(made)).second) return nullptr;
    }
    connected_.fetch_add(1);
    start_thread();
    return qp;
}

void Engine::Impl::destroy_qp(DatagramQp& qp) {
    for (const int socket : qp.sockets())
        leave_epoll(socket);
    std::unique_ptr<DatagramQp> last;
    {
        const std::lock_guard hold(table_);
        const auto found = datagram_qps_.find(qp.init().qpn);
        last = std::move(found->second);
        datagram_qps_.erase(found);
    }
    connected_.fetch_sub(1);
    passes.synchronize();
    qp.init().send_cq->purge(qp.init().qpn);
    qp.init().recv_cq->purge(qp.init().qpn);
}

void Engine::Impl::take_socket(std::uint32_t qpn, sys::Fd socket, const wire::IpAddress* group) {
    const Pass pass = passes.begin();
    DatagramQp* qp = find_datagram_qp(qpn);
    if (qp == nullptr) return;
    const int fd = socket.get();
    if (group != nullptr) {
        qp->join(*group, std::move(socket));
    } else {
        qp->take_socket(std::move(socket));
    }
    epoll_event event{};
    event.events = EPOLLIN;
    event.data.u64 = kDatagramEvent | qpn;
    syscall(SYS_epoll_ctl, epoll_.get(), EPOLL_CTL_ADD, fd, &event);
}

bool Engine::Impl::leave_group(DatagramQp& qp, const wire::IpAddress& group) {
    const sys::Fd socket = qp.leave(group);
    if (socket.get() < 0) return false;
    leave_epoll(socket.get());
    return true;
}

bool Engine::Impl::modify_state(DatagramQp& qp, QpState to) {
    Pass pass = passes.begin();
    const bool moved = qp.modify(to, pass);
    deliver(pass);
    return moved;
}

PostResult Engine::Impl::post_send(DatagramQp& qp, const DatagramWr& wr) {
    PostResult result;
    {
        Pass pass = passes.begin();
        result = qp.post_send(wr, pass);
        deliver(pass);
    }
    want_report(counter_.now());
    return result;
}

PostResult Engine::Impl::post_recv(DatagramQp& qp, const RecvWr& wr) {
    Pass pass = passes.begin();
    const PostResult result = qp.post_recv(wr, pass);
    deliver(pass);
    return result;
}

bool Engine::Impl::receive_datagrams(std::uint32_t qpn, Pass& pass) {
    DatagramQp* qp = find_datagram_qp(qpn);
    return qp != nullptr && qp->receive(pass);
}

// ---- the public face ----

DatagramQp* Engine::create_datagram_qp(const QpInit& init) {
    try {
        return impl_->add_datagram_qp(init);
    } catch (const std::bad_alloc&) {
        return nullptr;
    }
}

void Engine::destroy_qp(DatagramQp* qp) {
    impl_->destroy_qp(*qp);
}

void Engine::take_datagrams(std::uint32_t qpn, int socket, const wire::IpAddress* group) {
    sys::Fd owned(socket);
    try {
        impl_->take_socket(qpn, std::move(owned), group);
    } catch (const std::bad_alloc&) {  // closed: the program waits for a group in vain
    }
}

bool Engine::leave_group(DatagramQp& qp, const wire::IpAddress& group) {
    return impl_->leave_group(qp, group);
}

bool Engine::modify_state(DatagramQp& qp, QpState to) {
    return impl_->modify_state(qp, to);
}

void Engine::set_q_key(DatagramQp& qp, std::uint32_t q_key) {
    qp.set_q_key(q_key);
}

QpState Engine::state_of(const DatagramQp& qp) const {
    return qp.state();
}

PostResult Engine::post_send(DatagramQp& qp, const DatagramWr& wr) {
    return impl_->post_send(qp, wr);
}

PostResult Engine::post_recv(DatagramQp& qp, const RecvWr& wr) {
    return impl_->post_recv(qp, wr);
}

}  // namespace swrnic::engine
