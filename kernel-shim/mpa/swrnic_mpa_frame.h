/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Private to kernel-shim/mpa: the layout of startup frames, in front of the state machine. */
#ifndef SWRNIC_MPA_FRAME_H
#define SWRNIC_MPA_FRAME_H

#include "swrnic_mpa.h"

/* Octet 16 of a frame (RFC 5044 7.1.1, RFC 6581 6). */
#define MPA_FLAG_MARKERS 0x80
#define MPA_FLAG_CRC 0x40
#define MPA_FLAG_REJECT 0x20
#define MPA_FLAG_ENHANCED 0x10 /* a reserved bit below revision 2 */
/* A reserved bit, 0 by the RFCs. siw uses it as we do; see docs/EXCEPTIONS.md. */
#define MPA_FLAG_LARGE_FPDU 0x08
/* Reserved bits, ours alone. siw repeats a Request's bits in its Reply: so the answer is another bit than the offer. */
#define MPA_FLAG_SHORT_FIRST_OFFER 0x04
#define MPA_FLAG_SHORT_FIRST_ANSWER 0x02
/* The answer means something only beside a 0 where the offer was: whoever repeats a Request's bits repeats that one too. */
#define MPA_FLAG_RFC7306_OFFER 0x01
#define MPA_FLAG_RFC7306_ANSWER 0x04

#define MPA_KEY_LEN 16
#define MPA_OFF_FLAGS 16
#define MPA_OFF_REV 17
#define MPA_OFF_PD_LEN 18

/* What our enhanced block says. */
struct mpa_block {
	__u8 p2p;
	__u8 rtr_kinds;
	__u16 ird;
	__u16 ord;
};

static inline int mpa_is_responder(const struct swrnic_mpa *m)
{
	return m->max_rev != 0;
}

/* Into m->out, with the key of our role. b is NULL for an unenhanced frame. The caller has checked len. */
void mpa_compose(struct swrnic_mpa *m, __u8 flags, __u8 rev, const struct mpa_block *b, const void *pd, __u32 len);

/* What has come so far of the key. A stranger is seen at its first wrong octet, not after the deadline. */
int mpa_key_ok(const struct swrnic_mpa *m);
/* Once the header is complete, before PD_Length is used for anything. */
enum swrnic_mpa_reason mpa_check_header(const struct swrnic_mpa *m);
/* Needs a checked header. */
__u32 mpa_frame_len(const struct swrnic_mpa *m);
/* The whole frame is there: into m->peer. */
void mpa_parse_frame(struct swrnic_mpa *m);

#endif /* SWRNIC_MPA_FRAME_H */
