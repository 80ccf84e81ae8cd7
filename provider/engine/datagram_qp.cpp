// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "engine/datagram_qp.h"

#include <poll.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "engine/core/copy.h"
#include "engine/core/cq.h"
#include "engine/core/scatter.h"

namespace swrnic::engine {
namespace {

using wire::IpAddress;

constexpr std::uint32_t kMaxSlices = 64;
// Of one receive call. Behind room for what GRH has more than our header stand the header and the payload.
constexpr std::size_t kBatch = 16;
constexpr std::size_t kRoomInFront = wire::kGrhLen - wire::kDatagramHeaderLen;
// One octet more than the largest: what is too long shows.
constexpr std::size_t kSlot = (wire::kGrhLen + wire::kMaxDatagram + 1 + 63) / 64 * 64;
static_assert(kBatch * kSlot <= PassPool::kRxStaging);
constexpr int kMostBatches = 8;  // in one turn: a flood does not keep its reader from others

// How long a datagram waits for the device's queue. An adapter's send queue would hold it, and fall no further behind.
constexpr int kQueueMs = 100;

// What adapters for RoCE show as the service level of a datagram over UDP: which IP header stands in its GRH. UCX looks
// for its own GID by it.
constexpr std::uint8_t kSlOfIpv6 = 9, kSlOfIpv4 = 10;

// One that a packet's source or destination is told by.
union PacketInfo {
    char octets[CMSG_SPACE(sizeof(in6_pktinfo))];
    cmsghdr align;
};

IpAddress mapped(const in_addr& from) {
    IpAddress to{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
    std::memcpy(to.data() + 12, &from, sizeof from);
    return to;
}

in_addr plain(const IpAddress& from) {
    in_addr to;
    std::memcpy(&to, from.data() + 12, sizeof to);
    return to;
}

void put_control(msghdr& message, PacketInfo& control, int level, int type, const void* data, std::size_t length) {
    message.msg_control = control.octets;
    message.msg_controllen = CMSG_SPACE(length);
    cmsghdr* head = CMSG_FIRSTHDR(&message);
    head->cmsg_level = level;
    head->cmsg_type = type;
    head->cmsg_len = CMSG_LEN(length);
    std::memcpy(CMSG_DATA(head), data, length);
}

// The message's peer, and the source that it names.
void address_to(msghdr& message, sockaddr_in6& name, PacketInfo& control, const DatagramPath& path, std::uint16_t port,
                bool v6) {
    message.msg_name = &name;
    if (v6) {
        name = {};
        name.sin6_family = AF_INET6;
        name.sin6_port = htons(port);
        name.sin6_scope_id = path.interface;
        std::memcpy(&name.sin6_addr, path.peer.data(), path.peer.size());
        message.msg_namelen = sizeof name;
        in6_pktinfo info{};
        std::memcpy(&info.ipi6_addr, path.source.data(), path.source.size());
        info.ipi6_ifindex = path.interface;
        return put_control(message, control, IPPROTO_IPV6, IPV6_PKTINFO, &info, sizeof info);
    }
    sockaddr_in v4{};
    v4.sin_family = AF_INET;
    v4.sin_port = htons(port);
    v4.sin_addr = plain(path.peer);
    std::memcpy(&name, &v4, sizeof v4);
    message.msg_namelen = sizeof v4;
    in_pktinfo info{};
    info.ipi_spec_dst = plain(path.source);
    info.ipi_ifindex = static_cast<int>(path.interface);
    put_control(message, control, IPPROTO_IP, IP_PKTINFO, &info, sizeof info);
}

std::uint16_t port_of(std::uint32_t qpn) {
    return static_cast<std::uint16_t>(qpn >> 8);
}

// The table of states (IBA 10.3.1). Everything may be reset or brought to ERROR.
bool may_go(QpState from, QpState to) {
    switch (to) {
        case QpState::kReset:
        case QpState::kErr:
            return true;
        case QpState::kInit:
            return from == QpState::kReset || from == QpState::kInit;
        case QpState::kRtr:
            return from == QpState::kInit;
        case QpState::kRts:
            return from == QpState::kRtr || from == QpState::kRts || from == QpState::kSqd || from == QpState::kSqe;
        case QpState::kSqd:
            return from == QpState::kRts || from == QpState::kSqd;
        case QpState::kSqe:
            return false;
    }
    return false;
}

bool takes_datagrams(QpState state) {
    return state == QpState::kRtr || state == QpState::kRts || state == QpState::kSqd || state == QpState::kSqe;
}

}  // namespace

struct DatagramQp::Arrived {
    std::byte* slot;  // kRoomInFront, header, payload
    std::size_t length;
    IpAddress source, dest;
    std::uint16_t port;  // of the source
};

DatagramQp::DatagramQp(const QpInit& init, MemoryTable& memory)
    : init_(init),
      own_counters_(init.counters == nullptr ? std::make_unique<Counters>() : nullptr),
      counters_(init.counters == nullptr ? *own_counters_ : *init.counters),
      memory_(memory),
      rq_(init, memory) {}

// ---- states and sockets ----

bool DatagramQp::modify(QpState to, Pass& pass) {
    const RxGuard rx(rx_lock_);
    const TxGuard tx(tx_lock_);
    if (!may_go(state(), to)) return false;
    if (to == QpState::kErr) {
        enter_error(rx, pass, false);
        return true;
    }
    if (to == QpState::kReset) {
        rq_.reset();
        init_.send_cq->purge(init_.qpn);
        init_.recv_cq->purge(init_.qpn);
    }
    state_ = to;
    counters_.set(Count::kState, static_cast<std::uint64_t>(to));
    return true;
}

void DatagramQp::enter_error(const RxGuard&, Pass& pass, bool tells) {
    if (has_failed()) return;
    state_ = QpState::kErr;
    counters_.set(Count::kState, static_cast<std::uint64_t>(QpState::kErr));
    rq_.flush(nullptr, pass);
    if (tells) pass.outbox().events.push_back({AsyncEvent::kQpFatal, init_.qpn});
    if (init_.srq != nullptr) pass.outbox().events.push_back({AsyncEvent::kQpLastWqeReached, init_.qpn});
}

void DatagramQp::fail(Pass& pass) {
    const RxGuard rx(rx_lock_);
    enter_error(rx, pass, true);
}

void DatagramQp::take_socket(sys::Fd socket) {
    const RxGuard rx(rx_lock_);
    const TxGuard tx(tx_lock_);
    v6_ = sys::get_option(socket.get(), SOL_SOCKET, SO_DOMAIN, AF_INET) == AF_INET6;
    socket_ = std::move(socket);
}

void DatagramQp::join(const IpAddress& group, sys::Fd socket) {
    const RxGuard rx(rx_lock_);
    const TxGuard tx(tx_lock_);
    groups_.insert_or_assign(group, std::move(socket));
}

sys::Fd DatagramQp::leave(const IpAddress& group) {
    const RxGuard rx(rx_lock_);
    const TxGuard tx(tx_lock_);
    auto member = groups_.extract(group);
    return member ? std::move(member.mapped()) : sys::Fd();
}

std::vector<int> DatagramQp::sockets() const {
    std::vector<int> all;
    if (socket_.get() >= 0) all.push_back(socket_.get());
    for (const auto& [group, socket] : groups_)
        all.push_back(socket.get());
    return all;
}

void DatagramQp::lose(Pass& pass) {
    const RxGuard rx(rx_lock_);
    const TxGuard tx(tx_lock_);
    socket_.lose();
    for (auto& [group, socket] : groups_)
        socket.lose();
    groups_.clear();
    enter_error(rx, pass, true);
}

// ---- sending ----

PostResult DatagramQp::post_send(const DatagramWr& wr, Pass& pass) {
    const bool is_inline = (wr.flags & send_flag::kInline) != 0;
    const std::uint64_t length = total_length(wr.sges);
    if (wr.sges.size() > init_.max_send_sge || length > wire::kMaxDatagram) return PostResult::kInvalid;
    if (is_inline && length > init_.max_inline) return PostResult::kInvalid;
    WorkCompletion done = make_completion(init_.qpn, wr.wr_id, WcStatus::kSuccess, WcOpcode::kSend);
    {
        const TxGuard guard(tx_lock_);
        const QpState now = state();
        if (now < QpState::kRts || now == QpState::kSqd) return PostResult::kBadState;
        done.status = now == QpState::kRts ? transmit(wr, static_cast<std::uint32_t>(length)) : WcStatus::kWrFlushErr;
        done.byte_len = static_cast<std::uint32_t>(length);
        QpState expected = QpState::kRts;  // receives go on in SQE
        if (done.status != WcStatus::kSuccess && state_.compare_exchange_strong(expected, QpState::kSqe))
            counters_.set(Count::kState, static_cast<std::uint64_t>(QpState::kSqe));
        const bool reports = init_.sq_sig_all || (wr.flags & send_flag::kSignaled) != 0;
        if (!reports && done.status == WcStatus::kSuccess) return PostResult::kOk;
        if (Cq::Producer(*init_.send_cq, pass).push(done, false)) return PostResult::kOk;
    }
    fail(pass);  // its completions are lost
    return PostResult::kOk;
}

WcStatus DatagramQp::transmit(const DatagramWr& wr, std::uint32_t length) {
    std::array<IoSlice, kMaxSlices + 1> io;
    std::size_t count = 1;
    if ((wr.flags & send_flag::kInline) != 0) {
        for (const Sge& sge : wr.sges)
            io[count++] = {reinterpret_cast<std::byte*>(static_cast<std::uintptr_t>(sge.addr)), sge.length};
    } else {
        const SliceResult where =
            slice_sges(memory_, init_.pd, wr.sges.data(), static_cast<std::uint32_t>(wr.sges.size()), 0, length, 0,
                       &io[1], kMaxSlices);
        if (where.error != MemoryError::kNone) return WcStatus::kLocProtErr;
        count += where.count;
    }
    std::array<std::byte, wire::kDatagramHeaderLen> header;
    // The program's Q_Key, or the QP's own where it names a controlled one (IBA 10.2.5).
    const std::uint32_t q_key = (wr.remote_q_key & 0x80000000) != 0 ? this->q_key() : wr.remote_q_key;
    wire::DatagramHeader{.dest_qpn = wr.remote_qpn,
                         .source_qpn = init_.qpn,
                         .q_key = q_key,
                         .imm_data = wr.imm_data,
                         .length = static_cast<std::uint16_t>(length),
                         .solicited = (wr.flags & send_flag::kSolicited) != 0,
                         .has_imm = wr.has_imm}
        .emit(header.data());
    io[0] = {header.data(), header.size()};
    msghdr message{};
    message.msg_iov = reinterpret_cast<iovec*>(io.data());
    message.msg_iovlen = count;
    sockaddr_in6 name;
    PacketInfo control{};
    address_to(message, name, control, wr.path, wr.path.group_port != 0 ? wr.path.group_port : port_of(wr.remote_qpn),
               v6_);
    long sent = sys::send_message(socket_.get(), &message);
    counters_.add(Count::kTxCalls, 1);
    // What the socket holds leaves at the device's pace.
    while (sent < 0 && (errno == EAGAIN || errno == EINTR)) {
        pollfd room{socket_.get(), POLLOUT, 0};
        timespec timeout{0, kQueueMs * 1'000'000};
        if (errno == EAGAIN && syscall(SYS_ppoll, &room, 1, &timeout, nullptr, 8) == 0) break;
        sent = sys::send_message(socket_.get(), &message);
        counters_.add(Count::kTxCalls, 1);
    }
    if (sent < 0 && errno == EFAULT) return WcStatus::kLocProtErr;
    // Whatever else keeps it from leaving loses it, as a network might: no route, or a firewall.
    if (sent < 0) return WcStatus::kSuccess;
    counters_.add(Count::kTxSends, 1);
    counters_.add(Count::kTxBytes, length);
    return WcStatus::kSuccess;
}

// ---- receiving ----

PostResult DatagramQp::post_recv(const RecvWr& wr, Pass& pass) {
    if (state() == QpState::kReset) return PostResult::kBadState;
    const PostResult result = rq_.post(wr);
    if (result != PostResult::kOk || !has_failed()) return result;
    const RxGuard guard(rx_lock_);
    const TxGuard tx(tx_lock_);
    if (has_failed()) rq_.flush(nullptr, pass);
    return result;
}

bool DatagramQp::receive(Pass& pass) {
    const RxGuard guard(rx_lock_, std::try_to_lock);
    if (!guard.owns()) return false;
    bool any = receive_from(guard, socket_.get(), false, pass);
    for (const auto& [group, socket] : groups_)
        any = receive_from(guard, socket.get(), true, pass) || any;
    if (any) rq_.tell(pass.outbox());
    return any;
}

bool DatagramQp::receive_from(const RxGuard& guard, int socket, bool is_group, Pass& pass) {
    std::array<mmsghdr, kBatch> messages;
    std::array<iovec, kBatch> io;
    std::array<sockaddr_in6, kBatch> names;
    std::array<PacketInfo, kBatch> controls;
    bool any = false;
    for (int turn = 0; turn < kMostBatches; ++turn) {
        for (std::size_t i = 0; i < kBatch; ++i) {
            std::byte* slot = pass.rx_staging().data() + i * kSlot;
            io[i] = {slot + kRoomInFront, kSlot - kRoomInFront};
            messages[i] = {};
            messages[i].msg_hdr.msg_name = &names[i];
            messages[i].msg_hdr.msg_namelen = sizeof names[i];
            messages[i].msg_hdr.msg_iov = &io[i];
            messages[i].msg_hdr.msg_iovlen = 1;
            messages[i].msg_hdr.msg_control = controls[i].octets;
            messages[i].msg_hdr.msg_controllen = sizeof controls[i].octets;
        }
        const long count = syscall(SYS_recvmmsg, socket, messages.data(), kBatch, MSG_DONTWAIT, nullptr);
        sys::after_receive();
        counters_.add(Count::kRxCalls, 1);
        if (count <= 0) return any;
        any = true;
        // An answer is not complete before what it answers: that is while its sender has the lock.
        { const TxGuard sent(tx_lock_); }
        for (std::size_t i = 0; i < static_cast<std::size_t>(count); ++i) {
            msghdr& message = messages[i].msg_hdr;
            Arrived arrived{pass.rx_staging().data() + i * kSlot, messages[i].msg_len, {}, {}, 0};
            if (names[i].sin6_family == AF_INET6) {
                std::memcpy(arrived.source.data(), &names[i].sin6_addr, arrived.source.size());
                arrived.port = ntohs(names[i].sin6_port);
            } else {
                sockaddr_in v4;
                std::memcpy(&v4, &names[i], sizeof v4);
                arrived.source = mapped(v4.sin_addr);
                arrived.port = ntohs(v4.sin_port);
            }
            for (cmsghdr* head = CMSG_FIRSTHDR(&message); head != nullptr; head = CMSG_NXTHDR(&message, head)) {
                if (head->cmsg_level == IPPROTO_IPV6 && head->cmsg_type == IPV6_PKTINFO) {
                    in6_pktinfo info;
                    std::memcpy(&info, CMSG_DATA(head), sizeof info);
                    std::memcpy(arrived.dest.data(), &info.ipi6_addr, arrived.dest.size());
                } else if (head->cmsg_level == IPPROTO_IP && head->cmsg_type == IP_PKTINFO) {
                    in_pktinfo info;
                    std::memcpy(&info, CMSG_DATA(head), sizeof info);
                    arrived.dest = mapped(info.ipi_addr);
                }
            }
            take(guard, arrived, is_group, pass);
        }
        if (static_cast<std::size_t>(count) < kBatch) return true;
    }
    return any;
}

void DatagramQp::take(const RxGuard& guard, const Arrived& arrived, bool is_group, Pass& pass) {
    const std::byte* begin = arrived.slot + kRoomInFront;
    const auto header = wire::DatagramHeader::parse({begin, arrived.length});
    // That a number names the port it comes from shows that nobody else on its host has sent it.
    const bool is_ours = header && takes_datagrams(state()) && header->q_key == q_key() &&
                         header->dest_qpn == (is_group ? wire::kMulticastQpn : init_.qpn) &&
                         port_of(header->source_qpn) == arrived.port;
    const std::size_t length = is_ours ? wire::kGrhLen + header->length : 0;
    if (!is_ours || !rq_.take() || length > rq_.oldest().length) return counters_.add(Count::kRxDrops, 1);
    wire::put_grh(arrived.slot, arrived.source, arrived.dest, header->length);
    WorkCompletion done =
        make_completion(init_.qpn, rq_.oldest().wr_id, place({arrived.slot, length}), WcOpcode::kRecv);
    if (done.status == WcStatus::kSuccess) {
        done.byte_len = static_cast<std::uint32_t>(length);
        done.src_qpn = header->source_qpn;
        done.sl = wire::is_v4(arrived.dest) ? kSlOfIpv4 : kSlOfIpv6;
        done.wc_flags = wc_flag::kGrh | (header->has_imm ? wc_flag::kWithImm : 0);
        done.imm_data = header->has_imm ? header->imm_data : 0;
        counters_.add(Count::kRxSends, 1);
        counters_.add(Count::kRxBytes, header->length);
    }
    rq_.ring().release();
    const bool kept = Cq::Producer(*init_.recv_cq, pass).push(done, header->solicited);
    if (!kept || done.status != WcStatus::kSuccess) enter_error(guard, pass, true);
}

WcStatus DatagramQp::place(std::span<const std::byte> octets) {
    const RecvWqe& wqe = rq_.oldest();
    std::array<IoSlice, kMaxSlices> io;
    const SliceResult where =
        slice_sges(memory_, rq_.pd(), wqe.sges(), wqe.sge_count, 0, static_cast<std::uint32_t>(octets.size()),
                   access::kLocalWrite, io.data(), kMaxSlices);
    if (where.error != MemoryError::kNone) return WcStatus::kLocProtErr;
    for (std::uint32_t i = 0; i < where.count; ++i) {
        if (!copy_octets(io[i].base, octets.data(), io[i].length)) return WcStatus::kLocProtErr;
        octets = octets.subspan(io[i].length);
    }
    return WcStatus::kSuccess;
}

}  // namespace swrnic::engine
