// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "ud.h"

#include <algorithm>
#include <array>
#include <cerrno>

#include "command.h"
#include "context.h"
#include "verbs.h"

namespace swrnic::verbs {
namespace {

using engine::QpState;

// What a change of state must name and may name beside the state (IBA 11.2.5.2, ib_modify_qp_is_ok of the kernel).
struct Change {
    QpState from, to;
    int required, optional;
};
constexpr std::array<Change, 9> kChanges{{
    {QpState::kReset, QpState::kInit, IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY, 0},
    {QpState::kInit, QpState::kInit, 0, IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY},
    {QpState::kInit, QpState::kRtr, 0, IBV_QP_PKEY_INDEX | IBV_QP_QKEY},
    {QpState::kRtr, QpState::kRts, IBV_QP_SQ_PSN, IBV_QP_QKEY},
    {QpState::kRts, QpState::kRts, 0, IBV_QP_QKEY},
    {QpState::kRts, QpState::kSqd, 0, IBV_QP_EN_SQD_ASYNC_NOTIFY},
    {QpState::kSqd, QpState::kRts, 0, IBV_QP_QKEY},
    {QpState::kSqd, QpState::kSqd, 0, IBV_QP_PKEY_INDEX | IBV_QP_QKEY},
    {QpState::kSqe, QpState::kRts, 0, IBV_QP_QKEY},
}};

bool is_allowed(QpState from, QpState to, int mask) {
    mask &= ~(IBV_QP_STATE | IBV_QP_CUR_STATE);
    if (to == QpState::kReset || to == QpState::kErr) return mask == 0;
    return std::any_of(kChanges.begin(), kChanges.end(), [&](const Change& change) {
        return change.from == from && change.to == to && (mask & change.required) == change.required &&
               (mask & ~(change.required | change.optional)) == 0;
    });
}

const wire::IpAddress& as_group(const ibv_gid& gid) {
    return *reinterpret_cast<const wire::IpAddress*>(gid.raw);
}

}  // namespace

int modify_datagram_qp(Qp& qp, ibv_qp_attr& attr, int mask) {
    const QpState now = qp.engine->state_of(*qp.datagrams);
    const QpState to = (mask & IBV_QP_STATE) != 0 ? static_cast<QpState>(attr.qp_state) : now;
    if (!is_allowed(now, to, mask)) return EINVAL;
    if ((mask & IBV_QP_QKEY) != 0) qp.engine->set_q_key(*qp.datagrams, attr.qkey);
    if (!qp.engine->modify_state(*qp.datagrams, to)) return EINVAL;
    if (to == QpState::kReset) qp.wiring = {};
    if ((mask & IBV_QP_QKEY) != 0) qp.wiring.qkey = attr.qkey;
    if ((mask & IBV_QP_SQ_PSN) != 0) qp.wiring.sq_psn = attr.sq_psn;
    Request<ib_uverbs_modify_qp> request;
    return abi::libibverbs.ibv_cmd_modify_qp(&qp.base.qp, &attr, mask, request.data(), request.size());
}

int post_datagram(Qp& qp, const engine::SendWr& wr, std::span<const engine::Sge> sges, const DatagramTo& to) {
    if (to.ah == nullptr || to.qpn > wire::kMulticastQpn) return EINVAL;
    const engine::DatagramPath& path = to_ah(to.ah).path;
    // A group has one number, and nobody else has that.
    if ((path.group_port != 0) != (to.qpn == wire::kMulticastQpn)) return EINVAL;
    return to_errno(qp.engine->post_send(*qp.datagrams, {.wr_id = wr.wr_id,
                                                         .flags = wr.flags,
                                                         .sges = sges,
                                                         .path = path,
                                                         .remote_qpn = to.qpn,
                                                         .remote_q_key = to.q_key,
                                                         .imm_data = to.imm_data,
                                                         .has_imm = to.has_imm}));
}

// The group's socket comes behind the command.
int attach_mcast(ibv_qp* ibqp, const ibv_gid* gid, std::uint16_t lid) noexcept {
    if (to_qp(ibqp).datagrams == nullptr) return EINVAL;
    const int error = abi::libibverbs.ibv_cmd_attach_mcast(ibqp, gid, lid);
    if (!error) to_state(ibqp->context).control_readable();
    return error;
}

int detach_mcast(ibv_qp* ibqp, const ibv_gid* gid, std::uint16_t lid) noexcept {
    Qp& qp = to_qp(ibqp);
    if (qp.datagrams == nullptr) return EINVAL;
    const int error = abi::libibverbs.ibv_cmd_detach_mcast(ibqp, gid, lid);
    if (!error) qp.engine->leave_group(*qp.datagrams, as_group(*gid));
    return error;
}

}  // namespace swrnic::verbs
