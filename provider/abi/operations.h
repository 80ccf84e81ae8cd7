// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// The operations that a provider hands to verbs_set_ops(): one pointer each, in alphabetical order, so an addition
// moves all that follow. A null pointer means "not offered"; libibverbs then answers EOPNOTSUPP (async_event and
// cq_event: does nothing).
#pragma once

#include <infiniband/verbs.h>

#include <array>
#include <cstddef>
#include <cstdint>

struct verbs_mr;

namespace swrnic::abi {

// Those that we offer.
struct Operations {
    ibv_mw* (*alloc_mw)(ibv_pd* pd, ibv_mw_type type);
    ibv_pd* (*alloc_parent_domain)(ibv_context* context, ibv_parent_domain_init_attr* attr);
    ibv_pd* (*alloc_pd)(ibv_context* context);
    ibv_td* (*alloc_td)(ibv_context* context, ibv_td_init_attr* attr);
    int (*attach_mcast)(ibv_qp* qp, const ibv_gid* gid, std::uint16_t lid);
    int (*bind_mw)(ibv_qp* qp, ibv_mw* mw, ibv_mw_bind* mw_bind);
    ibv_ah* (*create_ah)(ibv_pd* pd, ibv_ah_attr* attr);
    ibv_cq* (*create_cq)(ibv_context* context, int cqe, ibv_comp_channel* channel, int comp_vector);
    ibv_cq_ex* (*create_cq_ex)(ibv_context* context, ibv_cq_init_attr_ex* attr);
    ibv_qp* (*create_qp)(ibv_pd* pd, ibv_qp_init_attr* attr);
    ibv_qp* (*create_qp_ex)(ibv_context* context, ibv_qp_init_attr_ex* attr);
    ibv_srq* (*create_srq)(ibv_pd* pd, ibv_srq_init_attr* attr);
    int (*dealloc_mw)(ibv_mw* mw);
    int (*dealloc_pd)(ibv_pd* pd);
    int (*dealloc_td)(ibv_td* td);
    int (*dereg_mr)(verbs_mr* mr);
    int (*destroy_ah)(ibv_ah* ah);
    int (*destroy_cq)(ibv_cq* cq);
    int (*destroy_qp)(ibv_qp* qp);
    int (*destroy_srq)(ibv_srq* srq);
    int (*detach_mcast)(ibv_qp* qp, const ibv_gid* gid, std::uint16_t lid);
    void (*free_context)(ibv_context* context);
    int (*modify_qp)(ibv_qp* qp, ibv_qp_attr* attr, int attr_mask);
    int (*modify_srq)(ibv_srq* srq, ibv_srq_attr* attr, int attr_mask);
    int (*poll_cq)(ibv_cq* cq, int num_entries, ibv_wc* wc);
    int (*post_recv)(ibv_qp* qp, ibv_recv_wr* wr, ibv_recv_wr** bad_wr);
    int (*post_send)(ibv_qp* qp, ibv_send_wr* wr, ibv_send_wr** bad_wr);
    int (*post_srq_recv)(ibv_srq* srq, ibv_recv_wr* wr, ibv_recv_wr** bad_wr);
    int (*query_device_ex)(ibv_context* context, const ibv_query_device_ex_input* input, ibv_device_attr_ex* attr,
                           size_t attr_size);
    int (*query_port)(ibv_context* context, uint8_t port_num, ibv_port_attr* port_attr);
    int (*query_qp)(ibv_qp* qp, ibv_qp_attr* attr, int attr_mask, ibv_qp_init_attr* init_attr);
    int (*query_rt_values)(ibv_context* context, ibv_values_ex* values);
    int (*query_srq)(ibv_srq* srq, ibv_srq_attr* attr);
    ibv_mr* (*reg_mr)(ibv_pd* pd, void* addr, size_t length, uint64_t hca_va, int access);
    int (*req_notify_cq)(ibv_cq* cq, int solicited_only);
    int (*rereg_mr)(verbs_mr* mr, int flags, ibv_pd* pd, void* addr, std::size_t length, int access);
    int (*resize_cq)(ibv_cq* cq, int cqe);
};

// clang-format off
// All of rdma-core's. OTHER(release, name): one that we do not offer, and the release that it came with; OURS(name): one
// that has been there since the oldest release.
#define SWRNIC_OPERATION_ORDER(OURS, OTHER) \
    OTHER(39, advise_mr) \
    OTHER(64, alloc_buf) \
    OTHER(39, alloc_dm) \
    OTHER(59, alloc_dmah) \
    OURS(alloc_mw) \
    OTHER(39, alloc_null_mr) \
    OURS(alloc_parent_domain) \
    OURS(alloc_pd) \
    OURS(alloc_td) \
    OTHER(39, async_event) \
    OTHER(39, attach_counters_point_flow) \
    OURS(attach_mcast) \
    OURS(bind_mw) \
    OTHER(39, close_xrcd) \
    OTHER(39, cq_event) \
    OURS(create_ah) \
    OTHER(65, create_comp_cntr) \
    OTHER(39, create_counters) \
    OURS(create_cq) \
    OURS(create_cq_ex) \
    OTHER(39, create_flow) \
    OTHER(39, create_flow_action_esp) \
    OURS(create_qp) \
    OURS(create_qp_ex) \
    OTHER(39, create_rwq_ind_table) \
    OURS(create_srq) \
    OTHER(39, create_srq_ex) \
    OTHER(39, create_wq) \
    OTHER(59, dealloc_dmah) \
    OURS(dealloc_mw) \
    OURS(dealloc_pd) \
    OURS(dealloc_td) \
    OURS(dereg_mr) \
    OURS(destroy_ah) \
    OTHER(65, destroy_comp_cntr) \
    OTHER(39, destroy_counters) \
    OURS(destroy_cq) \
    OTHER(39, destroy_flow) \
    OTHER(39, destroy_flow_action) \
    OURS(destroy_qp) \
    OTHER(39, destroy_rwq_ind_table) \
    OURS(destroy_srq) \
    OTHER(39, destroy_wq) \
    OURS(detach_mcast) \
    OTHER(62, dm_export_dmabuf_fd) \
    OTHER(64, free_buf) \
    OURS(free_context) \
    OTHER(39, free_dm) \
    OTHER(39, get_srq_num) \
    OTHER(39, import_dm) \
    OTHER(39, import_mr) \
    OTHER(39, import_pd) \
    OTHER(65, inc_comp_cntr) \
    OTHER(65, inc_err_comp_cntr) \
    OTHER(39, modify_cq) \
    OTHER(39, modify_flow_action_esp) \
    OURS(modify_qp) \
    OTHER(39, modify_qp_rate_limit) \
    OURS(modify_srq) \
    OTHER(39, modify_wq) \
    OTHER(39, open_qp) \
    OTHER(39, open_xrcd) \
    OURS(poll_cq) \
    OURS(post_recv) \
    OURS(post_send) \
    OTHER(39, post_srq_ops) \
    OURS(post_srq_recv) \
    OTHER(65, qp_attach_comp_cntr) \
    OTHER(65, query_comp_cntr_caps) \
    OURS(query_device_ex) \
    OTHER(39, query_ece) \
    OURS(query_port) \
    OTHER(62, query_port_speed) \
    OURS(query_qp) \
    OTHER(39, query_qp_data_in_order) \
    OURS(query_rt_values) \
    OURS(query_srq) \
    OTHER(65, read_comp_cntr) \
    OTHER(39, read_counters) \
    OTHER(65, read_err_comp_cntr) \
    OTHER(39, reg_dm_mr) \
    OTHER(39, reg_dmabuf_mr) \
    OURS(reg_mr) \
    OTHER(59, reg_mr_ex) \
    OURS(req_notify_cq) \
    OURS(rereg_mr) \
    OURS(resize_cq) \
    OTHER(65, set_comp_cntr) \
    OTHER(39, set_ece) \
    OTHER(65, set_err_comp_cntr) \
    OTHER(39, unimport_dm) \
    OTHER(39, unimport_mr) \
    OTHER(39, unimport_pd)
// clang-format on

// As libibverbs reads it. Longer than any layout: a null pointer is no operation.
using Operation = void (*)();
using OperationTable = std::array<Operation, 128>;

// The table of the layout that came with this release.
inline OperationTable arrange(const Operations& ours, unsigned release) {
    OperationTable table{};
    std::size_t at = 0;
#define SWRNIC_OURS(name) table[at++] = reinterpret_cast<Operation>(ours.name);
#define SWRNIC_OTHER(since, name) at += release >= (since) ? 1 : 0;
    SWRNIC_OPERATION_ORDER(SWRNIC_OURS, SWRNIC_OTHER)
#undef SWRNIC_OURS
#undef SWRNIC_OTHER
    return table;
}

}  // namespace swrnic::abi
