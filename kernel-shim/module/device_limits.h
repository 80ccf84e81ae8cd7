/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What bounds the module alone; what the device claims in both shims stands in swrnic_policy.h. */
#ifndef SWRNIC_DEVICE_LIMITS_H
#define SWRNIC_DEVICE_LIMITS_H

#include "swrnic_policy.h"

#define SWR_MAX_FAST_REG_PAGES 256  /* of a consumer in the kernel */
#define SWR_ORPHAN_TIMEOUT_MS 10000 /* for a request whose listener went away before anybody decided */
#define SWR_MAX_STARTUPS 32768	    /* connections under way at once, from the QP to full operation; half of them for one user */
#define SWR_MAX_GROUPS 65536	    /* attachments of QPs to groups; half of them for one user */
#define SWR_WATCH_MS 200	    /* how often a process with such connections is looked at: does it still live? */
#define SWR_SERVER_LOOK_MS 1000	    /* how often a file that serves is looked at */
#define SWR_SERVER_PROBE_MS 5000    /* no call for so long, with requests under way: it gets a record to read */
#define SWR_SERVER_DEAD_MS 10000    /* a record unread for so long: its QPs end */
#define SWR_MAX_UNREAD 4	    /* completion events of one CQ that nobody has read */
#define SWR_MAX_UNREAD_ASYNC 16	    /* asynchronous events of one object, the same */

#endif /* SWRNIC_DEVICE_LIMITS_H */
