// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Extended completion queues: ibv_create_cq_ex(3) and the polling that goes with them. One completion is looked at in
// place, under a lock from start_poll() to end_poll().
#include <time.h>

#include <cerrno>
#include <memory>
#include <new>

#include "context.h"
#include "verbs.h"

namespace swrnic::verbs {
namespace {

constexpr std::uint64_t kStamps = IBV_WC_EX_WITH_COMPLETION_TIMESTAMP | IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK;
constexpr std::uint64_t kWcFlags = std::uint64_t{IBV_WC_STANDARD_FLAGS} | kStamps;

std::uint64_t nanoseconds(clockid_t clock) {
    timespec now{};
    ::clock_gettime(clock, &now);
    return static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000 + static_cast<std::uint64_t>(now.tv_nsec);
}

// What ibv_query_rt_values_ex() reads too. query_device_ex tells its rate.
std::uint64_t completion_clock() {
    return nanoseconds(CLOCK_MONOTONIC);
}

Cq& from(ibv_cq_ex* cq) {
    return *reinterpret_cast<Cq*>(cq);
}

engine::WorkCompletion& current(ibv_cq_ex* cq) {
    return from(cq).ex->current;
}

void show(ibv_cq_ex* cq) {
    cq->wr_id = current(cq).wr_id;
    cq->status = static_cast<ibv_wc_status>(current(cq).status);
}

int start_poll(ibv_cq_ex* cq_ex, ibv_poll_cq_attr* attr) {
    if (attr->comp_mask != 0) return EINVAL;
    Cq& cq = from(cq_ex);
    std::unique_lock hold(cq.ex->mutex);
    if (cq.engine->poll_cq(*cq.impl, 1, [&](const engine::WorkCompletion& done) { cq.ex->current = done; }) == 0)
        return ENOENT;
    show(cq_ex);
    hold.release();  // until end_poll()
    return 0;
}

int next_poll(ibv_cq_ex* cq_ex) {
    Cq& cq = from(cq_ex);
    if (cq.engine->poll_cq(*cq.impl, 1, [&](const engine::WorkCompletion& done) { cq.ex->current = done; }) == 0)
        return ENOENT;
    show(cq_ex);
    return 0;
}

void end_poll(ibv_cq_ex* cq) {
    from(cq).ex->mutex.unlock();
}

// InfiniBand's fields are 0.
void give_readers(ibv_cq_ex& cq) {
    cq.start_poll = start_poll;
    cq.next_poll = next_poll;
    cq.end_poll = end_poll;
    cq.read_opcode = [](ibv_cq_ex* at) { return static_cast<ibv_wc_opcode>(current(at).opcode); };
    cq.read_vendor_err = [](ibv_cq_ex* at) { return current(at).vendor_err; };
    cq.read_byte_len = [](ibv_cq_ex* at) { return current(at).byte_len; };
    // Shares its place with the invalidated rkey: ibv_wc_read_invalidated_rkey().
    cq.read_imm_data = [](ibv_cq_ex* at) { return static_cast<__be32>(current(at).imm_data); };
    cq.read_qp_num = [](ibv_cq_ex* at) { return current(at).qpn; };
    cq.read_src_qp = [](ibv_cq_ex* at) { return current(at).src_qpn; };
    cq.read_wc_flags = [](ibv_cq_ex* at) { return static_cast<unsigned>(current(at).wc_flags); };
    cq.read_slid = [](ibv_cq_ex*) { return std::uint32_t{0}; };
    cq.read_sl = [](ibv_cq_ex* at) { return current(at).sl; };
    cq.read_dlid_path_bits = [](ibv_cq_ex*) { return std::uint8_t{0}; };
    cq.read_completion_ts = [](ibv_cq_ex* at) { return current(at).timestamp; };
    cq.read_completion_wallclock_ns = [](ibv_cq_ex* at) {
        return nanoseconds(CLOCK_REALTIME) - (completion_clock() - current(at).timestamp);
    };
}

int create(ibv_context* context, const ibv_cq_init_attr_ex& attr, Cq& cq) {
    constexpr std::uint32_t kMasks = IBV_CQ_INIT_ATTR_MASK_FLAGS | IBV_CQ_INIT_ATTR_MASK_PD;
    if ((attr.comp_mask & ~kMasks) != 0 || (attr.wc_flags & ~kWcFlags) != 0) return EOPNOTSUPP;
    // SINGLE_THREADED is a promise that costs nothing to ignore; a CQ that loses completions is not offered.
    if ((attr.comp_mask & IBV_CQ_INIT_ATTR_MASK_FLAGS) != 0 && (attr.flags & ~IBV_CREATE_CQ_ATTR_SINGLE_THREADED) != 0)
        return EOPNOTSUPP;
    if ((attr.comp_mask & IBV_CQ_INIT_ATTR_MASK_PD) != 0 && !is_parent_domain(attr.parent_domain)) return EINVAL;
    if (attr.cqe > INT32_MAX || attr.comp_vector > INT32_MAX) return EINVAL;
    cq.ex = std::make_unique<CqEx>();
    cq.ex->in_child.emplace(cq.base.cq_ex);
    const int error = make_cq(context, static_cast<int>(attr.cqe), attr.channel, static_cast<int>(attr.comp_vector), cq,
                              (attr.wc_flags & kStamps) != 0 ? completion_clock : nullptr);
    if (!error) give_readers(cq.base.cq_ex);
    return error;
}

}  // namespace

ibv_cq_ex* create_cq_ex(ibv_context* context, ibv_cq_init_attr_ex* attr) noexcept {
    try {
        auto cq = std::make_unique<Cq>();
        const int error = create(context, *attr, *cq);
        if (!error) return &cq.release()->base.cq_ex;
        errno = error;
    } catch (const std::bad_alloc&) {
        errno = ENOMEM;
    }
    return nullptr;
}

int query_rt_values(ibv_context*, ibv_values_ex* values) noexcept {
    const std::uint32_t asked = values->comp_mask;
    values->comp_mask = 0;
    if ((asked & ~std::uint32_t{IBV_VALUES_MASK_RAW_CLOCK}) != 0) return EINVAL;
    if ((asked & IBV_VALUES_MASK_RAW_CLOCK) != 0) {
        const std::uint64_t now = completion_clock();
        values->raw_clock.tv_sec = static_cast<time_t>(now / 1'000'000'000);
        values->raw_clock.tv_nsec = static_cast<long>(now % 1'000'000'000);
        values->comp_mask = IBV_VALUES_MASK_RAW_CLOCK;
    }
    return 0;
}

}  // namespace swrnic::verbs
