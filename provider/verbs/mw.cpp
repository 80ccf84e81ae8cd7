// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Memory windows: the engine binds and checks, the shim keeps the account.
#include <cerrno>
#include <memory>
#include <new>

#include "command.h"
#include "context.h"
#include "verbs.h"

namespace swrnic::verbs {
namespace {

static_assert(static_cast<int>(engine::WindowType::kType1) == IBV_MW_TYPE_1);
static_assert(static_cast<int>(engine::WindowType::kType2) == IBV_MW_TYPE_2);

constexpr unsigned kRights = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
// A window names nothing for local use, and programs say it all the same: adapters take it without a word.
constexpr unsigned kIgnored = IBV_ACCESS_LOCAL_WRITE;

int alloc(ibv_pd* pd, ibv_mw_type type, ibv_mw* mw) {
    if (type != IBV_MW_TYPE_1 && type != IBV_MW_TYPE_2) return EINVAL;
    auto& engine = to_state(pd->context).engine();
    swrnic_alloc_mw_req driver{};
    driver.stag = engine.create_window(domain_of(*pd), static_cast<engine::WindowType>(type));
    if (driver.stag == 0) return ENOMEM;
    Request<ib_uverbs_alloc_mw, swrnic_alloc_mw_req> request(driver);
    Response<ib_uverbs_alloc_mw_resp> response;
    const int error = abi::libibverbs.ibv_cmd_alloc_mw(pd, type, mw, request.data(), request.size(), response.core(),
                                                       response.size());
    if (error) engine.destroy_window(driver.stag);
    return error;
}

}  // namespace

ibv_mw* alloc_mw(ibv_pd* pd, ibv_mw_type type) noexcept {
    std::unique_ptr<ibv_mw> mw(new (std::nothrow) ibv_mw{});
    const int error = mw ? alloc(pd, type, mw.get()) : ENOMEM;
    if (!error) return mw.release();
    errno = error;
    return nullptr;
}

// Ends its binding, and what is under way through it.
int dealloc_mw(ibv_mw* mw) noexcept {
    const int error = abi::libibverbs.ibv_cmd_dealloc_mw(mw);
    if (error) return error;
    to_state(mw->context).engine().destroy_window(mw->rkey);
    delete mw;
    return 0;
}

// Only the shape is looked at here. Rights, bounds and what is bound already are as they are when the request's turn
// comes: then it fails by MW_BIND_ERR.
int fill_bind(const ibv_qp& qp, const ibv_mw& mw, std::uint32_t rkey, const ibv_mw_bind_info& info,
              engine::SendWr& wr) noexcept {
    const bool type_2 = mw.type == IBV_MW_TYPE_2;
    if (mw.context != qp.context || (rkey ^ mw.rkey) >> 8 != 0) return EINVAL;  // VERBS-35: the key alone is chosen
    if ((info.mw_access_flags & ~(kRights | kIgnored | IBV_ACCESS_ZERO_BASED)) != 0) return EINVAL;
    if (!type_2 && (info.mw_access_flags & IBV_ACCESS_ZERO_BASED) != 0) return EINVAL;
    if (info.mr == nullptr && (info.length != 0 || info.addr != 0)) return EINVAL;
    if (type_2 && info.length == 0) return EINVAL;
    wr.opcode = engine::WrOpcode::kBind;
    wr.remote_addr = info.addr;
    wr.rkey = rkey;
    wr.bind = {.length = info.length,
               .region = info.mr != nullptr ? info.mr->lkey : 0,
               .access = info.mw_access_flags & ~kIgnored};
    return 0;
}

// Type 1. The new key is the caller's as soon as the request is posted.
int bind_mw(ibv_qp* ibqp, ibv_mw* mw, ibv_mw_bind* mw_bind) noexcept {
    Qp& qp = to_qp(ibqp);
    if ((mw_bind->send_flags & ~kSendFlags) != 0) return EINVAL;
    engine::SendWr wr{};
    wr.wr_id = mw_bind->wr_id;
    wr.flags = mw_bind->send_flags;
    int error = fill_bind(*ibqp, *mw, ibv_inc_rkey(mw->rkey), mw_bind->bind_info, wr);
    if (!error && qp.datagrams != nullptr) error = EINVAL;
    if (!error) error = posted(qp, [&] { return qp.engine->post_send(*qp.impl, wr); });
    if (error) return error;
    mw->rkey = wr.rkey;
    qp.engine->ring_doorbell(*qp.impl);
    return 0;
}

}  // namespace swrnic::verbs
