// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Shared receive queues of processes, as deep as the core needs them: an account, and the limit that a process arms by modify_srq,
 * so that its event comes once per arming. The receives are the engine's. Those of consumers in the kernel are in ksrq.c.
 */
#include "kverbs.h"

static void srq_release(struct kref *kref)
{
	complete(&container_of(kref, struct swr_srq, kref)->free);
}

int swr_create_srq(struct ib_srq *ibsrq, struct ib_srq_init_attr *init, struct ib_udata *udata)
{
	struct ib_uobject *uobject = (struct ib_uobject *)ibsrq->uobject;
	struct swr_srq *srq = to_swr_srq(ibsrq);
	int error;

	if (init->srq_type != IB_SRQT_BASIC)
		return -EOPNOTSUPP;
	if (!init->attr.max_wr || init->attr.max_wr > SWR_MAX_SRQ_WR || init->attr.max_sge > SWR_MAX_SGE ||
	    init->attr.srq_limit > init->attr.max_wr)
		return -EINVAL;
	if (!udata)
		return swr_ksrq_create(srq, &init->attr);
	srq->file = rdma_udata_to_drv_context(udata, struct swr_ucontext, ibucontext)->file;
	srq->handle = uobject->id;
	srq->attr = init->attr;
	swr_unread_init_async(&srq->unread, uobject);
	kref_init(&srq->kref);
	init_completion(&srq->free);
	error = swr_count_up(ibsrq->device, SWR_SRQS, srq->file->user);
	if (error)
		return error;
	error = xa_insert_irq(&srq->file->srqs, srq->handle, srq, GFP_KERNEL_ACCOUNT);
	if (error)
		swr_count_down(ibsrq->device, SWR_SRQS, srq->file->user);
	return error;
}

int swr_modify_srq(struct ib_srq *ibsrq, struct ib_srq_attr *attr, enum ib_srq_attr_mask mask, struct ib_udata *udata)
{
	struct swr_srq *srq = to_swr_srq(ibsrq);

	if (mask & ~IB_SRQ_LIMIT)
		return -EOPNOTSUPP; /* the engine resizes it, and tells nobody: so max_wr here is what it was at first */
	if (!(mask & IB_SRQ_LIMIT))
		return 0;
	if (attr->srq_limit > SWR_MAX_SRQ_WR)
		return -EINVAL;
	if (srq->kernel) {
		swr_ksrq_arm(srq, attr->srq_limit);
		return 0;
	}
	spin_lock_irq(&srq->file->lock);
	srq->attr.srq_limit = attr->srq_limit;
	spin_unlock_irq(&srq->file->lock);
	return 0;
}

int swr_query_srq(struct ib_srq *ibsrq, struct ib_srq_attr *attr)
{
	struct swr_srq *srq = to_swr_srq(ibsrq);

	if (srq->kernel) {
		swr_ksrq_query(srq, attr);
		return 0;
	}
	spin_lock_irq(&srq->file->lock);
	*attr = srq->attr;
	spin_unlock_irq(&srq->file->lock);
	return 0;
}

/* The core has seen to it that no QP uses it any more. */
int swr_destroy_srq(struct ib_srq *ibsrq, struct ib_udata *udata)
{
	struct swr_srq *srq = to_swr_srq(ibsrq);

	if (srq->kernel) {
		swr_ksrq_destroy(srq);
		return 0;
	}
	xa_erase_irq(&srq->file->srqs, srq->handle);
	kref_put(&srq->kref, srq_release);
	wait_for_completion(&srq->free);
	swr_count_down(ibsrq->device, SWR_SRQS, srq->file->user);
	return 0;
}

static bool may_raise_locked(struct swr_srq *srq, enum ib_event_type type)
{
	if (type == IB_EVENT_SRQ_LIMIT_REACHED ? !srq->attr.srq_limit : srq->error_raised)
		return false;
	if (!swr_unread_add(&srq->unread, SWR_MAX_UNREAD_ASYNC))
		return false;
	if (type == IB_EVENT_SRQ_LIMIT_REACHED)
		srq->attr.srq_limit = 0;
	else
		srq->error_raised = true;
	return true;
}

int swr_srq_event(struct swr_file *file, u32 handle, enum ib_event_type type)
{
	struct ib_event event = { .event = type };
	struct swr_srq *srq;
	bool may;

	xa_lock_irq(&file->srqs);
	srq = xa_load(&file->srqs, handle);
	if (srq)
		kref_get(&srq->kref);
	xa_unlock_irq(&file->srqs);
	if (!srq)
		return -EINVAL;
	spin_lock_irq(&file->lock);
	may = may_raise_locked(srq, type);
	spin_unlock_irq(&file->lock);
	event.device = srq->ibsrq.device;
	event.element.srq = &srq->ibsrq;
	if (may && srq->ibsrq.event_handler)
		srq->ibsrq.event_handler(&event, srq->ibsrq.srq_context);
	kref_put(&srq->kref, srq_release);
	return may ? 0 : -EINVAL;
}
