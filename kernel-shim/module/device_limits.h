/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What the device claims: the same as the stand-in's (kernel-shim/userspace/device_limits.h). */
#ifndef SWRNIC_DEVICE_LIMITS_H
#define SWRNIC_DEVICE_LIMITS_H

#include <linux/bits.h>

#define SWR_MAX_QP 131072
#define SWR_MAX_QP_WR 16384
#define SWR_MAX_SGE 16
#define SWR_MAX_INLINE 4096
#define SWR_MAX_CQ 131072
#define SWR_MAX_CQE 1048576
#define SWR_MAX_SRQ 65536
#define SWR_MAX_SRQ_WR SWR_MAX_QP_WR
#define SWR_MAX_MR 1048576
#define SWR_MAX_MW 65536
#define SWR_MAX_FAST_REG_PAGES 256 /* of a consumer in the kernel */
#define SWR_MAX_PD 65536
#define SWR_MAX_MR_SIZE BIT_ULL(47)
#define SWR_MAX_READS 128 /* IRD and ORD alike */
#define SWR_MAX_GIDS 32
#define SWR_MAX_PRIVATE 255 /* what rdma_cm can carry */

#define SWR_STARTUP_TIMEOUT_MS 10000 /* TCP connect plus MPA, where the QP names none */
#define SWR_MAX_TIMEOUT_MS 86400000  /* the longest that a QP may name */
#define SWR_ORPHAN_TIMEOUT_MS 10000  /* for a request whose listener went away before anybody decided */
#define SWR_MAX_STARTUPS 32768	     /* connections under way at once, from the QP to full operation; half of them for one user */
#define SWR_WATCH_MS 200	     /* how often a process with such connections is looked at: does it still live? */
#define SWR_MAX_HALF_OPEN 128	     /* per listener */
#define SWR_MAX_BACKLOG 1024
#define SWR_SERVER_LOOK_MS 1000	 /* how often a file that serves is looked at */
#define SWR_SERVER_PROBE_MS 5000 /* no call for so long, with requests under way: it gets a record to read */
#define SWR_SERVER_DEAD_MS 10000 /* a record unread for so long: its QPs end */
#define SWR_MAX_UNREAD 4	 /* completion events of one CQ that nobody has read */
#define SWR_MAX_UNREAD_ASYNC 16	 /* asynchronous events of one object, the same */

#endif /* SWRNIC_DEVICE_LIMITS_H */
