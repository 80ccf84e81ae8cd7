// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * The transitions of MPA startup (RFC 5044 7.1.2, RFC 6581 9), and their names. tests/mpa/state_table.golden prints them all.
 *
 * A cell that is not listed does nothing: a late timer, a FIN after the end, a peer's octets that nobody asked for.
 */
#include "swrnic_mpa.h"

struct cell {
	__u8 listed;
	__u8 next;
	__u8 event;
};

#define GO(next, event)                                                                                                            \
	{                                                                                                                          \
		1, SWRNIC_MPA_ST_##next, SWRNIC_MPA_EV_##event                                                                     \
	}
#define ON(input) [SWRNIC_MPA_IN_##input]
#define IN_STATE(state) [SWRNIC_MPA_ST_##state]

/* clang-format off */
static const struct cell table[SWRNIC_MPA_ST_COUNT][SWRNIC_MPA_IN_COUNT] = {
	IN_STATE(IDLE) = {
		ON(INITIATE)	   = GO(I_SEND_REQUEST, NONE),
		ON(RESPOND)	   = GO(R_WAIT_REQUEST, NONE),
	},
	/* Nothing is read before the whole Request is out: a Responder may not speak earlier (RFC 5044 7.1.2 (2)). */
	IN_STATE(I_SEND_REQUEST) = {
		ON(ALL_SENT)	   = GO(I_WAIT_REPLY, NONE),
		ON(EOF)		   = GO(FAILED, FAILED),
		ON(RESET)	   = GO(FAILED, FAILED),
		ON(TIMEOUT)	   = GO(FAILED, FAILED),
		ON(ABANDON)	   = GO(FAILED, FAILED),
	},
	IN_STATE(I_WAIT_REPLY) = {
		ON(GOOD_REPLY)	   = GO(FULL, ESTABLISHED),
		ON(UNUSABLE_REPLY) = GO(TERMINATE, TERMINATE),
		ON(REJECT_REPLY)   = GO(REJECTED, REJECTED),
		ON(MALFORMED)	   = GO(FAILED, FAILED),
		ON(EOF)		   = GO(FAILED, FAILED),
		ON(RESET)	   = GO(FAILED, FAILED),
		ON(TIMEOUT)	   = GO(FAILED, FAILED),
		ON(ABANDON)	   = GO(FAILED, FAILED),
	},
	IN_STATE(R_WAIT_REQUEST) = {
		ON(GOOD_REQUEST)   = GO(R_ULP, REQUEST),
		ON(MALFORMED)	   = GO(FAILED, FAILED),
		ON(EOF)		   = GO(FAILED, FAILED),
		ON(RESET)	   = GO(FAILED, FAILED),
		ON(TIMEOUT)	   = GO(FAILED, FAILED),
		ON(ABANDON)	   = GO(FAILED, FAILED),
	},
	/* No timer: the ULP decides when it likes. */
	IN_STATE(R_ULP) = {
		ON(ACCEPT)	   = GO(R_SEND_ACCEPT, NONE),
		ON(REJECT)	   = GO(R_SEND_REJECT, NONE),
		ON(EOF)		   = GO(FAILED, FAILED),
		ON(RESET)	   = GO(FAILED, FAILED),
		ON(EXCESS)	   = GO(FAILED, FAILED),
		ON(ABANDON)	   = GO(FAILED, FAILED),
	},
	IN_STATE(R_SEND_ACCEPT) = {
		ON(ALL_SENT)	   = GO(FULL, ESTABLISHED),
		ON(EOF)		   = GO(FAILED, FAILED),
		ON(RESET)	   = GO(FAILED, FAILED),
		ON(TIMEOUT)	   = GO(FAILED, FAILED),
		ON(ABANDON)	   = GO(FAILED, FAILED),
	},
	/* A peer that has closed its own direction may still read the rejection. */
	IN_STATE(R_SEND_REJECT) = {
		ON(ALL_SENT)	   = GO(REJECTED, REJECT_SENT),
		ON(RESET)	   = GO(FAILED, FAILED),
		ON(TIMEOUT)	   = GO(FAILED, FAILED),
		ON(ABANDON)	   = GO(FAILED, FAILED),
	},
	/* The stream is the engine's now; only its taking can still fail (RFC 6581 9.3). */
	IN_STATE(FULL) = {
		ON(ABANDON)	   = GO(TERMINATE, TERMINATE),
	},
};

/* clang-format on */

int swrnic_mpa_lookup(enum swrnic_mpa_state state, enum swrnic_mpa_input input, enum swrnic_mpa_state *next,
		      enum swrnic_mpa_event *event)
{
	const struct cell *c;

	if ((__u32)state >= SWRNIC_MPA_ST_COUNT || (__u32)input >= SWRNIC_MPA_IN_COUNT)
		return 0;
	c = &table[state][input];
	*next = (enum swrnic_mpa_state)c->next;
	*event = (enum swrnic_mpa_event)c->event;
	return c->listed;
}

int swrnic_mpa_active(const struct swrnic_mpa *m)
{
	return m->state >= SWRNIC_MPA_ST_I_SEND_REQUEST && m->state <= SWRNIC_MPA_ST_R_SEND_REJECT;
}

__u32 swrnic_mpa_deadline_ms(const struct swrnic_mpa *m)
{
	switch ((enum swrnic_mpa_state)m->state) {
	case SWRNIC_MPA_ST_R_WAIT_REQUEST:
		return SWRNIC_MPA_REQUEST_TIMEOUT_MS;
	case SWRNIC_MPA_ST_I_SEND_REQUEST:
	case SWRNIC_MPA_ST_I_WAIT_REPLY:
	case SWRNIC_MPA_ST_R_SEND_ACCEPT:
	case SWRNIC_MPA_ST_R_SEND_REJECT:
		return SWRNIC_MPA_REPLY_TIMEOUT_MS;
	default:
		return 0;
	}
}

static const char *const state_names[SWRNIC_MPA_ST_COUNT] = {
	"IDLE",		 "I_SEND_REQUEST", "I_WAIT_REPLY", "R_WAIT_REQUEST", "R_ULP",  "R_SEND_ACCEPT",
	"R_SEND_REJECT", "FULL",	   "TERMINATE",	   "REJECTED",	     "FAILED",
};

static const char *const input_names[SWRNIC_MPA_IN_COUNT] = {
	"INITIATE", "RESPOND", "ALL_SENT", "GOOD_REQUEST", "GOOD_REPLY", "UNUSABLE_REPLY", "REJECT_REPLY", "MALFORMED",
	"ACCEPT",   "REJECT",  "EOF",	   "RESET",	   "TIMEOUT",	 "EXCESS",	   "ABANDON",
};

static const char *const event_names[] = {
	"NONE", "REQUEST", "ESTABLISHED", "TERMINATE", "REJECTED", "REJECT_SENT", "FAILED",
};

static const char *const reason_names[] = {
	[SWRNIC_MPA_OK] = "ok",
	[SWRNIC_MPA_BAD_KEY] = "not the expected MPA frame (wrong key)",
	[SWRNIC_MPA_BAD_REV] = "MPA revision not supported",
	[SWRNIC_MPA_BAD_PD_LENGTH] = "private data length above 512",
	[SWRNIC_MPA_BAD_BLOCK] = "enhanced frame without its IRD/ORD block",
	[SWRNIC_MPA_NOT_ENHANCED] = "unenhanced Reply to an enhanced Request",
	[SWRNIC_MPA_UNASKED_ENHANCED] = "enhanced Reply to an unenhanced Request",
	[SWRNIC_MPA_TRUNCATED] = "peer closed inside its frame",
	[SWRNIC_MPA_EXCESS] = "peer sent data before our Reply",
	[SWRNIC_MPA_PEER_CLOSED] = "peer closed the connection",
	[SWRNIC_MPA_PEER_RESET] = "connection reset",
	[SWRNIC_MPA_TIMED_OUT] = "timed out",
	[SWRNIC_MPA_LOCAL_ERROR] = "given up locally",
	[SWRNIC_MPA_IRD_TOO_SMALL] = "peer needs more inbound Reads than we can hold",
	[SWRNIC_MPA_NO_COMMON_RTR] = "no common ready-to-receive message",
};

const char *swrnic_mpa_state_name(enum swrnic_mpa_state state)
{
	return (__u32)state < SWRNIC_MPA_ST_COUNT ? state_names[state] : "?";
}

const char *swrnic_mpa_input_name(enum swrnic_mpa_input input)
{
	return (__u32)input < SWRNIC_MPA_IN_COUNT ? input_names[input] : "?";
}

const char *swrnic_mpa_event_name(enum swrnic_mpa_event event)
{
	return (__u32)event < sizeof(event_names) / sizeof(event_names[0]) ? event_names[event] : "?";
}

const char *swrnic_mpa_reason_name(enum swrnic_mpa_reason reason)
{
	return (__u32)reason < sizeof(reason_names) / sizeof(reason_names[0]) ? reason_names[reason] : "?";
}
