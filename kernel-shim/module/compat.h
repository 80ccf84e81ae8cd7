/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* All that differs between the kernels that we build for: Debian's 6.1 and 6.12. */
#ifndef SWRNIC_COMPAT_H
#define SWRNIC_COMPAT_H

#include <linux/version.h>
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

/* From 6.14 on the core itself tells of PORT_ACTIVE and PORT_ERR when the interface's state changes. */
#define SWR_TELLS_PORT_STATE (LINUX_VERSION_CODE < KERNEL_VERSION(6, 14, 0))

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
