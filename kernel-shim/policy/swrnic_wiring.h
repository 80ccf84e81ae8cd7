/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Queue pairs that programs wire by hand: modify_qp(RTR) with the peer's GID and QP number, without rdma_cm. What both shims must
 * agree on (docs/PROTOCOL.md, "Wired queue pairs"): whom a QP number names, which end connects, and what its Request says.
 * Freestanding C.
 */
#ifndef SWRNIC_WIRING_H
#define SWRNIC_WIRING_H

#include <linux/types.h>

/*
 * A QP number is the TCP port at which its process can be called, and a slot: a peer knows no more of a QP than a GID and 24 bits.
 * Ports and slots are chosen at random, so numbers cannot be guessed.
 */
#define SWR_QPN_SLOTS 256

static inline __u16 swrnic_qpn_port(__u32 qpn)
{
	return (qpn >> 8) & 0xffff;
}

static inline __u32 swrnic_qpn_of(__u16 port, __u32 slot)
{
	__u32 high = port;

	return high << 8 | (slot & (SWR_QPN_SLOTS - 1));
}

/*
 * Of a UD QP it is a UDP port of its own. Datagrams to a group come to this one, which all members share: they know no number of
 * each other, and a group no port. No protocol has it, and Linux gives it to nobody by itself.
 */
#define SWR_GROUP_PORT 18790

/* One end of a wired QP: its GID as in ibv_gid, in network order, and its number. */
struct swrnic_wired_end {
	__u8 gid[16];
	__u32 qpn;
};

/*
 * Which end connects: the one with the smaller number; the GIDs decide only where both hosts chose the same one. (So the two ends
 * agree even if a program names another GID of its host than it binds to.) Negative: a does. Zero: both are the same QP.
 */
static inline int swrnic_wired_order(const struct swrnic_wired_end *a, const struct swrnic_wired_end *b)
{
	int i;

	if (a->qpn != b->qpn)
		return a->qpn < b->qpn ? -1 : 1;
	for (i = 0; i < 16; i++)
		if (a->gid[i] != b->gid[i])
			return a->gid[i] < b->gid[i] ? -1 : 1;
	return 0;
}

/*
 * How long the end that connects waits before it tries again, in ms, given how long it waited last; 0: not yet. A peer that is not
 * there yet is there soon, since programs wire both ends at about the same time; later it is looked for at a pace that thousands of
 * QPs may keep up.
 */
static inline __u32 swrnic_wired_pause_ms(__u32 last)
{
	const __u32 soon = 50, longest = 1000;
	__u32 next = last < soon ? 2 * last : last + last / 8;

	if (!last)
		return 1;
	if (last < soon && next > soon)
		return soon;
	return next < longest ? next : longest;
}

/* ---- the private data of the Request: "SWQP", a version, three octets of zero, then the caller and whom it calls ---------- */

#define SWR_WIRED_VERSION 1
#define SWR_WIRED_LEN 48

static inline __u8 *swrnic_put_end(__u8 *to, const struct swrnic_wired_end *end)
{
	int i;

	for (i = 0; i < 16; i++)
		*to++ = end->gid[i];
	for (i = 24; i >= 0; i -= 8)
		*to++ = end->qpn >> i & 0xff;
	return to;
}

static inline const __u8 *swrnic_get_end(const __u8 *from, struct swrnic_wired_end *end)
{
	int i;

	for (i = 0; i < 16; i++)
		end->gid[i] = *from++;
	end->qpn = 0;
	for (i = 0; i < 4; i++)
		end->qpn = end->qpn << 8 | *from++;
	return from;
}

static inline void swrnic_wired_write(__u8 to[SWR_WIRED_LEN], const struct swrnic_wired_end *caller,
				      const struct swrnic_wired_end *called)
{
	static const __u8 head[8] = { 'S', 'W', 'Q', 'P', SWR_WIRED_VERSION };
	int i;

	for (i = 0; i < 8; i++)
		to[i] = head[i];
	swrnic_put_end(swrnic_put_end(to + 8, caller), called);
}

/* 0: it is no Request of a wired QP. Later versions may be longer; what this one says stays in front. */
static inline int swrnic_wired_read(const __u8 *from, __u32 len, struct swrnic_wired_end *caller, struct swrnic_wired_end *called)
{
	if (len < SWR_WIRED_LEN || from[0] != 'S' || from[1] != 'W' || from[2] != 'Q' || from[3] != 'P' ||
	    from[4] < SWR_WIRED_VERSION)
		return 0;
	swrnic_get_end(swrnic_get_end(from + 8, caller), called);
	return 1;
}

#endif /* SWRNIC_WIRING_H */
