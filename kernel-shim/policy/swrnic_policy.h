/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What both shims decide, decided once: the limits of the device, the terms of a stream, the order of its life, and which error a
 * failed startup is. Freestanding C, compiled into the kernel module and into the userspace shim.
 */
#ifndef SWRNIC_POLICY_H
#define SWRNIC_POLICY_H

#include <linux/errno.h>
#include <linux/types.h>

#include "swrnic-abi.h"
#include "swrnic_mpa.h"

/* ---- limits: what ibv_query_device(3) announces, and what a command may not exceed --------------------------------------- */

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
#define SWR_MAX_PD 65536
#define SWR_MAX_AH 4096
#define SWR_MAX_MR_SIZE (1ULL << 47) /* the whole of a user address space */
#define SWR_MAX_READS 128	     /* IRD and ORD alike; VERBS-43 wants at most 254 */
#define SWR_MAX_GIDS 256
#define SWR_MAX_PRIVATE 255 /* octets of private data that the uAPI of rdma_cm can show */

#define SWR_STARTUP_TIMEOUT_MS 10000 /* TCP connect plus MPA, where the QP names none */
#define SWR_MAX_TIMEOUT_MS 86400000  /* the longest that a QP may name */
#define SWR_MAX_HALF_OPEN 128	     /* connections of a listener whose Request is not complete */
#define SWR_HALF_OPEN_GRACE_MS 250   /* while there are so many: how old the oldest must be before it goes for a new one */
#define SWR_DATAGRAM_ROOM (4 << 20)  /* of a UD QP's socket, for what it has not received: a few hundred of the largest */
#define SWR_TCP_BACKLOG 4096	     /* connections of a listener that TCP holds until they are accepted: a burst of SYNs */

/* ---- the terms of a stream ----------------------------------------------------------------------------------------------- */

/* How long TCP's connect and MPA's startup may take for a QP. */
static inline __u32 swrnic_startup_ms(const struct swrnic_create_qp_req *wish)
{
	if (!wish->timeout_ms)
		return SWR_STARTUP_TIMEOUT_MS;
	return wish->timeout_ms < SWR_MAX_TIMEOUT_MS ? wish->timeout_ms : SWR_MAX_TIMEOUT_MS;
}

static inline __u16 swrnic_depth(__u32 depth)
{
	return depth < SWR_MAX_READS ? depth : SWR_MAX_READS;
}

/* What the uAPI's eight bits show of a depth that was agreed on (VERBS-43). */
static inline __u8 swrnic_shown_depth(__u32 depth)
{
	return depth < SWR_MAX_READS ? depth : SWR_MAX_READS;
}

/* What a QP asks of its peer. ird and ord: as the program gives them to connect or accept (VERBS-50). */
static inline struct swrnic_mpa_params swrnic_terms(const struct swrnic_create_qp_req *wish, __u32 ird, __u32 ord, int same_host)
{
	struct swrnic_mpa_params terms = {};

	terms.rev = wish->mpa_rev;
	terms.crc_wanted = wish->crc_mode == SWRNIC_CRC_ON || (wish->crc_mode == SWRNIC_CRC_AUTO && !same_host);
	if (wish->fpdu_mode == SWRNIC_FPDU_EMSS)
		terms.large_fpdu = SWRNIC_MPA_LARGE_NEVER;
	else if (wish->fpdu_mode == SWRNIC_FPDU_64K || same_host)
		terms.large_fpdu = SWRNIC_MPA_LARGE_OFFER;
	else
		terms.large_fpdu = SWRNIC_MPA_LARGE_ACCEPT;
	terms.short_first = 1;
	terms.rfc7306 = wish->rfc7306;
	terms.p2p = terms.rev >= 2;
	terms.rtr_kinds = SWRNIC_MPA_RTR_ALL;
	terms.ird = swrnic_depth(ird + wish->own_reads);
	terms.ord = swrnic_depth(ord + wish->own_reads);
	terms.max_ird = SWR_MAX_READS;
	return terms;
}

/*
 * The same of a QP that is wired by hand (swrnic_wiring.h). Without peer-to-peer mode the end that is called could not send first;
 * requests that are posted by now have their MSNs, so the RTR is no Send; and how many Reads may be outstanding is not known before
 * RTS, while the stream may be there first.
 */
static inline struct swrnic_mpa_params swrnic_wired_terms(const struct swrnic_create_qp_req *wish, int same_host)
{
	struct swrnic_create_qp_req wired = *wish;
	struct swrnic_mpa_params terms;

	wired.mpa_rev = 2;
	terms = swrnic_terms(&wired, SWR_MAX_READS, SWR_MAX_READS, same_host);
	terms.rtr_kinds = SWRNIC_RTR_WRITE;
	return terms;
}

/* What a QP that is wired to itself agrees on with itself: its stream comes back to it, without startup. */
static inline struct swrnic_connected swrnic_wired_to_itself(const struct swrnic_create_qp_req *wish)
{
	const struct swrnic_mpa_params terms = swrnic_wired_terms(wish, 1);
	struct swrnic_connected connected = {};

	connected.role = SWRNIC_ROLE_INITIATOR;
	connected.mpa_rev = terms.rev;
	connected.flags = SWRNIC_CONN_SAME_HOST | SWRNIC_CONN_NODELAY;
	if (terms.crc_wanted)
		connected.flags |= SWRNIC_CONN_CRC;
	if (terms.large_fpdu == SWRNIC_MPA_LARGE_OFFER)
		connected.flags |= SWRNIC_CONN_LARGE_FPDU | SWRNIC_CONN_SHORT_FIRST;
	if (terms.rfc7306)
		connected.flags |= SWRNIC_CONN_RFC7306;
	connected.ird = terms.ird;
	connected.ord = terms.ord;
	return connected;
}

/* ---- the order of a stream's life ---------------------------------------------------------------------------------------- */

enum swrnic_stream {
	SWRNIC_STREAM_NONE,   /* none, or it has ended */
	SWRNIC_STREAM_QUEUED, /* QP_CONNECTED waits to be read */
	SWRNIC_STREAM_TAKEN,  /* read: the process has the socket */
	SWRNIC_STREAM_READY,  /* QP_READY has come, and ESTABLISHED was raised */
};

/* May the process report this (SWRNIC_UP_QP_READY or SWRNIC_UP_QP_CLOSED) now? Else it is refused with EINVAL. */
static inline int swrnic_stream_takes(enum swrnic_stream stream, __u32 report)
{
	if (report == SWRNIC_UP_QP_READY)
		return stream == SWRNIC_STREAM_TAKEN;
	return report == SWRNIC_UP_QP_CLOSED && (stream == SWRNIC_STREAM_TAKEN || stream == SWRNIC_STREAM_READY);
}

/* ---- failures ------------------------------------------------------------------------------------------------------------ */

/* What rdma_cm is told of a startup that has failed: a negative errno. */
static inline int swrnic_failure_errno(enum swrnic_mpa_class failure)
{
	switch (failure) {
	case SWRNIC_MPA_CLASS_RESET:
		return -ECONNRESET;
	case SWRNIC_MPA_CLASS_TIMEOUT:
		return -ETIMEDOUT;
	case SWRNIC_MPA_CLASS_LOCAL:
		return -ECONNABORTED;
	default:
		return -EPROTO;
	}
}

#endif /* SWRNIC_POLICY_H */
