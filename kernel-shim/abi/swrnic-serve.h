/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * How swrnicd serves the QPs of consumers in the kernel: ioctls on the event file (swrnic-abi.h) of an ordinary context.
 *
 * The kernel owns the queues, the memory and the completions; the daemon owns the streams. Neither maps anything of the other. The
 * daemon names local memory by (QP, queue, WQE sequence, offset) and tagged memory by (STag, TO), never by lkey and address; the
 * module checks each name against what it holds itself, at the moment of each move, and moves payload between the stream's socket
 * and that memory. A sequence counts the requests of one queue from 0.
 *
 * QP_CONNECTED, QP_DISCONNECT, QP_ERROR, QP_READY, QP_CLOSED and COUNTED are as for the QPs of a process. One record is new:
 * SWRNIC_DOWN_QP_WORK, raised after a request was posted and not fetched.
 *
 * All calls: ENOTTY by another module; EACCES with other credentials than those that opened the file, unless it is the process that
 * SERVE was granted to, which may give up its capabilities and its user afterwards; EINVAL for a QP that the file does not serve,
 * and for a field that is out of range; EIO after the device has gone.
 */
#ifndef SWRNIC_SERVE_H
#define SWRNIC_SERVE_H

#include <linux/ioctl.h>
#include <linux/types.h>

#include "swrnic-abi.h"

/* read() of the event file: u is empty. The QP has requests to be fetched. */
#define SWRNIC_DOWN_QP_WORK 4

enum swrnic_queue {
	SWRNIC_QUEUE_SEND = 0,
	SWRNIC_QUEUE_RECV = 1,
	SWRNIC_QUEUE_BOTH = 2, /* FETCH alone */
};

/*
 * The versions of these calls that this end speaks. Version 1 was told by nobody: its SERVE has another number, so that between it
 * and a later one there is ENOTTY on either side. In version 2 RECEIVE left nothing in the stream; in version 3 one file
 * served all, and a call moved 128 KiB.
 */
#define SWRNIC_SERVE_OLDEST 4
#define SWRNIC_SERVE_NEWEST 4

/* The kernel's QPs of a device are shared out among as many files as serve it: those of one file are a group. */
#define SWRNIC_SERVE_GROUPS 8

struct swrnic_serve {
	__u32 version;	/* in: the newest that the daemon speaks; out: what both speak from now on */
	__u8 crc_mode;	/* of the QPs that are made for this file: enum swrnic_crc_mode */
	__u8 fpdu_mode; /* enum swrnic_fpdu_mode */
	__u8 group;	/* which of SWRNIC_SERVE_GROUPS */
	__u8 reserved[9];
};

/*
 * From now on the kernel's QPs of this device are made for this file, or for that of another group: each for the one that has the
 * fewest. Once for a file. EPERM without CAP_SYS_ADMIN in the initial user namespace; EXDEV outside the network namespace of the
 * device's interface; EBUSY while that group is served, or after SERVE of another; EPROTO: the daemon is too old.
 */
#define SWRNIC_IOC_SERVE _IOWR('s', 0x80, struct swrnic_serve)

/* What the daemon must know to make a QP of its own: after QP_CONNECTED. */
struct swrnic_qp_info {
	__u32 qpn;
	__u32 access; /* enum ib_access_flags: what the QP lets its peer do */
	__u32 max_send_wr;
	__u32 max_recv_wr; /* 0: its receives come from a queue that several QPs share */
	__u32 reserved[4];
};

#define SWRNIC_IOC_QP_INFO _IOWR('s', 0x81, struct swrnic_qp_info)

enum swrnic_wqe_opcode {
	SWRNIC_WQE_RECV = 0,
	SWRNIC_WQE_SEND = 1,
	SWRNIC_WQE_SEND_INV = 2, /* remote_stag: to be invalidated at the peer */
	SWRNIC_WQE_WRITE = 3,
	SWRNIC_WQE_READ = 4,  /* what READ_WITH_INV invalidates here is invalidated when it completes, by the module */
	SWRNIC_WQE_LOCAL = 5, /* REG_MR or LOCAL_INV: SWRNIC_IOC_EXECUTE in its turn, nothing on the wire; see FETCH */
};

#define SWRNIC_WQE_FENCE (1u << 0)
#define SWRNIC_WQE_SOLICITED (1u << 1)

/* A request as far as the stream is concerned. Which of them get a CQE is the module's business: the daemon completes each. */
struct swrnic_wqe {
	__u64 sequence;
	__u64 remote_to;   /* WRITE, READ */
	__u32 remote_stag; /* WRITE, READ, SEND_INV */
	__u32 length;	   /* octets of its memory */
	__u16 opcode;	   /* enum swrnic_wqe_opcode */
	__u16 flags;	   /* SWRNIC_WQE_* */
	__u32 reserved;
};

/*
 * Takes the next requests of a queue, or of both: its receives first, unless they come from a shared queue. Fewer than max: there
 * are no more at present. A local request before which nothing is incomplete is executed and completed here, and never told of; one
 * that fails is left to EXECUTE.
 *
 * QP_WORK tells of receives only when a FETCH of the receive queue has found none: they come with the sends that are fetched.
 *
 * From a shared queue a receive is to be fetched, alone, when a message needs it; so that none lies with a QP that is idle. A QP
 * has SWRNIC_SHARED_RECEIVES of them at most that are not complete.
 */
#define SWRNIC_SHARED_RECEIVES 64

struct swrnic_fetch {
	__u32 qpn;
	__u32 queue; /* enum swrnic_queue */
	__u64 wqes;  /* out: struct swrnic_wqe[max] */
	__u32 max;
	__u32 count; /* out */
};

#define SWRNIC_IOC_FETCH _IOWR('s', 0x82, struct swrnic_fetch)

enum swrnic_name_kind {
	SWRNIC_NAME_SEND = 0,	/* the octets of a request of the send queue; id: its sequence */
	SWRNIC_NAME_RECV = 1,	/* of a receive; id: its sequence */
	SWRNIC_NAME_TAGGED = 2, /* id: STag */
};

struct swrnic_name {
	__u64 id;
	__u64 offset; /* octets into the request's memory; TAGGED: TO */
	__u32 length; /* octets, not 0 */
	__u32 kind;   /* enum swrnic_name_kind */
	__u32 whole;  /* not 0: so many octets have to be good, though only the first are moved: a Read's source */
	__u32 reserved;
};

/*
 * What is wrong with a name: what the stream's Terminate is made of. In DDP-31's order. For names of requests
 * INVALID_STAG also says that the request is not outstanding, or not of a kind to be so used.
 */
enum swrnic_name_error {
	SWRNIC_NAME_OK = 0,
	SWRNIC_NAME_INVALID_STAG = 1,
	SWRNIC_NAME_WRONG_PD = 2,
	SWRNIC_NAME_ACCESS = 3,
	SWRNIC_NAME_WRAP = 4,
	SWRNIC_NAME_BOUNDS = 5,
};

/*
 * What is complete with the end of a message: the request that is named, a receive or a Read, as by COMPLETE with success. If that
 * cannot be, since one before it is not complete, or the peer may not invalidate what it says, nothing of it is done, and the
 * daemon goes on by INVALIDATE and COMPLETE, which say why.
 */
#define SWRNIC_ENDING (1u << 8)

struct swrnic_ending {
	__u32 flags;	   /* SWRNIC_ENDING and SWRNIC_DONE_*; 0: nothing is complete */
	__u32 invalidated; /* by the peer, with SWRNIC_DONE_INVALIDATED: the STag */
	__u32 done;	   /* out: not 0: it is */
	__u32 reserved;
};

enum swrnic_copy_direction {
	SWRNIC_COPY_IN = 0,  /* named memory to the daemon's: of a SEND or WRITE request, or remotely readable */
	SWRNIC_COPY_OUT = 1, /* the daemon's to named memory: of a receive or a READ request, or remotely writable */
};

/*
 * Moves octets between one run of the daemon's memory and named memory. Each name is checked anew while it is used; what is flushed
 * or invalidated meanwhile is not touched any more when the flush or invalidation is complete. No wait for the network. EFAULT: the
 * daemon's own memory. An ending is that of one name, which is copied to.
 */
struct swrnic_copy {
	__u32 qpn;
	__u32 direction; /* enum swrnic_copy_direction */
	__u64 memory;	 /* as many octets as all names together */
	__u64 names;	 /* struct swrnic_name[count] */
	__u32 count;
	__u32 error; /* out: enum swrnic_name_error, of the first bad name; those before it are moved */
	struct swrnic_ending ending;
};

#define SWRNIC_IOC_COPY _IOWR('s', 0x83, struct swrnic_copy)

/* What one RECEIVE or TRANSMIT moves at most, headers and all. */
#define SWRNIC_MOVED_OCTETS (160u << 10)

#define SWRNIC_HEADER_TAGGED 16	  /* ULPDU_Length and DDP's tagged header */
#define SWRNIC_HEADER_UNTAGGED 20 /* and the untagged one */

#define SWRNIC_RECEIVE_MORE (1u << 0)

/*
 * Takes octets from the QP's stream and puts the payload of whole FPDUs to its place, as long as all is well with them. That of the
 * first, which the daemon has in part, goes to `name`; with SWRNIC_RECEIVE_MORE those behind it are placed as well while each
 * continues the one before: the same header but for ULPDU_Length, L and the offset at its end (TO or MO). Behind an FPDU with L
 * only those of a TAGGED name go on: one Write after another, each where the one before has ended. A Response with L is placed if
 * it ends its Read. If the stream has CRC, it is checked before anything of an FPDU is placed. What is not placed is handed to the
 * daemon, which finds out for itself why: not all of the FPDU has come, its CRC is wrong, its name is not good, it belongs to
 * another message.
 *
 * Behind what was placed only the beginning of the first longer FPDU is handed over, unless the end of what has come cuts it, and
 * the stream keeps the rest: so the daemon can say by another RECEIVE where its payload goes.
 *
 * No wait for the network. EAGAIN: there is nothing now. ENOTCONN: the QP has no stream. What else recv() may say of the socket.
 * After EFAULT, and EPROTO (somebody else has read from the stream meanwhile), the stream is of no use any more.
 */
struct swrnic_receive {
	__u32 qpn;
	__u32 flags;		     /* SWRNIC_RECEIVE_* */
	struct swrnic_name name;     /* the payload of the FPDU; whole: 0 */
	__u64 fpdu;		     /* the daemon's memory: what has come of the FPDU before */
	__u64 rest;		     /* the daemon's memory: for what is not placed */
	__u32 have;		     /* octets of fpdu: the header at least, not the whole */
	__u32 header;		     /* SWRNIC_HEADER_* */
	__u32 room;		     /* octets of rest; no more than that are looked at of the stream */
	__u32 taken;		     /* out: octets taken from the stream; 0: it has ended */
	__u32 left;		     /* out: of them, in rest */
	__u32 placed;		     /* out: FPDUs; not 0: the first, with what was in fpdu, is among them */
	__u32 octets;		     /* out: of their payload */
	__u32 last;		     /* out: of the payload of the last of them */
	__u32 ended;		     /* out: of them, those with L */
	__u32 whole;		     /* out: the last of them is one of those */
	__u32 remains;		     /* out: not 0: octets were looked at and left in the stream */
	struct swrnic_ending ending; /* if the last of them has L */
};

#define SWRNIC_IOC_RECEIVE _IOWR('s', 0x88, struct swrnic_receive)

#define SWRNIC_TRANSMIT_FPDUS 256
#define SWRNIC_FPDU_HEADER 76	 /* the longest: that of a Terminate, which has no payload */
#define SWRNIC_FPDU_OCTETS 65544 /* the longest FPDU */

#define SWRNIC_FPDU_ENDS (1u << 0) /* when all of it is sent the request that is named is complete: a Send or a Write */

struct swrnic_fpdu {
	struct swrnic_name name; /* of its payload; length 0: there is none */
	__u16 header_len;
	__u16 flags;			 /* SWRNIC_FPDU_* */
	__u8 header[SWRNIC_FPDU_HEADER]; /* ULPDU_Length and all headers */
};

/*
 * Lays FPDUs out, with pad and CRC, and gives the stream as many of their octets as it takes. An FPDU whose name is not good ends
 * the run before it. What is complete then is completed here, as by COMPLETE with success, up to the first that cannot be, since
 * one before it is not complete; of those behind it the daemon says it by COMPLETE. No wait for the network. Errors of the socket
 * as send() tells them, ENOTCONN as above.
 */
struct swrnic_transmit {
	__u32 qpn;
	__u32 count;	/* not 0, at most SWRNIC_TRANSMIT_FPDUS */
	__u64 fpdus;	/* struct swrnic_fpdu[count] */
	__u64 rest;	/* the daemon's memory, SWRNIC_FPDU_OCTETS: for what is left of an FPDU that the stream took in part */
	__u32 laid_out; /* out: FPDUs */
	__u32 error;	/* out: enum swrnic_name_error, of the one behind them */
	__u32 sent;	/* out: octets; 0: the stream takes none now */
	__u32 left;	/* out: octets in rest */
	__u32 done;	/* out: requests that are completed: the first of those with SWRNIC_FPDU_ENDS */
	__u32 reserved;
};

#define SWRNIC_IOC_TRANSMIT _IOWR('s', 0x89, struct swrnic_transmit)

/* Executes the oldest fetched request of the send queue that is not executed, a LOCAL one. Its completion is reported as any other.
 */
struct swrnic_execute {
	__u32 qpn;
	__u32 error; /* out: not 0: it is to complete with MW_BIND_ERR */
	__u64 sequence;
};

#define SWRNIC_IOC_EXECUTE _IOWR('s', 0x85, struct swrnic_execute)

/* The peer's Send with Invalidate has come whole. */
struct swrnic_invalidate {
	__u32 qpn;
	__u32 stag;
	__u32 error; /* out: enum swrnic_name_error */
	__u32 reserved;
};

#define SWRNIC_IOC_INVALIDATE _IOWR('s', 0x86, struct swrnic_invalidate)

/*
 * The oldest outstanding request of a queue is done. status: enum ib_wc_status; not 0 ends the QP: the module flushes what is left
 * itself, and what is reported of it after that is taken for nothing. READs complete in their order with all the others.
 */
struct swrnic_done {
	__u64 sequence;
	__u32 queue;
	__u32 status;
	__u32 length;	   /* RECV: of the message */
	__u32 invalidated; /* RECV: STag that came with it, with SWRNIC_DONE_INVALIDATED */
	__u32 flags;
	__u32 vendor_err;
};

#define SWRNIC_DONE_SOLICITED (1u << 0)
#define SWRNIC_DONE_INVALIDATED (1u << 1)

struct swrnic_complete {
	__u32 qpn;
	__u32 count; /* in: how many; out: how many were taken */
	__u64 done;  /* struct swrnic_done[count] */
};

#define SWRNIC_IOC_COMPLETE _IOWR('s', 0x87, struct swrnic_complete)

#endif /* SWRNIC_SERVE_H */
