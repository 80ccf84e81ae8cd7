/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* A made-up libibverbs: it has the names and versions by which the provider knows a real one, and looks for the mark of
   an extended QP at FAKE_COMP_MASK. The version script puts them under IBVERBS_PRIVATE_<FAKE_PABI>. */
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#define PASTE2(a, b) a##b
#define PASTE(a, b) PASTE2(a, b)
#define REGISTER PASTE(verbs_register_driver_, FAKE_PABI)

void* ibv_qp_to_qp_ex(void* qp);
void* ibv_qp_to_qp_ex(void* qp) {
    uint32_t mask;
    memcpy(&mask, (const char*)qp + FAKE_COMP_MASK, sizeof(mask));
    return mask & 2 ? qp : NULL;
}

void REGISTER(const void* ops);
void REGISTER(const void* ops) {
    (void)ops;
    puts("a driver is registered");
}

#define NOTHING(name) \
    int name(void);   \
    int name(void) {  \
        return -1;    \
    }
NOTHING(FAKE_NEWEST)
NOTHING(_verbs_init_and_alloc_context)
NOTHING(verbs_uninit_context)
NOTHING(verbs_set_ops)
NOTHING(ibv_cmd_get_context)
NOTHING(ibv_cmd_query_device_any)
NOTHING(ibv_cmd_query_port)
NOTHING(ibv_cmd_alloc_pd)
NOTHING(ibv_cmd_dealloc_pd)
NOTHING(ibv_cmd_reg_mr)
NOTHING(ibv_cmd_dereg_mr)
NOTHING(ibv_cmd_alloc_mw)
NOTHING(ibv_cmd_dealloc_mw)
NOTHING(ibv_cmd_create_ah)
NOTHING(ibv_cmd_destroy_ah)
NOTHING(ibv_cmd_attach_mcast)
NOTHING(ibv_cmd_detach_mcast)
NOTHING(ibv_cmd_create_cq)
NOTHING(ibv_cmd_destroy_cq)
NOTHING(ibv_cmd_create_qp)
NOTHING(ibv_cmd_modify_qp)
NOTHING(ibv_cmd_create_srq)
NOTHING(ibv_cmd_modify_srq)
NOTHING(ibv_cmd_destroy_srq)
#ifndef FAKE_LACKS_DESTROY_QP
NOTHING(ibv_cmd_destroy_qp)
#endif
