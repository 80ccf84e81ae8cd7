// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Completion queues of consumers in the kernel. */
#include "kverbs.h"

#include <linux/bottom_half.h>
#include <linux/irqflags.h>
#include <linux/log2.h>
#include <linux/mm.h>

int swr_kcq_create(struct swr_cq *cq, const struct ib_cq_init_attr *attr)
{
	struct swr_kcq *kcq = kzalloc(sizeof(*kcq), GFP_KERNEL);
	u32 size = roundup_pow_of_two(attr->cqe);

	if (!kcq)
		return -ENOMEM;
	kcq->ring = kvcalloc(size, sizeof(*kcq->ring), GFP_KERNEL);
	if (!kcq->ring) {
		kfree(kcq);
		return -ENOMEM;
	}
	spin_lock_init(&kcq->lock);
	kcq->mask = size - 1;
	kcq->capacity = attr->cqe;
	cq->kernel = kcq;
	return 0;
}

void swr_kcq_destroy(struct swr_cq *cq)
{
	kvfree(cq->kernel->ring);
	kfree(cq->kernel);
	cq->kernel = NULL;
}

unsigned long swr_kcq_add(struct swr_cq *cq, const struct ib_wc *wc, bool solicited)
{
	struct swr_kcq *kcq = cq->kernel;
	unsigned long wakes = 0;

	spin_lock(&kcq->lock);
	if (kcq->tail - kcq->head >= kcq->capacity) {
		if (!kcq->overrun)
			wakes |= SWR_WAKE_OVERRUN;
		kcq->overrun = true;
	} else {
		kcq->ring[kcq->tail++ & kcq->mask] = *wc;
	}
	if (kcq->armed == IB_CQ_NEXT_COMP || (kcq->armed == IB_CQ_SOLICITED && (solicited || wc->status != IB_WC_SUCCESS))) {
		kcq->armed = 0;
		wakes |= SWR_WAKE_HANDLER;
	}
	spin_unlock(&kcq->lock);
	return wakes;
}

/*
 * Of a consumer that polls in a softirq the handler only marks that as pending, for the end of an interrupt. Called from a process
 * there may be none for long, so that softirqs are held back meanwhile: what was marked runs when they are let through.
 */
static void call_handler(struct ib_cq *ibcq)
{
	bool let_through = !irqs_disabled();

	if (let_through)
		local_bh_disable();
	ibcq->comp_handler(ibcq, ibcq->cq_context);
	if (let_through)
		local_bh_enable();
}

/* The caller holds a reference to a QP of the CQ, which keeps that. */
void swr_kcq_wake(struct swr_cq *cq, unsigned long wakes)
{
	struct ib_event event = { .device = cq->ibcq.device, .event = IB_EVENT_CQ_ERR, .element.cq = &cq->ibcq };

	if (wakes & SWR_WAKE_OVERRUN) {
		pr_warn_ratelimited("%s: a completion queue of %u is too small for its consumer in the kernel\n",
				    dev_name(&cq->ibcq.device->dev), cq->kernel->capacity);
		if (cq->ibcq.event_handler)
			cq->ibcq.event_handler(&event, cq->ibcq.cq_context);
	}
	if ((wakes & SWR_WAKE_HANDLER) && cq->ibcq.comp_handler)
		call_handler(&cq->ibcq);
}

int swr_poll_cq(struct ib_cq *ibcq, int count, struct ib_wc *wc)
{
	struct swr_kcq *kcq = to_swr_cq(ibcq)->kernel;
	unsigned long flags;
	int done;

	if (!kcq)
		return -EOPNOTSUPP; /* a process polls its own */
	spin_lock_irqsave(&kcq->lock, flags);
	for (done = 0; done < count && kcq->head != kcq->tail; done++)
		wc[done] = kcq->ring[kcq->head++ & kcq->mask];
	spin_unlock_irqrestore(&kcq->lock, flags);
	return done;
}

int swr_req_notify_cq(struct ib_cq *ibcq, enum ib_cq_notify_flags flags)
{
	struct swr_kcq *kcq = to_swr_cq(ibcq)->kernel;
	unsigned long irq;
	int missed = 0;

	if (!kcq)
		return -EOPNOTSUPP;
	spin_lock_irqsave(&kcq->lock, irq);
	/* Armed for any completion it stays so when it is armed for solicited ones. */
	if (kcq->armed != IB_CQ_NEXT_COMP)
		kcq->armed = flags & IB_CQ_SOLICITED_MASK;
	if (flags & IB_CQ_REPORT_MISSED_EVENTS)
		missed = kcq->head != kcq->tail;
	spin_unlock_irqrestore(&kcq->lock, irq);
	return missed;
}
