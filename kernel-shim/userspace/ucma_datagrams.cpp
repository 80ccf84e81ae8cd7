// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "ucma_datagrams.h"

#include <algorithm>

#include "device.h"
#include "device_limits.h"
#include "log.h"
#include "state.h"

namespace swrnic::shim {
namespace {

constexpr std::uint32_t kMaxQpn = 0xffffff;
constexpr std::uint32_t kGroupQpn = 0xffffff;
constexpr std::uint8_t kHops = 64, kHopsOfGroup = 1;
constexpr std::uint32_t kFirstPauseMs = 50, kLongestPauseMs = 1000;
// As for connections (CmId::calls_again): perftest's server listens anew when its client may be asking already.
constexpr std::chrono::milliseconds kGraceOfServers{250};
constexpr int kDatagramsPerTurn = 64;  // so that a flood on one port does not starve the others

// ---- where to send to ----

struct Way {
    Gid to;
    std::size_t source_index;
};

// The entry of the table that names the own end. Loopback is in no table but that of a host without a network: there
// the first entry leaves the source to the kernel, and this host itself goes by a name that others know as well, since
// programs look for the source of what they have received in the table.
Way find_way(const Address& local, const Address& peer) {
    const std::vector<GidEntry> table = gid_table();
    const Gid own = local.as_gid();
    const int family = address_of(peer.as_gid()).family();
    for (std::size_t i = 0; i < table.size(); ++i) {
        if (table[i].gid == own) return {peer.as_gid(), i};
    }
    for (std::size_t i = 1; peer.is_loopback() && i < table.size(); ++i) {
        if (address_of(table[i].gid).family() == family) return {table[i].gid, i};
    }
    return {peer.as_gid(), 0};
}

ib_uverbs_ah_attr ah_attr_of(const CmId& id, const Way& way, std::uint8_t hops) {
    ib_uverbs_ah_attr ah{};
    std::ranges::copy(way.to, ah.grh.dgid);
    ah.grh.sgid_index = static_cast<std::uint8_t>(way.source_index);
    ah.grh.hop_limit = hops;
    ah.grh.traffic_class = id.tos;
    ah.is_global = 1;
    ah.port_num = 1;
    return ah;
}

void put_private(rdma_ucm_ud_param& ud, PrivateData said) {
    static_assert(kSidrRequestPrivate <= sizeof(ud.private_data) && kSidrAnswerPrivate <= sizeof(ud.private_data));
    ud.private_data_len = static_cast<std::uint8_t>(said.size());
    std::ranges::copy(said, ud.private_data);
}

PrivateData private_data_of(const rdma_ucm_conn_param& conn) {
    return {conn.private_data, conn.private_data_len};
}

// ---- a listener's datagrams, which tell where they came to: answers come from there ----

union PacketInfo {
    char octets[CMSG_SPACE(sizeof(in6_pktinfo))];
    cmsghdr align;
};

Address came_to(msghdr& message) {
    for (cmsghdr* head = CMSG_FIRSTHDR(&message); head != nullptr; head = CMSG_NXTHDR(&message, head)) {
        if (head->cmsg_level == IPPROTO_IP && head->cmsg_type == IP_PKTINFO) {
            in_pktinfo info;
            std::memcpy(&info, CMSG_DATA(head), sizeof(info));
            sockaddr_in v4{};
            v4.sin_family = AF_INET;
            v4.sin_addr = info.ipi_spec_dst;
            return Address::from(&v4, sizeof(v4));
        }
        if (head->cmsg_level == IPPROTO_IPV6 && head->cmsg_type == IPV6_PKTINFO) {
            in6_pktinfo info;
            std::memcpy(&info, CMSG_DATA(head), sizeof(info));
            sockaddr_in6 v6{};
            v6.sin6_family = AF_INET6;
            v6.sin6_addr = info.ipi6_addr;
            if (IN6_IS_ADDR_LINKLOCAL(&v6.sin6_addr)) v6.sin6_scope_id = info.ipi6_ifindex;
            return Address::from(&v6, sizeof(v6));
        }
    }
    return {};
}

struct Arrived {
    Address from, to;  // to: without a port
    std::span<const std::uint8_t> octets;
};

// 0 or -errno.
long receive(int fd, std::span<std::uint8_t> room, Arrived& arrived) {
    sockaddr_in6 name{};
    PacketInfo control;
    iovec part{room.data(), room.size()};
    msghdr message{};
    message.msg_name = &name;
    message.msg_namelen = sizeof(name);
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    message.msg_control = control.octets;
    message.msg_controllen = sizeof(control.octets);
    const long got = sys::recvmsg(fd, message, MSG_DONTWAIT);
    if (got < 0) return got;
    arrived = {Address::from(&name, message.msg_namelen), came_to(message), room.first(static_cast<std::size_t>(got))};
    return 0;
}

void put_source(msghdr& message, PacketInfo& control, int level, int type, const void* info, std::size_t length) {
    message.msg_control = control.octets;
    message.msg_controllen = CMSG_SPACE(length);
    cmsghdr* head = CMSG_FIRSTHDR(&message);
    head->cmsg_level = level;
    head->cmsg_type = type;
    head->cmsg_len = CMSG_LEN(length);
    std::memcpy(CMSG_DATA(head), info, length);
}

// Whatever becomes of it: one that is lost is asked for again.
void send(int fd, std::span<const std::uint8_t> octets, const Address& from, const Address& to) {
    PacketInfo control{};
    iovec part{const_cast<std::uint8_t*>(octets.data()), octets.size()};
    msghdr message{};
    message.msg_name = const_cast<sockaddr*>(to.get());
    message.msg_namelen = to.size();
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    if (from.family() == AF_INET) {
        sockaddr_in v4;
        std::memcpy(&v4, from.get(), sizeof(v4));
        in_pktinfo info{};
        info.ipi_spec_dst = v4.sin_addr;
        put_source(message, control, IPPROTO_IP, IP_PKTINFO, &info, sizeof(info));
    } else {
        sockaddr_in6 v6;
        std::memcpy(&v6, from.get(), sizeof(v6));
        in6_pktinfo info{};
        info.ipi6_addr = v6.sin6_addr;
        info.ipi6_ifindex = v6.sin6_scope_id;
        put_source(message, control, IPPROTO_IPV6, IPV6_PKTINFO, &info, sizeof(info));
    }
    sys::sendmsg(fd, message, MSG_DONTWAIT | MSG_NOSIGNAL);
}

}  // namespace

// ---- who asks ----

int SidrAsker::begin(Locked& locked, const std::shared_ptr<CmId>& id, PrivateData said, std::uint32_t time_ms) {
    Startup* startup = Startup::get(locked);
    if (startup == nullptr) return -ENOMEM;
    // From here on the kernel lets nobody but the peer answer, and tells when nobody is there.
    if (const int error = sys::connect(id->socket, id->peer.get(), id->peer.size()); error != 0) return error;
    const auto asker = std::make_shared<SidrAsker>();
    if (const int error = startup->watch(locked, asker, id->socket, asker->socket_key_); error != 0) return error;
    asker->id_ = id;
    asker->number_ = std::uint64_t{locked->random.next()} << 32 | locked->random.next();
    asker->request_ = SidrRequest{asker->number_, said}.emit();
    asker->deadline_ = Clock::now() + std::chrono::milliseconds(time_ms);
    asker->refused_from_ = Clock::now() + kGraceOfServers;
    id->asker = asker;
    asker->ask(locked, *id);
    return 0;
}

void SidrAsker::stop(Locked& locked) {
    for (std::uint64_t* const key : {&socket_key_, &timer_key_}) {
        if (*key != 0 && locked->startup != nullptr) locked->startup->cancel(locked, *key);
        *key = 0;
    }
}

void SidrAsker::ask(Locked& locked, CmId& id) {
    sys::send(id.socket, request_.data(), request_.size(), MSG_DONTWAIT | MSG_NOSIGNAL);  // readable() hears of errors
    pause_ms_ = pause_ms_ == 0 ? kFirstPauseMs : std::min(2 * pause_ms_, kLongestPauseMs);
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline_ - Clock::now()).count();
    const auto until = static_cast<std::uint32_t>(std::clamp<long>(left, 1, pause_ms_));
    timer_key_ = locked->startup->call_later(locked, weak_from_this(), until);
}

void SidrAsker::try_again(Locked& locked) {
    timer_key_ = 0;
    const auto id = id_.lock();
    if (id == nullptr) return;
    if (Clock::now() < deadline_) return ask(locked, *id);
    end(locked, *id, CmEventType::kUnreachable, -ETIMEDOUT, {});
}

void SidrAsker::readable(Locked& locked) {
    const auto id = id_.lock();
    std::array<std::uint8_t, kSidrAnswerLen + 1> room;  // one that is longer is seen to be so
    for (int i = 0; id != nullptr && id->state == CmState::kConnecting && i < kDatagramsPerTurn; ++i) {
        const long got = sys::recv(id->socket, room.data(), room.size(), MSG_DONTWAIT);
        if (got == -ECONNREFUSED && Clock::now() >= refused_from_)
            return end(locked, *id, CmEventType::kUnreachable, static_cast<int>(SidrStatus::kNoService), {});
        if (got < 0) return;
        const auto answer = SidrAnswer::parse({room.data(), static_cast<std::size_t>(got)});
        if (answer && answer->number == number_) take(locked, *id, *answer);
    }
}

void SidrAsker::take(Locked& locked, CmId& id, const SidrAnswer& answer) {
    rdma_ucm_ud_param ud{};
    put_private(ud, answer.private_data);
    if (answer.status != SidrStatus::kAccepted)
        return end(locked, id, CmEventType::kUnreachable, static_cast<int>(answer.status), ud);
    ud.qp_num = answer.qpn;
    ud.qkey = answer.q_key;
    ud.ah_attr = ah_attr_of(id, find_way(Address::local_of(id.socket), id.peer), kHops);
    end(locked, id, CmEventType::kEstablished, 0, ud);
}

void SidrAsker::end(Locked& locked, CmId& id, CmEventType type, int status, const rdma_ucm_ud_param& ud) {
    stop(locked);
    id.state = type == CmEventType::kEstablished ? CmState::kEstablished : CmState::kOver;
    cm_post(locked, id, type, status, ud);
}

// ---- who answers ----

int SidrListener::begin(Locked& locked, const std::shared_ptr<CmId>& id) {
    Startup* startup = Startup::get(locked);
    if (startup == nullptr) return -ENOMEM;
    const auto listener = std::make_shared<SidrListener>();
    if (const int error = startup->watch(locked, listener, id->socket, listener->key_); error != 0) return error;
    listener->id_ = id;
    listener->socket_ = std::make_shared<SidrSocket>(id->socket);
    id->sidr_listener = listener;
    return 0;
}

void SidrListener::stop(Locked& locked) {
    if (key_ != 0 && locked->startup != nullptr) locked->startup->cancel(locked, key_);
    key_ = 0;
    socket_.reset();
}

void SidrListener::readable(Locked& locked) {
    std::array<std::uint8_t, kSidrRequestLen + 1> room;
    for (int i = 0; i < kDatagramsPerTurn; ++i) {
        const auto id = id_.lock();
        Arrived arrived;
        if (id == nullptr || receive(socket_->fd(), room, arrived) != 0) return;
        const auto request = SidrRequest::parse(arrived.octets);
        if (!request || arrived.from.empty() || arrived.to.empty()) continue;
        if (!group_of(arrived.to.as_gid()).empty()) continue;
        arrived.to.set_port(id->local.port());
        const auto asked = std::make_shared<SidrAsked>(
            SidrAsked{request->number, arrived.to, arrived.from, socket_, weak_from_this(), {}});
        const auto known = asked_.find(asked->caller());
        if (known == asked_.end()) {
            this->request(locked, id, asked, request->private_data);
        } else if (const auto before = known->second.lock(); before != nullptr && before->answered) {
            before->send_answer(socket_->fd());
        }
    }
}

void SidrListener::request(Locked& locked, const std::shared_ptr<CmId>& id, const std::shared_ptr<SidrAsked>& asked,
                           PrivateData said) {
    if (id->backlog <= 0) {  // it will ask again
        log(LogLevel::kDebug, "listener id {}: request from {} dropped: backlog full", id->handle, asked->peer);
        return;
    }
    --id->backlog;
    const auto child = make_cm_id(locked, *id->file);
    child->state = CmState::kRequested;
    child->port_space = id->port_space;
    child->local = asked->local;
    child->peer = asked->peer;
    child->on_device = true;
    child->sidr_asked = asked;
    asked_.emplace(asked->caller(), asked);
    rdma_ucm_ud_param ud{};
    put_private(ud, said);
    log(LogLevel::kInfo, "listener id {}: request from {} for datagrams", id->handle, asked->peer);
    id->file->post(locked,
                   CmEvent{id, child, id->uid, child->handle, CmEventType::kConnectRequest, 0, {}, ud, nullptr});
}

void SidrAsked::answer(SidrAnswer with) {
    with.number = number;
    answered = with.emit();
    send_answer(std::exchange(socket, nullptr)->fd());
}

void SidrAsked::send_answer(int fd) const {
    send(fd, *answered, local, peer);
}

// ---- commands ----

int cm_ask(Locked& locked, const std::shared_ptr<CmId>& id, const rdma_ucm_conn_param& conn) {
    if (conn.private_data_len > kSidrRequestPrivate) return -EINVAL;
    if (id->socket < 0) id->socket = cm_make_socket(locked, *id, {}, PortMay::kNot);
    if (id->socket < 0) return id->socket;
    const auto qp = locked->qps.find(conn.qp_num);
    const std::uint32_t time_ms =
        qp != locked->qps.end() ? swrnic_startup_ms(&qp->second->startup) : std::uint32_t{SWR_STARTUP_TIMEOUT_MS};
    id->state = CmState::kConnecting;
    const int error = SidrAsker::begin(locked, id, private_data_of(conn), time_ms);
    if (error != 0) id->state = CmState::kRouteResolved;
    return error;
}

int cm_answer(CmId& id, const rdma_ucm_conn_param& conn) {
    if (conn.private_data_len > kSidrAnswerPrivate || conn.qp_num > kMaxQpn) return -EINVAL;
    id.state = CmState::kEstablished;
    id.sidr_asked->answer(
        {0, SidrStatus::kAccepted, conn.qp_num, conn.qkey != 0 ? conn.qkey : kUdpQKey, private_data_of(conn)});
    return 0;
}

int cm_refuse(CmId& id, PrivateData said) {
    if (said.size() > kSidrAnswerPrivate) return -EINVAL;
    id.state = CmState::kOver;
    id.sidr_asked->answer({0, SidrStatus::kRejected, 0, 0, said});
    return 0;
}

void cm_stop_datagrams(Locked& locked, CmId& id) {
    if (id.asker != nullptr) id.asker->stop(locked);
    if (id.sidr_listener != nullptr) id.sidr_listener->stop(locked);
    if (id.sidr_asked != nullptr) {
        if (id.state == CmState::kRequested) cm_refuse(id, {});  // destroying a request refuses it
        if (const auto listener = id.sidr_asked->listener.lock(); listener != nullptr) listener->forget(*id.sidr_asked);
    }
    std::erase_if(locked->cm_groups, [&](const auto& entry) { return entry.second->id == id.handle; });
}

// ---- groups ----

namespace {

// As a sockaddr_in or sockaddr_in6 names it, or by its GID in a sockaddr_ib.
Gid group_in(const void* address, std::size_t size) {
    constexpr sa_family_t kAfIb = 27;
    constexpr std::size_t kGidAt = 8, kSockaddrIb = 48;
    sa_family_t family = AF_UNSPEC;
    if (size >= sizeof(family)) std::memcpy(&family, address, sizeof(family));
    if (family != kAfIb || size < kSockaddrIb) return Address::from(address, size).as_gid();
    Gid gid;
    std::memcpy(gid.data(), static_cast<const std::uint8_t*>(address) + kGidAt, gid.size());
    return gid;
}

}  // namespace

int UcmaFile::join_ip_mcast(Locked& locked, UcmaRequest& request) {
    rdma_ucm_join_ip_mcast command;
    if (!request.take(command)) return -EINVAL;
    return join(locked, request, command.id, command.uid, group_in(&command.addr, sizeof(command.addr)));
}

int UcmaFile::join_mcast(Locked& locked, UcmaRequest& request) {
    rdma_ucm_join_mcast command;
    if (!request.take(command)) return -EINVAL;
    if (command.addr_size > sizeof(command.addr) || command.join_flags >= RDMA_MC_JOIN_FLAG_RESERVED) return -EINVAL;
    return join(locked, request, command.id, command.uid, group_in(&command.addr, command.addr_size));
}

// Of the two kinds of membership the one that only sends differs in librdmacm, which attaches no QP then.
int UcmaFile::join(Locked& locked, UcmaRequest& request, std::uint32_t handle, std::uint64_t uid, const Gid& group) {
    rdma_ucm_create_id_resp made{};
    int error = 0;
    if (error = request.room(sizeof(made)); error != 0) return error;
    const auto id = find(locked, handle, error);
    if (id == nullptr) return error;
    const bool knows_device = id->on_device && (id->state == CmState::kBound || id->state == CmState::kAddrResolved);
    if (!knows_device || group_of(group).empty()) return -EINVAL;
    if (!id->is_for_datagrams()) return id->is_for_connections() ? -EINVAL : -EOPNOTSUPP;
    const auto joined = std::make_shared<CmGroup>(CmGroup{handle, uid});
    do {
        made.id = locked->next_cm_id++;
    } while (!locked->cm_groups.emplace(made.id, joined).second);
    request.reply(made);
    rdma_ucm_ud_param ud{};
    ud.qp_num = kGroupQpn;
    ud.qkey = kUdpQKey;
    ud.ah_attr = ah_attr_of(*id, {group, find_way(id->local, {}).source_index}, kHopsOfGroup);
    post(locked, CmEvent{id, nullptr, uid, made.id, CmEventType::kMulticastJoin, 0, {}, ud, joined});
    return 0;
}

int UcmaFile::leave_mcast(Locked& locked, UcmaRequest& request) {
    rdma_ucm_destroy_id command;
    int error = 0;
    if (!request.take(command)) return -EINVAL;
    rdma_ucm_destroy_id_resp counts{};
    if (error = request.room(sizeof(counts)); error != 0) return error;
    const auto it = locked->cm_groups.find(command.id);
    if (it == locked->cm_groups.end()) return -ENOENT;
    const std::shared_ptr<CmGroup> group = it->second;
    if (find(locked, group->id, error) == nullptr) return error;
    locked->cm_groups.erase(it);
    remove_if(locked, [&](const CmEvent& event) { return event.group == group; });
    counts.events_reported = group->events_reported;
    request.reply(counts);
    return 0;
}

}  // namespace swrnic::shim
