/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * MPA startup (RFC 5044 section 7.1, RFC 6581) as one freestanding state machine: octets in, octets out, events, deadlines.
 *
 * The machine knows no socket, clock, allocator, libc or kernel. It is compiled into the kernel module, the userspace shim, the
 * unit tests and the fuzzer. One struct swrnic_mpa serves one connection; the caller owns it, serialises every call on it, and may
 * simply drop it in any state. Nothing in it needs to be released. It holds no pointer, so it may be copied or moved between calls.
 *
 * How a caller drives it, whatever the event of the last call was:
 *
 *	swrnic_mpa_initiate() or swrnic_mpa_respond_init()
 *	while (swrnic_mpa_active(m)):
 *		out, len = swrnic_mpa_out(m)		len > 0: write, then swrnic_mpa_sent(m, written)
 *		n = swrnic_mpa_want(m)			n > 0: read at most n into swrnic_mpa_in(m), then swrnic_mpa_received(m,
 *got) FIN: swrnic_mpa_eof(m)			RST or any other socket error: swrnic_mpa_reset(m) swrnic_mpa_deadline_ms(m) has
 *passed since the state was entered: swrnic_mpa_timeout(m)
 *
 * The machine never asks for an octet beyond its frame, so what follows the frame stays in the socket for the engine. Where the
 * stream was cut never changes a result.
 */
#ifndef SWRNIC_MPA_H
#define SWRNIC_MPA_H

#include <linux/types.h>

#include "swrnic-abi.h"

#ifdef __cplusplus
extern "C" {
#endif

#define SWRNIC_MPA_HEADER_LEN 20  /* key 16, flags 1, revision 1, PD_Length 2 */
#define SWRNIC_MPA_BLOCK_LEN 4	  /* the enhanced block of RFC 6581 section 9 */
#define SWRNIC_MPA_MAX_PD_LEN 512 /* PD_Length, the enhanced block included */
#define SWRNIC_MPA_MAX_FRAME_LEN (SWRNIC_MPA_HEADER_LEN + SWRNIC_MPA_MAX_PD_LEN)

#define SWRNIC_MPA_MAX_REV 2
#define SWRNIC_MPA_MAX_DEPTH 0x3ffe
#define SWRNIC_MPA_NO_DEPTH 0x3fff /* an IRD or ORD that takes no part in negotiation (RFC 6581 9.1) */
#define SWRNIC_MPA_RTR_ALL (SWRNIC_RTR_SEND | SWRNIC_RTR_WRITE | SWRNIC_RTR_READ)

/* RFC 5044 7.1.2 (10): the wait for a complete frame is bounded. Milliseconds; the caller owns the clock. */
#define SWRNIC_MPA_REQUEST_TIMEOUT_MS 5000
#define SWRNIC_MPA_REPLY_TIMEOUT_MS 10000

/* What a call tells its caller to do. */
enum swrnic_mpa_event {
	SWRNIC_MPA_EV_NONE = 0,
	/* Responder: a valid Request is complete. Ask the ULP (swrnic_mpa_peer), then swrnic_mpa_accept or _reject. */
	SWRNIC_MPA_EV_REQUEST,
	/*
	 * Full Operation. Initiator: the Reply accepts. Responder: the accepting Reply has been written as a whole. Hand the stream
	 * to the engine with what swrnic_mpa_connected says.
	 */
	SWRNIC_MPA_EV_ESTABLISHED,
	/*
	 * The frames were exchanged, but the connection cannot be (RFC 6581 9.1, 9.2, 9.3). Hand the stream to the engine as above:
	 * swrnic_connected.terminate says which Terminate it sends before it closes. For the ULP the connect failed, as with
	 * EV_FAILED.
	 */
	SWRNIC_MPA_EV_TERMINATE,
	/* Initiator: the Reply rejects. swrnic_mpa_peer has the ULP's private data. Close the stream. */
	SWRNIC_MPA_EV_REJECTED,
	/* Responder: the rejecting Reply has been written as a whole. Close the stream, gracefully. */
	SWRNIC_MPA_EV_REJECT_SENT,
	/* Close the stream at once; no frame, no Terminate (RFC 5044 8). swrnic_mpa_failure says why. */
	SWRNIC_MPA_EV_FAILED,
};

/* Why a startup failed: the detail for logs and tests. What the ULP may know is the class, below. */
enum swrnic_mpa_reason {
	SWRNIC_MPA_OK = 0,
	/* malformed (MPA error code 4) */
	SWRNIC_MPA_BAD_KEY,	     /* not the key of the frame that is due */
	SWRNIC_MPA_BAD_REV,	     /* a revision that we do not speak */
	SWRNIC_MPA_BAD_PD_LENGTH,    /* above 512 */
	SWRNIC_MPA_BAD_BLOCK,	     /* S=1 and no room for the enhanced block */
	SWRNIC_MPA_NOT_ENHANCED,     /* our enhanced Request has an unenhanced Reply */
	SWRNIC_MPA_UNASKED_ENHANCED, /* our unenhanced Request has an enhanced Reply */
	SWRNIC_MPA_TRUNCATED,	     /* FIN inside a frame */
	SWRNIC_MPA_EXCESS,	     /* octets behind the Request before its Reply */
	/* the peer or its host went away */
	SWRNIC_MPA_PEER_CLOSED, /* FIN where a frame was due to begin, or before our Reply */
	SWRNIC_MPA_PEER_RESET,
	SWRNIC_MPA_TIMED_OUT,
	/* our own side (swrnic_mpa_abandon), or the peer's terms are beyond us (EV_TERMINATE) */
	SWRNIC_MPA_LOCAL_ERROR,	  /* Terminate 2/0/5 when the frames were already exchanged */
	SWRNIC_MPA_IRD_TOO_SMALL, /* Terminate 2/0/6 */
	SWRNIC_MPA_NO_COMMON_RTR, /* Terminate 2/0/7 */
};

enum swrnic_mpa_class {
	SWRNIC_MPA_CLASS_NONE = 0,
	SWRNIC_MPA_CLASS_PROTOCOL, /* EPROTO */
	SWRNIC_MPA_CLASS_RESET,	   /* ECONNRESET */
	SWRNIC_MPA_CLASS_TIMEOUT,  /* ETIMEDOUT */
	SWRNIC_MPA_CLASS_LOCAL,	   /* the caller knows its own reason */
};

/* What a call of ours was refused for; the machine is then unchanged. 0 is success. */
enum swrnic_mpa_error {
	SWRNIC_MPA_E_STATE = -1,  /* not in this state: the peer may have gone before the ULP decided */
	SWRNIC_MPA_E_PD_LEN = -2, /* more private data than the frame can hold */
	SWRNIC_MPA_E_PARAMS = -3, /* revision, RTR kinds or mode out of range */
};

enum swrnic_mpa_large {
	SWRNIC_MPA_LARGE_NEVER = 0,
	SWRNIC_MPA_LARGE_ACCEPT = 1, /* Initiator: not offered. Responder: accepted when the Request offers it */
	SWRNIC_MPA_LARGE_OFFER = 2,  /* Initiator: offered. Responder: as ACCEPT, since it can only answer */
};

/*
 * Our own terms, for a Request or for a Reply. A Responder answers in the Request's revision and form, repeats the Request's A bit,
 * and does not look at rev, p2p and max_ird. With an RTR by Read agreed on it holds at least one inbound Read, even if ird is 0.
 */
struct swrnic_mpa_params {
	__u8 rev;	     /* Initiator: 1 unenhanced, 2 enhanced */
	__u8 crc_wanted;     /* not 0: C=1. CRC is used if either end wants it (RFC 5044 7.1.1) */
	__u8 markers_wanted; /* not 0: M=1, the peer must insert markers in what we receive */
	__u8 large_fpdu;     /* enum swrnic_mpa_large */
	__u8 p2p;	     /* Initiator, revision 2: not 0 asks for peer-to-peer (A=1) */
	__u8 rtr_kinds;	     /* SWRNIC_RTR_* that we can send (Initiator) or take (Responder); 0: all */
	__u8 short_first;    /* not 0: SWRNIC_CONN_SHORT_FIRST is offered, or taken, where large FPDUs are */
	__u8 rfc7306;	     /* not 0: SWRNIC_CONN_RFC7306 is offered, or taken */
	__u16 ird;	     /* inbound Reads that we offer to hold; at most SWRNIC_MPA_MAX_DEPTH, or SWRNIC_MPA_NO_DEPTH */
	__u16 ord;	     /* outbound Reads that we want; the same range */
	__u16 max_ird;	     /* Initiator: how far ird may be raised to meet the Responder's ORD; below ird: not at all */
	__u16 need_ord;	     /* Responder: reject when the Initiator's IRD is below this (RFC 6581 9.1); 0: take what there is */
};

/* What the peer's frame said. Valid from EV_REQUEST, or from the Reply's event, until the machine is started anew. */
struct swrnic_mpa_peer_info {
	__u8 rev;
	__u8 enhanced; /* the frame had the enhanced block; if not, p2p, rtr_kinds, ird and ord are 0 and say nothing */
	__u8 crc;
	__u8 markers;
	__u8 large_fpdu;
	__u8 short_first;
	__u8 rfc7306;
	__u8 p2p;
	__u8 rtr_kinds; /* SWRNIC_RTR_*; 0 without p2p (RFC 6581 9.2) */
	__u8 rejected;	/* Reply with R=1 */
	__u16 ird;	/* 14 bits, SWRNIC_MPA_NO_DEPTH included: check before using them for allocation (RFC 6581 12) */
	__u16 ord;
	__u16 private_len; /* the ULP's, without the enhanced block: at most 512, or 508 */
	__u16 private_off; /* where they begin in the frame; see swrnic_mpa_peer_private */
};

/* Private to swrnic_mpa.c, but for its size. */
struct swrnic_mpa {
	__u8 state;  /* enum swrnic_mpa_state */
	__u8 reason; /* enum swrnic_mpa_reason */
	__u8 max_rev;
	__u8 terminate;
	__u8 rtr;
	__u8 sent;   /* MPA_FLAG_* of our frame */
	__u16 flags; /* SWRNIC_CONN_*, complete in Full Operation */
	__u16 ird;
	__u16 ord;
	__u16 in_len;
	__u16 out_len;
	__u16 out_pos;
	__u16 reserved;
	struct swrnic_mpa_params params;
	struct swrnic_mpa_peer_info peer;
	__u8 in[SWRNIC_MPA_MAX_FRAME_LEN];
	__u8 out[SWRNIC_MPA_MAX_FRAME_LEN];
};

/*
 * Start. *m may hold anything before. private_data is copied; it may be NULL when len is 0. At most 512 octets, 508 in revision 2.
 * 0 or enum swrnic_mpa_error (*m is then idle: not active, wants nothing).
 */
int swrnic_mpa_initiate(struct swrnic_mpa *m, const struct swrnic_mpa_params *params, const void *private_data, __u32 len);

/* max_rev: the highest revision that we answer, 1 or 2; 0 for SWRNIC_MPA_MAX_REV. */
void swrnic_mpa_respond_init(struct swrnic_mpa *m, __u8 max_rev);

/*
 * The ULP's decision after EV_REQUEST, composed into a Reply. At most 512 octets of private data, 508 when the Request was
 * enhanced. 0 or enum swrnic_mpa_error. When need_ord cannot be met, accept composes a rejecting Reply instead, which tells the ORD
 * that was needed, and the end is EV_REJECT_SENT.
 */
int swrnic_mpa_accept(struct swrnic_mpa *m, const struct swrnic_mpa_params *params, const void *private_data, __u32 len);
int swrnic_mpa_reject(struct swrnic_mpa *m, const void *private_data, __u32 len);

/* How many octets may be read next, never beyond the end of the frame. 0: do not read. */
__u32 swrnic_mpa_want(const struct swrnic_mpa *m);
/* Where they go: room for swrnic_mpa_want() octets. */
__u8 *swrnic_mpa_in(struct swrnic_mpa *m);
/* n octets (1..want) have been put there. */
enum swrnic_mpa_event swrnic_mpa_received(struct swrnic_mpa *m, __u32 n);

/* What is still to be written; *len 0: nothing. Valid until the next call that is not const. */
const __u8 *swrnic_mpa_out(const struct swrnic_mpa *m, __u32 *len);
/* n octets of it (0..*len) have been taken by the socket. */
enum swrnic_mpa_event swrnic_mpa_sent(struct swrnic_mpa *m, __u32 n);

/* FIN; also while the ULP decides (want is 0 then: watch the socket for it, or let the write of the Reply find out). */
enum swrnic_mpa_event swrnic_mpa_eof(struct swrnic_mpa *m);
/* RST or another fatal error of the socket. */
enum swrnic_mpa_event swrnic_mpa_reset(struct swrnic_mpa *m);
/* The deadline has passed. */
enum swrnic_mpa_event swrnic_mpa_timeout(struct swrnic_mpa *m);
/*
 * The caller saw (peeked at) octets that the machine did not ask for. Only behind a Request is that an error (RFC 5044 7.1.2 note);
 * behind a Reply they are the Responder's first FPDU, and wait for the engine. Optional: an unread octet harms nobody.
 */
enum swrnic_mpa_event swrnic_mpa_excess(struct swrnic_mpa *m);
/*
 * Our own side gives up: the owner died, no memory, no descriptor. EV_FAILED before the frames were exchanged, EV_TERMINATE after
 * that (RFC 6581 9.3; the engine may then be gone too, and the caller may as well abort the stream).
 */
enum swrnic_mpa_event swrnic_mpa_abandon(struct swrnic_mpa *m);

/* 1 from the start, also while the ULP decides, until an event has ended the startup one way or the other. */
int swrnic_mpa_active(const struct swrnic_mpa *m);
/* How long the present state may last, from its entry; 0: for ever (the ULP decides; or startup is over). */
__u32 swrnic_mpa_deadline_ms(const struct swrnic_mpa *m);

const struct swrnic_mpa_peer_info *swrnic_mpa_peer(const struct swrnic_mpa *m);
/* The ULP's private data in the peer's frame, peer->private_len octets, owned by *m. */
const __u8 *swrnic_mpa_peer_private(const struct swrnic_mpa *m);

/*
 * After EV_ESTABLISHED or EV_TERMINATE: fills all of *out but what is of the socket and the caller's: the descriptor (-1), both
 * addresses (not told), SWRNIC_CONN_SAME_HOST and SWRNIC_CONN_NODELAY. 0, or SWRNIC_MPA_E_STATE. In revision 1 ird and ord are our
 * own wishes, since the peer's are not known.
 */
int swrnic_mpa_connected(const struct swrnic_mpa *m, struct swrnic_connected *out);

enum swrnic_mpa_reason swrnic_mpa_failure(const struct swrnic_mpa *m);
enum swrnic_mpa_class swrnic_mpa_failure_class(const struct swrnic_mpa *m);
/*
 * After EV_FAILED of an Initiator: 1 if the peer shows what a Responder without revision 2 does on an enhanced Request, which is to
 * close. One new connection with rev = 1 is then worth trying (RFC 6581 10).
 */
int swrnic_mpa_retry_rev1(const struct swrnic_mpa *m);

/* ---- the table, for traces and tests ----------------------------------------------------------------------------------- */

enum swrnic_mpa_state {
	SWRNIC_MPA_ST_IDLE = 0,
	SWRNIC_MPA_ST_I_SEND_REQUEST,
	SWRNIC_MPA_ST_I_WAIT_REPLY,
	SWRNIC_MPA_ST_R_WAIT_REQUEST,
	SWRNIC_MPA_ST_R_ULP,
	SWRNIC_MPA_ST_R_SEND_ACCEPT,
	SWRNIC_MPA_ST_R_SEND_REJECT,
	SWRNIC_MPA_ST_FULL,
	SWRNIC_MPA_ST_TERMINATE,
	SWRNIC_MPA_ST_REJECTED,
	SWRNIC_MPA_ST_FAILED,
	SWRNIC_MPA_ST_COUNT
};

enum swrnic_mpa_input {
	SWRNIC_MPA_IN_INITIATE = 0,
	SWRNIC_MPA_IN_RESPOND,
	SWRNIC_MPA_IN_ALL_SENT,
	SWRNIC_MPA_IN_GOOD_REQUEST,
	SWRNIC_MPA_IN_GOOD_REPLY,
	SWRNIC_MPA_IN_UNUSABLE_REPLY, /* accepts, on terms that we cannot keep */
	SWRNIC_MPA_IN_REJECT_REPLY,
	SWRNIC_MPA_IN_MALFORMED,
	SWRNIC_MPA_IN_ACCEPT,
	SWRNIC_MPA_IN_REJECT,
	SWRNIC_MPA_IN_EOF,
	SWRNIC_MPA_IN_RESET,
	SWRNIC_MPA_IN_TIMEOUT,
	SWRNIC_MPA_IN_EXCESS,
	SWRNIC_MPA_IN_ABANDON,
	SWRNIC_MPA_IN_COUNT
};

/* What input does in state: 1 and *next, *event; or 0 if it does nothing there. */
int swrnic_mpa_lookup(enum swrnic_mpa_state state, enum swrnic_mpa_input input, enum swrnic_mpa_state *next,
		      enum swrnic_mpa_event *event);
enum swrnic_mpa_state swrnic_mpa_get_state(const struct swrnic_mpa *m);

/* Static strings; "?" out of range. */
const char *swrnic_mpa_state_name(enum swrnic_mpa_state state);
const char *swrnic_mpa_input_name(enum swrnic_mpa_input input);
const char *swrnic_mpa_event_name(enum swrnic_mpa_event event);
const char *swrnic_mpa_reason_name(enum swrnic_mpa_reason reason);

#ifdef __cplusplus
}
#endif

#endif /* SWRNIC_MPA_H */
