// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// A queue pair of datagrams (IBV_QPT_UD) over UDP: no stream, no peer, and nothing that ends it but its program.
//
// A request is sent by whoever posts it, in its call, and complete when the kernel has the datagram: it stays in no
// queue. What has come is read by the background thread and by polls into staging, checked there, and copied into the
// oldest receive, so that what a stranger sends touches no memory of the program's. What finds no receive is lost, as
// on a network; so the sockets are always read empty.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <vector>

#include "engine/core/counters.h"
#include "engine/core/datagram.h"
#include "engine/core/lock.h"
#include "engine/core/memory.h"
#include "engine/core/pass.h"
#include "engine/core/receive_queue.h"
#include "engine/sys.h"

namespace swrnic::engine {

class DatagramQp {
  public:
    // memory outlives the QP. Throws std::bad_alloc.
    DatagramQp(const QpInit& init, MemoryTable& memory);
    DatagramQp(const DatagramQp&) = delete;
    DatagramQp& operator=(const DatagramQp&) = delete;

    const QpInit& init() const { return init_; }
    QpState state() const { return state_.load(std::memory_order_acquire); }
    // False: no such transition.
    bool modify(QpState to, Pass& pass);
    void set_q_key(std::uint32_t q_key) { q_key_.store(q_key, std::memory_order_relaxed); }
    std::uint32_t q_key() const { return q_key_.load(std::memory_order_relaxed); }

    // ---- sockets: that of the port which the number names, and one for each group. Descriptors change hands.
    void take_socket(sys::Fd socket);
    void join(const wire::IpAddress& group, sys::Fd socket);
    sys::Fd leave(const wire::IpAddress& group);  // none: it is no member
    std::vector<int> sockets() const;             // while no socket comes or goes
    // The descriptors are others' by now.
    void lose(Pass& pass);
    // The device has gone, or completions are lost.
    void fail(Pass& pass);

    // ---- any thread
    PostResult post_send(const DatagramWr& wr, Pass& pass);
    PostResult post_recv(const RecvWr& wr, Pass& pass);
    // Takes what has come, if nobody else is at it. True: there was something.
    bool receive(Pass& pass);

  private:
    struct Arrived;

    WcStatus transmit(const DatagramWr& wr, std::uint32_t length);
    bool receive_from(const RxGuard& guard, int socket, bool is_group, Pass& pass);
    void take(const RxGuard& guard, const Arrived& arrived, bool is_group, Pass& pass);
    WcStatus place(std::span<const std::byte> octets);
    bool has_failed() const { return state() == QpState::kErr; }
    void enter_error(const RxGuard& guard, Pass& pass, bool tells);

    const QpInit init_;
    const std::unique_ptr<Counters> own_counters_;
    Counters& counters_;
    MemoryTable& memory_;
    std::atomic<QpState> state_{QpState::kReset};
    std::atomic<std::uint32_t> q_key_{0};

    // Written under both locks, read under either.
    sys::Fd socket_;
    bool v6_ = false;  // the socket's family; one of IPv6 carries IPv4 as well
    std::map<wire::IpAddress, sys::Fd> groups_;

    TxLock tx_lock_;
    RxLock rx_lock_;
    ReceiveQueue rq_;
};

}  // namespace swrnic::engine
