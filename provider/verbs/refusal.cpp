// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "refusal.h"

#include <cerrno>
#include <cstdint>

#include "context.h"

namespace swrnic::verbs {
namespace {

bool is_offered(ibv_wr_opcode opcode) {
    switch (opcode) {
        case IBV_WR_SEND:
        case IBV_WR_SEND_WITH_INV:
        case IBV_WR_RDMA_WRITE:
        case IBV_WR_RDMA_READ:
        case IBV_WR_LOCAL_INV:
        case IBV_WR_BIND_MW:
        case IBV_WR_SEND_WITH_IMM:
        case IBV_WR_RDMA_WRITE_WITH_IMM:
        case IBV_WR_ATOMIC_CMP_AND_SWP:
        case IBV_WR_ATOMIC_FETCH_AND_ADD:
            return true;
        default:
            return false;
    }
}

std::uint64_t length_of(const ibv_send_wr& wr) {
    std::uint64_t length = 0;
    for (int i = 0; i < wr.num_sge; ++i)
        length += wr.sg_list[i].length;
    return length;
}

void tell_of_receive(int elements, std::uint32_t most) {
    if (elements < 0 || static_cast<std::uint32_t>(elements) > most) {
        tell(Refusal::kElements,
             "a receive is refused (EINVAL): {} elements, and the queue has {}; ask for more when it is created",
             elements, most);
    } else {
        tell(Refusal::kOtherPost,
             "a receive is refused (EINVAL): the QP is in RESET, or its receives come from a shared queue");
    }
}

}  // namespace

void tell_not_agreed(const char* call) noexcept {
    tell(
        Refusal::kNotAgreed,
        "{} refused (EOPNOTSUPP): immediate data and atomics need swrnic of this version or newer at both ends; send a "
        "Write and a Send instead, or configure the program so",
        call);
}

void tell_of(const Qp& qp, const ibv_send_wr& wr, int error) noexcept {
    if (error == EOPNOTSUPP) return tell_not_agreed("ibv_post_send");
    if (qp.datagrams != nullptr) {
        tell(Refusal::kOtherPost,
             "ibv_post_send refused (EINVAL): a UD QP in RTS sends up to 4096 octets, with or without immediate data, "
             "to "
             "an address handle; opcode {}, send_flags {:#x}, {} elements, QP number {:#x}",
             static_cast<int>(wr.opcode), wr.send_flags, wr.num_sge, wr.wr.ud.remote_qpn);
        return;
    }
    const auto opcode = static_cast<int>(wr.opcode);
    if (!is_offered(wr.opcode)) {
        tell(Refusal::kOpcode, "ibv_post_send refused (EINVAL): opcode {} is not offered", opcode);
    } else if ((wr.send_flags & ~kSendFlags) != 0) {
        tell(Refusal::kFlags, "ibv_post_send refused (EINVAL): send_flags {:#x} has bits that are not offered",
             wr.send_flags);
    } else if (wr.opcode == IBV_WR_LOCAL_INV || wr.opcode == IBV_WR_BIND_MW) {
        // It has no elements, and what stands in their place means nothing.
        tell(Refusal::kOtherPost, "ibv_post_send refused (EINVAL): opcode {}, send_flags {:#x}", opcode, wr.send_flags);
    } else if (wr.num_sge < 0 || static_cast<std::uint32_t>(wr.num_sge) > qp.cap.max_send_sge) {
        tell(Refusal::kElements,
             "ibv_post_send refused (EINVAL): {} elements, and the QP has {}; ask for more in cap.max_send_sge",
             wr.num_sge, qp.cap.max_send_sge);
    } else if (qp.engine->query(*qp.impl).state < engine::QpState::kRts) {
        tell(Refusal::kNotConnected,
             "ibv_post_send refused (EINVAL): the QP is not connected yet; wait for RDMA_CM_EVENT_ESTABLISHED");
    } else if ((wr.send_flags & IBV_SEND_INLINE) != 0 && length_of(wr) > qp.cap.max_inline_data) {
        tell(Refusal::kInline,
             "ibv_post_send refused (EINVAL): {} octets inline, and the QP takes {}; ask for more in "
             "cap.max_inline_data",
             length_of(wr), qp.cap.max_inline_data);
    } else {
        tell(Refusal::kOtherPost,
             "ibv_post_send refused (EINVAL): opcode {}, send_flags {:#x}, {} octets in {} elements", opcode,
             wr.send_flags, length_of(wr), wr.num_sge);
    }
}

void tell_of(const Qp& qp, const ibv_recv_wr& wr, int) noexcept {
    tell_of_receive(wr.num_sge, qp.cap.max_recv_sge);
}

void tell_of(const Srq& srq, const ibv_recv_wr& wr, int) noexcept {
    tell_of_receive(wr.num_sge, srq.max_sge);
}

}  // namespace swrnic::verbs
