// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Shared receive queues of consumers in the kernel. */
#include "kverbs.h"

int swr_ksrq_create(struct swr_srq *srq, const struct ib_srq_attr *attr)
{
	struct swr_ksrq *ksrq = kzalloc(sizeof(*ksrq), GFP_KERNEL);
	int error;

	if (!ksrq)
		return -ENOMEM;
	spin_lock_init(&ksrq->lock);
	INIT_LIST_HEAD(&ksrq->starved);
	ksrq->limit = attr->srq_limit;
	error = swr_kring_create(&ksrq->ring, attr->max_wr, attr->max_sge);
	if (error)
		goto free;
	error = swr_count_up(srq->ibsrq.device, SWR_SRQS, NULL);
	if (error)
		goto free_ring;
	srq->kernel = ksrq;
	return 0;
free_ring:
	kvfree(ksrq->ring.wqes);
free:
	kfree(ksrq);
	return error;
}

/* The core has seen to it that no QP uses it any more. */
void swr_ksrq_destroy(struct swr_srq *srq)
{
	WARN_ON(!list_empty(&srq->kernel->starved));
	kvfree(srq->kernel->ring.wqes);
	kfree(srq->kernel);
	srq->kernel = NULL;
	swr_count_down(srq->ibsrq.device, SWR_SRQS, NULL);
}

static u32 waiting(const struct swr_ksrq *ksrq)
{
	return ksrq->ring.tail - ksrq->ring.head;
}

/* Once per arming. */
static bool reaches_limit_locked(struct swr_ksrq *ksrq)
{
	if (waiting(ksrq) >= ksrq->limit)
		return false;
	ksrq->limit = 0;
	return true;
}

void swr_ksrq_reached(struct swr_srq *srq)
{
	struct ib_event event = {
		.device = srq->ibsrq.device,
		.element.srq = &srq->ibsrq,
		.event = IB_EVENT_SRQ_LIMIT_REACHED,
	};

	if (srq->ibsrq.event_handler)
		srq->ibsrq.event_handler(&event, srq->ibsrq.srq_context);
}

void swr_ksrq_arm(struct swr_srq *srq, u32 limit)
{
	bool reached;

	spin_lock_irq(&srq->kernel->lock);
	srq->kernel->limit = limit;
	reached = reaches_limit_locked(srq->kernel);
	spin_unlock_irq(&srq->kernel->lock);
	if (reached)
		swr_ksrq_reached(srq);
}

void swr_ksrq_query(struct swr_srq *srq, struct ib_srq_attr *attr)
{
	memset(attr, 0, sizeof(*attr));
	spin_lock_irq(&srq->kernel->lock);
	attr->max_wr = srq->kernel->ring.depth;
	attr->max_sge = srq->kernel->ring.max_sge;
	attr->srq_limit = srq->kernel->limit;
	spin_unlock_irq(&srq->kernel->lock);
}

void swr_ksrq_take_locked(struct swr_qp *qp, struct swr_wakes *wakes)
{
	struct swr_kring *to = &qp->kernel->ring[SWRNIC_QUEUE_RECV];
	struct swr_ksrq *ksrq = qp->kernel->srq->kernel;

	if (to->tail - to->head >= to->depth)
		return; /* the daemon looks again when it has completed some */
	spin_lock(&ksrq->lock);
	if (waiting(ksrq)) {
		memcpy(swr_kring_at(to, to->tail++), swr_kring_at(&ksrq->ring, ksrq->ring.head++), to->stride);
		wakes->srq_limit = reaches_limit_locked(ksrq);
	} else if (list_empty(&qp->kernel->starved)) {
		list_add_tail(&qp->kernel->starved, &ksrq->starved);
	}
	spin_unlock(&ksrq->lock);
}

void swr_ksrq_forget_locked(struct swr_qp *qp)
{
	struct swr_ksrq *ksrq = qp->kernel->srq->kernel;

	spin_lock(&ksrq->lock);
	list_del_init(&qp->kernel->starved);
	spin_unlock(&ksrq->lock);
}

/* The next QP that may try again, with a reference, or NULL. */
static struct swr_qp *next_starved(struct swr_ksrq *ksrq)
{
	struct swr_qp *qp = NULL;
	struct swr_kqp *kqp;
	unsigned long flags;

	spin_lock_irqsave(&ksrq->lock, flags);
	if (waiting(ksrq) && !list_empty(&ksrq->starved)) {
		kqp = list_first_entry(&ksrq->starved, struct swr_kqp, starved);
		list_del_init(&kqp->starved);
		qp = kqp->qp;
		swr_qp_get(qp); /* it was on the list, so it is not gone yet */
	}
	spin_unlock_irqrestore(&ksrq->lock, flags);
	return qp;
}

int swr_post_srq_recv(struct ib_srq *ibsrq, const struct ib_recv_wr *wr, const struct ib_recv_wr **bad)
{
	struct swr_ksrq *ksrq = to_swr_srq(ibsrq)->kernel;
	unsigned long flags;
	struct swr_qp *qp;
	int error = 0;

	if (!ksrq) {
		*bad = wr;
		return -EOPNOTSUPP; /* a process's data path is its own */
	}
	spin_lock_irqsave(&ksrq->lock, flags);
	for (; wr; wr = wr->next) {
		error = swr_kring_post_recv(&ksrq->ring, wr);
		if (error)
			break;
	}
	spin_unlock_irqrestore(&ksrq->lock, flags);
	if (error)
		*bad = wr;
	while ((qp = next_starved(ksrq))) {
		swr_file_tell(qp, SWR_PENDING_WORK);
		swr_qp_put(qp);
	}
	return error;
}
