// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Queues of consumers in the kernel: posted to from any context, flushed by the module alone, whatever the daemon does. In ERR both
 * queues are empty, and what is posted completes at once; unless they are being flushed just then, and what is posted follows them.
 */
#include "kverbs.h"

#include <linux/log2.h>
#include <linux/mm.h>
#include <linux/overflow.h>

/* ---- rings ------------------------------------------------------------------------------------------------------------- */

int swr_kring_create(struct swr_kring *ring, u32 depth, u32 max_sge)
{
	u32 size = roundup_pow_of_two(max(depth, 1U));

	ring->stride = ALIGN(sizeof(struct swr_kwqe) + max_sge * sizeof(struct ib_sge), 8);
	ring->mask = size - 1;
	ring->depth = depth;
	ring->max_sge = max_sge;
	ring->wqes = kvcalloc(size, ring->stride, GFP_KERNEL);
	return ring->wqes ? 0 : -ENOMEM;
}

struct swr_kwqe *swr_kring_at(const struct swr_kring *ring, u64 sequence)
{
	return ring->wqes + (size_t)(sequence & ring->mask) * ring->stride;
}

int swr_kqp_create(struct swr_qp *qp, struct ib_qp_init_attr *attr)
{
	struct swr_kqp *kqp = kzalloc(sizeof(*kqp), GFP_KERNEL);
	u32 max_recv_wr = attr->cap.max_recv_wr, max_recv_sge = attr->cap.max_recv_sge;

	if (!kqp)
		return -ENOMEM;
	INIT_LIST_HEAD(&kqp->starved);
	if (attr->srq) {
		kqp->srq = to_swr_srq(attr->srq);
		max_recv_wr = SWRNIC_SHARED_RECEIVES;
		max_recv_sge = kqp->srq->kernel->ring.max_sge;
	}
	qp->kernel = kqp;
	kqp->qp = qp;
	kqp->cq[SWRNIC_QUEUE_SEND] = to_swr_cq(attr->send_cq);
	kqp->cq[SWRNIC_QUEUE_RECV] = to_swr_cq(attr->recv_cq);
	if (!swr_kring_create(&kqp->ring[SWRNIC_QUEUE_SEND], attr->cap.max_send_wr, attr->cap.max_send_sge) &&
	    !swr_kring_create(&kqp->ring[SWRNIC_QUEUE_RECV], max_recv_wr, max_recv_sge))
		return 0;
	swr_kqp_free(qp);
	return -ENOMEM;
}

void swr_kqp_free(struct swr_qp *qp)
{
	struct swr_kqp *kqp = qp->kernel;

	kvfree(kqp->ring[SWRNIC_QUEUE_SEND].wqes);
	kvfree(kqp->ring[SWRNIC_QUEUE_RECV].wqes);
	kfree(kqp);
	qp->kernel = NULL;
}

/* ---- completions ------------------------------------------------------------------------------------------------------- */

static enum ib_wc_opcode wc_opcode(enum ib_wr_opcode opcode)
{
	switch (opcode) {
	case IB_WR_RDMA_WRITE:
		return IB_WC_RDMA_WRITE;
	case IB_WR_RDMA_READ:
	case IB_WR_RDMA_READ_WITH_INV:
		return IB_WC_RDMA_READ;
	case IB_WR_LOCAL_INV:
		return IB_WC_LOCAL_INV;
	case IB_WR_REG_MR:
		return IB_WC_REG_MR;
	default:
		return IB_WC_SEND;
	}
}

/* ib_drain_qp() of 6.12 waits for it. */
static void tell_last_wqe(struct swr_qp *qp)
{
	struct ib_event event = { .device = qp->ibqp.device, .element.qp = &qp->ibqp, .event = IB_EVENT_QP_LAST_WQE_REACHED };

	if (qp->ibqp.event_handler)
		qp->ibqp.event_handler(&event, qp->ibqp.qp_context);
}

void swr_kqp_wake(struct swr_qp *qp, const struct swr_wakes *wakes)
{
	enum swrnic_queue queue;

	for (queue = SWRNIC_QUEUE_SEND; queue <= SWRNIC_QUEUE_RECV; queue++)
		if (wakes->cq[queue])
			swr_kcq_wake(qp->kernel->cq[queue], wakes->cq[queue]);
	if (wakes->srq_limit)
		swr_ksrq_reached(qp->kernel->srq);
	if (wakes->last_wqe)
		tell_last_wqe(qp);
}

static void add_cqe_locked(struct swr_qp *qp, enum swrnic_queue queue, struct ib_wc *wc, bool solicited, struct swr_wakes *wakes)
{
	wc->qp = &qp->ibqp;
	wc->port_num = 1;
	wakes->cq[queue] |= swr_kcq_add(qp->kernel->cq[queue], wc, solicited);
}

/* The oldest of a queue is done. result: its status, and of a receive what has come. */
void swr_kqp_complete_locked(struct swr_qp *qp, enum swrnic_queue queue, const struct ib_wc *result, bool solicited,
			     struct swr_wakes *wakes)
{
	struct swr_kring *ring = &qp->kernel->ring[queue];
	struct swr_kwqe *wqe = swr_kring_at(ring, ring->head++);
	struct ib_wc wc = *result;

	ring->fetched = max(ring->fetched, ring->head);
	if (wc.status == IB_WC_SUCCESS && !(wqe->flags & SWR_KWQE_SIGNALLED))
		return;
	wc.wr_id = wqe->wr_id;
	wc.opcode = queue == SWRNIC_QUEUE_RECV ? IB_WC_RECV : wc_opcode(wqe->opcode);
	if (queue == SWRNIC_QUEUE_SEND)
		wc.byte_len = wqe->length;
	add_cqe_locked(qp, queue, &wc, solicited, wakes);
}

#define FLUSH_BATCH 64 /* completions that are made with interrupts off */

static bool is_empty(const struct swr_kring *ring)
{
	return ring->head == ring->tail;
}

/* false: there is more. */
static bool flush_some_locked(struct swr_qp *qp, struct swr_wakes *wakes)
{
	static const struct ib_wc flushed = { .status = IB_WC_WR_FLUSH_ERR };
	const struct swr_kring *ring = qp->kernel->ring;
	enum swrnic_queue queue;
	unsigned int i;

	for (i = 0; i < FLUSH_BATCH; i++) {
		queue = is_empty(&ring[SWRNIC_QUEUE_SEND]) ? SWRNIC_QUEUE_RECV : SWRNIC_QUEUE_SEND;
		if (is_empty(&ring[queue]))
			return true;
		swr_kqp_complete_locked(qp, queue, &flushed, false, wakes);
	}
	return is_empty(&ring[SWRNIC_QUEUE_SEND]) && is_empty(&ring[SWRNIC_QUEUE_RECV]);
}

void swr_kqp_to_error_locked(struct swr_qp *qp, struct swr_wakes *wakes)
{
	if (qp->kernel->srq) {
		wakes->last_wqe |= qp->state != IB_QPS_ERR && !qp->gone;
		swr_ksrq_forget_locked(qp);
	}
	qp->state = IB_QPS_ERR;
}

void swr_kqp_flush(struct swr_qp *qp, struct swr_wakes *wakes)
{
	unsigned long flags;
	bool done;

	do {
		spin_lock_irqsave(&qp->lock, flags);
		done = qp->state != IB_QPS_ERR || flush_some_locked(qp, wakes);
		spin_unlock_irqrestore(&qp->lock, flags);
	} while (!done);
}

void swr_kqp_fail(struct swr_qp *qp)
{
	struct swr_wakes wakes = {};
	unsigned long flags;

	spin_lock_irqsave(&qp->lock, flags);
	swr_kqp_to_error_locked(qp, &wakes);
	spin_unlock_irqrestore(&qp->lock, flags);
	swr_kqp_flush(qp, &wakes);
	swr_kqp_wake(qp, &wakes);
}

/* Without a word. */
void swr_kqp_reset_locked(struct swr_qp *qp)
{
	enum swrnic_queue queue;

	if (qp->kernel->srq)
		swr_ksrq_forget_locked(qp);
	for (queue = SWRNIC_QUEUE_SEND; queue <= SWRNIC_QUEUE_RECV; queue++) {
		struct swr_kring *ring = &qp->kernel->ring[queue];

		ring->head = ring->tail;
		ring->fetched = ring->tail;
	}
	qp->kernel->served = false;
}

bool swr_kqp_running_locked(const struct swr_qp *qp)
{
	return qp->kernel->served && qp->state != IB_QPS_ERR && qp->state != IB_QPS_RESET;
}

static bool unfetched(const struct swr_kring *ring)
{
	return ring->fetched != ring->tail;
}

void swr_kqp_serve(struct swr_qp *qp)
{
	const struct swr_kring *ring = qp->kernel->ring;
	bool work;

	spin_lock_irq(&qp->lock);
	qp->kernel->served = true;
	work = unfetched(&ring[SWRNIC_QUEUE_SEND]) || unfetched(&ring[SWRNIC_QUEUE_RECV]);
	spin_unlock_irq(&qp->lock);
	if (work)
		swr_file_tell(qp, SWR_PENDING_WORK);
}

bool swr_kqp_waits(struct swr_qp *qp)
{
	const struct swr_kring *ring = &qp->kernel->ring[SWRNIC_QUEUE_SEND];
	bool waits;

	spin_lock_irq(&qp->lock);
	waits = swr_kqp_running_locked(qp) && ring->head != ring->tail;
	spin_unlock_irq(&qp->lock);
	return waits;
}

/* ---- posting ----------------------------------------------------------------------------------------------------------- */

static int take_sges(const struct swr_kring *ring, struct swr_kwqe *wqe, const struct ib_sge *sge, int nr_sge)
{
	u32 length = 0;
	int i;

	if (nr_sge < 0 || nr_sge > ring->max_sge)
		return -EINVAL;
	for (i = 0; i < nr_sge; i++) {
		if (check_add_overflow(length, sge[i].length, &length))
			return -EINVAL;
		wqe->sge[i] = sge[i];
	}
	wqe->length = length;
	wqe->nr_sge = nr_sge;
	return 0;
}

static int take_opcode(struct swr_kwqe *wqe, const struct ib_send_wr *wr)
{
	switch (wr->opcode) {
	case IB_WR_SEND:
		return 0;
	case IB_WR_SEND_WITH_INV:
		wqe->remote_stag = wr->ex.invalidate_rkey;
		return 0;
	case IB_WR_RDMA_READ_WITH_INV:
		/* The core's rdma_rw_ctx_wrs() gives the region a new key after it has noted the old one in the request. */
		wqe->stag = wqe->nr_sge ? wqe->sge[0].lkey : wr->ex.invalidate_rkey;
		fallthrough;
	case IB_WR_RDMA_READ:
	case IB_WR_RDMA_WRITE:
		wqe->remote_stag = rdma_wr(wr)->rkey;
		wqe->remote_to = rdma_wr(wr)->remote_addr;
		return 0;
	case IB_WR_LOCAL_INV:
		wqe->stag = wr->ex.invalidate_rkey;
		return wr->num_sge ? -EINVAL : 0;
	case IB_WR_REG_MR:
		/* The region by its number: it may be gone when it is the request's turn. */
		wqe->stag = reg_wr(wr)->key;
		wqe->access = reg_wr(wr)->access;
		wqe->remote_to = reg_wr(wr)->mr->iova; /* consumers choose it after map_mr_sg */
		return wr->num_sge || (reg_wr(wr)->mr->rkey ^ reg_wr(wr)->key) >> 8 ? -EINVAL : 0;
	default:
		return -EINVAL;
	}
}

static int take_send(const struct swr_qp *qp, struct swr_kring *ring, const struct ib_send_wr *wr)
{
	struct swr_kwqe *wqe = swr_kring_at(ring, ring->tail);
	int error;

	if (ring->tail - ring->head >= ring->depth)
		return -ENOMEM;
	if (wr->send_flags & IB_SEND_INLINE)
		return -EINVAL;
	memset(wqe, 0, sizeof(*wqe));
	error = take_sges(ring, wqe, wr->sg_list, wr->num_sge);
	if (!error)
		error = take_opcode(wqe, wr);
	if (error)
		return error;
	wqe->wr_id = wr->wr_id;
	wqe->opcode = wr->opcode;
	if ((wr->send_flags & IB_SEND_SIGNALED) || qp->sq_sig_type == IB_SIGNAL_ALL_WR)
		wqe->flags |= SWR_KWQE_SIGNALLED;
	if (wr->send_flags & IB_SEND_FENCE)
		wqe->flags |= SWR_KWQE_FENCE;
	if (wr->send_flags & IB_SEND_SOLICITED)
		wqe->flags |= SWR_KWQE_SOLICITED;
	ring->tail++;
	return 0;
}

int swr_kring_post_recv(struct swr_kring *ring, const struct ib_recv_wr *wr)
{
	struct swr_kwqe *wqe = swr_kring_at(ring, ring->tail);
	int error;

	if (ring->tail - ring->head >= ring->depth)
		return -ENOMEM;
	memset(wqe, 0, sizeof(*wqe));
	error = take_sges(ring, wqe, wr->sg_list, wr->num_sge);
	if (error)
		return error;
	wqe->wr_id = wr->wr_id;
	wqe->flags = SWR_KWQE_SIGNALLED;
	ring->tail++;
	return 0;
}

static void flush_posted_locked(struct swr_qp *qp, enum swrnic_queue queue, u64 wr_id, enum ib_wc_opcode opcode,
				struct swr_wakes *wakes)
{
	struct ib_wc wc = { .wr_id = wr_id, .status = IB_WC_WR_FLUSH_ERR, .opcode = opcode };

	add_cqe_locked(qp, queue, &wc, false, wakes);
}

static int post_send_locked(struct swr_qp *qp, const struct ib_send_wr **wr, struct swr_wakes *wakes)
{
	struct swr_kring *ring = &qp->kernel->ring[SWRNIC_QUEUE_SEND];
	int error;

	if (qp->state == IB_QPS_ERR)
		flush_some_locked(qp, wakes); /* for room behind what is being flushed: whoever drains a QP relies on its post */
	for (; *wr && qp->state == IB_QPS_ERR && is_empty(ring); *wr = (*wr)->next)
		flush_posted_locked(qp, SWRNIC_QUEUE_SEND, (*wr)->wr_id, wc_opcode((*wr)->opcode), wakes);
	if (*wr && qp->state != IB_QPS_RTS && qp->state != IB_QPS_SQD && qp->state != IB_QPS_ERR)
		return -EINVAL;
	for (; *wr; *wr = (*wr)->next) {
		error = take_send(qp, ring, *wr);
		if (error)
			return error;
	}
	return 0;
}

static int post_recv_locked(struct swr_qp *qp, const struct ib_recv_wr **wr, struct swr_wakes *wakes)
{
	struct swr_kring *ring = &qp->kernel->ring[SWRNIC_QUEUE_RECV];
	int error;

	if (qp->state == IB_QPS_ERR)
		flush_some_locked(qp, wakes);
	for (; *wr && qp->state == IB_QPS_ERR && is_empty(ring); *wr = (*wr)->next)
		flush_posted_locked(qp, SWRNIC_QUEUE_RECV, (*wr)->wr_id, IB_WC_RECV, wakes);
	if (*wr && qp->state == IB_QPS_RESET)
		return -EINVAL;
	for (; *wr; *wr = (*wr)->next) {
		error = swr_kring_post_recv(ring, *wr);
		if (error)
			return error;
	}
	return 0;
}

/* Has there been no send to be fetched before, and is there one now? */
static bool sends_to_be_told(const struct swr_qp *qp, bool had)
{
	return qp->kernel->served && !had && unfetched(&qp->kernel->ring[SWRNIC_QUEUE_SEND]);
}

/* Does the daemon wait for one, and is there one now? */
static bool receives_to_be_told(struct swr_qp *qp)
{
	if (!qp->kernel->served || !qp->kernel->awaits_recv || !unfetched(&qp->kernel->ring[SWRNIC_QUEUE_RECV]))
		return false;
	qp->kernel->awaits_recv = false;
	return true;
}

int swr_post_send(struct ib_qp *ibqp, const struct ib_send_wr *wr, const struct ib_send_wr **bad)
{
	struct swr_qp *qp = to_swr_qp(ibqp);
	struct swr_wakes wakes = {};
	unsigned long flags;
	bool had, tell;
	int error;

	if (!qp->kernel) {
		*bad = wr;
		return -EOPNOTSUPP; /* a process's data path is its own */
	}
	spin_lock_irqsave(&qp->lock, flags);
	had = unfetched(&qp->kernel->ring[SWRNIC_QUEUE_SEND]);
	error = post_send_locked(qp, &wr, &wakes);
	tell = sends_to_be_told(qp, had);
	spin_unlock_irqrestore(&qp->lock, flags);
	if (error)
		*bad = wr;
	if (tell)
		swr_file_tell(qp, SWR_PENDING_WORK);
	swr_kqp_wake(qp, &wakes);
	return error;
}

int swr_post_recv(struct ib_qp *ibqp, const struct ib_recv_wr *wr, const struct ib_recv_wr **bad)
{
	struct swr_qp *qp = to_swr_qp(ibqp);
	struct swr_wakes wakes = {};
	unsigned long flags;
	bool tell;
	int error;

	if (!qp->kernel || qp->kernel->srq) {
		*bad = wr;
		return qp->kernel ? -EINVAL : -EOPNOTSUPP;
	}
	spin_lock_irqsave(&qp->lock, flags);
	error = post_recv_locked(qp, &wr, &wakes);
	tell = receives_to_be_told(qp);
	spin_unlock_irqrestore(&qp->lock, flags);
	if (error)
		*bad = wr;
	if (tell)
		swr_file_tell(qp, SWR_PENDING_WORK);
	swr_kqp_wake(qp, &wakes);
	return error;
}
