// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Queue pairs: numbers, attributes, who refers to them, and which connection they carry. */
#include "conn.h"
#include "kverbs.h"
#include "wired.h"

/* ---- references -------------------------------------------------------------------------------------------------------- */

static void qp_release(struct kref *kref)
{
	complete(&container_of(kref, struct swr_qp, kref)->free);
}

void swr_qp_get(struct swr_qp *qp)
{
	kref_get(&qp->kref);
}

void swr_qp_put(struct swr_qp *qp)
{
	kref_put(&qp->kref, qp_release);
}

struct swr_qp *swr_qp_find(struct swr_device *dev, u32 qpn)
{
	struct swr_qp *qp;
	unsigned long flags;

	xa_lock_irqsave(&dev->qps, flags);
	qp = xa_load(&dev->qps, qpn);
	if (qp)
		swr_qp_get(qp);
	xa_unlock_irqrestore(&dev->qps, flags);
	return qp;
}

/*
 * iw_cm asks for a QP by whatever number a process names, and takes a reference in a call of its own, always the next. Between the
 * two the QP's owner could destroy it, so the reference is taken by the first.
 */
struct ib_qp *swr_iw_get_qp(struct ib_device *ibdev, int qpn)
{
	struct swr_qp *qp = swr_qp_find(to_swr_device(ibdev), qpn);

	return qp ? &qp->ibqp : NULL;
}

void swr_iw_add_ref(struct ib_qp *ibqp)
{
}

void swr_iw_rem_ref(struct ib_qp *ibqp)
{
	swr_qp_put(to_swr_qp(ibqp));
}

/* ---- the connection ---------------------------------------------------------------------------------------------------- */

struct swr_conn *swr_qp_conn(struct swr_qp *qp)
{
	struct swr_conn *conn;
	unsigned long flags;

	spin_lock_irqsave(&qp->lock, flags);
	conn = qp->conn;
	if (conn)
		swr_conn_get(conn);
	spin_unlock_irqrestore(&qp->lock, flags);
	return conn;
}

/* NULL: the kernel. */
static struct swr_user *user_of(const struct swr_qp *qp)
{
	return qp->kernel ? NULL : qp->file->user;
}

static bool may_attach(const struct swr_qp *qp, const struct swr_conn *conn)
{
	if (qp->conn || qp->gone || qp->ibqp.qp_type == IB_QPT_UD)
		return false;
	if (conn->wired)
		return swr_wired_takes(qp, conn);
	return !qp->wired && (qp->state == IB_QPS_INIT || qp->state == IB_QPS_RTR);
}

/* A process that dies with an id of rdma_cm waits for its connection, and is watched. */
static bool is_watched(const struct swr_qp *qp, const struct swr_conn *conn)
{
	return !qp->kernel && !conn->wired;
}

int swr_qp_attach(struct swr_qp *qp, struct swr_conn *conn)
{
	unsigned long flags;
	int error = swr_count_up(qp->ibqp.device, SWR_STARTUPS, user_of(qp));

	if (error)
		return error;
	error = -EINVAL;
	spin_lock_irqsave(&qp->lock, flags);
	if (READ_ONCE(qp->file->closed) || READ_ONCE(qp->file->dead) || READ_ONCE(qp->file->still)) {
		error = -EHOSTUNREACH; /* NFS tries again after a while; after most others at once, or not any more */
	} else if (may_attach(qp, conn)) {
		swr_conn_get(conn);
		qp->conn = conn;
		error = 0;
	}
	spin_unlock_irqrestore(&qp->lock, flags);
	if (error) {
		swr_count_down(qp->ibqp.device, SWR_STARTUPS, user_of(qp));
		return error;
	}
	swr_qp_get(qp);
	conn->qp = qp;
	conn->starting = true;
	if (is_watched(qp, conn))
		swr_file_startup_begins(qp->file);
	return 0;
}

void swr_qp_started(struct swr_qp *qp, struct swr_conn *conn)
{
	if (!conn->starting)
		return;
	conn->starting = false;
	if (is_watched(qp, conn))
		swr_file_startup_ends(qp->file);
	swr_count_down(qp->ibqp.device, SWR_STARTUPS, user_of(qp));
}

void swr_qp_detach(struct swr_qp *qp, struct swr_conn *conn)
{
	unsigned long flags;

	swr_qp_started(qp, conn);
	conn->qp = NULL;
	spin_lock_irqsave(&qp->lock, flags);
	WARN_ON(qp->conn != conn);
	qp->conn = NULL;
	spin_unlock_irqrestore(&qp->lock, flags);
	swr_conn_put(conn);
	swr_qp_put(qp);
}

void swr_qp_set_state(struct swr_qp *qp, enum ib_qp_state state)
{
	unsigned long flags;

	if (qp->kernel && state == IB_QPS_ERR) {
		swr_kqp_fail(qp);
		return;
	}
	spin_lock_irqsave(&qp->lock, flags);
	/* A consumer in the kernel may have ended it meanwhile. */
	if (!qp->kernel || qp->state == IB_QPS_INIT || qp->state == IB_QPS_RTR)
		qp->state = state;
	spin_unlock_irqrestore(&qp->lock, flags);
}

void swr_qp_lost(struct swr_qp *qp)
{
	struct swr_conn *conn = swr_qp_conn(qp);

	if (!conn)
		return;
	if (qp->kernel)
		swr_kqp_fail(qp);
	/*
	 * Destroyed by another than the process itself, the device goes away; or it is the kernel's: the stream must not go on
	 * without it.
	 */
	swr_conn_qp_gone(conn, task_tgid(current) != qp->file->owner);
	swr_conn_put(conn);
}

/* Nobody can find it by its number any more. When this returns, nobody refers to it. */
static void retire(struct swr_qp *qp)
{
	unsigned long flags;

	spin_lock_irqsave(&qp->lock, flags);
	qp->gone = true;
	spin_unlock_irqrestore(&qp->lock, flags);
	if (qp->kernel)
		swr_kqp_fail(qp);
	swr_qp_lost(qp);
	swr_file_dismiss(qp);
	swr_qp_put(qp);
	/* iw_cm lets go when it has worked on the last event, which the connection's end has just raised. */
	wait_for_completion(&qp->free);
}

/* ---- verbs ------------------------------------------------------------------------------------------------------------- */

static bool startup_valid(const struct swrnic_create_qp_req *req)
{
	return req->crc_mode <= SWRNIC_CRC_OFF && req->fpdu_mode <= SWRNIC_FPDU_64K && req->mpa_rev >= 1 &&
	       req->mpa_rev <= SWRNIC_MPA_MAX_REV && req->rfc7306 <= 1 && !memchr_inv(req->reserved, 0, sizeof(req->reserved));
}

static bool capacity_valid(const struct ib_qp_cap *cap)
{
	return cap->max_send_wr <= SWR_MAX_QP_WR && cap->max_recv_wr <= SWR_MAX_QP_WR && cap->max_send_sge <= SWR_MAX_SGE &&
	       cap->max_recv_sge <= SWR_MAX_SGE && cap->max_inline_data <= SWR_MAX_INLINE;
}

static int prepare_process_qp(struct swr_qp *qp, struct ib_udata *udata)
{
	int error = swr_take_driver_data(udata, &qp->startup, sizeof(qp->startup));

	if (error)
		return error;
	if (!startup_valid(&qp->startup))
		return -EINVAL;
	qp->file = rdma_udata_to_drv_context(udata, struct swr_ucontext, ibucontext)->file;
	swr_unread_init_async(&qp->unread, (struct ib_uobject *)qp->ibqp.uobject);
	return 0;
}

/* Without a daemon it cannot connect; but it is made, else knfsd of 6.1 never frees the rest (as in swr_iw_accept()). */
static struct swr_file *server_or_nobody(struct swr_device *dev)
{
	struct swr_file *file = swr_server_get(dev);

	if (file)
		return file;
	pr_warn_ratelimited("%s: swrnicd does not run: no connection for a consumer in the kernel\n", dev_name(&dev->ibdev.dev));
	return swr_file_nobody(dev);
}

static int prepare_kernel_qp(struct swr_qp *qp, struct ib_qp_init_attr *attr)
{
	int error;

	if (attr->cap.max_inline_data || !to_swr_cq(attr->send_cq)->kernel || !to_swr_cq(attr->recv_cq)->kernel)
		return -EINVAL;
	if (attr->srq && !to_swr_srq(attr->srq)->kernel)
		return -EINVAL;
	qp->startup.mpa_rev = SWRNIC_MPA_MAX_REV;
	qp->file = server_or_nobody(qp->dev);
	if (!qp->file)
		return -ENOMEM;
	qp->startup.crc_mode = qp->file->crc_mode;
	qp->startup.fpdu_mode = qp->file->fpdu_mode;
	error = swr_kqp_create(qp, attr);
	if (error)
		swr_file_put(qp->file);
	return error;
}

static void free_kernel_qp(struct swr_qp *qp)
{
	if (!qp->kernel)
		return;
	swr_kqp_free(qp);
	swr_file_put(qp->file);
}

static bool is_offered(enum ib_qp_type type, bool to_process)
{
	return type == IB_QPT_RC || (to_process && (type == IB_QPT_UC || type == IB_QPT_UD));
}

int swr_create_qp(struct ib_qp *ibqp, struct ib_qp_init_attr *attr, struct ib_udata *udata)
{
	const bool is_ud = attr->qp_type == IB_QPT_UD;
	struct swr_qp *qp = to_swr_qp(ibqp);
	int error;

	if (!is_offered(attr->qp_type, udata) || attr->create_flags)
		return -EOPNOTSUPP;
	if (!attr->send_cq || !attr->recv_cq || !capacity_valid(&attr->cap))
		return -EINVAL;
	qp->dev = to_swr_device(ibqp->device);
	qp->cap = attr->cap;
	qp->sq_sig_type = attr->sq_sig_type;
	qp->state = IB_QPS_RESET;
	kref_init(&qp->kref);
	init_completion(&qp->free);
	spin_lock_init(&qp->lock);
	mutex_init(&qp->modify);
	INIT_LIST_HEAD(&qp->pending_link);
	INIT_LIST_HEAD(&qp->datagrams);
	error = udata ? prepare_process_qp(qp, udata) : prepare_kernel_qp(qp, attr);
	if (error)
		return error;
	error = swr_count_up(ibqp->device, SWR_QPS, user_of(qp));
	if (error)
		goto unmake;
	error = is_ud ? swr_datagrams_create(qp) : swr_number_qp(qp);
	if (error)
		goto uncount;
	error = xa_insert_irq(&qp->file->qps, ibqp->qp_num, qp, GFP_KERNEL_ACCOUNT);
	if (!error) {
		if (is_ud)
			swr_file_tell(qp, SWR_PENDING_DATAGRAMS);
		return 0;
	}
	xa_erase_irq(&qp->dev->qps, ibqp->qp_num);
	/* Somebody may have found it by its number. */
	retire(qp);
	swr_number_free(qp);
	swr_datagrams_free(qp);
uncount:
	swr_count_down(ibqp->device, SWR_QPS, user_of(qp));
unmake:
	free_kernel_qp(qp);
	return error;
}

/* The stream's end, by the process that drives it. */
static void order(struct swr_qp *qp, enum ib_qp_state state)
{
	struct swr_conn *conn = swr_qp_conn(qp);

	if (!conn)
		return;
	swr_race_pause();
	swr_file_tell(qp, state == IB_QPS_SQD ? SWR_PENDING_DISCONNECT : SWR_PENDING_ERROR);
	swr_conn_put(conn);
}

static void abort_startup(struct swr_qp *qp)
{
	struct swr_conn *conn = swr_qp_conn(qp);

	if (!conn)
		return;
	mutex_lock(&conn->lock);
	/* A live stream is the engine's to end. */
	if (conn->state < SWR_CONN_QUEUED)
		swr_conn_fail_locked(conn, -ECONNABORTED);
	mutex_unlock(&conn->lock);
	swr_conn_put(conn);
}

/*
 * What iw_cm wants, from the user's thread or a worker. It holds no reference of its own to the QP meanwhile, and the QP's owner
 * may destroy it: that waits for this one.
 */
static int modify_for_cm(struct swr_qp *qp, enum ib_qp_state state)
{
	if (!kref_get_unless_zero(&qp->kref))
		return -EINVAL;
	order(qp, state);
	if (qp->kernel && state == IB_QPS_ERR) {
		swr_kqp_fail(qp);
		abort_startup(qp);
	}
	swr_qp_put(qp);
	return 0;
}

/* Wired without rdma_cm: the state that nobody else can bring it to. */
static bool is_wiring(const struct ib_qp_attr *attr, int mask)
{
	return (mask & IB_QP_STATE) && attr->qp_state == IB_QPS_RTR && (mask & (IB_QP_AV | IB_QP_DEST_QPN));
}

static int check_attr(const struct swr_qp *qp, const struct ib_qp_attr *attr, int mask)
{
	if (mask & ~IB_QP_ATTR_STANDARD_BITS)
		return -EOPNOTSUPP;
	if ((mask & IB_QP_STATE) && attr->qp_state > IB_QPS_ERR)
		return -EINVAL;
	if ((mask & IB_QP_MAX_QP_RD_ATOMIC) && attr->max_rd_atomic > SWR_MAX_READS)
		return -EINVAL;
	if ((mask & IB_QP_MAX_DEST_RD_ATOMIC) && attr->max_dest_rd_atomic > SWR_MAX_READS)
		return -EINVAL;
	if (is_wiring(attr, mask) &&
	    (qp->ibqp.qp_type == IB_QPT_UD || !(mask & IB_QP_AV) || !(mask & IB_QP_DEST_QPN) || attr->dest_qp_num > 0xffffff))
		return -EINVAL;
	return 0;
}

static int change_locked(struct swr_qp *qp, const struct ib_qp_attr *attr, int mask)
{
	if (mask & IB_QP_STATE) {
		const bool starts = qp->ibqp.qp_type != IB_QPT_UD && !qp->wired;

		/* Without wiring, RTS is reached by MPA startup alone. */
		if (attr->qp_state == IB_QPS_RTS && qp->state != IB_QPS_RTS && starts)
			return -EINVAL;
		/* It is flushed, and must stay so. */
		if (qp->kernel && qp->state == IB_QPS_ERR && attr->qp_state != IB_QPS_RESET)
			return -EINVAL;
		if (attr->qp_state == IB_QPS_RESET || attr->qp_state == IB_QPS_INIT)
			qp->async_raised = 0;
		if (qp->kernel && attr->qp_state == IB_QPS_RESET)
			swr_kqp_reset_locked(qp);
		qp->state = attr->qp_state;
	}
	if (mask & IB_QP_ACCESS_FLAGS)
		qp->access = attr->qp_access_flags;
	if (mask & IB_QP_MAX_QP_RD_ATOMIC)
		qp->ord = attr->max_rd_atomic;
	if (mask & IB_QP_MAX_DEST_RD_ATOMIC)
		qp->ird = attr->max_dest_rd_atomic;
	return 0;
}

static int change(struct swr_qp *qp, const struct ib_qp_attr *attr, int mask)
{
	const bool ends = (mask & IB_QP_STATE) && (attr->qp_state == IB_QPS_ERR || attr->qp_state == IB_QPS_RESET);
	int error = 0;

	if (is_wiring(attr, mask))
		error = swr_wire(qp, attr);
	else if (ends)
		error = swr_unwire(qp);
	if (error)
		return error;
	spin_lock_irq(&qp->lock);
	error = change_locked(qp, attr, mask);
	spin_unlock_irq(&qp->lock);
	if (ends && !error) {
		abort_startup(qp);
		if (qp->kernel)
			order(qp, IB_QPS_ERR);
	}
	return error;
}

int swr_modify_qp(struct ib_qp *ibqp, struct ib_qp_attr *attr, int mask, struct ib_udata *udata)
{
	struct swr_qp *qp = to_swr_qp(ibqp);
	int error = check_attr(qp, attr, mask);

	if (error)
		return error;
	if ((mask & IB_QP_STATE) && !udata && (attr->qp_state == IB_QPS_SQD || attr->qp_state == IB_QPS_ERR))
		return modify_for_cm(qp, attr->qp_state);
	mutex_lock(&qp->modify);
	error = change(qp, attr, mask);
	mutex_unlock(&qp->modify);
	return error;
}

/* It calls nobody any more, and nobody calls it. */
int swr_qp_failed(struct swr_qp *qp)
{
	int error = -EINVAL;

	mutex_lock(&qp->modify);
	if (qp->wired)
		error = swr_unwire(qp);
	if (!error) {
		spin_lock_irq(&qp->lock);
		qp->state = IB_QPS_ERR;
		spin_unlock_irq(&qp->lock);
	}
	mutex_unlock(&qp->modify);
	return error;
}

int swr_query_qp(struct ib_qp *ibqp, struct ib_qp_attr *attr, int mask, struct ib_qp_init_attr *init)
{
	struct swr_qp *qp = to_swr_qp(ibqp);

	memset(attr, 0, sizeof(*attr));
	memset(init, 0, sizeof(*init));
	spin_lock_irq(&qp->lock);
	attr->qp_state = qp->state;
	attr->cur_qp_state = qp->state;
	attr->qp_access_flags = qp->access;
	attr->max_rd_atomic = qp->ord;
	attr->max_dest_rd_atomic = qp->ird;
	swr_wired_show(qp, attr);
	spin_unlock_irq(&qp->lock);
	attr->port_num = 1;
	attr->cap = qp->cap;
	init->qp_context = ibqp->qp_context;
	init->send_cq = ibqp->send_cq;
	init->recv_cq = ibqp->recv_cq;
	init->srq = ibqp->srq;
	init->cap = qp->cap;
	init->sq_sig_type = qp->sq_sig_type;
	init->qp_type = ibqp->qp_type;
	return 0;
}

int swr_destroy_qp(struct ib_qp *ibqp, struct ib_udata *udata)
{
	struct swr_qp *qp = to_swr_qp(ibqp);

	xa_erase_irq(&qp->dev->qps, ibqp->qp_num);
	xa_erase_irq(&qp->file->qps, ibqp->qp_num);
	retire(qp);
	swr_number_free(qp);
	swr_datagrams_free(qp);
	kfree(qp->wired);
	swr_count_down(ibqp->device, SWR_QPS, user_of(qp));
	free_kernel_qp(qp);
	return 0;
}
