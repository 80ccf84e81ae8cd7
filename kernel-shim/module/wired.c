// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Queue pairs that are wired by hand: whom they call, and whose call they take. */
#include "wired.h"
#include "path.h"
#include "startup.h"

#include <linux/pid.h>
#include <linux/sched.h>
#include <linux/tcp.h>
#include <net/ipv6.h>

/* What modify_qp(RTR) has said. A QP's is replaced as a whole; under swr_qp.lock. */
struct swr_wired {
	struct swrnic_wired_end here, there;
	struct swr_path path; /* the peer's address with the port that its number names */
	struct rdma_ah_attr ah;
	bool has_stream; /* it has been handed over, and may have ended */
	bool is_ending;	 /* swr_unwire looks at it */
};

static bool same_end(const struct swrnic_wired_end *a, const struct swrnic_wired_end *b)
{
	return !swrnic_wired_order(a, b);
}

static bool calls(const struct swr_wired *wired)
{
	return swrnic_wired_order(&wired->here, &wired->there) < 0;
}

static bool is_to_itself(const struct swr_wired *wired)
{
	return wired->here.qpn == wired->there.qpn && swr_addr_same_host(&wired->path.source, &wired->path.peer);
}

/* ---- wiring ------------------------------------------------------------------------------------------------------------ */

static struct swr_wired *wired_alloc(struct swr_qp *qp, const struct ib_qp_attr *attr)
{
	struct swr_wired *wired = kzalloc(sizeof(*wired), GFP_KERNEL_ACCOUNT);
	int error;

	if (!wired)
		return ERR_PTR(-ENOMEM);
	error = swr_path_find(qp->dev, &attr->ah_attr, &wired->path);
	if (error) {
		kfree(wired);
		return ERR_PTR(error);
	}
	memcpy(wired->here.gid, wired->path.source_gid.raw, sizeof(wired->here.gid));
	memcpy(wired->there.gid, rdma_ah_read_grh(&attr->ah_attr)->dgid.raw, sizeof(wired->there.gid));
	wired->here.qpn = qp->ibqp.qp_num;
	wired->there.qpn = attr->dest_qp_num;
	*swr_addr_port(&wired->path.peer) = cpu_to_be16(swrnic_qpn_port(attr->dest_qp_num));
	wired->ah = attr->ah_attr;
	wired->ah.grh.sgid_attr = NULL; /* the core's reference */
	return wired;
}

/* From here on it is called. */
static int publish(struct swr_qp *qp, struct swr_wired *wired)
{
	int error = -EINVAL;

	spin_lock_irq(&qp->lock);
	if (qp->state == IB_QPS_INIT && !qp->conn && !qp->wired) {
		qp->wired = wired;
		qp->state = IB_QPS_RTR;
		error = 0;
	}
	spin_unlock_irq(&qp->lock);
	return error;
}

static void take_back(struct swr_qp *qp)
{
	spin_lock_irq(&qp->lock);
	qp->wired = NULL;
	qp->state = IB_QPS_INIT;
	spin_unlock_irq(&qp->lock);
}

/* ---- the end that calls, and a QP that is wired to itself -------------------------------------------------------------- */

static void prepare(struct swr_conn *conn, const struct swr_qp *qp, const struct swr_wired *wired)
{
	conn->wired = true;
	conn->initiator = true;
	conn->here = wired->here;
	conn->there = wired->there;
	conn->local = wired->path.source;
	conn->peer = wired->path.peer;
	conn->same_host = swr_addr_same_host(&conn->local, &conn->peer);
	conn->timeout_ms = swrnic_startup_ms(&qp->startup);
}

static int prepare_call(struct swr_conn *conn, const struct swr_qp *qp)
{
	struct socket *sock;
	int error = swr_conn_make_socket(conn, &sock);

	if (error)
		return error;
	swr_conn_hook_socket(conn, sock, NULL);
	conn->private_len = SWR_WIRED_LEN;
	swrnic_wired_write(conn->private_data, &conn->here, &conn->there);
	conn->terms = swrnic_wired_terms(&qp->startup, conn->same_host);
	return 0;
}

/* The socket is the one of the first call, so its owner is whoever wired the QP. */
void swr_wired_call_locked(struct swr_conn *conn)
{
	if (swrnic_mpa_initiate(&conn->mpa, &conn->terms, conn->private_data, conn->private_len)) {
		swr_conn_fail_locked(conn, -EINVAL);
		return;
	}
	conn->state = SWR_CONN_CONNECTING;
	swr_conn_set_deadline(conn, conn->timeout_ms);
	swr_conn_connect_locked(conn);
}

void swr_wired_call_later_locked(struct swr_conn *conn)
{
	struct sockaddr nobody = { .sa_family = AF_UNSPEC };

	kernel_connect(conn->sock, (struct sockaddr_unsized *)&nobody, sizeof(nobody), 0);
	sock_error(conn->sock->sk); /* of this call, not of the next */
	conn->pause_ms = swrnic_wired_pause_ms(conn->pause_ms);
	conn->state = SWR_CONN_PAUSING;
	swr_conn_set_deadline(conn, conn->pause_ms);
}

static void tell_address(struct sockaddr_storage *addr, struct swrnic_address *to)
{
	u8 octets[16];

	swr_addr_octets(addr, octets);
	to->version = ipv6_addr_v4mapped((const struct in6_addr *)octets) ? 4 : 6;
	to->port = be16_to_cpu(*swr_addr_port(addr));
	if (to->version == 4)
		memcpy(to->octets, octets + 12, 4);
	else
		memcpy(to->octets, octets, sizeof(octets));
}

/* A TCP socket that is connected to itself gives back what is written to it: the QP receives what it sends. */
static int prepare_echo(struct swr_conn *conn, const struct swr_qp *qp)
{
	int error = swr_socket_create(conn->dev, conn->local.ss_family, &conn->sock);

	if (error)
		return error;
	error = kernel_bind(conn->sock, (struct sockaddr_unsized *)&conn->local, swr_addr_len(&conn->local));
	if (!error)
		error = kernel_getsockname(conn->sock, (struct sockaddr *)&conn->local);
	if (error < 0)
		return error;
	conn->peer = conn->local;
	error = kernel_connect(conn->sock, (struct sockaddr_unsized *)&conn->peer, swr_addr_len(&conn->peer), O_NONBLOCK);
	if (error && error != -EINPROGRESS)
		return error;
	conn->connected = swrnic_wired_to_itself(&qp->startup);
	tell_address(&conn->local, &conn->connected.local);
	conn->connected.peer = conn->connected.local;
	return 0;
}

static int begin_locked(struct swr_conn *conn, struct swr_qp *qp, const struct swr_wired *wired)
{
	const bool echo = is_to_itself(wired);
	int error;

	prepare(conn, qp, wired);
	error = echo ? prepare_echo(conn, qp) : prepare_call(conn, qp);
	if (!error)
		error = swr_qp_attach(qp, conn);
	if (error) {
		conn->state = SWR_CONN_OVER;
		swr_conn_close_socket(conn);
		return error;
	}
	if (echo)
		swr_conn_hand_over_locked(conn);
	else
		swr_wired_call_locked(conn);
	swr_conn_kick(conn);
	return 0;
}

static int begin(struct swr_qp *qp, const struct swr_wired *wired)
{
	struct swr_conn *conn = swr_conn_alloc(qp->dev);
	int error;

	if (!conn)
		return -ENOMEM;
	mutex_lock(&conn->lock);
	error = begin_locked(conn, qp, wired);
	mutex_unlock(&conn->lock);
	swr_conn_put(conn);
	return error;
}

int swr_wire(struct swr_qp *qp, const struct ib_qp_attr *attr)
{
	struct swr_wired *wired;
	int error = 0;

	if (qp->kernel || qp->file->owner != task_tgid(current) || !swr_is_in_namespace(qp->dev))
		return -EINVAL;
	wired = wired_alloc(qp, attr);
	if (IS_ERR(wired))
		return PTR_ERR(wired);
	if (!calls(wired) && !is_to_itself(wired))
		error = swr_number_listen(qp);
	if (!error)
		error = publish(qp, wired);
	if (error)
		goto out;
	if (calls(wired) || is_to_itself(wired))
		error = begin(qp, wired);
	if (!error)
		return 0;
	take_back(qp);
out:
	kfree(wired);
	return error;
}

/*
 * A stream that is handed over meanwhile is noted in the same swr_wired, which so stays where it is until nothing can need it.
 * Under swr_qp.modify: nobody else takes it away and frees it.
 */
int swr_unwire(struct swr_qp *qp)
{
	struct swr_wired *wired;
	struct swr_conn *conn;
	int error = 0;

	spin_lock_irq(&qp->lock);
	wired = qp->wired;
	if (wired)
		wired->is_ending = true;
	spin_unlock_irq(&qp->lock);
	if (!wired)
		return 0;
	conn = swr_qp_conn(qp);
	if (conn) {
		mutex_lock(&conn->lock);
		if (conn->wired && (conn->state == SWR_CONN_TAKEN || conn->state == SWR_CONN_READY))
			error = -EINVAL;
		else if (conn->wired)
			swr_conn_fail_locked(conn, -ECONNABORTED);
		mutex_unlock(&conn->lock);
		swr_conn_put(conn);
	}
	spin_lock_irq(&qp->lock);
	wired->is_ending = false;
	if (!error)
		qp->wired = NULL;
	spin_unlock_irq(&qp->lock);
	if (error)
		return error;
	swr_file_forget(qp);
	kfree(wired);
	return 0;
}

/* ---- the end that is called -------------------------------------------------------------------------------------------- */

static bool is_from(const struct swr_conn *conn, const struct swr_path *path)
{
	if (conn->initiator)
		return true;
	if (path->peer_is_any_here)
		return conn->same_host;
	return swr_addr_equal(&conn->peer, &path->peer);
}

bool swr_wired_takes(const struct swr_qp *qp, const struct swr_conn *conn)
{
	const struct swr_wired *wired = qp->wired;

	return wired && !wired->has_stream && !wired->is_ending && same_end(&conn->here, &wired->here) &&
	       same_end(&conn->there, &wired->there) && conn->initiator == (calls(wired) || is_to_itself(wired)) &&
	       is_from(conn, &wired->path);
}

static int accept_locked(struct swr_conn *conn, struct swr_qp *qp)
{
	int error;

	if (!swr_number_is_of(qp, conn->listener))
		return -EINVAL;
	conn->wired = true;
	error = swr_qp_attach(qp, conn);
	if (error)
		return error;
	conn->terms = swrnic_wired_terms(&qp->startup, conn->same_host);
	if (swrnic_mpa_accept(&conn->mpa, &conn->terms, NULL, 0)) {
		swr_qp_detach(qp, conn);
		return -EINVAL;
	}
	swr_conn_decided_locked(conn);
	conn->timeout_ms = swrnic_startup_ms(&qp->startup);
	tcp_sock_set_user_timeout(conn->sock->sk, min_t(u32, conn->timeout_ms, INT_MAX));
	swr_conn_set_deadline(conn, conn->timeout_ms);
	return 0;
}

/*
 * Whatever no QP waits for is refused, also what comes too early: the caller comes again, so nothing is kept of it, and strangers
 * can fill nothing.
 */
void swr_wired_request_locked(struct swr_conn *conn)
{
	const struct swrnic_mpa_peer_info *peer = swrnic_mpa_peer(&conn->mpa);
	struct swr_qp *qp = NULL;
	int error = -EINVAL;

	if (swrnic_wired_read(swrnic_mpa_peer_private(&conn->mpa), peer->private_len, &conn->there, &conn->here))
		qp = swr_qp_find(conn->dev, conn->here.qpn);
	if (qp) {
		error = accept_locked(conn, qp);
		swr_qp_put(qp);
	}
	if (error)
		swr_conn_reject_locked(conn, NULL, 0);
}

/* ---- the stream -------------------------------------------------------------------------------------------------------- */

void swr_wired_begun(struct swr_qp *qp)
{
	if (qp->wired)
		qp->wired->has_stream = true;
}

/* One that ended before the caller's first FPDU has carried nothing: the caller may come again. */
void swr_wired_ended_locked(struct swr_conn *conn, bool was_ready)
{
	struct swr_qp *qp = conn->qp;

	if (was_ready || conn->initiator)
		return;
	spin_lock_irq(&qp->lock);
	if (qp->wired)
		qp->wired->has_stream = false;
	spin_unlock_irq(&qp->lock);
}

void swr_wired_show(const struct swr_qp *qp, struct ib_qp_attr *attr)
{
	if (!qp->wired)
		return;
	attr->dest_qp_num = qp->wired->there.qpn;
	attr->ah_attr = qp->wired->ah;
}
