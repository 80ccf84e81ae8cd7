// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* What iw_cm asks for: connect, accept, reject. All of it in the context of whoever asks. */
#include "kverbs.h"
#include "startup.h"

#include <linux/nsproxy.h>
#include <linux/pid.h>
#include <linux/sched.h>
#include <linux/tcp.h>
#include <rdma/rdma_cm.h>

/* A consumer in the kernel makes the QP by its id; the id of a process has none. */
static bool is_own(const struct swr_qp *qp, const struct iw_cm_id *cm_id)
{
	const struct rdma_cm_id *id = cm_id->context;

	if (!qp->kernel)
		return qp->file->owner == task_tgid(current);
	return id && id->device == cm_id->device && id->qp == &qp->ibqp;
}

/*
 * The process names the QP by its number. Only the process that opened its context may: rdma_cm checks nothing.
 * With a reference, or NULL.
 */
static struct swr_qp *own_qp(struct swr_device *dev, const struct iw_cm_id *cm_id, u32 qpn)
{
	struct swr_qp *qp = swr_qp_find(dev, qpn);

	if (qp && !is_own(qp, cm_id)) {
		swr_qp_put(qp);
		return NULL;
	}
	return qp;
}

/*
 * Does the id belong to another network namespace than the device's interface? iw_cm does not say; the only user that it has,
 * rdma_cm, stands behind it with an id of its own, which knows. The current process does not: when a device is added, it is whoever
 * adds it that makes the copies of wildcard listeners for it.
 */
bool swr_cm_is_foreign(const struct swr_device *dev, const struct iw_cm_id *cm_id)
{
	const struct rdma_cm_id *id = cm_id->context;

	if (id && id->device == cm_id->device)
		return id->route.addr.dev_addr.net != dev->net;
	return current->nsproxy && current->nsproxy->net_ns != dev->net;
}

/* ---- the active side --------------------------------------------------------------------------------------------------- */

static int prepare(struct swr_conn *conn, struct swr_qp *qp, struct iw_cm_id *cm_id, const struct iw_cm_conn_param *param)
{
	struct socket *sock;
	int error;

	conn->initiator = true;
	conn->local = cm_id->m_local_addr;
	conn->peer = cm_id->m_remote_addr;
	conn->same_host = swr_addr_same_host(&conn->local, &conn->peer);
	conn->timeout_ms = swrnic_startup_ms(&qp->startup);
	conn->private_len = param->private_data_len;
	if (conn->private_len)
		memcpy(conn->private_data, param->private_data, conn->private_len);
	conn->terms = swrnic_terms(&qp->startup, param->ird, param->ord, conn->same_host);
	if (swrnic_mpa_initiate(&conn->mpa, &conn->terms, conn->private_data, conn->private_len))
		return -EINVAL;
	error = swr_conn_make_socket(conn, &sock);
	if (error)
		return error;
	swr_conn_hook_socket(conn, sock, NULL);
	/* Made now, since a worker could only make it root's. */
	return conn->terms.rev >= 2 ? swr_conn_make_socket(conn, &conn->spare) : 0;
}

int swr_iw_connect(struct iw_cm_id *cm_id, struct iw_cm_conn_param *param)
{
	struct swr_device *dev = to_swr_device(cm_id->device);
	struct swr_conn *conn;
	struct swr_qp *qp;
	int error;

	if (param->private_data_len > SWR_MAX_PRIVATE)
		return -EINVAL;
	/* By an interface of the same MAC, rdma_cm can be led to a device that is not in the process's namespace. */
	if (swr_cm_is_foreign(dev, cm_id))
		return -ENETUNREACH;
	qp = own_qp(dev, cm_id, param->qpn);
	if (!qp)
		return -EINVAL;
	conn = swr_conn_alloc(dev);
	if (!conn) {
		swr_qp_put(qp);
		return -ENOMEM;
	}
	mutex_lock(&conn->lock);
	error = prepare(conn, qp, cm_id, param);
	if (!error)
		error = swr_qp_attach(qp, conn);
	if (error) {
		/* No event may follow an error. */
		conn->state = SWR_CONN_OVER;
		swr_conn_close_socket(conn);
		goto out;
	}
	cm_id->add_ref(cm_id);
	conn->cm_id = cm_id;
	conn->state = SWR_CONN_CONNECTING;
	swr_conn_set_deadline(conn, conn->timeout_ms);
	swr_conn_connect_locked(conn);
	swr_conn_kick(conn);
out:
	mutex_unlock(&conn->lock);
	swr_conn_put(conn);
	swr_qp_put(qp);
	return error;
}

/* ---- the passive side -------------------------------------------------------------------------------------------------- */

static struct swr_conn *undecided(struct iw_cm_id *cm_id)
{
	return swr_conn_find(to_swr_device(cm_id->device), (unsigned long)cm_id->provider_data);
}

static int accept_locked(struct swr_conn *conn, struct iw_cm_id *cm_id, struct iw_cm_conn_param *param)
{
	struct swr_qp *qp;
	int error;

	if (param->private_data_len > SWR_MAX_PRIVATE)
		return -EINVAL;
	qp = own_qp(conn->dev, cm_id, param->qpn);
	if (!qp)
		return -EINVAL;
	error = swr_qp_attach(qp, conn);
	if (error)
		goto out;
	conn->terms = swrnic_terms(&qp->startup, param->ird, param->ord, conn->same_host);
	if (swrnic_mpa_accept(&conn->mpa, &conn->terms, param->private_data, param->private_data_len)) {
		swr_qp_detach(qp, conn);
		error = -EINVAL;
		goto out;
	}
	swr_conn_decided_locked(conn);
	cm_id->add_ref(cm_id);
	conn->cm_id = cm_id;
	conn->timeout_ms = swrnic_startup_ms(&qp->startup);
	tcp_sock_set_user_timeout(conn->sock->sk, min_t(u32, conn->timeout_ms, INT_MAX));
	conn->state = SWR_CONN_STARTUP;
	swr_conn_set_deadline(conn, conn->timeout_ms);
	swr_conn_drive_locked(conn);
	swr_conn_kick(conn);
out:
	swr_qp_put(qp);
	return error;
}

/*
 * There will be no connection, and the ULP of a QP of the kernel's hears so by events: what knfsd of 6.1 has made for a connection
 * it never frees when the accept fails (svc_rdma_accept()), and peers can go as often as they like.
 */
static int accept_and_end(struct iw_cm_id *cm_id, u32 qpn, int error)
{
	static const enum iw_cm_event_type types[] = { IW_CM_EVENT_ESTABLISHED, IW_CM_EVENT_DISCONNECT, IW_CM_EVENT_CLOSE };
	struct swr_qp *qp = own_qp(to_swr_device(cm_id->device), cm_id, qpn);
	bool kernel = qp && qp->kernel;
	unsigned int i;

	if (qp)
		swr_qp_put(qp);
	if (!kernel)
		return error;
	for (i = 0; i < ARRAY_SIZE(types); i++) {
		struct iw_cm_event event = { .event = types[i] };

		WARN_ON_ONCE(cm_id->event_handler(cm_id, &event)); /* slots for all of them were made with the id */
	}
	return 0;
}

/* After an error iw_cm forgets the request without a word, so the peer is told here. */
int swr_iw_accept(struct iw_cm_id *cm_id, struct iw_cm_conn_param *param)
{
	struct swr_conn *conn = undecided(cm_id);
	int error = -ECONNRESET;

	if (conn) {
		mutex_lock(&conn->lock);
		if (conn->state == SWR_CONN_DECIDING) {
			error = accept_locked(conn, cm_id, param);
			if (error)
				swr_conn_reject_locked(conn, NULL, 0);
		}
		mutex_unlock(&conn->lock);
		swr_conn_put(conn);
	}
	if (error == -ECONNRESET || error == -EHOSTUNREACH)
		return accept_and_end(cm_id, param->qpn, error);
	return error;
}

int swr_iw_reject(struct iw_cm_id *cm_id, const void *private_data, u8 len)
{
	struct swr_conn *conn = undecided(cm_id);

	if (!conn)
		return 0; /* nobody is left to be told */
	mutex_lock(&conn->lock);
	if (conn->state == SWR_CONN_DECIDING)
		swr_conn_reject_locked(conn, private_data, len);
	mutex_unlock(&conn->lock);
	swr_conn_put(conn);
	return 0;
}
