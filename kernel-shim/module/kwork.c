// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * What a daemon does with the requests of consumers in the kernel. Whatever it says is checked against the queues; it can end a QP,
 * or leave it undone, but touches nothing that was not posted or registered.
 */
#include "kverbs.h"

/* ---- requests to the daemon -------------------------------------------------------------------------------------------- */

static enum swrnic_wqe_opcode wqe_opcode(enum ib_wr_opcode opcode)
{
	switch (opcode) {
	case IB_WR_SEND_WITH_INV:
		return SWRNIC_WQE_SEND_INV;
	case IB_WR_RDMA_WRITE:
		return SWRNIC_WQE_WRITE;
	case IB_WR_RDMA_READ:
	case IB_WR_RDMA_READ_WITH_INV:
		return SWRNIC_WQE_READ;
	case IB_WR_REG_MR:
	case IB_WR_LOCAL_INV:
		return SWRNIC_WQE_LOCAL;
	default:
		return SWRNIC_WQE_SEND;
	}
}

/* Of what is not fetched yet the nth. */
int swr_kqp_peek(struct swr_qp *qp, enum swrnic_queue queue, u32 nth, struct swrnic_wqe *wqe)
{
	const struct swr_kring *ring = &qp->kernel->ring[queue];
	struct swr_wakes wakes = {};
	const struct swr_kwqe *kwqe;
	int there = 0;

	memset(wqe, 0, sizeof(*wqe));
	spin_lock_irq(&qp->lock);
	if (queue == SWRNIC_QUEUE_RECV && qp->kernel->srq && swr_kqp_running_locked(qp) && nth == ring->tail - ring->fetched)
		swr_ksrq_take_locked(qp, &wakes);
	if (swr_kqp_running_locked(qp) && nth < ring->tail - ring->fetched) {
		there = 1;
		wqe->sequence = ring->fetched + nth;
		kwqe = swr_kring_at(ring, wqe->sequence);
		wqe->length = kwqe->length;
		if (queue == SWRNIC_QUEUE_SEND) {
			wqe->opcode = wqe_opcode(kwqe->opcode);
			if (wqe->opcode != SWRNIC_WQE_LOCAL) /* an address of ours is nobody's business */
				wqe->remote_to = kwqe->remote_to;
			wqe->remote_stag = kwqe->remote_stag;
			wqe->flags |= kwqe->flags & SWR_KWQE_FENCE ? SWRNIC_WQE_FENCE : 0;
			wqe->flags |= kwqe->flags & SWR_KWQE_SOLICITED ? SWRNIC_WQE_SOLICITED : 0;
		}
	}
	spin_unlock_irq(&qp->lock);
	swr_kqp_wake(qp, &wakes);
	return there;
}

void swr_kqp_await_recv(struct swr_qp *qp, bool awaits)
{
	spin_lock_irq(&qp->lock);
	qp->kernel->awaits_recv = awaits;
	spin_unlock_irq(&qp->lock);
}

/* The daemon knows of them now; unless somebody was faster, or all was flushed. */
int swr_kqp_fetched(struct swr_qp *qp, enum swrnic_queue queue, u64 first, u32 count)
{
	struct swr_kring *ring = &qp->kernel->ring[queue];
	int error = -EINVAL;

	spin_lock_irq(&qp->lock);
	if (swr_kqp_running_locked(qp) && ring->fetched == first && count <= ring->tail - first) {
		ring->fetched += count;
		error = 0;
	}
	spin_unlock_irq(&qp->lock);
	return error;
}

/* ---- local requests ---------------------------------------------------------------------------------------------------- */

/* Are all local requests before it executed? What is found once is not looked at again. */
static bool is_its_turn_locked(struct swr_qp *qp, u64 sequence)
{
	struct swr_kring *ring = &qp->kernel->ring[SWRNIC_QUEUE_SEND];
	u64 *executed = &qp->kernel->executed;

	for (*executed = max(*executed, ring->head); *executed < sequence; ++*executed)
		if (wqe_opcode(swr_kring_at(ring, *executed)->opcode) == SWRNIC_WQE_LOCAL)
			return false;
	return *executed == sequence && wqe_opcode(swr_kring_at(ring, sequence)->opcode) == SWRNIC_WQE_LOCAL;
}

static bool execute_locked(struct swr_qp *qp, struct swr_kwqe *wqe)
{
	if (wqe->opcode == IB_WR_REG_MR)
		return !swr_kmr_register(qp->dev, qp->ibqp.pd, wqe->stag, wqe->remote_to, wqe->access);
	return swr_kmr_invalidate(qp->dev, qp->ibqp.pd, wqe->stag, false) == SWRNIC_NAME_OK;
}

int swr_kqp_execute(struct swr_qp *qp, u64 sequence, u32 *error)
{
	struct swr_kring *ring = &qp->kernel->ring[SWRNIC_QUEUE_SEND];
	struct swr_kwqe *wqe;
	int result = -EINVAL;

	*error = 0;
	spin_lock_irq(&qp->lock);
	if (!swr_kqp_running_locked(qp)) {
		*error = 1; /* flushed: nobody listens to how it completes */
		result = 0;
	} else if (sequence >= ring->head && sequence < ring->fetched && is_its_turn_locked(qp, sequence)) {
		wqe = swr_kring_at(ring, sequence);
		qp->kernel->executed++;
		if (execute_locked(qp, wqe))
			wqe->flags |= SWR_KWQE_EXECUTED;
		else
			*error = 1;
		result = 0;
	}
	spin_unlock_irq(&qp->lock);
	return result;
}

/* One; false: it is not the turn of any. */
static bool execute_oldest_locked(struct swr_qp *qp, struct swr_wakes *wakes)
{
	static const struct ib_wc done = { .status = IB_WC_SUCCESS };
	struct swr_kring *ring = &qp->kernel->ring[SWRNIC_QUEUE_SEND];
	struct swr_kwqe *wqe = swr_kring_at(ring, ring->head);

	if (!swr_kqp_running_locked(qp) || ring->head != ring->fetched || ring->head == ring->tail)
		return false;
	if (wqe_opcode(wqe->opcode) != SWRNIC_WQE_LOCAL || !execute_locked(qp, wqe))
		return false;
	swr_kqp_complete_locked(qp, SWRNIC_QUEUE_SEND, &done, false, wakes);
	return true;
}

/* Under the lock for each alone: many would keep interrupts off for long. */
void swr_kqp_execute_oldest(struct swr_qp *qp)
{
	struct swr_wakes wakes = {};
	bool more;

	do {
		spin_lock_irq(&qp->lock);
		more = execute_oldest_locked(qp, &wakes);
		spin_unlock_irq(&qp->lock);
	} while (more);
	swr_kqp_wake(qp, &wakes);
}

enum swrnic_name_error swr_kqp_invalidate(struct swr_qp *qp, u32 stag)
{
	enum swrnic_name_error error = SWRNIC_NAME_INVALID_STAG;

	spin_lock_irq(&qp->lock);
	if (swr_kqp_running_locked(qp))
		error = swr_kmr_invalidate(qp->dev, qp->ibqp.pd, stag, true);
	spin_unlock_irq(&qp->lock);
	return error;
}

/* ---- completions ------------------------------------------------------------------------------------------------------- */

/* A consumer relies on it that what came invalidated is so. */
static bool is_invalidated_locked(struct swr_qp *qp, u32 stag)
{
	if (swr_kmr_invalidate(qp->dev, qp->ibqp.pd, stag, true) == SWRNIC_NAME_OK)
		return true;
	return swr_kmr_invalidate(qp->dev, qp->ibqp.pd, stag, false) == SWRNIC_NAME_OK;
}

static bool success_is_true_locked(struct swr_qp *qp, const struct swr_kwqe *wqe, const struct swrnic_done *done)
{
	if (done->queue == SWRNIC_QUEUE_SEND)
		return wqe_opcode(wqe->opcode) != SWRNIC_WQE_LOCAL || wqe->flags & SWR_KWQE_EXECUTED;
	if (done->length > wqe->length)
		return false;
	return !(done->flags & SWRNIC_DONE_INVALIDATED) || is_invalidated_locked(qp, done->invalidated);
}

static int done_locked(struct swr_qp *qp, const struct swrnic_done *done, struct swr_wakes *wakes)
{
	struct swr_kring *ring = &qp->kernel->ring[done->queue];
	struct ib_wc wc = { .status = done->status, .vendor_err = done->vendor_err };
	const struct swr_kwqe *wqe;

	if (done->sequence != ring->head || ring->head == ring->fetched)
		return -EINVAL;
	wqe = swr_kring_at(ring, ring->head);
	if (done->status == IB_WC_SUCCESS) {
		if (!success_is_true_locked(qp, wqe, done))
			return -EINVAL;
		if (done->queue == SWRNIC_QUEUE_RECV) {
			wc.byte_len = done->length;
			wc.wc_flags = done->flags & SWRNIC_DONE_INVALIDATED ? IB_WC_WITH_INVALIDATE : 0;
			wc.ex.invalidate_rkey = done->invalidated;
		} else if (wqe->opcode == IB_WR_RDMA_READ_WITH_INV) {
			swr_kmr_invalidate(qp->dev, qp->ibqp.pd, wqe->stag, false);
		}
	}
	swr_kqp_complete_locked(qp, done->queue, &wc, done->flags & SWRNIC_DONE_SOLICITED, wakes);
	if (done->status != IB_WC_SUCCESS)
		swr_kqp_to_error_locked(qp, wakes);
	return 0;
}

static bool done_valid(const struct swrnic_done *done)
{
	return done->queue <= SWRNIC_QUEUE_RECV && done->status <= IB_WC_GENERAL_ERR &&
	       !(done->flags & ~(SWRNIC_DONE_SOLICITED | SWRNIC_DONE_INVALIDATED));
}

/* Under the lock for each alone: many would keep interrupts off for long. */
static int done_one(struct swr_qp *qp, const struct swrnic_done *done, struct swr_wakes *wakes)
{
	int error = 0;

	if (!done_valid(done))
		return -EINVAL;
	spin_lock_irq(&qp->lock);
	if (swr_kqp_running_locked(qp))
		error = done_locked(qp, done, wakes);
	spin_unlock_irq(&qp->lock);
	if (!error && done->status != IB_WC_SUCCESS)
		swr_kqp_flush(qp, wakes);
	return error;
}

int swr_kqp_done(struct swr_qp *qp, const struct swrnic_done *done, u32 count, u32 *taken)
{
	struct swr_wakes wakes = {};
	int error = 0;

	for (*taken = 0; *taken < count; ++*taken) {
		error = done_one(qp, done + *taken, &wakes);
		if (error)
			break;
	}
	swr_kqp_wake(qp, &wakes);
	return error;
}

u32 swr_kqp_sent(struct swr_qp *qp, const u64 *sequences, u32 count)
{
	struct swrnic_done done = { .queue = SWRNIC_QUEUE_SEND, .status = IB_WC_SUCCESS };
	struct swr_wakes wakes = {};
	u32 taken;

	for (taken = 0; taken < count; taken++) {
		done.sequence = sequences[taken];
		if (done_one(qp, &done, &wakes))
			break;
	}
	swr_kqp_wake(qp, &wakes);
	return taken;
}

/* What the peer may not invalidate is left to INVALIDATE, which says so. */
static bool end_locked(struct swr_qp *qp, const struct swrnic_done *done, struct swr_wakes *wakes)
{
	const struct swr_kring *ring = &qp->kernel->ring[done->queue];

	if (done->sequence != ring->head || ring->head == ring->fetched || done->length > swr_kring_at(ring, ring->head)->length)
		return false;
	if ((done->flags & SWRNIC_DONE_INVALIDATED) && swr_kmr_invalidate(qp->dev, qp->ibqp.pd, done->invalidated, true))
		return false;
	return !done_locked(qp, done, wakes);
}

void swr_kqp_end(struct swr_qp *qp, const struct swrnic_name *name, u64 length, struct swrnic_ending *ending)
{
	struct swrnic_done done = { .sequence = name->id, .queue = name->kind, .status = IB_WC_SUCCESS };
	struct swr_wakes wakes = {};

	BUILD_BUG_ON((int)SWRNIC_NAME_SEND != (int)SWRNIC_QUEUE_SEND || (int)SWRNIC_NAME_RECV != (int)SWRNIC_QUEUE_RECV);
	if (name->kind > SWRNIC_NAME_RECV || length > U32_MAX)
		return;
	done.length = length;
	done.flags = ending->flags & ~SWRNIC_ENDING;
	done.invalidated = ending->invalidated;
	spin_lock_irq(&qp->lock);
	if (swr_kqp_running_locked(qp))
		ending->done = end_locked(qp, &done, &wakes);
	spin_unlock_irq(&qp->lock);
	swr_kqp_wake(qp, &wakes);
}

/* ---- moving octets ----------------------------------------------------------------------------------------------------- */

/* The request that is named, if its octets may go that way now. */
static const struct swr_kwqe *named_locked(struct swr_qp *qp, const struct swrnic_name *name, bool in)
{
	enum swrnic_queue queue = name->kind == SWRNIC_NAME_RECV ? SWRNIC_QUEUE_RECV : SWRNIC_QUEUE_SEND;
	const struct swr_kring *ring = &qp->kernel->ring[queue];
	const struct swr_kwqe *wqe;

	if (name->id < ring->head || name->id >= ring->fetched)
		return NULL;
	wqe = swr_kring_at(ring, name->id);
	if (queue == SWRNIC_QUEUE_RECV)
		return in ? NULL : wqe;
	switch (wqe_opcode(wqe->opcode)) {
	case SWRNIC_WQE_SEND:
	case SWRNIC_WQE_SEND_INV:
	case SWRNIC_WQE_WRITE:
		return in ? wqe : NULL;
	case SWRNIC_WQE_READ:
		return in ? NULL : wqe;
	default:
		return NULL;
	}
}

static enum swrnic_name_error move_sge(struct swr_qp *qp, const struct ib_pd *pd, const struct ib_sge *sge, u32 offset, u32 length,
				       void *buffer, bool in)
{
	void *memory = (void *)(uintptr_t)(sge->addr + offset);

	if (sge->lkey != qp->ibqp.device->local_dma_lkey)
		return swr_kmr_move(qp->dev, pd, sge->lkey, in ? 0 : IB_ACCESS_LOCAL_WRITE, sge->addr + offset, length, buffer, in);
	if (!buffer)
		return SWRNIC_NAME_OK;
	if (in)
		memcpy(buffer, memory, length);
	else
		memcpy(memory, buffer, length);
	return SWRNIC_NAME_OK;
}

static enum swrnic_name_error move_request_locked(struct swr_qp *qp, const struct swrnic_name *name, u64 from, u32 length,
						  void *buffer, bool in)
{
	const struct swr_srq *srq = name->kind == SWRNIC_NAME_RECV ? qp->kernel->srq : NULL;
	const struct ib_pd *pd = srq ? srq->ibsrq.pd : qp->ibqp.pd;
	const struct swr_kwqe *wqe = named_locked(qp, name, in);
	enum swrnic_name_error error;
	const struct ib_sge *sge;
	u32 run;

	if (!wqe)
		return SWRNIC_NAME_INVALID_STAG;
	if (from > wqe->length || length > wqe->length - from)
		return SWRNIC_NAME_BOUNDS;
	for (sge = wqe->sge; length; sge++) {
		if (from >= sge->length) {
			from -= sge->length;
			continue;
		}
		run = min_t(u64, length, sge->length - from);
		error = move_sge(qp, pd, sge, from, run, buffer, in);
		if (error)
			return error;
		buffer = buffer ? buffer + run : NULL;
		length -= run;
		from = 0;
	}
	return SWRNIC_NAME_OK;
}

static enum swrnic_name_error move_tagged_locked(struct swr_qp *qp, u64 stag, u64 to, u32 length, void *buffer, bool in)
{
	int access = in ? IB_ACCESS_REMOTE_READ : IB_ACCESS_REMOTE_WRITE;
	enum swrnic_name_error error;

	if (stag > U32_MAX)
		return SWRNIC_NAME_INVALID_STAG;
	error = swr_kmr_move(qp->dev, qp->ibqp.pd, stag, access, to, length, qp->access & access ? buffer : NULL, in);
	/* What the QP grants is looked at last but for this: DDP-31 has an order. */
	if (error != SWRNIC_NAME_INVALID_STAG && error != SWRNIC_NAME_WRONG_PD && !(qp->access & access))
		return SWRNIC_NAME_ACCESS;
	return error;
}

enum swrnic_name_error swr_kqp_move(struct swr_qp *qp, const struct swrnic_name *name, u64 from, u32 length, void *buffer, bool in)
{
	enum swrnic_name_error error;

	spin_lock_irq(&qp->lock);
	if (!swr_kqp_running_locked(qp))
		error = SWRNIC_NAME_INVALID_STAG;
	else if (name->kind == SWRNIC_NAME_TAGGED)
		error = move_tagged_locked(qp, name->id, from, length, buffer, in);
	else
		error = move_request_locked(qp, name, from, length, buffer, in);
	spin_unlock_irq(&qp->lock);
	return error;
}

bool swr_kqp_ends_request(struct swr_qp *qp, const struct swrnic_name *name)
{
	const struct swr_kwqe *wqe;
	bool ends = false;

	spin_lock_irq(&qp->lock);
	if (swr_kqp_running_locked(qp)) {
		wqe = named_locked(qp, name, false);
		ends = wqe && name->offset <= wqe->length && name->length == wqe->length - name->offset;
	}
	spin_unlock_irq(&qp->lock);
	return ends;
}
