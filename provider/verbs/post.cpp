// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Posting: the hot path. No allocation, no system call before the doorbell.
#include <array>
#include <cerrno>

#include "context.h"
#include "refusal.h"
#include "ud.h"
#include "verbs.h"

namespace swrnic::verbs {
namespace {

static_assert(engine::send_flag::kFence == IBV_SEND_FENCE && engine::send_flag::kSignaled == IBV_SEND_SIGNALED);
static_assert(engine::send_flag::kSolicited == IBV_SEND_SOLICITED && engine::send_flag::kInline == IBV_SEND_INLINE);

// The elements in the engine's type. Uninitialised beyond count, on purpose.
class Sges {
  public:
    // false: more than the QP has (VERBS-2: EINVAL)
    bool copy(const ibv_sge* from, int count, std::uint32_t max) {
        if (count < 0 || static_cast<std::uint32_t>(count) > max) return false;
        count_ = static_cast<std::size_t>(count);
        for (std::size_t i = 0; i < count_; ++i)
            array_[i] = {.addr = from[i].addr, .length = from[i].length, .lkey = from[i].lkey};
        return true;
    }
    std::span<const engine::Sge> view() const { return {array_.data(), count_}; }

  private:
    std::array<engine::Sge, kMaxSge> array_;
    std::size_t count_ = 0;
};

// With nothing on the wire, and no elements.
int post_local(Qp& qp, const ibv_send_wr& wr) {
    engine::SendWr local{.wr_id = wr.wr_id,
                         .opcode = engine::WrOpcode::kLocalInv,
                         .flags = wr.send_flags,
                         .sges = {},
                         .remote_addr = 0,
                         .rkey = 0,
                         .invalidate_stag = wr.invalidate_rkey};
    if (wr.opcode == IBV_WR_BIND_MW) {
        const auto& bind = wr.bind_mw;
        if (bind.mw == nullptr || bind.mw->type != IBV_MW_TYPE_2) return EINVAL;  // type 1: ibv_bind_mw()
        if (const int error = fill_bind(qp.base.qp, *bind.mw, bind.rkey, bind.bind_info, local)) return error;
    }
    return posted(qp, [&] { return qp.engine->post_send(*qp.impl, local); });
}

// Of a UD QP.
int post_to_handle(Qp& qp, const ibv_send_wr& wr) {
    Sges sges;
    if (wr.opcode != IBV_WR_SEND && wr.opcode != IBV_WR_SEND_WITH_IMM) return EINVAL;
    if (!sges.copy(wr.sg_list, wr.num_sge, qp.cap.max_send_sge)) return EINVAL;
    engine::SendWr send{};
    send.wr_id = wr.wr_id;
    send.flags = wr.send_flags;
    return post_datagram(qp, send, sges.view(),
                         {.ah = wr.wr.ud.ah,
                          .qpn = wr.wr.ud.remote_qpn,
                          .q_key = wr.wr.ud.remote_qkey,
                          .imm_data = wr.imm_data,
                          .has_imm = wr.opcode == IBV_WR_SEND_WITH_IMM});
}

int post_one(Qp& qp, const ibv_send_wr& wr) {
    if (wr.send_flags & ~kSendFlags) return EINVAL;
    if (qp.datagrams != nullptr) return post_to_handle(qp, wr);
    if (wr.opcode == IBV_WR_LOCAL_INV || wr.opcode == IBV_WR_BIND_MW) return post_local(qp, wr);
    Sges sges;
    if (!sges.copy(wr.sg_list, wr.num_sge, qp.cap.max_send_sge)) return EINVAL;
    engine::SendWr send{.wr_id = wr.wr_id,
                        .opcode = engine::WrOpcode::kSend,
                        .flags = wr.send_flags,
                        .sges = sges.view(),
                        .remote_addr = 0,
                        .rkey = 0,
                        .invalidate_stag = 0};
    switch (wr.opcode) {
        case IBV_WR_SEND:
            break;
        case IBV_WR_SEND_WITH_IMM:
            send.opcode = engine::WrOpcode::kSendImm;
            send.imm_data = wr.imm_data;
            break;
        case IBV_WR_SEND_WITH_INV:
            send.opcode = engine::WrOpcode::kSendInv;
            send.invalidate_stag = wr.invalidate_rkey;
            break;
        case IBV_WR_RDMA_WRITE_WITH_IMM:
            send.imm_data = wr.imm_data;
            [[fallthrough]];
        case IBV_WR_RDMA_WRITE:
        case IBV_WR_RDMA_READ:
            send.opcode = wr.opcode == IBV_WR_RDMA_READ    ? engine::WrOpcode::kRead
                          : wr.opcode == IBV_WR_RDMA_WRITE ? engine::WrOpcode::kWrite
                                                           : engine::WrOpcode::kWriteImm;
            send.remote_addr = wr.wr.rdma.remote_addr;
            send.rkey = wr.wr.rdma.rkey;
            break;
        case IBV_WR_ATOMIC_CMP_AND_SWP:
        case IBV_WR_ATOMIC_FETCH_AND_ADD:
            send.opcode =
                wr.opcode == IBV_WR_ATOMIC_CMP_AND_SWP ? engine::WrOpcode::kCmpSwap : engine::WrOpcode::kFetchAdd;
            send.remote_addr = wr.wr.atomic.remote_addr;
            send.rkey = wr.wr.atomic.rkey;
            send.atomic = {.compare_add = wr.wr.atomic.compare_add, .swap = wr.wr.atomic.swap};
            break;
        default:
            return EINVAL;  // no iWARP equivalent (VERBS-2)
    }
    return posted(qp, [&] { return qp.engine->post_send(*qp.impl, send); });
}

int post_one(Qp& qp, const ibv_recv_wr& wr) {
    Sges sges;
    if (!sges.copy(wr.sg_list, wr.num_sge, qp.cap.max_recv_sge)) return EINVAL;
    const engine::RecvWr receive{.wr_id = wr.wr_id, .sges = sges.view()};
    if (qp.datagrams != nullptr) return to_errno(qp.engine->post_recv(*qp.datagrams, receive));
    return to_errno(qp.engine->post_recv(*qp.impl, receive));
}

int post_one(Srq& srq, const ibv_recv_wr& wr) {
    Sges sges;
    if (!sges.copy(wr.sg_list, wr.num_sge, srq.max_sge)) return EINVAL;
    return to_errno(srq.engine->post_srq_recv(*srq.impl, {.wr_id = wr.wr_id, .sges = sges.view()}));
}

// Stops at the first request that is refused; those before it stand.
template <typename Queue, typename Wr>
int post_list(Queue& queue, Wr* wr, Wr** bad_wr) {
    for (; wr; wr = wr->next) {
        const int error = post_one(queue, *wr);
        if (error) {
            *bad_wr = wr;
            if (error != ENOMEM) [[unlikely]]
                tell_of(queue, *wr, error);
            return error;
        }
    }
    return 0;
}

}  // namespace

int post_send(ibv_qp* ibqp, ibv_send_wr* wr, ibv_send_wr** bad_wr) noexcept {
    Qp& qp = to_qp(ibqp);
    const int error = post_list(qp, wr, bad_wr);
    if (qp.datagrams != nullptr) return error;                        // sent as they were posted
    if (!error || *bad_wr != wr) qp.engine->ring_doorbell(*qp.impl);  // also for what stood before a refused one
    return error;
}

int post_recv(ibv_qp* ibqp, ibv_recv_wr* wr, ibv_recv_wr** bad_wr) noexcept {
    return post_list(to_qp(ibqp), wr, bad_wr);
}

int post_srq_recv(ibv_srq* ibsrq, ibv_recv_wr* wr, ibv_recv_wr** bad_wr) noexcept {
    return post_list(to_srq(ibsrq), wr, bad_wr);
}

}  // namespace swrnic::verbs
