// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// The operations that a provider hands to verbs_set_ops(): one pointer each, in alphabetical order, so an addition
// moves all that follow. One row per layout; SWRNIC_PABI and SWRNIC_RDMA_CORE (detect-pabi.cmake) choose it:
//   PABI 34 (rdma-core up to 56) and 57 (57, 58)   76 operations
//   PABI 59, rdma-core 59 to 61                    79: alloc_dmah, dealloc_dmah, reg_mr_ex
//   PABI 59, rdma-core 62 and 63                   81: dm_export_dmabuf_fd, query_port_speed
//   PABI 64                                        83: alloc_buf, free_buf
// A null pointer means "not offered"; libibverbs then answers EOPNOTSUPP (async_event and cq_event: does nothing).
// Only what we offer has its type; the others are there for their place.
#pragma once

#include <infiniband/verbs.h>

#include <cstddef>
#include <cstdint>

struct verbs_mr;

#if SWRNIC_PABI >= 59
#define SWRNIC_OP_59(name) void (*name)();
#else
#define SWRNIC_OP_59(name)
#endif
#if SWRNIC_PABI >= 64 || (SWRNIC_PABI == 59 && SWRNIC_RDMA_CORE >= 62)
#define SWRNIC_OP_62(name) void (*name)();
#else
#define SWRNIC_OP_62(name)
#endif
#if SWRNIC_PABI >= 64
#define SWRNIC_OP_64(name) void (*name)();
#else
#define SWRNIC_OP_64(name)
#endif

// clang-format off
struct verbs_context_ops {
    void (*advise_mr)();
    SWRNIC_OP_64(alloc_buf)
    void (*alloc_dm)();
    SWRNIC_OP_59(alloc_dmah)
    ibv_mw* (*alloc_mw)(ibv_pd* pd, ibv_mw_type type);
    void (*alloc_null_mr)();
    ibv_pd* (*alloc_parent_domain)(ibv_context* context, ibv_parent_domain_init_attr* attr);
    ibv_pd* (*alloc_pd)(ibv_context* context);
    ibv_td* (*alloc_td)(ibv_context* context, ibv_td_init_attr* attr);
    void (*async_event)(ibv_context* context, ibv_async_event* event);
    void (*attach_counters_point_flow)();
    int (*attach_mcast)(ibv_qp* qp, const ibv_gid* gid, std::uint16_t lid);
    int (*bind_mw)(ibv_qp* qp, ibv_mw* mw, ibv_mw_bind* mw_bind);
    void (*close_xrcd)();
    void (*cq_event)(ibv_cq* cq);
    ibv_ah* (*create_ah)(ibv_pd* pd, ibv_ah_attr* attr);
    void (*create_counters)();
    ibv_cq* (*create_cq)(ibv_context* context, int cqe, ibv_comp_channel* channel, int comp_vector);
    ibv_cq_ex* (*create_cq_ex)(ibv_context* context, ibv_cq_init_attr_ex* attr);
    void (*create_flow)();
    void (*create_flow_action_esp)();
    ibv_qp* (*create_qp)(ibv_pd* pd, ibv_qp_init_attr* attr);
    ibv_qp* (*create_qp_ex)(ibv_context* context, ibv_qp_init_attr_ex* attr);
    void (*create_rwq_ind_table)();
    ibv_srq* (*create_srq)(ibv_pd* pd, ibv_srq_init_attr* attr);
    void (*create_srq_ex)();
    void (*create_wq)();
    SWRNIC_OP_59(dealloc_dmah)
    int (*dealloc_mw)(ibv_mw* mw);
    int (*dealloc_pd)(ibv_pd* pd);
    int (*dealloc_td)(ibv_td* td);
    int (*dereg_mr)(verbs_mr* mr);
    int (*destroy_ah)(ibv_ah* ah);
    void (*destroy_counters)();
    int (*destroy_cq)(ibv_cq* cq);
    void (*destroy_flow)();
    void (*destroy_flow_action)();
    int (*destroy_qp)(ibv_qp* qp);
    void (*destroy_rwq_ind_table)();
    int (*destroy_srq)(ibv_srq* srq);
    void (*destroy_wq)();
    int (*detach_mcast)(ibv_qp* qp, const ibv_gid* gid, std::uint16_t lid);
    SWRNIC_OP_62(dm_export_dmabuf_fd)
    SWRNIC_OP_64(free_buf)
    void (*free_context)(ibv_context* context);
    void (*free_dm)();
    void (*get_srq_num)();
    void (*import_dm)();
    void (*import_mr)();
    void (*import_pd)();
    void (*modify_cq)();
    void (*modify_flow_action_esp)();
    int (*modify_qp)(ibv_qp* qp, ibv_qp_attr* attr, int attr_mask);
    void (*modify_qp_rate_limit)();
    int (*modify_srq)(ibv_srq* srq, ibv_srq_attr* attr, int attr_mask);
    void (*modify_wq)();
    void (*open_qp)();
    void (*open_xrcd)();
    int (*poll_cq)(ibv_cq* cq, int num_entries, ibv_wc* wc);
    int (*post_recv)(ibv_qp* qp, ibv_recv_wr* wr, ibv_recv_wr** bad_wr);
    int (*post_send)(ibv_qp* qp, ibv_send_wr* wr, ibv_send_wr** bad_wr);
    void (*post_srq_ops)();
    int (*post_srq_recv)(ibv_srq* srq, ibv_recv_wr* wr, ibv_recv_wr** bad_wr);
    int (*query_device_ex)(ibv_context* context, const ibv_query_device_ex_input* input, ibv_device_attr_ex* attr,
                           size_t attr_size);
    void (*query_ece)();
    int (*query_port)(ibv_context* context, uint8_t port_num, ibv_port_attr* port_attr);
    SWRNIC_OP_62(query_port_speed)
    int (*query_qp)(ibv_qp* qp, ibv_qp_attr* attr, int attr_mask, ibv_qp_init_attr* init_attr);
    void (*query_qp_data_in_order)();
    int (*query_rt_values)(ibv_context* context, ibv_values_ex* values);
    int (*query_srq)(ibv_srq* srq, ibv_srq_attr* attr);
    void (*read_counters)();
    void (*reg_dm_mr)();
    void (*reg_dmabuf_mr)();
    ibv_mr* (*reg_mr)(ibv_pd* pd, void* addr, size_t length, uint64_t hca_va, int access);
    SWRNIC_OP_59(reg_mr_ex)
    int (*req_notify_cq)(ibv_cq* cq, int solicited_only);
    int (*rereg_mr)(verbs_mr* mr, int flags, ibv_pd* pd, void* addr, std::size_t length, int access);
    int (*resize_cq)(ibv_cq* cq, int cqe);
    void (*set_ece)();
    void (*unimport_dm)();
    void (*unimport_mr)();
    void (*unimport_pd)();
};
// clang-format on

#undef SWRNIC_OP_59
#undef SWRNIC_OP_62
#undef SWRNIC_OP_64

// The place of each operation that we fill, as plain numbers: a slip in the list above does not pass unseen.
#define SWRNIC_OP_AT(name, index) static_assert(offsetof(verbs_context_ops, name) == (index) * sizeof(void*))
#if SWRNIC_PABI == 34 || SWRNIC_PABI == 57
static_assert(sizeof(verbs_context_ops) == 76 * sizeof(void*));
SWRNIC_OP_AT(alloc_pd, 5);
SWRNIC_OP_AT(async_event, 7);
SWRNIC_OP_AT(cq_event, 12);
SWRNIC_OP_AT(create_cq, 15);
SWRNIC_OP_AT(create_qp, 19);
SWRNIC_OP_AT(dealloc_pd, 26);
SWRNIC_OP_AT(dereg_mr, 28);
SWRNIC_OP_AT(destroy_cq, 31);
SWRNIC_OP_AT(destroy_qp, 34);
SWRNIC_OP_AT(free_context, 39);
SWRNIC_OP_AT(modify_qp, 47);
SWRNIC_OP_AT(poll_cq, 53);
SWRNIC_OP_AT(post_recv, 54);
SWRNIC_OP_AT(post_send, 55);
SWRNIC_OP_AT(query_device_ex, 58);
SWRNIC_OP_AT(query_port, 60);
SWRNIC_OP_AT(query_qp, 61);
SWRNIC_OP_AT(reg_mr, 68);
SWRNIC_OP_AT(req_notify_cq, 69);
SWRNIC_OP_AT(advise_mr, 0);
SWRNIC_OP_AT(unimport_pd, 75);
#elif SWRNIC_PABI == 59 && SWRNIC_RDMA_CORE < 62
static_assert(sizeof(verbs_context_ops) == 79 * sizeof(void*));
SWRNIC_OP_AT(alloc_pd, 6);
SWRNIC_OP_AT(async_event, 8);
SWRNIC_OP_AT(cq_event, 13);
SWRNIC_OP_AT(create_cq, 16);
SWRNIC_OP_AT(create_qp, 20);
SWRNIC_OP_AT(dealloc_pd, 28);
SWRNIC_OP_AT(dereg_mr, 30);
SWRNIC_OP_AT(destroy_cq, 33);
SWRNIC_OP_AT(destroy_qp, 36);
SWRNIC_OP_AT(free_context, 41);
SWRNIC_OP_AT(modify_qp, 49);
SWRNIC_OP_AT(poll_cq, 55);
SWRNIC_OP_AT(post_recv, 56);
SWRNIC_OP_AT(post_send, 57);
SWRNIC_OP_AT(query_device_ex, 60);
SWRNIC_OP_AT(query_port, 62);
SWRNIC_OP_AT(query_qp, 63);
SWRNIC_OP_AT(reg_mr, 70);
SWRNIC_OP_AT(req_notify_cq, 72);
SWRNIC_OP_AT(advise_mr, 0);
SWRNIC_OP_AT(unimport_pd, 78);
#elif SWRNIC_PABI == 59
static_assert(sizeof(verbs_context_ops) == 81 * sizeof(void*));
SWRNIC_OP_AT(alloc_pd, 6);
SWRNIC_OP_AT(async_event, 8);
SWRNIC_OP_AT(cq_event, 13);
SWRNIC_OP_AT(create_cq, 16);
SWRNIC_OP_AT(create_qp, 20);
SWRNIC_OP_AT(dealloc_pd, 28);
SWRNIC_OP_AT(dereg_mr, 30);
SWRNIC_OP_AT(destroy_cq, 33);
SWRNIC_OP_AT(destroy_qp, 36);
SWRNIC_OP_AT(free_context, 42);
SWRNIC_OP_AT(modify_qp, 50);
SWRNIC_OP_AT(poll_cq, 56);
SWRNIC_OP_AT(post_recv, 57);
SWRNIC_OP_AT(post_send, 58);
SWRNIC_OP_AT(query_device_ex, 61);
SWRNIC_OP_AT(query_port, 63);
SWRNIC_OP_AT(query_qp, 65);
SWRNIC_OP_AT(reg_mr, 72);
SWRNIC_OP_AT(req_notify_cq, 74);
SWRNIC_OP_AT(advise_mr, 0);
SWRNIC_OP_AT(unimport_pd, 80);
#elif SWRNIC_PABI == 64
static_assert(sizeof(verbs_context_ops) == 83 * sizeof(void*));
SWRNIC_OP_AT(alloc_pd, 7);
SWRNIC_OP_AT(async_event, 9);
SWRNIC_OP_AT(cq_event, 14);
SWRNIC_OP_AT(create_cq, 17);
SWRNIC_OP_AT(create_qp, 21);
SWRNIC_OP_AT(dealloc_pd, 29);
SWRNIC_OP_AT(dereg_mr, 31);
SWRNIC_OP_AT(destroy_cq, 34);
SWRNIC_OP_AT(destroy_qp, 37);
SWRNIC_OP_AT(free_context, 44);
SWRNIC_OP_AT(modify_qp, 52);
SWRNIC_OP_AT(poll_cq, 58);
SWRNIC_OP_AT(post_recv, 59);
SWRNIC_OP_AT(post_send, 60);
SWRNIC_OP_AT(query_device_ex, 63);
SWRNIC_OP_AT(query_port, 65);
SWRNIC_OP_AT(query_qp, 67);
SWRNIC_OP_AT(reg_mr, 74);
SWRNIC_OP_AT(req_notify_cq, 76);
SWRNIC_OP_AT(advise_mr, 0);
SWRNIC_OP_AT(unimport_pd, 82);
#else
#error "unknown private provider ABI"
#endif
#undef SWRNIC_OP_AT
