/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* All that differs between the kernels that we build for, 6.1 to 7.3. The code itself is written for the newest. */
#ifndef SWRNIC_COMPAT_H
#define SWRNIC_COMPAT_H

#include <linux/kconfig.h>
#include <linux/version.h>

#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 1, 0)
#error "swrnic.ko wants Linux 6.1 or newer"
#endif
#if !IS_ENABLED(CONFIG_INFINIBAND) || !IS_ENABLED(CONFIG_INFINIBAND_USER_ACCESS)
#error "swrnic.ko wants a kernel with CONFIG_INFINIBAND and CONFIG_INFINIBAND_USER_ACCESS"
#endif

#include <rdma/ib_verbs.h>
#include <rdma/uverbs_ioctl.h>

#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 12, 0)
#include <linux/unaligned.h>
#else
#include <asm/unaligned.h>
#endif

#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 11, 0)
#define swr_create_cq_arg uverbs_attr_bundle /* struct */
static inline struct ib_udata *swr_cq_udata(struct uverbs_attr_bundle *attrs)
{
	return attrs ? &attrs->driver_udata : NULL;
}
#else
#define swr_create_cq_arg ib_udata /* struct */
static inline struct ib_udata *swr_cq_udata(struct ib_udata *udata)
{
	return udata;
}
#endif

/* DMA handles steer what a device's own DMA does. No process can have one of a device that has no alloc_dmah, as ours. */
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 17, 0)
#define swr_op_reg_user_mr swr_reg_user_mr
#else
struct ib_dmah;
struct ib_mr *swr_reg_user_mr(struct ib_pd *ibpd, u64 start, u64 length, u64 virt_addr, int access, struct ib_dmah *dmah,
			      struct ib_udata *udata);
static inline struct ib_mr *swr_op_reg_user_mr(struct ib_pd *ibpd, u64 start, u64 length, u64 virt_addr, int access,
					       struct ib_udata *udata)
{
	return swr_reg_user_mr(ibpd, start, length, virt_addr, access, NULL, udata);
}
#endif

/* An address of any family and length, as kernel_bind() and kernel_connect() take it. */
#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 19, 0)
#define sockaddr_unsized sockaddr /* struct */
#endif

/* From 6.14 on the core itself tells of PORT_ACTIVE and PORT_ERR when the interface's state changes. */
#define SWR_TELLS_PORT_STATE (LINUX_VERSION_CODE < KERNEL_VERSION(6, 14, 0))

/* Whether TCP's sendmsg() takes pages to keep, instead of octets to copy. Some older kernels have the flag alone. */
#define SWR_SENDS_PAGES (LINUX_VERSION_CODE >= KERNEL_VERSION(6, 5, 0))
#ifndef MSG_SPLICE_PAGES
#define MSG_SPLICE_PAGES 0
#endif

/*
 * What ib_uverbs keeps behind the uobject of a CQ, QP or SRQ: which events the process has not read yet. No header shows it; it has
 * been so since 5.8. unread.c looks before it trusts.
 */
struct swr_uevent_object {
	struct ib_uobject uobject;
	void *event_file;
	struct list_head unread;
	u32 reported;
};

struct swr_ucq_object {
	struct swr_uevent_object uevent;
	struct list_head unread; /* of the completion channel */
	u32 reported;
};

#endif /* SWRNIC_COMPAT_H */
