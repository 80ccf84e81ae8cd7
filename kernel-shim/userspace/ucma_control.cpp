// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "ucma_control.h"

#include <algorithm>
#include <array>
#include <utility>

#include "device.h"
#include "state.h"
#include "ucma.h"

namespace swrnic::shim {
namespace {

// "SWCM" and a version; then the fields of ControlHello, a zero, and the number in network order.
constexpr std::array<std::uint8_t, 5> kHead{'S', 'W', 'C', 'M', 1};
constexpr std::size_t kHelloLen = 16, kNumberAt = 12;

constexpr std::uint32_t kQpStateRtr = 2, kQpStateRts = 3;
// enum ib_qp_attr_mask
constexpr std::uint32_t kMaskState = 1u << 0, kMaskAv = 1u << 7, kMaskPathMtu = 1u << 8, kMaskTimeout = 1u << 9,
                        kMaskRetryCount = 1u << 10, kMaskRnrRetry = 1u << 11, kMaskRqPsn = 1u << 12,
                        kMaskOrd = 1u << 13, kMaskMinRnrTimer = 1u << 15, kMaskSqPsn = 1u << 16, kMaskIrd = 1u << 17,
                        kMaskDestQpn = 1u << 20;
constexpr std::uint8_t kAckTimeout = 18;  // 4.096 us * 2^18, about a second

// The entry that stands for an address, and what it is. Loopback has none while there is another: then the first of
// the family is it, at both ends, as both are on this host.
std::pair<std::size_t, Gid> entry_of(const std::vector<GidEntry>& table, const Address& address) {
    const auto is = [&](const GidEntry& entry) { return entry.gid == address.as_gid(); };
    auto found = std::find_if(table.begin(), table.end(), is);
    if (found == table.end() && address.is_loopback()) {
        const auto fits = [&](const GidEntry& entry) { return address_of(entry.gid).family() == address.family(); };
        found = std::find_if(table.begin() + 1, table.end(), fits);
    }
    if (found == table.end()) return {0, address.as_gid()};
    return {static_cast<std::size_t>(found - table.begin()), found->gid};
}

}  // namespace

// ---- what the ends tell each other

ControlHello ControlHello::of(const rdma_ucm_conn_param& conn) {
    return {conn.qp_num,      conn.responder_resources, conn.initiator_depth,
            conn.retry_count, conn.rnr_retry_count,     conn.flow_control,
            conn.srq};
}

std::vector<std::uint8_t> ControlHello::with(PrivateData said) const {
    const std::array<std::uint8_t, kNumberAt> front{
        kHead[0],        kHead[1],    kHead[2],        kHead[3],     kHead[4], responder_resources,
        initiator_depth, retry_count, rnr_retry_count, flow_control, srq,      0};
    std::vector<std::uint8_t> frame(kHelloLen + said.size());
    auto at = std::copy(front.begin(), front.end(), frame.begin());
    for (int shift = 24; shift >= 0; shift -= 8)
        *at++ = static_cast<std::uint8_t>(qpn >> shift);
    std::copy(said.begin(), said.end(), at);
    return frame;
}

std::optional<ControlHello> ControlHello::take(PrivateData& said) {
    if (said.size() < kHelloLen || !std::equal(kHead.begin(), kHead.end(), said.begin())) return std::nullopt;
    std::uint32_t qpn = 0;
    for (std::size_t i = kNumberAt; i < kHelloLen; ++i)
        qpn = qpn << 8 | said[i];
    const std::uint8_t* const fields = said.data() + kHead.size();
    const ControlHello hello{qpn, fields[0], fields[1], fields[2], fields[3], fields[4], fields[5]};
    said = said.subspan(kHelloLen);
    return hello;
}

void ControlHello::show(rdma_ucm_conn_param& conn) const {
    conn.qp_num = qpn;
    conn.responder_resources = initiator_depth;
    conn.initiator_depth = responder_resources;
    conn.retry_count = retry_count;
    conn.rnr_retry_count = rnr_retry_count;
    conn.flow_control = flow_control;
    conn.srq = srq;
}

void ControlHello::fill(ib_uverbs_qp_attr& attr, const Address& local, const Address& peer) const {
    if (attr.qp_state == kQpStateRtr) {
        attr.qp_attr_mask =
            kMaskState | kMaskAv | kMaskPathMtu | kMaskDestQpn | kMaskRqPsn | kMaskIrd | kMaskMinRnrTimer;
        const std::vector<GidEntry> table = gid_table();
        const Gid peer_gid = entry_of(table, peer).second;
        std::copy(peer_gid.begin(), peer_gid.end(), attr.ah_attr.grh.dgid);
        attr.ah_attr.grh.sgid_index = static_cast<std::uint8_t>(entry_of(table, local).first);
        attr.ah_attr.grh.hop_limit = 64;
        attr.ah_attr.is_global = 1;
        attr.ah_attr.port_num = 1;
        attr.path_mtu = active_mtu();
        attr.dest_qp_num = qpn;
        attr.max_dest_rd_atomic = initiator_depth;
    } else if (attr.qp_state == kQpStateRts) {
        attr.qp_attr_mask = kMaskState | kMaskSqPsn | kMaskTimeout | kMaskRetryCount | kMaskRnrRetry | kMaskOrd;
        attr.timeout = kAckTimeout;
        attr.retry_cnt = retry_count;
        attr.rnr_retry = rnr_retry_count;
        attr.max_rd_atomic = responder_resources;
    }
}

// MPA's revision 1, of which nothing but the private data is used.
Startup::Terms control_terms(PrivateData said) {
    swrnic_mpa_params params{};
    params.rev = 1;
    params.large_fpdu = SWRNIC_MPA_LARGE_NEVER;
    return {params, said};
}

// ---- commands

int UcmaFile::connect_control(Locked& locked, const std::shared_ptr<CmId>& id, const rdma_ucm_conn_param& conn) {
    const auto said = ControlHello::of(conn).with({conn.private_data, conn.private_data_len});
    id->state = CmState::kConnecting;
    id->is_control = true;
    const int error = locked->startup->connect(locked, id, id->socket, {id->local, id->peer}, nullptr,
                                               control_terms(said), id->startup);
    if (error != 0) {
        id->state = CmState::kRouteResolved;
        id->is_control = false;
        return error;
    }
    id->socket = -1;
    return 0;
}

int UcmaFile::accept_control(Locked& locked, CmId& id, const rdma_ucm_conn_param& conn) {
    const auto said = ControlHello::of(conn).with({conn.private_data, conn.private_data_len});
    id.state = CmState::kAccepting;
    const int error = locked->startup->accept(locked, id.startup, nullptr, control_terms(said));
    if (error != 0) id.state = error == -EINVAL ? CmState::kRequested : CmState::kOver;
    return error;
}

// rdma_establish(), and what librdmacm does of itself at CONNECT_RESPONSE: the active end's QP is in RTS.
int UcmaFile::establish(Locked& locked, CmId& id) {
    if (id.state != CmState::kResponded) return -EINVAL;
    id.state = CmState::kEstablished;
    locked->startup->say_ready(locked, id.startup);
    return 0;
}

int UcmaFile::disconnect_control(Locked& locked, CmId& id) {
    switch (id.state) {
        case CmState::kAccepting:
        case CmState::kResponded:
        case CmState::kEstablished:
            id.state = CmState::kDisconnecting;
            locked->startup->finish(locked, id.startup);
            return 0;
        case CmState::kRequested:
        case CmState::kDisconnecting:
        case CmState::kOver:
            return 0;
        default:
            return -EINVAL;
    }
}

// rdma_reject() of an active end that does not like the answer. The peer, which waits to hear that this end is ready,
// hears that the connection has ended instead, and nothing of what is said with it.
int UcmaFile::reject_control(Locked& locked, CmId& id) {
    id.state = CmState::kOver;
    locked->startup->cancel(locked, std::exchange(id.startup, 0));
    return 0;
}

// ---- what startup tells

void CmId::agreed(Locked& locked, PrivateData said) {
    if (state != CmState::kConnecting) return;  // the passive end waits for peer_is_ready()
    peer_hello = ControlHello::take(said);
    if (!peer_hello) {  // whoever answers so has another kind of connection in mind
        locked->startup->cancel(locked, startup);
        return failed(locked, -EPROTO, {});
    }
    state = CmState::kResponded;
    rdma_ucm_conn_param conn = cm_param_of(said, CmEventType::kConnectResponse);
    peer_hello->show(conn);
    cm_post(locked, *this, CmEventType::kConnectResponse, 0, &conn);
}

void CmId::peer_is_ready(Locked& locked) {
    if (state != CmState::kAccepting) return;
    state = CmState::kEstablished;
    cm_post(locked, *this, CmEventType::kEstablished);
}

void CmId::peer_has_ended(Locked& locked) {
    startup = 0;
    const CmState was = std::exchange(state, CmState::kOver);
    if (was == CmState::kAccepting) return cm_post(locked, *this, CmEventType::kConnectError, -ECONNRESET);
    cm_post_disconnected(locked, *this);
}

}  // namespace swrnic::shim
