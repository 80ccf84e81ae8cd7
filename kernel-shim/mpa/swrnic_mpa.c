// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* MPA startup: the two ends. The transitions are in swrnic_mpa_table.c, the octets in swrnic_mpa_frame.c. */
#include "swrnic_mpa_frame.h"

_Static_assert(sizeof(struct swrnic_mpa) <= 1280, "one per half-open connection: keep it small");

static __u16 smaller(__u16 a, __u16 b)
{
	return a < b ? a : b;
}

/* The one place where the state changes. */
static enum swrnic_mpa_event step(struct swrnic_mpa *m, enum swrnic_mpa_input input)
{
	enum swrnic_mpa_state next;
	enum swrnic_mpa_event event;

	if (!swrnic_mpa_lookup((enum swrnic_mpa_state)m->state, input, &next, &event))
		return SWRNIC_MPA_EV_NONE;
	m->state = (__u8)next;
	return event;
}

static int can(const struct swrnic_mpa *m, enum swrnic_mpa_input input)
{
	enum swrnic_mpa_state next;
	enum swrnic_mpa_event event;

	return swrnic_mpa_lookup((enum swrnic_mpa_state)m->state, input, &next, &event);
}

static enum swrnic_mpa_event fail(struct swrnic_mpa *m, enum swrnic_mpa_input input, enum swrnic_mpa_reason reason)
{
	if (can(m, input)) /* not after the end: the first reason stays */
		m->reason = (__u8)reason;
	return step(m, input);
}

/* ---- starting ----------------------------------------------------------------------------------------------------- */

static int pd_fits(int enhanced, const void *pd, __u32 len)
{
	__u32 room = SWRNIC_MPA_MAX_PD_LEN - (enhanced ? SWRNIC_MPA_BLOCK_LEN : 0);

	return len <= room && (pd || !len);
}

static int params_ok(const struct swrnic_mpa_params *p)
{
	return p->large_fpdu <= SWRNIC_MPA_LARGE_OFFER && !(p->rtr_kinds & ~SWRNIC_MPA_RTR_ALL) && p->ird <= SWRNIC_MPA_NO_DEPTH &&
	       p->ord <= SWRNIC_MPA_NO_DEPTH && p->need_ord <= SWRNIC_MPA_MAX_DEPTH;
}

static void adopt(struct swrnic_mpa *m, const struct swrnic_mpa_params *p)
{
	m->params = *p;
	if (!p->rtr_kinds)
		m->params.rtr_kinds = SWRNIC_MPA_RTR_ALL;
}

int swrnic_mpa_initiate(struct swrnic_mpa *m, const struct swrnic_mpa_params *params, const void *private_data, __u32 len)
{
	struct mpa_block b;
	__u8 flags = 0;

	__builtin_memset(m, 0, sizeof(*m));
	if ((params->rev != 1 && params->rev != 2) || !params_ok(params))
		return SWRNIC_MPA_E_PARAMS;
	if (!pd_fits(params->rev == 2, private_data, len))
		return SWRNIC_MPA_E_PD_LEN;
	adopt(m, params);

	if (params->markers_wanted)
		flags |= MPA_FLAG_MARKERS;
	if (params->crc_wanted)
		flags |= MPA_FLAG_CRC;
	if (params->large_fpdu == SWRNIC_MPA_LARGE_OFFER) {
		flags |= MPA_FLAG_LARGE_FPDU;
		if (params->short_first)
			flags |= MPA_FLAG_SHORT_FIRST_OFFER;
	}
	if (params->rfc7306)
		flags |= MPA_FLAG_RFC7306_OFFER;
	m->sent = flags;
	/* RFC 6581 9.1: what we can hold and what we want; 9.2: with A every kind that we support. */
	b.p2p = params->p2p;
	b.rtr_kinds = m->params.rtr_kinds;
	b.ird = params->ird;
	b.ord = params->ord;
	mpa_compose(m, flags, params->rev, params->rev == 2 ? &b : (const struct mpa_block *)0, private_data, len);
	step(m, SWRNIC_MPA_IN_INITIATE);
	return 0;
}

void swrnic_mpa_respond_init(struct swrnic_mpa *m, __u8 max_rev)
{
	__builtin_memset(m, 0, sizeof(*m));
	m->max_rev = max_rev ? max_rev : SWRNIC_MPA_MAX_REV;
	step(m, SWRNIC_MPA_IN_RESPOND);
}

/* ---- the Responder's answer ---------------------------------------------------------------------------------------- */

/* RFC 6581 9.2: the common kinds; where there is none, our own, so that the Initiator learns them. */
static __u8 answer_kinds(const struct swrnic_mpa *m, __u8 own)
{
	__u8 common = m->peer.rtr_kinds & own;

	if (!m->peer.p2p)
		return 0;
	return common ? common : own;
}

/* RFC 6581 9.1: the depths that both ends will use, into m; what the Reply says of them, into b. */
static void answer_depths(struct swrnic_mpa *m, struct mpa_block *b)
{
	const struct swrnic_mpa_params *p = &m->params;

	m->ird = p->ird;
	m->ord = p->ord;
	if (!m->peer.enhanced)
		return;
	/* Holding more than the Initiator will ever ask for would only waste memory. */
	if (m->peer.ord != SWRNIC_MPA_NO_DEPTH)
		m->ird = smaller(m->ird, m->peer.ord);
	if ((b->rtr_kinds & SWRNIC_RTR_READ) && !m->ird)
		m->ird = 1; /* RFC 6581 9.2: the RTR message itself is a Read */
	if (m->peer.ird != SWRNIC_MPA_NO_DEPTH)
		m->ord = smaller(m->ord, m->peer.ird);
	b->ird = m->peer.ord == SWRNIC_MPA_NO_DEPTH ? SWRNIC_MPA_NO_DEPTH : m->ird;
	b->ord = m->peer.ird == SWRNIC_MPA_NO_DEPTH ? SWRNIC_MPA_NO_DEPTH : m->ord;
}

/* RFC 6581 10: the answer has the revision and the form of the Request. */
static void compose_reply(struct swrnic_mpa *m, __u8 flags, const struct mpa_block *b, const void *pd, __u32 len)
{
	mpa_compose(m, flags, m->peer.rev, m->peer.enhanced ? b : (const struct mpa_block *)0, pd, len);
}

static int ord_unmet(const struct swrnic_mpa *m)
{
	return m->peer.enhanced && m->peer.ird != SWRNIC_MPA_NO_DEPTH && m->peer.ird < m->params.need_ord;
}

int swrnic_mpa_accept(struct swrnic_mpa *m, const struct swrnic_mpa_params *params, const void *private_data, __u32 len)
{
	struct mpa_block b = { 0, 0, 0, 0 };
	__u8 flags = 0;

	if (!can(m, SWRNIC_MPA_IN_ACCEPT))
		return SWRNIC_MPA_E_STATE;
	if (!params_ok(params))
		return SWRNIC_MPA_E_PARAMS;
	if (!pd_fits(m->peer.enhanced, private_data, len))
		return SWRNIC_MPA_E_PD_LEN;
	adopt(m, params);

	b.p2p = m->peer.p2p;
	b.rtr_kinds = answer_kinds(m, m->params.rtr_kinds);
	answer_depths(m, &b);
	m->rtr = b.rtr_kinds;
	if (ord_unmet(m)) { /* RFC 6581 9.1: tell the Initiator what would have been enough */
		b.ord = params->need_ord;
		compose_reply(m, MPA_FLAG_REJECT, &b, private_data, len);
		step(m, SWRNIC_MPA_IN_REJECT);
		return 0;
	}

	if (params->markers_wanted)
		flags |= MPA_FLAG_MARKERS;
	/* RFC 5044 7.1.1: either wish decides. Repeating the Initiator's helps those that look at the Reply alone (siw). */
	if (params->crc_wanted || m->peer.crc)
		flags |= MPA_FLAG_CRC;
	if (params->large_fpdu != SWRNIC_MPA_LARGE_NEVER && m->peer.large_fpdu) {
		flags |= MPA_FLAG_LARGE_FPDU;
		if (params->short_first && m->peer.short_first)
			flags |= MPA_FLAG_SHORT_FIRST_ANSWER;
	}
	if (params->rfc7306 && m->peer.rfc7306)
		flags |= MPA_FLAG_RFC7306_ANSWER;
	m->sent = flags;
	compose_reply(m, flags, &b, private_data, len);
	step(m, SWRNIC_MPA_IN_ACCEPT);
	return 0;
}

int swrnic_mpa_reject(struct swrnic_mpa *m, const void *private_data, __u32 len)
{
	struct mpa_block b = { 0, 0, 0, 0 };

	if (!can(m, SWRNIC_MPA_IN_REJECT))
		return SWRNIC_MPA_E_STATE;
	if (!pd_fits(m->peer.enhanced, private_data, len))
		return SWRNIC_MPA_E_PD_LEN;
	b.p2p = m->peer.p2p;
	b.rtr_kinds = answer_kinds(m, SWRNIC_MPA_RTR_ALL);
	compose_reply(m, MPA_FLAG_REJECT, &b, private_data, len);
	step(m, SWRNIC_MPA_IN_REJECT);
	return 0;
}

/* ---- what both ends have agreed on --------------------------------------------------------------------------------- */

static void settle_flags(struct swrnic_mpa *m)
{
	m->flags = 0;
	if (m->params.crc_wanted || m->peer.crc) /* RFC 5044 7.1.1, 4.4 */
		m->flags |= SWRNIC_CONN_CRC;
	if (m->peer.markers)
		m->flags |= SWRNIC_CONN_MARKERS_TX;
	if (m->params.markers_wanted)
		m->flags |= SWRNIC_CONN_MARKERS_RX;
	if ((m->sent & MPA_FLAG_LARGE_FPDU) && m->peer.large_fpdu) {
		m->flags |= SWRNIC_CONN_LARGE_FPDU;
		if (m->params.short_first && m->peer.short_first)
			m->flags |= SWRNIC_CONN_SHORT_FIRST;
	}
	if (m->params.rfc7306 && m->peer.rfc7306)
		m->flags |= SWRNIC_CONN_RFC7306;
}

/* RFC 6581 9.1, the Initiator's half. 0: its IRD cannot be raised as far as the Responder needs it. */
static int settle_depths(struct swrnic_mpa *m)
{
	const struct swrnic_mpa_params *p = &m->params;
	const struct swrnic_mpa_peer_info *peer = &m->peer;

	m->ird = p->ird;
	m->ord = p->ord;
	if (!peer->enhanced)
		return 1;
	if (p->ord != SWRNIC_MPA_NO_DEPTH && peer->ird != SWRNIC_MPA_NO_DEPTH)
		m->ord = smaller(p->ord, peer->ird);
	/* an IRD of ours that takes no part is the largest number, so it stays as well */
	if (peer->ord == SWRNIC_MPA_NO_DEPTH || peer->ord <= p->ird)
		return 1;
	if (peer->ord > p->max_ird)
		return 0;
	m->ird = peer->ord;
	return 1;
}

/* RFC 6581 9.2: the Initiator chooses freely. A Write needs neither a receive buffer nor an answer. */
static __u8 choose_rtr(__u8 common)
{
	if (common & SWRNIC_RTR_WRITE)
		return SWRNIC_RTR_WRITE;
	if (common & SWRNIC_RTR_READ)
		return SWRNIC_RTR_READ;
	return common & SWRNIC_RTR_SEND;
}

static enum swrnic_mpa_event terminate(struct swrnic_mpa *m, enum swrnic_mpa_input input, __u8 code, enum swrnic_mpa_reason reason)
{
	if (can(m, input)) {
		m->terminate = code;
		m->reason = (__u8)reason;
	}
	return step(m, input);
}

static enum swrnic_mpa_event judge_reply(struct swrnic_mpa *m)
{
	int asked_p2p = m->params.rev >= 2 && m->params.p2p;

	if (m->peer.rejected)
		return step(m, SWRNIC_MPA_IN_REJECT_REPLY);
	settle_flags(m);
	if (!settle_depths(m))
		return terminate(m, SWRNIC_MPA_IN_UNUSABLE_REPLY, 6, SWRNIC_MPA_IRD_TOO_SMALL);
	if (asked_p2p) {
		/* A that is not repeated leaves no kind either */
		m->rtr = choose_rtr(m->peer.rtr_kinds & m->params.rtr_kinds);
		if (!m->rtr)
			return terminate(m, SWRNIC_MPA_IN_UNUSABLE_REPLY, 7, SWRNIC_MPA_NO_COMMON_RTR);
		m->flags |= SWRNIC_CONN_P2P;
	}
	return step(m, SWRNIC_MPA_IN_GOOD_REPLY);
}

/* ---- input and output ---------------------------------------------------------------------------------------------- */

static int is_reading(const struct swrnic_mpa *m)
{
	return m->state == SWRNIC_MPA_ST_I_WAIT_REPLY || m->state == SWRNIC_MPA_ST_R_WAIT_REQUEST;
}

__u32 swrnic_mpa_want(const struct swrnic_mpa *m)
{
	if (!is_reading(m))
		return 0;
	if (m->in_len < SWRNIC_MPA_HEADER_LEN)
		return (__u32)SWRNIC_MPA_HEADER_LEN - m->in_len;
	return mpa_frame_len(m) - m->in_len;
}

__u8 *swrnic_mpa_in(struct swrnic_mpa *m)
{
	return m->in + m->in_len;
}

enum swrnic_mpa_event swrnic_mpa_received(struct swrnic_mpa *m, __u32 n)
{
	enum swrnic_mpa_reason reason;
	__u32 want = swrnic_mpa_want(m);
	int header_was_complete = m->in_len >= SWRNIC_MPA_HEADER_LEN;

	if (!want)
		return SWRNIC_MPA_EV_NONE;
	m->in_len = (__u16)(m->in_len + (n < want ? n : want));
	if (!mpa_key_ok(m)) /* RFC 5044 7.1.2 (5), (8): also two Initiators that met */
		return fail(m, SWRNIC_MPA_IN_MALFORMED, SWRNIC_MPA_BAD_KEY);
	if (m->in_len < SWRNIC_MPA_HEADER_LEN)
		return SWRNIC_MPA_EV_NONE;
	if (!header_was_complete) { /* before PD_Length is used for anything */
		reason = mpa_check_header(m);
		if (reason != SWRNIC_MPA_OK)
			return fail(m, SWRNIC_MPA_IN_MALFORMED, reason);
	}
	if (m->in_len < mpa_frame_len(m))
		return SWRNIC_MPA_EV_NONE;
	mpa_parse_frame(m);
	return mpa_is_responder(m) ? step(m, SWRNIC_MPA_IN_GOOD_REQUEST) : judge_reply(m);
}

static int is_writing(const struct swrnic_mpa *m)
{
	return m->state == SWRNIC_MPA_ST_I_SEND_REQUEST || m->state == SWRNIC_MPA_ST_R_SEND_ACCEPT ||
	       m->state == SWRNIC_MPA_ST_R_SEND_REJECT;
}

const __u8 *swrnic_mpa_out(const struct swrnic_mpa *m, __u32 *len)
{
	*len = is_writing(m) ? (__u32)m->out_len - m->out_pos : 0;
	return m->out + m->out_pos;
}

enum swrnic_mpa_event swrnic_mpa_sent(struct swrnic_mpa *m, __u32 n)
{
	__u32 left;

	swrnic_mpa_out(m, &left);
	if (!left)
		return SWRNIC_MPA_EV_NONE;
	m->out_pos = (__u16)(m->out_pos + (n < left ? n : left));
	if (m->out_pos < m->out_len)
		return SWRNIC_MPA_EV_NONE;
	if (m->state == SWRNIC_MPA_ST_R_SEND_ACCEPT) {
		settle_flags(m);
		if (m->peer.p2p)
			m->flags |= SWRNIC_CONN_P2P;
	}
	return step(m, SWRNIC_MPA_IN_ALL_SENT);
}

enum swrnic_mpa_event swrnic_mpa_eof(struct swrnic_mpa *m)
{
	/* RFC 5044 7.1.1: a frame that is cut short is malformed */
	int inside = is_reading(m) && m->in_len;

	return fail(m, SWRNIC_MPA_IN_EOF, inside ? SWRNIC_MPA_TRUNCATED : SWRNIC_MPA_PEER_CLOSED);
}

enum swrnic_mpa_event swrnic_mpa_reset(struct swrnic_mpa *m)
{
	return fail(m, SWRNIC_MPA_IN_RESET, SWRNIC_MPA_PEER_RESET);
}

enum swrnic_mpa_event swrnic_mpa_timeout(struct swrnic_mpa *m)
{
	return fail(m, SWRNIC_MPA_IN_TIMEOUT, SWRNIC_MPA_TIMED_OUT);
}

enum swrnic_mpa_event swrnic_mpa_excess(struct swrnic_mpa *m)
{
	return fail(m, SWRNIC_MPA_IN_EXCESS, SWRNIC_MPA_EXCESS);
}

enum swrnic_mpa_event swrnic_mpa_abandon(struct swrnic_mpa *m)
{
	if (m->state == SWRNIC_MPA_ST_FULL) /* RFC 6581 9.3 */
		return terminate(m, SWRNIC_MPA_IN_ABANDON, 5, SWRNIC_MPA_LOCAL_ERROR);
	return fail(m, SWRNIC_MPA_IN_ABANDON, SWRNIC_MPA_LOCAL_ERROR);
}

/* ---- what the caller may ask --------------------------------------------------------------------------------------- */

const struct swrnic_mpa_peer_info *swrnic_mpa_peer(const struct swrnic_mpa *m)
{
	return &m->peer;
}

const __u8 *swrnic_mpa_peer_private(const struct swrnic_mpa *m)
{
	return m->in + m->peer.private_off;
}

int swrnic_mpa_connected(const struct swrnic_mpa *m, struct swrnic_connected *out)
{
	if (m->state != SWRNIC_MPA_ST_FULL && m->state != SWRNIC_MPA_ST_TERMINATE)
		return SWRNIC_MPA_E_STATE;
	__builtin_memset(out, 0, sizeof(*out));
	out->fd = -1;
	out->role = mpa_is_responder(m) ? SWRNIC_ROLE_RESPONDER : SWRNIC_ROLE_INITIATOR;
	out->mpa_rev = mpa_is_responder(m) ? m->peer.rev : m->params.rev;
	out->flags = m->flags;
	out->ird = m->ird;
	out->ord = m->ord;
	out->rtr = m->rtr;
	out->terminate = m->terminate;
	return 0;
}

enum swrnic_mpa_reason swrnic_mpa_failure(const struct swrnic_mpa *m)
{
	return (enum swrnic_mpa_reason)m->reason;
}

enum swrnic_mpa_class swrnic_mpa_failure_class(const struct swrnic_mpa *m)
{
	switch ((enum swrnic_mpa_reason)m->reason) {
	case SWRNIC_MPA_OK:
		return SWRNIC_MPA_CLASS_NONE;
	case SWRNIC_MPA_PEER_CLOSED:
	case SWRNIC_MPA_PEER_RESET:
		return SWRNIC_MPA_CLASS_RESET;
	case SWRNIC_MPA_TIMED_OUT:
		return SWRNIC_MPA_CLASS_TIMEOUT;
	case SWRNIC_MPA_LOCAL_ERROR:
		return SWRNIC_MPA_CLASS_LOCAL;
	default:
		return SWRNIC_MPA_CLASS_PROTOCOL;
	}
}

int swrnic_mpa_retry_rev1(const struct swrnic_mpa *m)
{
	if (m->state != SWRNIC_MPA_ST_FAILED || mpa_is_responder(m) || m->params.rev < 2)
		return 0;
	switch ((enum swrnic_mpa_reason)m->reason) {
	case SWRNIC_MPA_PEER_CLOSED:
	case SWRNIC_MPA_PEER_RESET: /* what a close with our Request unread looks like */
		return !m->in_len;
	case SWRNIC_MPA_NOT_ENHANCED: /* it answered all the same, but in its own revision */
		return m->in[MPA_OFF_REV] == 1;
	default:
		return 0;
	}
}

enum swrnic_mpa_state swrnic_mpa_get_state(const struct swrnic_mpa *m)
{
	return (enum swrnic_mpa_state)m->state;
}
