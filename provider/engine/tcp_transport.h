// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// MPA's stream on a kernel TCP socket.
#pragma once

#include <atomic>
#include <chrono>
#include <memory>
#include <utility>

#include "engine/core/transport.h"
#include "engine/core/types.h"
#include "engine/sys.h"
#include "engine/trace.h"

namespace swrnic::engine {

struct Connection;

struct TcpStatistics {
    std::uint64_t retransmits;  // segments, since the socket was made
    std::uint64_t rtt_us, rtt_var_us;
};
// False: not a TCP socket (any more).
bool read_tcp_statistics(int fd, TcpStatistics& out);

class TcpTransport final : public Transport {
  public:
    // Owns the connection's socket. Where a network lies between the ends, a peer that vanished is noticed within about
    // `timeout`: TCP_USER_TIMEOUT and keepalive. Within one host it can only be silent, and is given `timeout` once the
    // socket is full.
    TcpTransport(const Connection& connection, std::chrono::milliseconds timeout);
    ~TcpTransport() override;

    IoResult receive(const IoSlice* slices, std::size_t count) override;
    IoResult send(const IoSlice* slices, std::size_t count) override;
    void finish_sending() override;
    std::uint32_t emss() const override;
    bool may_be_bypassed() const override { return trace_ == nullptr; }
    bool take_drained() override { return std::exchange(drained_, false); }
    void bypassed(std::size_t count, std::size_t wanted) override { note_received(count, wanted); }

    // Before the first receive() of a turn at driving: see drained_.
    void begin_turn() {
        drained_ = false;
        turn_octets_ = 0;
    }
    std::size_t turn_octets() const { return turn_octets_; }  // received in this turn
    // The socket is full. True: for the first time; it may take more meanwhile. Within one host it has just been fitted
    // for a stream that sends much: the congestion control that does least, a small send buffer, and from now on the
    // peer's silence is limited. Under the TX lock.
    bool note_blocked();

    int fd() const { return fd_.get(); }
    void lose() { fd_.lose(); }  // the socket was closed by others
    // Before anything is sent or received.
    void trace_with(std::unique_ptr<StreamTrace> trace) { trace_ = std::move(trace); }
    // The next close sends RST: nothing of what is under way matters any more.
    void make_abortive();

  private:
    void note_received(std::size_t count, std::size_t wanted);
    IoResult result_of(long count);  // of a system call, with errno

    sys::Fd fd_;
    std::atomic<bool> is_others_{false};  // the program has closed the socket, and given its number to another file
    const bool same_host_;
    const int timeout_ms_;
    std::unique_ptr<StreamTrace> trace_;  // usually none
    bool fin_traced_ = false;             // the peer's; under the RX lock
    // The last read of this turn came back short, so the socket was empty then: the next one is answered without a
    // syscall. What arrives later raises a new edge of epoll. Under the RX lock.
    alignas(kCacheLine) bool drained_ = false;
    std::size_t turn_octets_ = 0;
    bool receives_much_ = false;
    // The EMSS changes rarely (path MTU); it is asked for once in so many sends. Under the TX lock.
    alignas(kCacheLine) mutable std::uint32_t emss_ = 0;
    mutable std::uint32_t emss_uses_ = 0;
    bool sends_much_ = false;
};

}  // namespace swrnic::engine
