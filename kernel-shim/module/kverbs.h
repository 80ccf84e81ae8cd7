/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Objects of consumers in the kernel: queues, memory and completions are the module's, the streams are a daemon's
 * (kernel-shim/abi/swrnic-serve.h).
 *
 * Locks, outermost first: swr_file.lock, swr_qp.lock, then swr_kmr.lock, swr_kcq.lock or swr_ksrq.lock; all of them with interrupts
 * off, since posts and polls come from any context. A handler of the consumer is called under none of them.
 *
 * A daemon can make a copy from or to its memory take as long as it likes. So no such copy is made with a reference to a QP, for
 * which destroy_qp would wait: octets go through a buffer of the file's, and the QP is looked up anew for each.
 */
#ifndef SWRNIC_KVERBS_H
#define SWRNIC_KVERBS_H

#include "swrnic.h"

/* ---- completion queues ------------------------------------------------------------------------------------------------- */

struct swr_kcq {
	spinlock_t lock; /* of all that follows */
	struct ib_wc *ring;
	u32 mask;
	u32 capacity;
	u32 head, tail; /* they run on; tail - head is how many wait */
	enum ib_cq_notify_flags armed;
	bool overrun;
};

/* What is left to be done for a CQ when no lock is held any more. */
#define SWR_WAKE_HANDLER BIT(0)
#define SWR_WAKE_OVERRUN BIT(1)

struct swr_wakes {
	unsigned long cq[2]; /* by queue of a QP, enum swrnic_queue */
	bool srq_limit;
	bool last_wqe; /* the QP takes nothing more from its shared queue */
};

int swr_kcq_create(struct swr_cq *cq, const struct ib_cq_init_attr *attr);
void swr_kcq_destroy(struct swr_cq *cq);
unsigned long swr_kcq_add(struct swr_cq *cq, const struct ib_wc *wc, bool solicited); /* SWR_WAKE_*; interrupts are off */
void swr_kcq_wake(struct swr_cq *cq, unsigned long wakes);
int swr_poll_cq(struct ib_cq *ibcq, int count, struct ib_wc *wc);
int swr_req_notify_cq(struct ib_cq *ibcq, enum ib_cq_notify_flags flags);

/* ---- memory regions ---------------------------------------------------------------------------------------------------- */

struct swr_kmr {
	struct rcu_head rcu;
	const struct ib_pd *pd;
	u32 index;
	u32 max_pages;

	spinlock_t lock; /* of all that follows */
	u32 stag;	 /* what it is valid by, or was at last */
	bool valid;
	int access;
	u64 iova;
	u32 offset; /* of its first octet in the first page */
	u64 length;
	u32 page_size;
	u32 nr_mapped; /* what map_mr_sg left for the next REG_MR: this down to mapped_page_size */
	u32 mapped_offset;
	u64 mapped_length;
	u32 mapped_page_size;
	u64 pages[]; /* kernel virtual addresses: max_pages in use, max_pages mapped */
};

struct ib_mr *swr_get_dma_mr(struct ib_pd *ibpd, int access);
struct ib_mr *swr_alloc_mr(struct ib_pd *ibpd, enum ib_mr_type type, u32 max_pages);
int swr_map_mr_sg(struct ib_mr *ibmr, struct scatterlist *sg, int nents, unsigned int *offset);
void swr_kmr_free(struct swr_device *dev, struct swr_kmr *kmr);

/* These three under swr_qp.lock of the QP whose PD it is. */
/* 0, or -EINVAL. iova: of its first octet */
int swr_kmr_register(struct swr_device *dev, const struct ib_pd *pd, u32 stag, u64 iova, int access);
enum swrnic_name_error swr_kmr_invalidate(struct swr_device *dev, const struct ib_pd *pd, u32 stag, bool remote);
/*
 * Octets at address va of a region, to (in) or from a buffer; without a buffer only the checks. access: what the region must grant,
 * of enum ib_access_flags. Nothing is moved after an error.
 */
enum swrnic_name_error swr_kmr_move(struct swr_device *dev, const struct ib_pd *pd, u32 stag, int access, u64 va, u32 length,
				    void *buffer, bool in);

/* ---- queue pairs ------------------------------------------------------------------------------------------------------- */

#define SWR_KWQE_SIGNALLED BIT(0)
#define SWR_KWQE_FENCE BIT(1)
#define SWR_KWQE_SOLICITED BIT(2)
#define SWR_KWQE_EXECUTED BIT(3) /* a local one, with success */

/* A private copy of a request. */
struct swr_kwqe {
	union {
		u64 wr_id;
		struct ib_cqe *wr_cqe;
	};
	u64 remote_to; /* REG_MR: where the region begins for the peer */
	u32 remote_stag;
	u32 stag; /* of ours: REG_MR gives it, LOCAL_INV and READ_WITH_INV take it */
	u32 length;
	int access; /* REG_MR */
	enum ib_wr_opcode opcode;
	u16 flags; /* SWR_KWQE_* */
	u16 nr_sge;
	struct ib_sge sge[];
};

/* Sequences count the requests from 0: head <= fetched <= tail. */
struct swr_kring {
	void *wqes;
	u32 stride;
	u32 mask;
	u32 depth;
	u32 max_sge;
	u64 head;    /* the oldest that is not complete */
	u64 fetched; /* the first that the daemon does not know of */
	u64 tail;    /* the next to be posted */
};

/* All of it under swr_qp.lock, but for the CQs and what is of the shared receive queue. */
struct swr_kqp {
	struct swr_qp *qp; /* whose it is */
	struct swr_cq *cq[2];
	struct swr_srq *srq;	  /* NULL: receives are posted to the QP */
	struct list_head starved; /* under swr_ksrq.lock */
	struct swr_kring ring[2]; /* with srq, of receives: what is taken from there and not complete */
	u64 executed;		  /* no local request before it, but for those that are */
	bool served;		  /* the daemon has the stream, or had it */
	bool awaits_recv;	  /* the daemon wants receives, and has found none: it is told of the next */
};

int swr_kqp_create(struct swr_qp *qp, struct ib_qp_init_attr *attr);
void swr_kqp_free(struct swr_qp *qp); /* nobody refers to it any more */
void swr_kqp_fail(struct swr_qp *qp); /* to ERR, with everything flushed; any context */
void swr_kqp_reset_locked(struct swr_qp *qp);
void swr_kqp_serve(struct swr_qp *qp); /* the daemon takes the stream */
bool swr_kqp_waits(struct swr_qp *qp); /* for the daemon to do something */
int swr_post_send(struct ib_qp *ibqp, const struct ib_send_wr *wr, const struct ib_send_wr **bad);
int swr_post_recv(struct ib_qp *ibqp, const struct ib_recv_wr *wr, const struct ib_recv_wr **bad);

int swr_kring_create(struct swr_kring *ring, u32 depth, u32 max_sge);
int swr_kring_post_recv(struct swr_kring *ring, const struct ib_recv_wr *wr);
struct swr_kwqe *swr_kring_at(const struct swr_kring *ring, u64 sequence);
bool swr_kqp_running_locked(const struct swr_qp *qp); /* may what it names be touched? */
void swr_kqp_complete_locked(struct swr_qp *qp, enum swrnic_queue queue, const struct ib_wc *result, bool solicited,
			     struct swr_wakes *wakes);
/* To ERR; with the lock given back, flush then empties the queues. */
void swr_kqp_to_error_locked(struct swr_qp *qp, struct swr_wakes *wakes);
void swr_kqp_flush(struct swr_qp *qp, struct swr_wakes *wakes);
void swr_kqp_wake(struct swr_qp *qp, const struct swr_wakes *wakes);

/* ---- shared receive queues ---------------------------------------------------------------------------------------------- */

/* A QP takes a receive when a message needs it, and no sooner: none lies with a QP that is idle. */
struct swr_ksrq {
	spinlock_t lock; /* of all that follows, and of swr_kqp.starved */
	struct swr_kring ring;
	u32 limit;		  /* 0: not armed */
	struct list_head starved; /* QPs that found it empty: swr_kqp.starved */
};

int swr_ksrq_create(struct swr_srq *srq, const struct ib_srq_attr *attr);
void swr_ksrq_destroy(struct swr_srq *srq);
void swr_ksrq_arm(struct swr_srq *srq, u32 limit);
void swr_ksrq_query(struct swr_srq *srq, struct ib_srq_attr *attr);
int swr_post_srq_recv(struct ib_srq *ibsrq, const struct ib_recv_wr *wr, const struct ib_recv_wr **bad);
/* These two under swr_qp.lock. */
void swr_ksrq_take_locked(struct swr_qp *qp, struct swr_wakes *wakes); /* one more into the QP's own queue, if there is one */
void swr_ksrq_forget_locked(struct swr_qp *qp);
void swr_ksrq_reached(struct swr_srq *srq); /* its limit: under no lock */

/* kwork.c: what the daemon does with requests; each 0 or -EINVAL */
int swr_kqp_peek(struct swr_qp *qp, enum swrnic_queue queue, u32 nth, struct swrnic_wqe *wqe); /* 1: there it is; 0: no more */
void swr_kqp_await_recv(struct swr_qp *qp, bool awaits);
void swr_kqp_execute_oldest(struct swr_qp *qp); /* local requests, as long as there is nothing else before them */
int swr_kqp_fetched(struct swr_qp *qp, enum swrnic_queue queue, u64 first, u32 count);
int swr_kqp_execute(struct swr_qp *qp, u64 sequence, u32 *error);
/* In their order, up to one that cannot be, whose error is returned. One wake-up for all of them. */
int swr_kqp_done(struct swr_qp *qp, const struct swrnic_done *done, u32 count, u32 *taken);
u32 swr_kqp_sent(struct swr_qp *qp, const u64 *sequences, u32 count); /* the same of what is sent: how many were taken */
/* The message that is placed ends the named request, with so many octets. Sets ending->done. */
void swr_kqp_end(struct swr_qp *qp, const struct swrnic_name *name, u64 length, struct swrnic_ending *ending);
enum swrnic_name_error swr_kqp_invalidate(struct swr_qp *qp, u32 stag);
/* As swr_kmr_move, of whatever is named, from `from` on: an octet of the request, or a TO. */
enum swrnic_name_error swr_kqp_move(struct swr_qp *qp, const struct swrnic_name *name, u64 from, u32 length, void *buffer, bool in);
bool swr_kqp_ends_request(struct swr_qp *qp, const struct swrnic_name *name); /* of a Read: these octets are its last */

static inline bool swr_ending_valid(const struct swrnic_ending *ending)
{
	return !(ending->flags & ~(SWRNIC_ENDING | SWRNIC_DONE_SOLICITED | SWRNIC_DONE_INVALIDATED)) && !ending->reserved;
}

/* As far as one can tell without its QP; its length may be 0. */
static inline bool swr_name_valid(const struct swrnic_name *name)
{
	return name->kind <= SWRNIC_NAME_TAGGED && (!name->whole || name->whole >= name->length) && !name->reserved;
}

/* kstream.c: between the stream and what is named, by way of a buffer of SWRNIC_MOVED_OCTETS; 0 or an error for the daemon */
int swr_receive(struct swr_file *file, struct swrnic_receive *receive, u8 *buffer);
int swr_transmit(struct swr_file *file, struct swrnic_transmit *transmit, u8 *buffer);

/* serve.c */
struct swr_qp *swr_served_qp(struct swr_file *file, u32 qpn); /* a kernel's, with a reference, or NULL */
long swr_file_ioctl(struct file *fp, unsigned int command, unsigned long argument);
struct swr_file *swr_server_get(struct swr_device *dev); /* with a reference, or NULL */
void swr_server_watch(struct work_struct *work);
void swr_server_drop_locked(struct swr_file *file); /* under swr_file.lock: it serves no more */

#endif /* SWRNIC_KVERBS_H */
