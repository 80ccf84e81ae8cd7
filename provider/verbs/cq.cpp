// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Completion queues.
#include <cerrno>
#include <memory>
#include <new>

#include "command.h"
#include "context.h"
#include "verbs.h"

namespace swrnic::verbs {
namespace {

static_assert(static_cast<int>(engine::WcStatus::kSuccess) == IBV_WC_SUCCESS);
static_assert(static_cast<int>(engine::WcStatus::kLocLenErr) == IBV_WC_LOC_LEN_ERR);
static_assert(static_cast<int>(engine::WcStatus::kLocQpOpErr) == IBV_WC_LOC_QP_OP_ERR);
static_assert(static_cast<int>(engine::WcStatus::kLocProtErr) == IBV_WC_LOC_PROT_ERR);
static_assert(static_cast<int>(engine::WcStatus::kWrFlushErr) == IBV_WC_WR_FLUSH_ERR);
static_assert(static_cast<int>(engine::WcStatus::kMwBindErr) == IBV_WC_MW_BIND_ERR);
static_assert(static_cast<int>(engine::WcStatus::kBadRespErr) == IBV_WC_BAD_RESP_ERR);
static_assert(static_cast<int>(engine::WcStatus::kRemInvReqErr) == IBV_WC_REM_INV_REQ_ERR);
static_assert(static_cast<int>(engine::WcStatus::kRemAccessErr) == IBV_WC_REM_ACCESS_ERR);
static_assert(static_cast<int>(engine::WcStatus::kRemOpErr) == IBV_WC_REM_OP_ERR);
static_assert(static_cast<int>(engine::WcStatus::kRemInvRdReqErr) == IBV_WC_REM_INV_RD_REQ_ERR);
static_assert(static_cast<int>(engine::WcStatus::kFatalErr) == IBV_WC_FATAL_ERR);
static_assert(static_cast<int>(engine::WcStatus::kGeneralErr) == IBV_WC_GENERAL_ERR);
static_assert(static_cast<int>(engine::WcOpcode::kSend) == IBV_WC_SEND);
static_assert(static_cast<int>(engine::WcOpcode::kWrite) == IBV_WC_RDMA_WRITE);
static_assert(static_cast<int>(engine::WcOpcode::kRead) == IBV_WC_RDMA_READ);
static_assert(static_cast<int>(engine::WcOpcode::kCompSwap) == IBV_WC_COMP_SWAP);
static_assert(static_cast<int>(engine::WcOpcode::kFetchAdd) == IBV_WC_FETCH_ADD);
static_assert(static_cast<int>(engine::WcOpcode::kBind) == IBV_WC_BIND_MW);
static_assert(static_cast<int>(engine::WcOpcode::kLocalInv) == IBV_WC_LOCAL_INV);
static_assert(static_cast<int>(engine::WcOpcode::kRecv) == IBV_WC_RECV);
static_assert(static_cast<int>(engine::WcOpcode::kRecvRdmaWithImm) == IBV_WC_RECV_RDMA_WITH_IMM);
static_assert(engine::wc_flag::kWithInv == IBV_WC_WITH_INV && engine::wc_flag::kWithImm == IBV_WC_WITH_IMM);
static_assert(engine::wc_flag::kGrh == IBV_WC_GRH);

void fill(ibv_wc& wc, const engine::WorkCompletion& from) {
    wc = ibv_wc{};
    wc.wr_id = from.wr_id;
    wc.status = static_cast<ibv_wc_status>(from.status);
    wc.opcode = static_cast<ibv_wc_opcode>(from.opcode);
    wc.vendor_err = from.vendor_err;
    wc.byte_len = from.byte_len;
    wc.invalidated_rkey = from.invalidated_stag;
    if ((from.wc_flags & engine::wc_flag::kWithImm) != 0) wc.imm_data = from.imm_data;  // in the same place
    wc.src_qp = from.src_qpn;
    wc.sl = from.sl;
    wc.qp_num = from.qpn;
    wc.wc_flags = from.wc_flags;
}

}  // namespace

int make_cq(ibv_context* context, int cqe, ibv_comp_channel* channel, int comp_vector, Cq& cq,
            engine::CompletionClock clock) {
    ContextState& state = to_state(context);
    if (cqe < 1 || cqe > state.limits().max_cqe) return EINVAL;
    if (comp_vector < 0 || comp_vector >= context->num_comp_vectors) return EINVAL;
    Request<ib_uverbs_create_cq> request;
    Response<ib_uverbs_create_cq_resp> response;
    const int error = abi::libibverbs.ibv_cmd_create_cq(context, cqe, channel, comp_vector, &cq.base.cq, request.data(),
                                                        request.size(), response.core(), response.size());
    if (error) return error;
    cq.engine = &state.engine();
    cq.impl = cq.engine->create_cq(static_cast<std::uint32_t>(cqe), cq.base.cq.handle, clock);
    if (!cq.impl) {
        abi::libibverbs.ibv_cmd_destroy_cq(&cq.base.cq);
        return ENOMEM;
    }
    cq.base.cq.cqe = static_cast<int>(cq.engine->cq_entries(*cq.impl));
    return 0;
}

ibv_cq* create_cq(ibv_context* context, int cqe, ibv_comp_channel* channel, int comp_vector) noexcept {
    std::unique_ptr<Cq> cq(new (std::nothrow) Cq{});
    const int error = cq ? make_cq(context, cqe, channel, comp_vector, *cq, nullptr) : ENOMEM;
    if (error) {
        errno = error;
        return nullptr;
    }
    return &cq.release()->base.cq;
}

// The completions are the provider's: the shim need not know.
int resize_cq(ibv_cq* ibcq, int cqe) noexcept {
    Cq& cq = to_cq(ibcq);
    if (cqe < 1 || cqe > to_state(ibcq->context).limits().max_cqe) return EINVAL;
    if (!cq.engine->resize_cq(*cq.impl, static_cast<std::uint32_t>(cqe))) return EINVAL;
    ibcq->cqe = static_cast<int>(cq.engine->cq_entries(*cq.impl));
    return 0;
}

// The command first: it waits until every event that was read is acknowledged, and until then the application may poll.
int destroy_cq(ibv_cq* ibcq) noexcept {
    Cq& cq = to_cq(ibcq);
    const int error = abi::libibverbs.ibv_cmd_destroy_cq(ibcq);
    if (error) return error;
    cq.engine->destroy_cq(cq.impl);
    delete &cq;
    return 0;
}

int poll_cq(ibv_cq* ibcq, int num_entries, ibv_wc* wc) noexcept {
    Cq& cq = to_cq(ibcq);
    return cq.engine->poll_cq(*cq.impl, num_entries,
                              [&wc](const engine::WorkCompletion& completion) { fill(*wc++, completion); });
}

int req_notify_cq(ibv_cq* ibcq, int solicited_only) noexcept {
    if (!ibcq->channel) return 0;  // nobody to tell; comp_posted is for CQs with a channel only
    Cq& cq = to_cq(ibcq);
    cq.engine->req_notify(*cq.impl, solicited_only != 0);
    return 0;
}

}  // namespace swrnic::verbs
