// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// The verbs that this provider implements, as context.cpp puts them into the table. Errors are positive errno values;
// creation returns null and sets errno. None of them throws.
#pragma once

#include "engine/engine.h"
#include "provider-abi.h"

namespace swrnic::verbs {

// device.cpp
extern const verbs_device_ops kDeviceOps;

// context.cpp
verbs_context* alloc_context(ibv_device* device, int cmd_fd, void* private_data) noexcept;
void free_context(ibv_context* context) noexcept;

// port.cpp
int query_device_ex(ibv_context* context, const ibv_query_device_ex_input* input, ibv_device_attr_ex* attr,
                    std::size_t attr_size) noexcept;
int query_port(ibv_context* context, std::uint8_t port_num, ibv_port_attr* attr) noexcept;

// pd.cpp
ibv_pd* alloc_pd(ibv_context* context) noexcept;
int dealloc_pd(ibv_pd* pd) noexcept;
ibv_td* alloc_td(ibv_context* context, ibv_td_init_attr* attr) noexcept;
int dealloc_td(ibv_td* td) noexcept;
ibv_pd* alloc_parent_domain(ibv_context* context, ibv_parent_domain_init_attr* attr) noexcept;

// mr.cpp
ibv_mr* reg_mr(ibv_pd* pd, void* addr, std::size_t length, std::uint64_t hca_va, int access) noexcept;
int rereg_mr(verbs_mr* mr, int flags, ibv_pd* pd, void* addr, std::size_t length, int access) noexcept;
int dereg_mr(verbs_mr* mr) noexcept;

// mw.cpp
ibv_mw* alloc_mw(ibv_pd* pd, ibv_mw_type type) noexcept;
int dealloc_mw(ibv_mw* mw) noexcept;
int bind_mw(ibv_qp* qp, ibv_mw* mw, ibv_mw_bind* mw_bind) noexcept;
// Of IBV_WR_BIND_MW; 0 or an errno value.
int fill_bind(const ibv_qp& qp, const ibv_mw& mw, std::uint32_t rkey, const ibv_mw_bind_info& info,
              engine::SendWr& wr) noexcept;

// ah.cpp
ibv_ah* create_ah(ibv_pd* pd, ibv_ah_attr* attr) noexcept;
int destroy_ah(ibv_ah* ah) noexcept;

// cq.cpp
ibv_cq* create_cq(ibv_context* context, int cqe, ibv_comp_channel* channel, int comp_vector) noexcept;
int resize_cq(ibv_cq* cq, int cqe) noexcept;
int destroy_cq(ibv_cq* cq) noexcept;
int poll_cq(ibv_cq* cq, int num_entries, ibv_wc* wc) noexcept;
int req_notify_cq(ibv_cq* cq, int solicited_only) noexcept;
struct Cq;
// Fills cq; 0 or an errno value. clock: see engine.h.
int make_cq(ibv_context* context, int cqe, ibv_comp_channel* channel, int comp_vector, Cq& cq,
            engine::CompletionClock clock);

// cq_ex.cpp
ibv_cq_ex* create_cq_ex(ibv_context* context, ibv_cq_init_attr_ex* attr) noexcept;
int query_rt_values(ibv_context* context, ibv_values_ex* values) noexcept;

// qp.cpp
ibv_qp* create_qp(ibv_pd* pd, ibv_qp_init_attr* attr) noexcept;
int modify_qp(ibv_qp* qp, ibv_qp_attr* attr, int attr_mask) noexcept;
int query_qp(ibv_qp* qp, ibv_qp_attr* attr, int attr_mask, ibv_qp_init_attr* init_attr) noexcept;
int destroy_qp(ibv_qp* qp) noexcept;

// qp_ex.cpp
ibv_qp* create_qp_ex(ibv_context* context, ibv_qp_init_attr_ex* attr) noexcept;

// ud.cpp
int attach_mcast(ibv_qp* qp, const ibv_gid* gid, std::uint16_t lid) noexcept;
int detach_mcast(ibv_qp* qp, const ibv_gid* gid, std::uint16_t lid) noexcept;

// srq.cpp
ibv_srq* create_srq(ibv_pd* pd, ibv_srq_init_attr* attr) noexcept;
int modify_srq(ibv_srq* srq, ibv_srq_attr* attr, int attr_mask) noexcept;
int query_srq(ibv_srq* srq, ibv_srq_attr* attr) noexcept;
int destroy_srq(ibv_srq* srq) noexcept;

// All of them but free_context, under the names that the table has for them: OP(name) for each.
#define SWRNIC_VERBS(OP)    \
    OP(alloc_mw)            \
    OP(alloc_parent_domain) \
    OP(alloc_pd)            \
    OP(alloc_td)            \
    OP(attach_mcast)        \
    OP(bind_mw)             \
    OP(create_ah)           \
    OP(create_cq)           \
    OP(create_cq_ex)        \
    OP(create_qp)           \
    OP(create_qp_ex)        \
    OP(create_srq)          \
    OP(dealloc_mw)          \
    OP(dealloc_pd)          \
    OP(dealloc_td)          \
    OP(dereg_mr)            \
    OP(destroy_ah)          \
    OP(destroy_cq)          \
    OP(destroy_qp)          \
    OP(destroy_srq)         \
    OP(detach_mcast)        \
    OP(modify_qp)           \
    OP(modify_srq)          \
    OP(poll_cq)             \
    OP(post_recv)           \
    OP(post_send)           \
    OP(post_srq_recv)       \
    OP(query_device_ex)     \
    OP(query_port)          \
    OP(query_qp)            \
    OP(query_rt_values)     \
    OP(query_srq)           \
    OP(reg_mr)              \
    OP(req_notify_cq)       \
    OP(rereg_mr)            \
    OP(resize_cq)

// post.cpp
int post_send(ibv_qp* qp, ibv_send_wr* wr, ibv_send_wr** bad_wr) noexcept;
int post_recv(ibv_qp* qp, ibv_recv_wr* wr, ibv_recv_wr** bad_wr) noexcept;
int post_srq_recv(ibv_srq* srq, ibv_recv_wr* wr, ibv_recv_wr** bad_wr) noexcept;

}  // namespace swrnic::verbs
