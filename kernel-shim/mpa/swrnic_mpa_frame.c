// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* The layout of startup frames (RFC 5044 7.1.1, RFC 6581 9): composing ours, checking and reading the peer's. */
#include "swrnic_mpa_frame.h"

/* The two 16 bit halves of the enhanced block (RFC 6581 9). */
#define BLOCK_P2P 0x8000       /* A, in the IRD half */
#define BLOCK_RTR_SEND 0x4000  /* B, in the IRD half */
#define BLOCK_RTR_WRITE 0x8000 /* C, in the ORD half */
#define BLOCK_RTR_READ 0x4000  /* D, in the ORD half */
#define BLOCK_DEPTH 0x3fff

static const __u8 request_key[MPA_KEY_LEN] = { 'M', 'P', 'A', ' ', 'I', 'D', ' ', 'R', 'e', 'q', ' ', 'F', 'r', 'a', 'm', 'e' };
static const __u8 reply_key[MPA_KEY_LEN] = { 'M', 'P', 'A', ' ', 'I', 'D', ' ', 'R', 'e', 'p', ' ', 'F', 'r', 'a', 'm', 'e' };

static __u16 get_be16(const __u8 *p)
{
	return (__u16)((__u32)p[0] << 8 | p[1]);
}

static void put_be16(__u8 *p, __u32 v)
{
	p[0] = (__u8)(v >> 8);
	p[1] = (__u8)v;
}

/* ---- composing ----------------------------------------------------------------------------------------------------- */

static void put_block(__u8 *p, const struct mpa_block *b)
{
	__u32 ird = b->ird & BLOCK_DEPTH;
	__u32 ord = b->ord & BLOCK_DEPTH;

	if (b->p2p) { /* RFC 6581 9.2: without A the kinds are 0 */
		ird |= BLOCK_P2P;
		if (b->rtr_kinds & SWRNIC_RTR_SEND)
			ird |= BLOCK_RTR_SEND;
		if (b->rtr_kinds & SWRNIC_RTR_WRITE)
			ord |= BLOCK_RTR_WRITE;
		if (b->rtr_kinds & SWRNIC_RTR_READ)
			ord |= BLOCK_RTR_READ;
	}
	put_be16(p, ird);
	put_be16(p + 2, ord);
}

void mpa_compose(struct swrnic_mpa *m, __u8 flags, __u8 rev, const struct mpa_block *b, const void *pd, __u32 len)
{
	__u32 block_len = b ? SWRNIC_MPA_BLOCK_LEN : 0;
	__u8 *p = m->out;

	__builtin_memcpy(p, mpa_is_responder(m) ? reply_key : request_key, MPA_KEY_LEN);
	p[MPA_OFF_FLAGS] = (__u8)(flags | (b ? MPA_FLAG_ENHANCED : 0));
	p[MPA_OFF_REV] = rev;
	put_be16(p + MPA_OFF_PD_LEN, block_len + len);
	p += SWRNIC_MPA_HEADER_LEN;
	if (b)
		put_block(p, b);
	if (len)
		__builtin_memcpy(p + block_len, pd, len);
	m->out_len = (__u16)(SWRNIC_MPA_HEADER_LEN + block_len + len);
	m->out_pos = 0;
}

/* ---- the peer's frame ---------------------------------------------------------------------------------------------- */

__u32 mpa_frame_len(const struct swrnic_mpa *m)
{
	return SWRNIC_MPA_HEADER_LEN + (__u32)get_be16(m->in + MPA_OFF_PD_LEN);
}

int mpa_key_ok(const struct swrnic_mpa *m)
{
	const __u8 *key = mpa_is_responder(m) ? request_key : reply_key;
	__u32 i;

	for (i = 0; i < m->in_len && i < MPA_KEY_LEN; i++)
		if (m->in[i] != key[i])
			return 0;
	return 1;
}

enum swrnic_mpa_reason mpa_check_header(const struct swrnic_mpa *m)
{
	__u8 rev = m->in[MPA_OFF_REV];
	__u32 pd_len = get_be16(m->in + MPA_OFF_PD_LEN);
	/* RFC 6581 6: below revision 2 the bit means nothing */
	int enhanced = rev >= 2 && (m->in[MPA_OFF_FLAGS] & MPA_FLAG_ENHANCED);

	/* RFC 5044 7.1.1. Revision 0, the RDMA Consortium's, is refused (RFC 5044 C). */
	if (rev < 1 || rev > (mpa_is_responder(m) ? m->max_rev : SWRNIC_MPA_MAX_REV))
		return SWRNIC_MPA_BAD_REV;
	if (pd_len > SWRNIC_MPA_MAX_PD_LEN)
		return SWRNIC_MPA_BAD_PD_LENGTH;
	if (!mpa_is_responder(m)) { /* RFC 6581 10 */
		if (m->params.rev >= 2 && !enhanced)
			return SWRNIC_MPA_NOT_ENHANCED;
		if (m->params.rev < 2 && enhanced)
			return SWRNIC_MPA_UNASKED_ENHANCED;
	}
	if (enhanced && pd_len < SWRNIC_MPA_BLOCK_LEN)
		return SWRNIC_MPA_BAD_BLOCK;
	return SWRNIC_MPA_OK;
}

static void parse_block(struct swrnic_mpa_peer_info *peer, const __u8 *p)
{
	__u16 ird = get_be16(p);
	__u16 ord = get_be16(p + 2);

	peer->enhanced = 1;
	peer->ird = ird & BLOCK_DEPTH;
	peer->ord = ord & BLOCK_DEPTH;
	if (!(ird & BLOCK_P2P)) /* RFC 6581 9.2: the kinds are then ignored */
		return;
	peer->p2p = 1;
	if (ird & BLOCK_RTR_SEND)
		peer->rtr_kinds |= SWRNIC_RTR_SEND;
	if (ord & BLOCK_RTR_WRITE)
		peer->rtr_kinds |= SWRNIC_RTR_WRITE;
	if (ord & BLOCK_RTR_READ)
		peer->rtr_kinds |= SWRNIC_RTR_READ;
}

void mpa_parse_frame(struct swrnic_mpa *m)
{
	struct swrnic_mpa_peer_info *peer = &m->peer;
	__u8 flags = m->in[MPA_OFF_FLAGS];

	peer->rev = m->in[MPA_OFF_REV];
	peer->crc = !!(flags & MPA_FLAG_CRC);
	peer->markers = !!(flags & MPA_FLAG_MARKERS);
	peer->large_fpdu = !!(flags & MPA_FLAG_LARGE_FPDU);
	peer->short_first = !!(flags & (mpa_is_responder(m) ? MPA_FLAG_SHORT_FIRST_OFFER : MPA_FLAG_SHORT_FIRST_ANSWER));
	if (mpa_is_responder(m))
		peer->rfc7306 = !!(flags & MPA_FLAG_RFC7306_OFFER);
	else
		peer->rfc7306 = (flags & (MPA_FLAG_RFC7306_OFFER | MPA_FLAG_RFC7306_ANSWER)) == MPA_FLAG_RFC7306_ANSWER;
	/* RFC 5044 7.1.1: R is not examined in a Request */
	peer->rejected = !mpa_is_responder(m) && (flags & MPA_FLAG_REJECT);
	peer->private_off = SWRNIC_MPA_HEADER_LEN;
	if (peer->rev >= 2 && (flags & MPA_FLAG_ENHANCED)) {
		parse_block(peer, m->in + SWRNIC_MPA_HEADER_LEN);
		peer->private_off += SWRNIC_MPA_BLOCK_LEN;
	}
	peer->private_len = (__u16)(m->in_len - peer->private_off);
}
