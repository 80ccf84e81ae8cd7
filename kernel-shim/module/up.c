// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* What the process reports is a request, checked against what has happened so far: iw_cm halts the machine on a wrong event. */
#include "conn.h"

struct swr_qp *swr_file_qp(struct swr_file *file, u32 qpn)
{
	struct swr_qp *qp;

	xa_lock_irq(&file->qps);
	qp = xa_load(&file->qps, qpn);
	if (qp)
		swr_qp_get(qp);
	xa_unlock_irq(&file->qps);
	return qp;
}

static struct swr_cq *file_cq(struct swr_file *file, u32 handle)
{
	struct swr_cq *cq;

	xa_lock_irq(&file->cqs);
	cq = xa_load(&file->cqs, handle);
	if (cq)
		kref_get(&cq->kref);
	xa_unlock_irq(&file->cqs);
	return cq;
}

static int stream_report(struct swr_file *file, const struct swrnic_up *up, bool ready)
{
	struct swr_qp *qp = swr_file_qp(file, up->id);
	struct swr_conn *conn;
	int error = -EINVAL;

	if (!qp)
		return -EINVAL;
	conn = swr_qp_conn(qp);
	if (conn) {
		error = ready ? swr_conn_ready(conn) : swr_conn_closed(conn);
		swr_conn_put(conn);
	}
	/* The provider may have given the peer up before there was a stream. */
	if (!ready && up->aux == SWRNIC_CLOSE_ERROR && !swr_qp_failed(qp))
		error = 0;
	swr_qp_put(qp);
	return error;
}

/*
 * Who arms a CQ does so in the process, unseen from here, and the core queues an event for each call, charged to nobody. So a CQ
 * whose events nobody reads gets no more of them: whoever reads one looks at the CQ after that, and finds what came meanwhile.
 */
static bool may_wake(struct swr_cq *cq)
{
	bool may;

	smp_mb(); /* the completion is in the CQ before we look for unread events: one of the two is seen by a reader */
	spin_lock_irq(&cq->file->lock);
	may = swr_unread_add(&cq->unread, SWR_MAX_UNREAD);
	spin_unlock_irq(&cq->file->lock);
	return may;
}

static int comp_posted(struct swr_file *file, const struct swrnic_up *up)
{
	struct swr_cq *cq;
	int error = -EINVAL;

	if (up->aux)
		return -EINVAL;
	cq = file_cq(file, up->id);
	if (!cq)
		return -EINVAL;
	/* cq_context is the completion channel; without one nobody can be told. */
	if (cq->ibcq.comp_handler && cq->ibcq.cq_context) {
		if (may_wake(cq))
			cq->ibcq.comp_handler(&cq->ibcq, cq->ibcq.cq_context);
		error = 0;
	}
	swr_cq_put(cq);
	return error;
}

static int cq_event(struct swr_file *file, u32 handle)
{
	struct swr_cq *cq = file_cq(file, handle);
	struct ib_event event = { .event = IB_EVENT_CQ_ERR };
	bool first;

	if (!cq)
		return -EINVAL;
	spin_lock_irq(&file->lock);
	first = !cq->error_raised;
	cq->error_raised = true;
	spin_unlock_irq(&file->lock);
	event.device = cq->ibcq.device;
	event.element.cq = &cq->ibcq;
	if (first && cq->ibcq.event_handler)
		cq->ibcq.event_handler(&event, cq->ibcq.cq_context);
	swr_cq_put(cq);
	return first ? 0 : -EINVAL;
}

static bool is_qp_event(u32 type)
{
	return (type >= IB_EVENT_QP_FATAL && type <= IB_EVENT_SQ_DRAINED) || type == IB_EVENT_QP_LAST_WQE_REACHED;
}

static int qp_event(struct swr_file *file, const struct swrnic_up *up)
{
	struct swr_qp *qp = swr_file_qp(file, up->id);
	struct ib_event event = { .event = up->aux };
	bool first;

	if (!qp)
		return -EINVAL;
	spin_lock_irq(&qp->lock);
	first = !(qp->async_raised & BIT(up->aux)) && swr_unread_add(&qp->unread, SWR_MAX_UNREAD_ASYNC);
	if (first)
		qp->async_raised |= BIT(up->aux);
	spin_unlock_irq(&qp->lock);
	event.device = qp->ibqp.device;
	event.element.qp = &qp->ibqp;
	if (first && qp->ibqp.event_handler)
		qp->ibqp.event_handler(&event, qp->ibqp.qp_context);
	swr_qp_put(qp);
	return first ? 0 : -EINVAL;
}

/* 0, or -EINVAL and nothing has happened. Each kind of event once per object: no process fills its queue without bound. */
int swr_up(struct swr_file *file, const struct swrnic_up *up)
{
	if (up->reserved)
		return -EINVAL;
	switch (up->type) {
	case SWRNIC_UP_QP_READY:
		return up->aux ? -EINVAL : stream_report(file, up, true);
	case SWRNIC_UP_QP_CLOSED:
		return up->aux > SWRNIC_CLOSE_ERROR ? -EINVAL : stream_report(file, up, false);
	case SWRNIC_UP_COMP_POSTED:
		return comp_posted(file, up);
	case SWRNIC_UP_ASYNC_EVENT:
		if (up->aux == IB_EVENT_CQ_ERR)
			return cq_event(file, up->id);
		if (up->aux == IB_EVENT_SRQ_ERR || up->aux == IB_EVENT_SRQ_LIMIT_REACHED)
			return swr_srq_event(file, up->id, up->aux);
		return is_qp_event(up->aux) ? qp_event(file, up) : -EINVAL;
	case SWRNIC_UP_COUNTED:
		return swr_counted(file->counters, up->id, up->aux);
	default:
		return -EINVAL;
	}
}
