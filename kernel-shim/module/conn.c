// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * The life of a connection, and every upcall to iw_cm. iw_cm stops the machine on a wrong one, so each is raised here and nowhere
 * else, from the state that allows it:
 *   active	iw_connect returned 0: exactly one CONNECT_REPLY; after one with status 0 DISCONNECT and CLOSE
 *   passive	iw_accept returned 0: exactly one ESTABLISHED, whatever happened; then DISCONNECT and CLOSE
 */
#include "kverbs.h"
#include "listen.h"
#include "startup.h"
#include "wired.h"

#include <linux/file.h>
#include <linux/fs.h>
#include <net/tcp.h>

static void conn_work(struct work_struct *work);

/* ---- references and timers --------------------------------------------------------------------------------------------- */

struct swr_conn *swr_conn_alloc(struct swr_device *dev)
{
	struct swr_conn *conn = kzalloc(sizeof(*conn), GFP_KERNEL_ACCOUNT);

	if (!conn)
		return NULL;
	kref_init(&conn->kref);
	mutex_init(&conn->lock);
	INIT_DELAYED_WORK(&conn->work, conn_work);
	INIT_LIST_HEAD(&conn->link);
	conn->dev = dev;
	conn->timeout_ms = SWR_STARTUP_TIMEOUT_MS;
	spin_lock_irq(&dev->all_lock);
	list_add_tail(&conn->all_link, &dev->all_conns);
	spin_unlock_irq(&dev->all_lock);
	return conn;
}

static void conn_release(struct kref *kref)
{
	struct swr_conn *conn = container_of(kref, struct swr_conn, kref);
	struct swr_device *dev = conn->dev;
	unsigned long flags;

	WARN_ON(conn->sock || conn->spare || conn->stream || conn->cm_id || conn->qp || conn->listener);
	/* Under the lock to the end, since the device may go as soon as it can be taken again. */
	spin_lock_irqsave(&dev->all_lock, flags);
	list_del(&conn->all_link);
	if (list_empty(&dev->all_conns))
		wake_up(&dev->idle);
	spin_unlock_irqrestore(&dev->all_lock, flags);
	kfree(conn);
}

void swr_conn_get(struct swr_conn *conn)
{
	kref_get(&conn->kref);
}

void swr_conn_put(struct swr_conn *conn)
{
	kref_put(&conn->kref, conn_release);
}

/* Work that is queued holds a reference. */
void swr_conn_kick(struct swr_conn *conn)
{
	swr_conn_get(conn);
	if (mod_delayed_work(swr_wq, &conn->work, 0))
		swr_conn_put(conn);
}

void swr_conns_kick(struct swr_device *dev)
{
	struct swr_conn *conn, *last = NULL;

	spin_lock_irq(&dev->all_lock);
	list_for_each_entry(conn, &dev->all_conns, all_link) {
		if (!kref_get_unless_zero(&conn->kref))
			continue;
		spin_unlock_irq(&dev->all_lock);
		swr_conn_kick(conn);
		if (last)
			swr_conn_put(last);
		last = conn; /* it stays in the list, and so leads to the next, while it is referred to */
		spin_lock_irq(&dev->all_lock);
	}
	spin_unlock_irq(&dev->all_lock);
	if (last)
		swr_conn_put(last);
}

/* Nothing else needs a look: sockets, whoever decides, the owner's and the device's end kick it. */
static void look_at_deadline(struct swr_conn *conn)
{
	unsigned long now = jiffies;

	if (!conn->deadline)
		return;
	swr_conn_get(conn);
	if (!queue_delayed_work(swr_wq, &conn->work, time_after(conn->deadline, now) ? conn->deadline - now : 0))
		swr_conn_put(conn);
}

/* The caller holds a reference. */
static void look_no_more(struct swr_conn *conn)
{
	conn->deadline = 0;
	if (cancel_delayed_work(&conn->work))
		swr_conn_put(conn);
}

/* Kick it afterwards, but in its own work. */
void swr_conn_set_deadline(struct swr_conn *conn, u32 ms)
{
	conn->deadline = ms ? (jiffies + msecs_to_jiffies(ms)) | 1 : 0;
}

/* A process that dies in iw_cm waits there for its connection, and nobody would tell it. */
static bool owner_dies(const struct swr_conn *conn)
{
	return conn->qp && !conn->qp->kernel && swr_file_owner_dies(conn->qp->file);
}

static void expire_locked(struct swr_conn *conn)
{
	conn->deadline = 0;
	if (conn->state == SWR_CONN_PAUSING)
		swr_wired_call_locked(conn);
	else if (conn->state == SWR_CONN_STARTUP)
		swr_conn_mpa_event_locked(conn, swrnic_mpa_timeout(&conn->mpa));
	else if (conn->state == SWR_CONN_CONNECTING)
		swr_conn_startup_failed_locked(conn, -ETIMEDOUT);
	else
		swr_conn_fail_locked(conn, -ETIMEDOUT);
}

static void look_locked(struct swr_conn *conn)
{
	switch (conn->state) {
	case SWR_CONN_CONNECTING:
		swr_conn_connect_locked(conn);
		break;
	case SWR_CONN_STARTUP:
		swr_conn_drive_locked(conn);
		break;
	case SWR_CONN_DECIDING:
		swr_conn_check_peer_locked(conn);
		/* iw_cm drops a request when the listener goes away at the same time, and tells nobody. */
		if (conn->state == SWR_CONN_DECIDING && !conn->deadline && READ_ONCE(conn->listener->closed))
			swr_conn_set_deadline(conn, SWR_ORPHAN_TIMEOUT_MS);
		break;
	default:
		break;
	}
	if (conn->state == SWR_CONN_NEW || conn->state == SWR_CONN_READY || conn->state == SWR_CONN_OVER)
		return;
	if (owner_dies(conn) || READ_ONCE(conn->dev->leaving) || READ_ONCE(conn->dev->removing))
		swr_conn_fail_locked(conn, -ECONNABORTED);
	else if (conn->deadline && time_after_eq(jiffies, conn->deadline))
		expire_locked(conn);
	if (conn->state != SWR_CONN_OVER)
		look_at_deadline(conn);
}

static void conn_work(struct work_struct *work)
{
	struct swr_conn *conn = container_of(to_delayed_work(work), struct swr_conn, work);

	mutex_lock(&conn->lock);
	look_locked(conn);
	mutex_unlock(&conn->lock);
	swr_conn_put(conn);
}

/* ---- upcalls ----------------------------------------------------------------------------------------------------------- */

static void fill_private_data(struct iw_cm_event *event, const struct swr_conn *conn)
{
	const struct swrnic_mpa_peer_info *peer = swrnic_mpa_peer(&conn->mpa);

	event->private_data_len = min_t(u16, peer->private_len, SWR_MAX_PRIVATE);
	if (event->private_data_len)
		event->private_data = (void *)swrnic_mpa_peer_private(&conn->mpa);
}

static void raise_locked(struct swr_conn *conn, enum iw_cm_event_type type, int status)
{
	struct iw_cm_event event = { .event = type, .status = status, .local_addr = conn->local, .remote_addr = conn->peer };
	int error;

	if (type == IW_CM_EVENT_CONNECT_REPLY || type == IW_CM_EVENT_ESTABLISHED) {
		/* rdma_cm takes ird for the initiator depth. */
		event.ird = swrnic_shown_depth(conn->connected.ord);
		event.ord = swrnic_shown_depth(conn->connected.ird);
	}
	if (type == IW_CM_EVENT_CONNECT_REPLY && (!status || swrnic_mpa_peer(&conn->mpa)->rejected))
		fill_private_data(&event, conn);
	error = conn->cm_id->event_handler(conn->cm_id, &event);
	/* Slots for all of them were made with the id; but private data is copied. A lost reply would never be missed enough. */
	if (error && event.private_data_len) {
		event.private_data_len = 0;
		event.private_data = NULL;
		error = conn->cm_id->event_handler(conn->cm_id, &event);
	}
	WARN_ON_ONCE(error);
}

/* The last that the ULP hears. was: the state before it was over. */
static void tell_end_locked(struct swr_conn *conn, bool was_ready, int error)
{
	struct iw_cm_id *cm_id = conn->cm_id;

	if (!cm_id)
		return;
	if (!was_ready && conn->initiator) {
		raise_locked(conn, IW_CM_EVENT_CONNECT_REPLY, error);
	} else {
		if (!was_ready)
			raise_locked(conn, IW_CM_EVENT_ESTABLISHED, 0);
		raise_locked(conn, IW_CM_EVENT_DISCONNECT, 0);
		raise_locked(conn, IW_CM_EVENT_CLOSE, 0);
	}
	conn->cm_id = NULL;
	cm_id->rem_ref(cm_id);
}

/* ---- a stream in the process's hands ----------------------------------------------------------------------------------- */

/*
 * What is left of it here is a reference to its struct sock, to abort it when its owner has no right to it any more. Its end takes
 * the socket's lock, which the process can keep for as long as it likes: so a worker does it, whom nobody waits for but rmmod.
 */
struct swr_stream {
	struct work_struct end;
	struct sock *sk;
	struct file *file; /* of a kernel's QP: RECEIVE and TRANSMIT use the socket, whatever the daemon does to its descriptor */
	bool reserves;	   /* the socket may use memory in reserve */
	bool abort;
};

/*
 * What a consumer in the kernel writes back frees memory, so the stream that it has opened may use what is kept in reserve, to send
 * and to receive. A connection that somebody else opened may not: the reserves would be at the disposal of any peer.
 */
static void allow_reserves(struct swr_stream *stream)
{
	lock_sock(stream->sk);
	sk_set_memalloc(stream->sk);
	release_sock(stream->sk);
	stream->reserves = true;
}

/*
 * As sk_clear_memalloc(), at a moment when nobody owns the socket: whoever does may have segments waiting that came in reserved
 * memory, and the kernel halts when it meets them in a socket without the permission.
 */
static void deny_reserves(struct swr_stream *stream)
{
	struct sock *sk = stream->sk;

	while (lock_sock_fast(sk))
		unlock_sock_fast(sk, true);
	sock_reset_flag(sk, SOCK_MEMALLOC);
	sk->sk_allocation &= ~__GFP_MEMALLOC;
	unlock_sock_fast(sk, false);
	static_branch_dec(&memalloc_socks_key);
}

static void stream_free(struct swr_stream *stream)
{
	if (stream->file)
		fput(stream->file);
	sock_put(stream->sk);
	kfree(stream);
}

static void stream_end_work(struct work_struct *work)
{
	struct swr_stream *stream = container_of(work, struct swr_stream, end);

	if (stream->reserves)
		deny_reserves(stream);
	if (stream->abort)
		tcp_abort(stream->sk, ECONNABORTED); /* -ENOENT when it is closed already */
	stream_free(stream);
}

static void stream_end(struct swr_stream *stream, bool abort)
{
	stream->abort = abort;
	if (abort || stream->reserves)
		queue_work(swr_abort_wq, &stream->end);
	else
		stream_free(stream);
}

int swr_conn_give_away_locked(struct swr_conn *conn, struct socket **sockp)
{
	struct swr_stream *stream = kzalloc(sizeof(*stream), GFP_KERNEL_ACCOUNT);

	if (!stream)
		return -ENOMEM;
	INIT_WORK(&stream->end, stream_end_work);
	sock_hold(conn->sock->sk);
	stream->sk = conn->sock->sk;
	if (conn->qp->kernel && conn->initiator)
		allow_reserves(stream);
	conn->stream = stream;
	*sockp = conn->sock;
	conn->sock = NULL;
	return 0;
}

/* Until the connection ends here: that closes it too if the daemon has closed it already. */
void swr_conn_keep_file_locked(struct swr_conn *conn, struct file *file)
{
	conn->stream->file = get_file(file);
}

struct file *swr_conn_file(struct swr_conn *conn, struct swrnic_connected *connected)
{
	struct file *file = NULL;

	mutex_lock(&conn->lock);
	if (conn->stream && conn->stream->file) {
		file = get_file(conn->stream->file);
		*connected = conn->connected;
	}
	mutex_unlock(&conn->lock);
	return file;
}

/* ---- the end ----------------------------------------------------------------------------------------------------------- */

/* The caller holds a reference. */
static void end_locked(struct swr_conn *conn, int error, bool abort)
{
	enum swr_conn_state was = conn->state;

	if (was == SWR_CONN_OVER)
		return;
	conn->state = SWR_CONN_OVER;
	look_no_more(conn);
	swr_conn_close_socket(conn);
	if (conn->stream) {
		stream_end(conn->stream, abort);
		conn->stream = NULL;
	}
	swr_conn_decided_locked(conn);
	if (conn->qp && conn->wired) {
		swr_wired_ended_locked(conn, was == SWR_CONN_READY); /* no event: its requests will tell */
	} else if (conn->qp && (was == SWR_CONN_TAKEN || was == SWR_CONN_READY)) {
		swr_qp_set_state(conn->qp, IB_QPS_ERR);
		if (abort)
			swr_file_tell(conn->qp, SWR_PENDING_ERROR);
	}
	tell_end_locked(conn, was == SWR_CONN_READY, error);
	if (conn->qp)
		swr_qp_detach(conn->qp, conn);
}

void swr_conn_fail_locked(struct swr_conn *conn, int error)
{
	end_locked(conn, error, true);
}

void swr_conn_startup_failed_locked(struct swr_conn *conn, int error)
{
	if (conn->wired && conn->initiator)
		swr_wired_call_later_locked(conn);
	else
		swr_conn_fail_locked(conn, error);
}

void swr_conn_fail(struct swr_conn *conn, int error)
{
	mutex_lock(&conn->lock);
	swr_conn_fail_locked(conn, error);
	mutex_unlock(&conn->lock);
}

/* The QP, or whoever drove it, is gone. abort: but its process may still have the socket, and shall not use it. */
void swr_conn_qp_gone(struct swr_conn *conn, bool abort)
{
	mutex_lock(&conn->lock);
	end_locked(conn, -ECONNRESET, abort);
	mutex_unlock(&conn->lock);
}

/* ---- what the process reports ------------------------------------------------------------------------------------------ */

static enum swrnic_stream stream_of(const struct swr_conn *conn)
{
	switch (conn->state) {
	case SWR_CONN_QUEUED:
		return SWRNIC_STREAM_QUEUED;
	case SWR_CONN_TAKEN:
		return SWRNIC_STREAM_TAKEN;
	case SWR_CONN_READY:
		return SWRNIC_STREAM_READY;
	default:
		return SWRNIC_STREAM_NONE;
	}
}

int swr_conn_ready(struct swr_conn *conn)
{
	int error = -EINVAL;

	mutex_lock(&conn->lock);
	if (swrnic_stream_takes(stream_of(conn), SWRNIC_UP_QP_READY) && !conn->terminate) {
		conn->state = SWR_CONN_READY;
		look_no_more(conn);
		swr_qp_started(conn->qp, conn);
		if (!conn->wired) {
			swr_qp_set_state(conn->qp, IB_QPS_RTS);
			raise_locked(conn, conn->initiator ? IW_CM_EVENT_CONNECT_REPLY : IW_CM_EVENT_ESTABLISHED, 0);
		}
		error = 0;
	}
	mutex_unlock(&conn->lock);
	return error;
}

int swr_conn_closed(struct swr_conn *conn)
{
	int error = -EINVAL;

	mutex_lock(&conn->lock);
	if (swrnic_stream_takes(stream_of(conn), SWRNIC_UP_QP_CLOSED)) {
		end_locked(conn, -ECONNRESET, false);
		error = 0;
	}
	mutex_unlock(&conn->lock);
	return error;
}

/* ---- what MPA startup reports ------------------------------------------------------------------------------------------ */

/* The stream goes to the process, as swr_conn.connected describes it. The socket's early FPDUs stay in it. */
void swr_conn_hand_over_locked(struct swr_conn *conn)
{
	struct swr_qp *qp = conn->qp;

	spin_lock_irq(&qp->lock);
	if (conn->wired) {
		swr_wired_begun(qp);
	} else {
		qp->ird = swrnic_shown_depth(conn->connected.ird);
		qp->ord = swrnic_shown_depth(conn->connected.ord);
	}
	spin_unlock_irq(&qp->lock);
	conn->state = SWR_CONN_QUEUED;
	swr_conn_set_deadline(conn, conn->timeout_ms);
	swr_file_tell(qp, SWR_PENDING_CONNECTED);
}

/* terminate: the stream is only to be ended by a Terminate message; for the ULP the connection has failed now. */
void swr_conn_full_operation_locked(struct swr_conn *conn, bool terminate)
{
	if (!conn->qp || swrnic_mpa_connected(&conn->mpa, &conn->connected)) {
		swr_conn_fail_locked(conn, -ECONNABORTED);
		return;
	}
	swr_conn_unhook_socket(conn);
	if (conn->spare) {
		sock_release(conn->spare);
		conn->spare = NULL;
	}
	if (conn->same_host)
		conn->connected.flags |= SWRNIC_CONN_SAME_HOST;
	conn->terminate = terminate;
	if (terminate)
		tell_end_locked(conn, false, -EPROTO);
	swr_conn_hand_over_locked(conn);
	swr_conn_kick(conn);
}

/* ---- undecided requests ------------------------------------------------------------------------------------------------ */

struct swr_conn *swr_conn_find(struct swr_device *dev, u32 id)
{
	struct swr_conn *conn;

	xa_lock_irq(&dev->conns);
	conn = xa_load(&dev->conns, id);
	if (conn)
		swr_conn_get(conn);
	xa_unlock_irq(&dev->conns);
	return conn;
}

/* iw_cm has no claim on it any more. The caller holds a reference. */
void swr_conn_decided_locked(struct swr_conn *conn)
{
	if (conn->id) {
		xa_erase_irq(&conn->dev->conns, conn->id);
		conn->id = 0;
		swr_conn_put(conn);
	}
	if (conn->listener)
		swr_listener_drop(conn);
}

/* iw_cm knows it by a number, not by a pointer: it may drop the request silently, and may decide late. */
void swr_conn_request_locked(struct swr_conn *conn)
{
	const struct swrnic_mpa_peer_info *peer = swrnic_mpa_peer(&conn->mpa);
	struct iw_cm_event event = { .event = IW_CM_EVENT_CONNECT_REQUEST, .local_addr = conn->local, .remote_addr = conn->peer };
	int error;

	if (!conn->listener->cm_id) {
		swr_wired_request_locked(conn);
		return;
	}
	/* More than rdma_cm can show: refused in the open rather than cut short. */
	if (peer->private_len > SWR_MAX_PRIVATE) {
		swr_conn_reject_locked(conn, NULL, 0);
		return;
	}
	error = xa_alloc_cyclic_irq(&conn->dev->conns, &conn->id, conn, xa_limit_31b, &conn->dev->next_conn, GFP_KERNEL);
	if (error < 0) {
		conn->id = 0;
		swr_conn_reject_locked(conn, NULL, 0);
		return;
	}
	swr_conn_get(conn);
	conn->state = SWR_CONN_DECIDING;
	conn->deadline = 0;
	event.provider_data = (void *)(unsigned long)conn->id;
	/* What the peer may have outstanding we must hold, and the reverse; without revision 2 the maxima are shown. */
	event.ird = swrnic_shown_depth(peer->enhanced ? peer->ird : SWR_MAX_READS);
	event.ord = swrnic_shown_depth(peer->enhanced ? peer->ord : SWR_MAX_READS);
	fill_private_data(&event, conn);
	if (swr_listener_request(conn, &event))
		swr_conn_reject_locked(conn, NULL, 0);
}
