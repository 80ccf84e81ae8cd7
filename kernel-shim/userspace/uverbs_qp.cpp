// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Queue pairs: numbers, attributes, and the end of the connection that they carry.
#include <algorithm>

#include "datagrams.h"
#include "device_limits.h"
#include "event_file.h"
#include "state.h"
#include "ucma.h"
#include "uverbs.h"
#include "wired.h"

namespace swrnic::shim {
namespace {

enum : std::uint8_t { kReset, kInit, kRtr, kRts, kSqd, kSqe, kErr };

// enum ib_qp_attr_mask
constexpr std::uint32_t kMaskState = 1u << 0, kMaskAccess = 1u << 3, kMaskAv = 1u << 7, kMaskRqPsn = 1u << 12,
                        kMaskOrd = 1u << 13, kMaskSqPsn = 1u << 16, kMaskIrd = 1u << 17, kMaskDestQpn = 1u << 20;
constexpr std::uint32_t kMaskWiring = kMaskAv | kMaskDestQpn;

constexpr std::uint32_t kSqDrained = 1u << 5;  // enum ib_event_type, as a bit

std::uint32_t new_qpn(Locked& locked) {
    std::uint32_t qpn = locked->qp_numbers.take(locked);
    // One that nobody can call: good enough for rdma_cm, and for a QP that is wired to one that can be called.
    while (qpn <= 1 || locked->qps.contains(qpn))
        qpn = locked->random.next() & 0xffffff;
    return qpn;
}

bool valid(const swrnic_create_qp_req& startup) {
    return startup.crc_mode <= SWRNIC_CRC_OFF && startup.fpdu_mode <= SWRNIC_FPDU_64K && startup.mpa_rev >= 1 &&
           startup.mpa_rev <= 2 && startup.rfc7306 <= 1 &&
           std::all_of(std::begin(startup.reserved), std::end(startup.reserved), [](auto octet) { return octet == 0; });
}

}  // namespace

int UverbsFile::make_qp(Locked& locked, const ib_uverbs_ex_create_qp& wish, const swrnic_create_qp_req& startup,
                        ib_uverbs_create_qp_resp& made) {
    if (wish.qp_type != kQptRc && wish.qp_type != kQptUc && wish.qp_type != kQptUd) return -EOPNOTSUPP;  // VERBS-46
    Pd* pd = find_object(pds_, wish.pd_handle);
    Cq* send_cq = find_object(cqs_, wish.send_cq_handle);
    Cq* recv_cq = find_object(cqs_, wish.recv_cq_handle);
    Srq* srq = wish.is_srq != 0 ? find_object(srqs_, wish.srq_handle) : nullptr;
    if (wish.is_srq != 0 && srq == nullptr) return -EINVAL;
    if (pd == nullptr || send_cq == nullptr || recv_cq == nullptr || !valid(startup)) return -EINVAL;
    if (wish.max_send_wr > SWR_MAX_QP_WR || wish.max_recv_wr > SWR_MAX_QP_WR || wish.max_send_sge > SWR_MAX_SGE ||
        wish.max_recv_sge > SWR_MAX_SGE || wish.max_inline_data > SWR_MAX_INLINE) {
        return -EINVAL;
    }
    Share share = Share::take(Kind::kQp);
    if (!share) return -ENOMEM;
    auto qp = std::make_unique<Qp>();
    qp->share = std::move(share);
    qp->type = static_cast<std::uint8_t>(wish.qp_type);
    if (qp->type == kQptUd) {
        const int error = give_datagrams(locked, *this, *qp);
        if (error != 0) return error;
    } else {
        qp->qpn = new_qpn(locked);
    }
    qp->handle = new_handle();
    qp->user_handle = wish.user_handle;
    qp->context = this;
    qp->pd = pd;
    qp->send_cq = send_cq;
    qp->recv_cq = recv_cq;
    qp->srq = srq;
    qp->max_send_wr = made.max_send_wr = wish.max_send_wr;
    qp->max_recv_wr = made.max_recv_wr = wish.max_recv_wr;
    qp->max_send_sge = made.max_send_sge = wish.max_send_sge;
    qp->max_recv_sge = made.max_recv_sge = wish.max_recv_sge;
    qp->max_inline = made.max_inline_data = wish.max_inline_data;
    qp->sq_sig_all = wish.sq_sig_all != 0;
    qp->startup = startup;
    made.qp_handle = qp->handle;
    made.qpn = qp->qpn;
    ++pd->users;
    ++send_cq->users;
    ++recv_cq->users;
    if (srq != nullptr) ++srq->users;
    locked->qps.emplace(qp->qpn, qp.get());
    qps_.emplace(made.qp_handle, std::move(qp));
    return 0;
}

int UverbsFile::create_qp(Locked& locked, UverbsRequest& request) {
    ib_uverbs_create_qp core;
    swrnic_create_qp_req startup;
    if (!request.take(core) || !request.take_driver(startup)) return -EINVAL;
    ib_uverbs_create_qp_resp made{};
    if (const int error = request.room(sizeof(made)); error != 0) return error;
    ib_uverbs_ex_create_qp wish{};
    static_assert(offsetof(ib_uverbs_create_qp, user_handle) == 8 && offsetof(ib_uverbs_ex_create_qp, comp_mask) == 48);
    std::memcpy(&wish, &core.user_handle,
                offsetof(ib_uverbs_ex_create_qp, comp_mask));  // the same fields, by design of the uAPI
    const int error = make_qp(locked, wish, startup, made);
    if (error == 0) request.reply(made);
    return error;
}

int UverbsFile::create_qp_ex(Locked& locked, UverbsRequest& request) {
    ib_uverbs_ex_create_qp core{};
    constexpr std::size_t kMinimum = offsetof(ib_uverbs_ex_create_qp, rwq_ind_tbl_handle);
    swrnic_create_qp_req startup;
    if (request.core.size() < kMinimum || !request.take_driver(startup)) return -EINVAL;
    std::memcpy(&core, request.core.data(), std::min(request.core.size(), sizeof(core)));
    if (core.comp_mask != 0 || core.create_flags != 0) return -EOPNOTSUPP;
    ib_uverbs_ex_create_qp_resp made{};
    if (const int error = request.room(sizeof(made)); error != 0) return error;
    const int error = make_qp(locked, core, startup, made.base);
    made.response_length = sizeof(made);
    if (error == 0) request.reply(made);
    return error;
}

int UverbsFile::wire(Locked& locked, Qp& qp, const ib_uverbs_modify_qp& wish) {
    if ((wish.attr_mask & kMaskWiring) != kMaskWiring || wish.dest_qp_num > 0xffffff) return -EINVAL;
    const bool idle = qp.state == kInit && qp.stream == SWRNIC_STREAM_NONE && !qp.has_cm_id;
    return idle ? Wired::wire(locked, qp, wish.dest, wish.dest_qp_num) : -EINVAL;
}

// RESET or ERROR. The engine has ended the stream, unless it does not know of it yet.
int UverbsFile::unwire(Locked& locked, Qp& qp) {
    if (qp.wired == nullptr) return 0;
    if (qp.stream == SWRNIC_STREAM_QUEUED) {
        if (EventFile* file = event_file(locked)) file->forget(locked, qp.qpn);
        qp.stream = SWRNIC_STREAM_NONE;
    }
    if (qp.stream != SWRNIC_STREAM_NONE) return -EINVAL;
    qp.wired->stop(locked);
    qp.wired.reset();
    return 0;
}

int UverbsFile::change_qp(Locked& locked, const ib_uverbs_modify_qp& wish) {
    Qp* qp = find_object(qps_, wish.qp_handle);
    if (qp == nullptr) return -EINVAL;
    if ((wish.attr_mask & kMaskOrd) != 0 && wish.max_rd_atomic > SWR_MAX_READS) return -EINVAL;
    if ((wish.attr_mask & kMaskIrd) != 0 && wish.max_dest_rd_atomic > SWR_MAX_READS) return -EINVAL;
    if ((wish.attr_mask & kMaskState) != 0) {
        if (wish.qp_state > kErr) return -EINVAL;
        // VERBS-21: without wiring RTS is reached by MPA startup alone.
        const bool starts = qp->type != kQptUd && qp->wired == nullptr;
        if (wish.qp_state == kRts && qp->state != kRts && starts) return -EINVAL;
        if (qp->type != kQptUd && wish.qp_state == kRtr && (wish.attr_mask & kMaskWiring) != 0) {
            if (const int error = wire(locked, *qp, wish); error != 0) return error;
        }
        if (wish.qp_state == kErr || wish.qp_state == kReset) {
            if (const int error = unwire(locked, *qp); error != 0) return error;
            cm_abort_startup(locked, *qp, -ECONNABORTED);
        }
        if (wish.qp_state == kReset || wish.qp_state == kInit) qp->async_raised = 0;
        if (wish.qp_state == kRts) qp->async_raised &= ~kSqDrained;  // it may drain once more
        qp->state = wish.qp_state;
    }
    if ((wish.attr_mask & kMaskAccess) != 0) qp->access = wish.qp_access_flags;
    if ((wish.attr_mask & kMaskOrd) != 0) qp->ord = wish.max_rd_atomic;
    if ((wish.attr_mask & kMaskIrd) != 0) qp->ird = wish.max_dest_rd_atomic;
    if ((wish.attr_mask & kMaskRqPsn) != 0) qp->rq_psn = wish.rq_psn;
    if ((wish.attr_mask & kMaskSqPsn) != 0) qp->sq_psn = wish.sq_psn;
    return 0;
}

int UverbsFile::modify_qp(Locked& locked, UverbsRequest& request) {
    ib_uverbs_modify_qp core;
    return request.take(core) ? change_qp(locked, core) : -EINVAL;
}

int UverbsFile::modify_qp_ex(Locked& locked, UverbsRequest& request) {
    ib_uverbs_modify_qp core;
    if (!request.take(core)) return -EINVAL;
    return (core.attr_mask >> 21) != 0 ? -EOPNOTSUPP : change_qp(locked, core);  // packet pacing and beyond
}

int UverbsFile::query_qp(UverbsRequest& request) {
    ib_uverbs_query_qp core;
    if (!request.take(core)) return -EINVAL;
    const Qp* qp = find_object(qps_, core.qp_handle);
    if (qp == nullptr) return -EINVAL;
    ib_uverbs_query_qp_resp attributes{};
    if (const int error = request.room(sizeof(attributes)); error != 0) return error;
    attributes.max_send_wr = qp->max_send_wr;
    attributes.max_recv_wr = qp->max_recv_wr;
    attributes.max_send_sge = qp->max_send_sge;
    attributes.max_recv_sge = qp->max_recv_sge;
    attributes.max_inline_data = qp->max_inline;
    attributes.qp_access_flags = qp->access;
    attributes.qp_state = qp->state;
    attributes.cur_qp_state = qp->state;
    attributes.max_rd_atomic = qp->ord;
    attributes.max_dest_rd_atomic = qp->ird;
    attributes.port_num = 1;
    attributes.sq_sig_all = qp->sq_sig_all ? 1 : 0;
    request.reply(attributes);
    return 0;
}

void UverbsFile::drop_qp(Locked& locked, Qp& qp) {
    if (qp.wired != nullptr) qp.wired->stop(locked);
    cm_qp_gone(locked, qp);
    if (EventFile* file = event_file(locked)) file->forget(locked, qp.qpn);
    if (const auto file = async_file_.lock()) {
        file->remove_if(locked, [&](const AsyncEvent& event) { return event.reported == &qp.async_events_reported; });
    }
    --qp.pd->users;
    --qp.send_cq->users;
    --qp.recv_cq->users;
    if (qp.srq != nullptr) --qp.srq->users;
    locked->qps.erase(qp.qpn);
    if (qp.type != kQptUd) locked->qp_numbers.give_back(locked, qp.qpn);  // else the socket's end frees its port
}

int UverbsFile::attach_mcast(Locked& locked, UverbsRequest& request) {
    ib_uverbs_attach_mcast core;
    if (!request.take(core)) return -EINVAL;
    Qp* qp = find_object(qps_, core.qp_handle);
    if (qp == nullptr || qp->type != kQptUd) return -EINVAL;
    Gid group;
    std::copy_n(core.gid, group.size(), group.begin());
    if (qp->groups.contains(group)) return 0;
    if (qp->groups.size() >= kMaxGroups) return -ENOMEM;
    if (const int error = join_group(locked, *this, *qp, group); error != 0) return error;
    qp->groups.insert(group);
    return 0;
}

// The provider closes the socket.
int UverbsFile::detach_mcast(UverbsRequest& request) {
    ib_uverbs_detach_mcast core;
    if (!request.take(core)) return -EINVAL;
    Qp* qp = find_object(qps_, core.qp_handle);
    Gid group;
    std::copy_n(core.gid, group.size(), group.begin());
    return qp != nullptr && qp->groups.erase(group) != 0 ? 0 : -EINVAL;
}

int UverbsFile::destroy_qp(Locked& locked, UverbsRequest& request) {
    ib_uverbs_destroy_qp core;
    if (!request.take(core)) return -EINVAL;
    Qp* qp = find_object(qps_, core.qp_handle);
    if (qp == nullptr) return -EINVAL;
    ib_uverbs_destroy_qp_resp counts{};
    if (const int error = request.room(sizeof(counts)); error != 0) return error;
    drop_qp(locked, *qp);
    counts.events_reported = qp->async_events_reported;
    qps_.erase(core.qp_handle);
    request.reply(counts);
    return 0;
}

}  // namespace swrnic::shim
