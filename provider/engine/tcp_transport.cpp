// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "engine/tcp_transport.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/uio.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>

#include "engine/engine.h"

namespace swrnic::engine {

namespace {

// Received in one turn, of the 64 KiB that a stream's window begins with.
constexpr std::size_t kMuch = 32 * 1024;

static_assert(sizeof(IoSlice) == sizeof(iovec) && offsetof(IoSlice, length) == offsetof(iovec, iov_len));

msghdr message_of(const IoSlice* slices, std::size_t count) {
    msghdr message{};
    message.msg_iov = reinterpret_cast<iovec*>(const_cast<IoSlice*>(slices));
    message.msg_iovlen = count;
    return message;
}

// How long what was sent may stay without an answer. Counts for unanswered probes too, whatever their number.
void limit_silence(int fd, int timeout_ms) {
    sys::set_option(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, timeout_ms);
}

// A stream that moves much changes its socket, once: one that moves little would pay for these calls and gain nothing.

// Within one host. No network is there that could be congested, and a congestion control that sends by timers (BBR)
// only costs: a third of the bandwidth (bench/history/2026-11-22-trials.md). Any user may ask for this one; whether it
// was granted changes nothing else. The userspace shim asks for it before there is a connection, which gives more: who
// was established with BBR keeps some of its timers.
void pace_nothing(int fd) {
    constexpr char kName[] = "reno";
    syscall(SYS_setsockopt, fd, IPPROTO_TCP, TCP_CONGESTION, kName, sizeof kName - 1);
}

// No time passes between the two ends that a long queue would fill, and one that outgrows a processor's second cache
// halves the speed of both copies: the kernel's own sizing lets megabytes stand there. The kernel doubles the number,
// and takes less where its limit for users is lower; half of it serves nearly as well.
void keep_in_cache(int fd) {
    constexpr int kQueue = 512 * 1024;
    sys::set_option(fd, SOL_SOCKET, SO_SNDBUF, kQueue);
}

// A stream begins with a window of 64 KiB, too small for two large FPDUs, and the kernel widens it only when more comes
// in a round trip: with many streams, never. It makes room for a low-water mark at once, and goes on by itself from
// there; SO_RCVBUF would fix the size for good.
void widen_window(int fd) {
    constexpr int kWindow = 1024 * 1024;
    sys::set_option(fd, SOL_SOCKET, SO_RCVLOWAT, kWindow);
    sys::set_option(fd, SOL_SOCKET, SO_RCVLOWAT, 1);
}

}  // namespace

bool read_tcp_statistics(int fd, TcpStatistics& out) {
    tcp_info info{};
    socklen_t length = sizeof info;
    if (syscall(SYS_getsockopt, fd, IPPROTO_TCP, TCP_INFO, &info, &length) != 0 || length < sizeof info) return false;
    out = {info.tcpi_total_retrans, info.tcpi_rtt, info.tcpi_rttvar};
    return true;
}

TcpTransport::TcpTransport(const Connection& connection, std::chrono::milliseconds timeout)
    : fd_(connection.fd), same_host_(connection.same_host), timeout_ms_(static_cast<int>(timeout.count())) {
    const int fd = fd_.get();
    if (!connection.nodelay) sys::set_option(fd, IPPROTO_TCP, TCP_NODELAY, 1);
    if (same_host_) return;  // the kernel that would answer probes is the one that sends them
    limit_silence(fd, timeout_ms_);
    const int probe_s = std::max(1, timeout_ms_ / 4000);
    sys::set_option(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
    sys::set_option(fd, IPPROTO_TCP, TCP_KEEPIDLE, probe_s);
    sys::set_option(fd, IPPROTO_TCP, TCP_KEEPINTVL, probe_s);
}

// The number is another file's now, which is not to be closed.
TcpTransport::~TcpTransport() {
    if (is_others_) fd_.lose();
}

void TcpTransport::note_received(std::size_t count, std::size_t wanted) {
    drained_ = count < wanted;
    turn_octets_ += count;
    if (turn_octets_ >= kMuch && !std::exchange(receives_much_, true)) [[unlikely]]
        widen_window(fd_.get());
}

bool TcpTransport::note_blocked() {
    if (std::exchange(sends_much_, true)) return false;
    if (same_host_) {
        limit_silence(fd_.get(), timeout_ms_);
        pace_nothing(fd_.get());
        keep_in_cache(fd_.get());
    }
    return true;
}

IoResult TcpTransport::result_of(long count) {
    if (count > 0) return {IoStatus::kOk, static_cast<std::size_t>(count)};
    switch (errno) {
        case EAGAIN:
        case EINTR:
        case ENOBUFS:
        case ENOMEM:
            return {IoStatus::kAgain, 0};
        case EFAULT:
            return {IoStatus::kFault, 0};
        case EBADF:
        case ENOTSOCK:
            is_others_ = true;
            return {IoStatus::kBroken, 0};
        default:
            return {IoStatus::kBroken, 0};
    }
}

IoResult TcpTransport::receive(const IoSlice* slices, std::size_t count) {
    if (std::exchange(drained_, false)) return {IoStatus::kEmpty, 0};
    std::size_t wanted = 0;
    for (std::size_t i = 0; i < count; ++i)
        wanted += slices[i].length;
    long got;
    if (count == 1) {
        got = sys::receive(fd_.get(), slices[0].base, slices[0].length);
    } else {
        msghdr message = message_of(slices, count);
        got = sys::receive_message(fd_.get(), &message);
    }
    if (trace_ && got >= 0) [[unlikely]] {
        if (got > 0) trace_->received(slices, static_cast<std::size_t>(got));
        if (got == 0 && !std::exchange(fin_traced_, true)) trace_->received_fin();
    }
    if (got == 0) return {IoStatus::kEof, 0};
    if (got > 0) note_received(static_cast<std::size_t>(got), wanted);
    return result_of(got);
}

IoResult TcpTransport::send(const IoSlice* slices, std::size_t count) {
    const msghdr message = message_of(slices, count);
    const long taken =
        count == 1 ? sys::send(fd_.get(), slices[0].base, slices[0].length) : sys::send_message(fd_.get(), &message);
    if (trace_ && taken > 0) [[unlikely]]
        trace_->sent(slices, static_cast<std::size_t>(taken));
    return result_of(taken);
}

void TcpTransport::finish_sending() {
    sys::shut_down_writing(fd_.get());
    if (trace_) [[unlikely]]
        trace_->sent_fin();
}

std::uint32_t TcpTransport::emss() const {
    constexpr std::uint32_t kRefresh = 256;
    if (emss_uses_++ % kRefresh == 0) {
        emss_ = static_cast<std::uint32_t>(sys::get_option(fd_.get(), IPPROTO_TCP, TCP_MAXSEG, 536));
    }
    return emss_;
}

void TcpTransport::make_abortive() {
    const linger now{1, 0};
    syscall(SYS_setsockopt, fd_.get(), SOL_SOCKET, SO_LINGER, &now, sizeof now);
}

}  // namespace swrnic::engine
