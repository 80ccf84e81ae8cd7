/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The contract between the swrnic provider and its shim (the kernel module or the userspace shim).
 *
 * C, fixed width, host byte order, naturally aligned, no padding that is not named. Both ends fill reserved fields with zero;
 * a receiver refuses what it does not know with EINVAL. A change that an old peer would misread raises SWRNIC_ABI_NEWEST; an end
 * that no longer speaks a version raises its SWRNIC_ABI_OLDEST.
 *
 * 1. Driver data behind the uverbs commands: struct swrnic_*_req behind the request, struct swrnic_*_resp behind the response.
 * 2. The event file: a descriptor that the GET_CONTEXT response carries. read() yields whole struct swrnic_down records, shim to
 *    provider; write() takes whole struct swrnic_up records, provider to shim. Non-blocking, pollable, one per ucontext, good only
 *    for the credentials that opened it. A read with nothing to read is EAGAIN; after the device has gone it is EIO.
 */
#ifndef SWRNIC_ABI_H
#define SWRNIC_ABI_H

#include <linux/types.h>

/*
 * The versions that this end speaks. (Tests build ends that speak others.)
 * 3: swrnic_create_qp_req.rfc7306, and with it SWRNIC_CONN_RFC7306.
 * 4: swrnic_create_qp_req.own_reads, swrnic_connected.rnr_retry.
 */
#ifndef SWRNIC_ABI_NEWEST
#define SWRNIC_ABI_OLDEST 2
#define SWRNIC_ABI_NEWEST 4
#endif

static inline int swrnic_abi_speaks(__u32 version)
{
	return version >= SWRNIC_ABI_OLDEST && version <= SWRNIC_ABI_NEWEST;
}

/*
 * What the shim and the provider both speak, given the provider's newest version; 0: nothing. The provider looks at the answer with
 * swrnic_abi_speaks(), so that either may be the newer one, and packages can be upgraded one by one.
 */
static inline __u32 swrnic_abi_common(__u32 newest)
{
	__u32 common = newest < SWRNIC_ABI_NEWEST ? newest : SWRNIC_ABI_NEWEST;

	return swrnic_abi_speaks(common) ? common : 0;
}

/*
 * The uverbs device's abi_version in sysfs. It stays: libibverbs passes over a device whose number the provider does not name, and
 * says nothing.
 */
#define SWRNIC_ABI_IN_SYSFS 2

/*
 * What ibv_query_device(3) calls vendor_id, an OUI, and vendor_part_id. "swr" has the bit of groups set in its first octet, so
 * nobody can be given it, and no program takes the device for hardware that it knows.
 */
#define SWRNIC_VENDOR_ID 0x737772
#define SWRNIC_VENDOR_PART_ID 1

/*
 * The device's driver_id in both shims and in the provider's match table: a private value ("swrn"), since the kernel's enum has no
 * number for us. The kernel only ever compares it.
 */
#define SWRNIC_DRIVER_ID 0x7377726e

/* Sysfs attribute of the userspace shim's devices, where netlink cannot tell the driver_id: contents "swrnic\n". */
#define SWRNIC_SYSFS_MARK "swrnic"

/* ---- driver data ------------------------------------------------------------------------------------------------------- */

struct swrnic_alloc_ucontext_req {
	__u32 abi_version; /* the newest that the provider speaks; EPROTO: too old for the shim */
	__u32 reserved[3];
};

struct swrnic_alloc_ucontext_resp {
	__u32 abi_version; /* what both speak from now on, unless it is too old for the provider */
	__s32 event_fd;	   /* the event file, O_CLOEXEC; the provider closes it when the context ends */
	__u32 reserved[2];
};

enum swrnic_crc_mode {
	SWRNIC_CRC_AUTO = 0, /* ask for CRC unless both ends are the same host */
	SWRNIC_CRC_ON = 1,
	SWRNIC_CRC_OFF = 2, /* do not ask; still used when the peer asks (MPA-72) */
};

enum swrnic_fpdu_mode {
	SWRNIC_FPDU_AUTO = 0, /* offer large FPDUs on the same host; accept them when the peer's Request offers */
	SWRNIC_FPDU_EMSS = 1, /* never */
	SWRNIC_FPDU_64K = 2,  /* always offer */
};

/* MPA startup parameters travel with the QP, so that neither shim needs a configuration of its own. */
struct swrnic_create_qp_req {
	__u8 crc_mode;	  /* enum swrnic_crc_mode */
	__u8 fpdu_mode;	  /* enum swrnic_fpdu_mode */
	__u8 mpa_rev;	  /* 1 or 2: the revision of our Request; a Responder answers in the Request's revision */
	__u8 rfc7306;	  /* since version 3; not 0: the provider takes it, so SWRNIC_CONN_RFC7306 may be agreed on */
	__u32 timeout_ms; /* TCP connect plus MPA startup of an active connection; 0: the shim's default */
	__u8 own_reads; /* since version 4: so many Reads are outstanding beside the program's, both ways: asked for, and granted */
	__u8 reserved[7];
};

/*
 * The number of the QP comes back in the common response (qpn). It cannot be guessed, has 24 bits, and is never 0 or 1. The
 * userspace shim's name a TCP port (swrnic_wiring.h).
 */

/* What an address handle stands for; all 0 of a module that has no UD QPs to use it. */
struct swrnic_create_ah_resp {
	__u8 source[16], peer[16]; /* addresses as in a GID: IPv4 behind ::ffff: */
	__u32 interface;	   /* index of the one to leave by; 0: routing knows */
	__u16 group_port;	   /* not 0: peer is a group, whose members listen there */
	__u16 reserved;
};

struct swrnic_reg_mr_req {
	__u32 stag; /* chosen by the provider's engine; shown as lkey and rkey by `rdma resource` */
	__u32 reserved;
};

struct swrnic_alloc_mw_req {
	__u32 stag; /* as of a region; what the window is made with: binding chooses the key anew, and tells no shim */
	__u32 reserved;
};

/* ---- event file, shim to provider -------------------------------------------------------------------------------------- */

enum swrnic_down_type {
	SWRNIC_DOWN_QP_CONNECTED = 1,  /* u.connected: the stream is in Full Operation; its descriptor changes hands */
	SWRNIC_DOWN_QP_DISCONNECT = 2, /* close gracefully; harmless when already closing or closed */
	SWRNIC_DOWN_QP_ERROR = 3,      /* abort the stream, move the QP to ERROR, flush */
	SWRNIC_DOWN_QP_DATAGRAMS = 4,  /* u.datagrams: a socket of a UD QP; its descriptor changes hands */
};

#define SWRNIC_ROLE_INITIATOR 0
#define SWRNIC_ROLE_RESPONDER 1

#define SWRNIC_CONN_CRC (1u << 0)	 /* generate and check CRC32c */
#define SWRNIC_CONN_MARKERS_TX (1u << 1) /* the peer asked for markers: insert them */
#define SWRNIC_CONN_MARKERS_RX (1u << 2) /* we asked for markers: expect them */
#define SWRNIC_CONN_LARGE_FPDU (1u << 3) /* both ends agreed on ULPDUs up to 64768 octets whatever the EMSS */
#define SWRNIC_CONN_P2P (1u << 4)	 /* A=1: the Initiator's first FPDU is an RTR message (RFC 6581 9.2) */
#define SWRNIC_CONN_SAME_HOST (1u << 5)	 /* both ends of the stream are on this host */
#define SWRNIC_CONN_NODELAY (1u << 6)	 /* the socket has TCP_NODELAY already */
/* With LARGE_FPDU: both ends send messages so that every segment but the first has the largest ULPDU. */
#define SWRNIC_CONN_SHORT_FIRST (1u << 7)
/*
 * Both ends take Immediate Data and atomics (RFC 7306), and Immediate Data that belongs to the Send behind it (docs/EXCEPTIONS.md).
 * Only where both providers said so.
 */
#define SWRNIC_CONN_RFC7306 (1u << 8)

#define SWRNIC_RTR_SEND (1u << 0)  /* kind B */
#define SWRNIC_RTR_WRITE (1u << 1) /* kind C */
#define SWRNIC_RTR_READ (1u << 2)  /* kind D */

struct swrnic_address {
	__u16 version; /* 4, 6 (IPv4 behind ::ffff: is 4), or 0: not told, ask the socket */
	__u16 port;
	__u8 octets[16]; /* network order; IPv4 takes the first four */
};

struct swrnic_connected {
	__s32 fd;	/* connected TCP socket, O_NONBLOCK | O_CLOEXEC; owned by the reader from now on */
	__u8 role;	/* SWRNIC_ROLE_* */
	__u8 mpa_rev;	/* revision in use */
	__u16 flags;	/* SWRNIC_CONN_* */
	__u16 ird;	/* inbound Reads that we must hold */
	__u16 ord;	/* outbound Reads that we may have outstanding */
	__u8 rtr;	/* Initiator: the one kind to send; Responder: the kinds agreed on; 0 without P2P */
	__u8 terminate; /* not 0: send Terminate 2/0/this as the first FPDU and close (MPA-41, 50, 52) */
	__u8 rnr_retry; /* since version 4; not 0: one more than how often the peer's Send may find no receive; 8: for ever */
	__u8 reserved;
	struct swrnic_address local, peer;
};

/* Told before the command that made the QP, or attached it to the group, has ended: the provider reads it behind the command. */
struct swrnic_datagrams {
	__s32 fd; /* bound UDP socket that tells where datagrams came to (IP_PKTINFO), O_NONBLOCK | O_CLOEXEC; the reader's */
	__u32 is_group;
	__u8 group[16]; /* as in attach_mcast; else 0: it is bound to the port that the QP's number names */
};

struct swrnic_down {
	__u32 type; /* enum swrnic_down_type */
	__u32 qpn;
	union {
		struct swrnic_connected connected;
		struct swrnic_datagrams datagrams;
		__u8 raw[56];
	} u;
};

/* ---- event file, provider to shim -------------------------------------------------------------------------------------- */

enum swrnic_up_type {
	/*
	 * The engine has taken the stream of QP_CONNECTED, and as a Responder with P2P has seen the first valid FPDU: only now is
	 * ESTABLISHED raised. Once per QP_CONNECTED; EINVAL otherwise.
	 */
	SWRNIC_UP_QP_READY = 1,
	/*
	 * The stream has ended; aux: enum swrnic_close_reason. Once per QP_CONNECTED, after or instead of QP_READY. Of a wired QP
	 * SWRNIC_CLOSE_ERROR says that it is in ERROR, and may come without a stream: it has given its peer up, and is neither to
	 * call nor to be called any more. (The others leave it as it is.) That is told before modify_qp(RESET) is asked for, so it
	 * is never about a later wiring.
	 */
	SWRNIC_UP_QP_CLOSED = 2,
	/* id: uverbs handle of an armed CQ that has a completion channel. Once per arming. */
	SWRNIC_UP_COMP_POSTED = 3,
	/* aux: enum ib_event_type; id: QP number for QP events, uverbs handle for CQ and SRQ events. */
	SWRNIC_UP_ASYNC_EVENT = 4,
	/*
	 * id: enum swrnic_counter; aux: by how much it grew since the last such record of this context (what does not fit goes into
	 * another record). Sent a few times a second while it moves, and before the context ends. It feeds `rdma statistic`.
	 */
	SWRNIC_UP_COUNTED = 5,
	/*
	 * id: a descriptor of the provider's own, the event file among them; aux: 1 from now on, 0 no longer (told before it is
	 * closed, and also after the device has gone). Programs close what they do not know; a shim that sees them do so leaves
	 * these alone.
	 */
	SWRNIC_UP_KEEP = 6,
};

/* What a device counts, in this order; bytes are ULP payload, messages are counted when their last FPDU is out or placed. */
enum swrnic_counter {
	SWRNIC_COUNT_TX_BYTES = 0,
	SWRNIC_COUNT_RX_BYTES = 1,
	SWRNIC_COUNT_TX_FPDUS = 2,
	SWRNIC_COUNT_RX_FPDUS = 3,
	SWRNIC_COUNT_TX_SENDS = 4,
	SWRNIC_COUNT_RX_SENDS = 5,
	SWRNIC_COUNT_TX_WRITES = 6,
	SWRNIC_COUNT_RX_WRITES = 7,
	SWRNIC_COUNT_TX_READ_REQUESTS = 8,
	SWRNIC_COUNT_RX_READ_REQUESTS = 9,
	SWRNIC_COUNT_TX_READ_RESPONSES = 10,
	SWRNIC_COUNT_RX_READ_RESPONSES = 11,
	SWRNIC_COUNT_TX_TERMINATES = 12,
	SWRNIC_COUNT_RX_TERMINATES = 13,
	SWRNIC_COUNT_RX_CRC_ERRORS = 14,
	SWRNIC_COUNT_RX_STALLS = 15, /* a Send met an empty receive queue and the stream was left unread */
	SWRNIC_COUNT_TX_CALLS = 16,  /* send system calls */
	SWRNIC_COUNT_RX_CALLS = 17,  /* receive system calls */
	SWRNIC_COUNTERS = 18,
};

enum swrnic_close_reason {
	SWRNIC_CLOSE_GRACEFUL = 0, /* both directions ended by FIN at an FPDU boundary */
	SWRNIC_CLOSE_LOST = 1,	   /* reset, timeout, FIN inside an FPDU */
	SWRNIC_CLOSE_ERROR = 2,	   /* a Terminate was sent or received, or a local error */
};

struct swrnic_up {
	__u32 type; /* enum swrnic_up_type */
	__u32 id;
	__u32 aux;
	__u32 reserved;
};

#endif /* SWRNIC_ABI_H */
