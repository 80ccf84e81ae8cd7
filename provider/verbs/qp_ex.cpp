// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// ibv_create_qp_ex(3) and the ibv_wr_*(3) functions: requests are put together under a lock from ibv_wr_start() on, and
// ibv_wr_complete() posts all of them or none.
#include <algorithm>
#include <cerrno>
#include <cstring>
#include <new>
#include <span>

#include "context.h"
#include "refusal.h"
#include "ud.h"
#include "verbs.h"

namespace swrnic::verbs {
namespace {

constexpr std::uint64_t kSendOps = IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_RDMA_READ |
                                   IBV_QP_EX_WITH_SEND_WITH_INV | IBV_QP_EX_WITH_BIND_MW | IBV_QP_EX_WITH_LOCAL_INV |
                                   IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM | IBV_QP_EX_WITH_SEND_WITH_IMM |
                                   IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP | IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD;
constexpr std::uint64_t kDatagramOps = IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM;

Qp& from(ibv_qp_ex* qp) {
    return *reinterpret_cast<Qp*>(qp);
}

QpEx& staging(ibv_qp_ex* qp) {
    return *from(qp).ex;
}

void refuse(QpEx& ex, int error) {
    if (ex.error == 0) ex.error = error;
}

// The request that the setters speak of; null, and the whole batch is refused, when there is none.
QpEx::Request* last(QpEx& ex) {
    if (ex.requests.empty()) refuse(ex, EINVAL);
    return ex.error == 0 ? &ex.requests.back() : nullptr;
}

void add(ibv_qp_ex* qp_ex, engine::SendWr wr) noexcept {
    Qp& qp = from(qp_ex);
    QpEx& ex = *qp.ex;
    if (ex.error != 0) return;
    const unsigned flags = qp_ex->wr_flags & ~static_cast<unsigned>(IBV_SEND_INLINE);
    if ((flags & ~kSendFlags) != 0) return refuse(ex, EINVAL);
    if (ex.requests.size() == qp.cap.max_send_wr) return refuse(ex, ENOMEM);
    wr.wr_id = qp_ex->wr_id;
    wr.flags = flags;
    try {
        ex.requests.push_back({wr, ex.sges.size(), 0});
    } catch (const std::bad_alloc&) {
        refuse(ex, ENOMEM);
    }
}

void begin(ibv_qp_ex* qp, engine::WrOpcode opcode, std::uint32_t stag, std::uint64_t remote_addr) noexcept {
    engine::SendWr wr{};
    wr.opcode = opcode;
    wr.remote_addr = remote_addr;
    if (opcode == engine::WrOpcode::kSendInv || opcode == engine::WrOpcode::kLocalInv)
        wr.invalidate_stag = stag;
    else
        wr.rkey = stag;
    add(qp, wr);
}

void begin_imm(ibv_qp_ex* qp, engine::WrOpcode opcode, std::uint32_t stag, std::uint64_t remote_addr,
               __be32 imm_data) noexcept {
    engine::SendWr wr{};
    wr.opcode = opcode;
    wr.remote_addr = remote_addr;
    wr.rkey = stag;
    wr.imm_data = imm_data;
    add(qp, wr);
}

void begin_atomic(ibv_qp_ex* qp, engine::WrOpcode opcode, std::uint32_t stag, std::uint64_t remote_addr,
                  engine::AtomicWr operands) noexcept {
    engine::SendWr wr{};
    wr.opcode = opcode;
    wr.remote_addr = remote_addr;
    wr.rkey = stag;
    wr.atomic = operands;
    add(qp, wr);
}

void bind(ibv_qp_ex* qp, ibv_mw* mw, std::uint32_t rkey, const ibv_mw_bind_info* info) noexcept {
    engine::SendWr wr{};
    const int error = mw->type == IBV_MW_TYPE_2 ? fill_bind(from(qp).base.qp, *mw, rkey, *info, wr)
                                                : EINVAL;  // type 1: ibv_bind_mw()
    if (error) return refuse(staging(qp), error);
    add(qp, wr);
}

void set_sges(ibv_qp_ex* qp_ex, std::span<const ibv_sge> list) noexcept {
    QpEx& ex = staging(qp_ex);
    QpEx::Request* request = last(ex);
    if (request == nullptr) return;
    if (list.size() > from(qp_ex).cap.max_send_sge) return refuse(ex, EINVAL);
    request->wr.flags &= ~std::uint32_t{IBV_SEND_INLINE};
    request->first_sge = ex.sges.size();
    request->sges = list.size();
    try {
        for (const ibv_sge& sge : list)
            ex.sges.push_back({.addr = sge.addr, .length = sge.length, .lkey = sge.lkey});
    } catch (const std::bad_alloc&) {
        refuse(ex, ENOMEM);
    }
}

// The data is copied now: the caller may reuse it at once. It is named by its place until complete().
void set_inline(ibv_qp_ex* qp_ex, std::span<const ibv_data_buf> buffers) noexcept {
    QpEx& ex = staging(qp_ex);
    QpEx::Request* request = last(ex);
    if (request == nullptr) return;
    const std::size_t start = ex.data.size();
    std::size_t length = 0;
    for (const ibv_data_buf& buffer : buffers) {
        if (buffer.length > from(qp_ex).cap.max_inline_data - length) return refuse(ex, EINVAL);
        length += buffer.length;
    }
    request->wr.flags |= IBV_SEND_INLINE;
    request->first_sge = ex.sges.size();
    request->sges = 1;
    try {
        for (const ibv_data_buf& buffer : buffers) {
            const auto* octets = static_cast<const std::byte*>(buffer.addr);
            ex.data.insert(ex.data.end(), octets, octets + buffer.length);
        }
        ex.sges.push_back({.addr = start, .length = static_cast<std::uint32_t>(length), .lkey = 0});
    } catch (const std::bad_alloc&) {
        refuse(ex, ENOMEM);
    }
}

void start(ibv_qp_ex* qp) {
    QpEx& ex = staging(qp);
    ex.mutex.lock();  // until complete() or abort()
    ex.requests.clear();
    ex.sges.clear();
    ex.data.clear();
    ex.error = 0;
}

int post_datagrams(Qp& qp) {
    QpEx& ex = *qp.ex;
    for (const QpEx::Request& request : ex.requests) {
        const int error = post_datagram(qp, request.wr, {ex.sges.data() + request.first_sge, request.sges}, request.to);
        if (error != 0) return error;
    }
    return 0;
}

int post(Qp& qp) {
    QpEx& ex = *qp.ex;
    if (ex.error != 0 || ex.requests.empty()) return ex.error;
    try {
        ex.posted.clear();
        for (const QpEx::Request& request : ex.requests) {
            const std::span sges(ex.sges.data() + request.first_sge, request.sges);
            if ((request.wr.flags & IBV_SEND_INLINE) != 0)
                sges[0].addr = reinterpret_cast<std::uintptr_t>(ex.data.data() + sges[0].addr);
            ex.posted.push_back(request.wr);
            ex.posted.back().sges = sges;
        }
    } catch (const std::bad_alloc&) {
        return ENOMEM;
    }
    if (qp.datagrams != nullptr) return post_datagrams(qp);
    const int error = posted(qp, [&] { return qp.engine->post_sends(*qp.impl, ex.posted); });
    if (error == 0) qp.engine->ring_doorbell(*qp.impl);
    return error;
}

int complete(ibv_qp_ex* qp_ex) {
    Qp& qp = from(qp_ex);
    const int error = post(qp);
    if (error == EINVAL) [[unlikely]]
        tell(Refusal::kOtherPost,
             "ibv_wr_complete refused (EINVAL): a request of {} has more elements or inline octets than its QP takes, "
             "or the QP is not connected yet",
             qp.ex->requests.size());
    if (error == EOPNOTSUPP) [[unlikely]]
        tell_not_agreed("ibv_wr_complete");
    qp.ex->mutex.unlock();
    return error;
}

void abort(ibv_qp_ex* qp) {
    staging(qp).mutex.unlock();
}

void begin_with_imm(ibv_qp_ex* qp, __be32 imm_data) noexcept {
    begin(qp, engine::WrOpcode::kSend, 0, 0);
    QpEx::Request* request = last(staging(qp));
    if (request == nullptr) return;
    request->to.has_imm = true;
    request->to.imm_data = imm_data;
}

void give_datagram_functions(ibv_qp_ex& qp) {
    qp.wr_send_imm = begin_with_imm;
    qp.wr_set_ud_addr = [](ibv_qp_ex* to, ibv_ah* ah, std::uint32_t qpn, std::uint32_t q_key) {
        QpEx::Request* request = last(staging(to));
        if (request == nullptr) return;
        request->to.ah = ah;
        request->to.qpn = qpn;
        request->to.q_key = q_key;
    };
}

void give_functions(ibv_qp_ex& qp) {
    qp.wr_start = start;
    qp.wr_complete = complete;
    qp.wr_abort = abort;
    qp.wr_send = [](ibv_qp_ex* to) { begin(to, engine::WrOpcode::kSend, 0, 0); };
    qp.wr_send_inv = [](ibv_qp_ex* to, std::uint32_t rkey) { begin(to, engine::WrOpcode::kSendInv, rkey, 0); };
    qp.wr_local_inv = [](ibv_qp_ex* to, std::uint32_t rkey) { begin(to, engine::WrOpcode::kLocalInv, rkey, 0); };
    qp.wr_bind_mw = bind;
    qp.wr_rdma_write = [](ibv_qp_ex* to, std::uint32_t rkey, std::uint64_t addr) {
        begin(to, engine::WrOpcode::kWrite, rkey, addr);
    };
    qp.wr_rdma_read = [](ibv_qp_ex* to, std::uint32_t rkey, std::uint64_t addr) {
        begin(to, engine::WrOpcode::kRead, rkey, addr);
    };
    qp.wr_send_imm = [](ibv_qp_ex* to, __be32 imm_data) { begin_imm(to, engine::WrOpcode::kSendImm, 0, 0, imm_data); };
    qp.wr_rdma_write_imm = [](ibv_qp_ex* to, std::uint32_t rkey, std::uint64_t addr, __be32 imm_data) {
        begin_imm(to, engine::WrOpcode::kWriteImm, rkey, addr, imm_data);
    };
    qp.wr_atomic_cmp_swp = [](ibv_qp_ex* to, std::uint32_t rkey, std::uint64_t addr, std::uint64_t compare,
                              std::uint64_t swap) {
        begin_atomic(to, engine::WrOpcode::kCmpSwap, rkey, addr, {.compare_add = compare, .swap = swap});
    };
    qp.wr_atomic_fetch_add = [](ibv_qp_ex* to, std::uint32_t rkey, std::uint64_t addr, std::uint64_t add) {
        begin_atomic(to, engine::WrOpcode::kFetchAdd, rkey, addr, {.compare_add = add, .swap = 0});
    };
    qp.wr_set_sge = [](ibv_qp_ex* to, std::uint32_t lkey, std::uint64_t addr, std::uint32_t length) {
        const ibv_sge sge{.addr = addr, .length = length, .lkey = lkey};
        set_sges(to, {&sge, 1});
    };
    qp.wr_set_sge_list = [](ibv_qp_ex* to, std::size_t count, const ibv_sge* list) { set_sges(to, {list, count}); };
    qp.wr_set_inline_data = [](ibv_qp_ex* to, void* addr, std::size_t length) {
        const ibv_data_buf buffer{.addr = addr, .length = length};
        set_inline(to, {&buffer, 1});
    };
    qp.wr_set_inline_data_list = [](ibv_qp_ex* to, std::size_t count, const ibv_data_buf* list) {
        set_inline(to, {list, count});
    };
}

int check(const ibv_qp_init_attr_ex& attr) {
    constexpr std::uint32_t kMasks =
        IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_CREATE_FLAGS | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
    if ((attr.comp_mask & IBV_QP_INIT_ATTR_PD) == 0 || attr.pd == nullptr) return EINVAL;
    if ((attr.comp_mask & ~kMasks) != 0) return EOPNOTSUPP;
    if ((attr.comp_mask & IBV_QP_INIT_ATTR_CREATE_FLAGS) != 0 && attr.create_flags != 0) return EOPNOTSUPP;
    const std::uint64_t ops = attr.qp_type == IBV_QPT_UD ? kDatagramOps : kSendOps;
    if ((attr.comp_mask & IBV_QP_INIT_ATTR_SEND_OPS_FLAGS) != 0 && (attr.send_ops_flags & ~ops) != 0) return EOPNOTSUPP;
    return 0;
}

}  // namespace

ibv_qp* create_qp_ex(ibv_context*, ibv_qp_init_attr_ex* attr) noexcept {
    if (const int error = check(*attr); error != 0) {
        errno = error;
        return nullptr;
    }
    std::unique_ptr<QpEx> ex;
    if ((attr->comp_mask & IBV_QP_INIT_ATTR_SEND_OPS_FLAGS) != 0) {
        ex.reset(new (std::nothrow) QpEx);
        if (!ex) {
            errno = ENOMEM;
            return nullptr;
        }
    }
    ibv_qp_init_attr plain{.qp_context = attr->qp_context,
                           .send_cq = attr->send_cq,
                           .recv_cq = attr->recv_cq,
                           .srq = attr->srq,
                           .cap = attr->cap,
                           .qp_type = attr->qp_type,
                           .sq_sig_all = attr->sq_sig_all};
    ibv_qp* made = create_qp(attr->pd, &plain);
    if (made == nullptr) return nullptr;
    attr->cap = plain.cap;
    Qp& qp = to_qp(made);
    if (ex) {
        qp.ex = std::move(ex);
        abi::mark_extended(qp.base);
        give_functions(qp.base.qp_ex);
        if (qp.datagrams != nullptr) give_datagram_functions(qp.base.qp_ex);
        try {
            qp.ex->in_child.emplace(qp.base.qp_ex);
        } catch (const std::bad_alloc&) {
            destroy_qp(made);
            errno = ENOMEM;
            return nullptr;
        }
    }
    return made;
}

}  // namespace swrnic::verbs
