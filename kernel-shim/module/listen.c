// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Listeners: a TCP socket, the connections whose Request is not complete, and their bound. */
#include "listen.h"
#include "startup.h"

#include <net/ipv6.h>
#include <net/tcp.h>

#define ACCEPTS_PER_TURN 64 /* so that a flood on one port does not starve the others */

static void listener_release(struct kref *kref)
{
	kfree(container_of(kref, struct swr_listener, kref));
}

void swr_listener_put(struct swr_listener *listener)
{
	kref_put(&listener->kref, listener_release);
}

/* ---- half-open connections --------------------------------------------------------------------------------------------- */

/* Accepting may have stopped for want of a place. Whoever closes the listener says so before it cancels the work. */
static void leave_locked(struct swr_listener *listener, struct swr_conn *conn)
{
	list_del_init(&conn->link);
	if (listener->nr_half_open-- == SWR_MAX_HALF_OPEN && !listener->closed)
		mod_delayed_work(swr_wq, &listener->work, 0);
}

static struct swr_conn *pop_oldest_locked(struct swr_listener *listener)
{
	struct swr_conn *conn = list_first_entry_or_null(&listener->half_open, struct swr_conn, link);

	if (conn)
		leave_locked(listener, conn);
	return conn;
}

/* With the list's reference. */
static struct swr_conn *pop_oldest(struct swr_listener *listener)
{
	struct swr_conn *conn;

	mutex_lock(&listener->lock);
	conn = pop_oldest_locked(listener);
	mutex_unlock(&listener->lock);
	return conn;
}

static bool unlink_half_open(struct swr_listener *listener, struct swr_conn *conn)
{
	if (list_empty(&conn->link))
		return false;
	leave_locked(listener, conn);
	return true;
}

void swr_listener_drop(struct swr_conn *conn)
{
	struct swr_listener *listener = conn->listener;
	bool listed;

	mutex_lock(&listener->lock);
	listed = unlink_half_open(listener, conn);
	mutex_unlock(&listener->lock);
	conn->listener = NULL;
	if (listed)
		swr_conn_put(conn);
	swr_listener_put(listener);
}

int swr_listener_request(struct swr_conn *conn, struct iw_cm_event *event)
{
	struct swr_listener *listener = conn->listener;
	int error = -ECONNABORTED;
	bool listed;

	mutex_lock(&listener->lock);
	listed = unlink_half_open(listener, conn);
	/* -ENOMEM: as many are undecided as the backlog allows. */
	if (!listener->closed)
		error = listener->cm_id->event_handler(listener->cm_id, event);
	mutex_unlock(&listener->lock);
	if (listed)
		swr_conn_put(conn);
	return error;
}

/* ---- accepting --------------------------------------------------------------------------------------------------------- */

/* A listener on [::] hands out IPv4 peers in IPv6 clothes; rdma_cm looks for the address as the interface has it. */
static void unmap(struct sockaddr_storage *addr)
{
	struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)addr;
	struct sockaddr_in v4 = { .sin_family = AF_INET };

	if (addr->ss_family != AF_INET6 || !ipv6_addr_v4mapped(&v6->sin6_addr))
		return;
	v4.sin_port = v6->sin6_port;
	v4.sin_addr.s_addr = v6->sin6_addr.s6_addr32[3];
	memset(addr, 0, sizeof(*addr));
	memcpy(addr, &v4, sizeof(v4));
}

/* It was accepted by a worker, but belongs to whoever listens. */
static void inherit_owner(const struct socket *listener, struct socket *sock)
{
	SOCK_INODE(sock)->i_uid = SOCK_INODE((struct socket *)listener)->i_uid;
	SOCK_INODE(sock)->i_gid = SOCK_INODE((struct socket *)listener)->i_gid;
	sock->sk->sk_uid = listener->sk->sk_uid;
}

static void take_connection(struct swr_listener *listener, struct socket *sock)
{
	struct swr_conn *conn = swr_conn_alloc(listener->dev);

	if (!conn) {
		sock_release(sock);
		return;
	}
	inherit_owner(listener->sock, sock);
	kernel_getsockname(sock, (struct sockaddr *)&conn->local);
	kernel_getpeername(sock, (struct sockaddr *)&conn->peer);
	unmap(&conn->local);
	unmap(&conn->peer);
	conn->same_host = swr_addr_same_host(&conn->local, &conn->peer);
	swrnic_mpa_respond_init(&conn->mpa, 0);
	swr_conn_set_deadline(conn, swrnic_mpa_deadline_ms(&conn->mpa));
	kref_get(&listener->kref);
	conn->listener = listener;

	mutex_lock(&conn->lock);
	conn->state = SWR_CONN_STARTUP;
	swr_conn_hook_socket(conn, sock, listener->saved_data_ready);
	mutex_lock(&listener->lock);
	swr_conn_get(conn);
	conn->since = jiffies;
	list_add_tail(&conn->link, &listener->half_open);
	listener->nr_half_open++;
	mutex_unlock(&listener->lock);
	mutex_unlock(&conn->lock);
	swr_conn_kick(conn);
	swr_conn_put(conn);
}

/*
 * A burst of honest peers waits its turn in TCP's backlog; silent ones hold a place for the grace time only. False: the work comes
 * again when the oldest may go, or another one has left.
 */
static bool make_room(struct swr_listener *listener)
{
	struct swr_conn *oldest = NULL;
	unsigned long age;
	bool room;

	mutex_lock(&listener->lock);
	room = listener->nr_half_open < SWR_MAX_HALF_OPEN;
	if (!room) {
		age = jiffies - list_first_entry(&listener->half_open, struct swr_conn, link)->since;
		room = age >= msecs_to_jiffies(SWR_HALF_OPEN_GRACE_MS);
		if (room)
			oldest = pop_oldest_locked(listener);
		else
			queue_delayed_work(swr_wq, &listener->work, msecs_to_jiffies(SWR_HALF_OPEN_GRACE_MS) - age);
	}
	mutex_unlock(&listener->lock);
	if (oldest) {
		swr_conn_fail(oldest, -ECONNABORTED);
		swr_conn_put(oldest);
	}
	return room;
}

static void accept_work(struct work_struct *work)
{
	struct swr_listener *listener = container_of(to_delayed_work(work), struct swr_listener, work);
	struct socket *sock;
	int i, error;

	for (i = 0; i < ACCEPTS_PER_TURN; i++) {
		if (!make_room(listener))
			return;
		error = kernel_accept(listener->sock, &sock, O_NONBLOCK);
		if (error == -ENFILE || error == -EMFILE || error == -ENOBUFS || error == -ENOMEM) {
			queue_delayed_work(swr_wq, &listener->work, HZ / 10);
			return;
		}
		if (error && error != -ECONNABORTED)
			return; /* nothing waits; or somebody with the right to has killed the socket (ss -K) */
		if (!error)
			take_connection(listener, sock);
	}
	queue_delayed_work(swr_wq, &listener->work, 0);
}

/* Sockets that wait to be accepted have this function too, but, by the flag, not the pointer. */
static void on_listener(struct sock *sk)
{
	struct swr_listener *listener;

	read_lock_bh(&sk->sk_callback_lock);
	rcu_read_lock(); /* the accessor wants it; what keeps the listener here is the callback lock */
	listener = rcu_dereference_sk_user_data(sk);
	if (listener && sk->sk_state == TCP_LISTEN)
		mod_delayed_work(swr_wq, &listener->work, 0);
	rcu_read_unlock();
	read_unlock_bh(&sk->sk_callback_lock);
}

static void hook(struct swr_listener *listener)
{
	struct sock *sk = listener->sock->sk;

	write_lock_bh(&sk->sk_callback_lock);
	listener->saved_data_ready = sk->sk_data_ready;
	__rcu_assign_sk_user_data_with_flags(sk, listener, SK_USER_DATA_NOCOPY);
	sk->sk_data_ready = on_listener;
	write_unlock_bh(&sk->sk_callback_lock);
}

static void unhook(struct swr_listener *listener)
{
	struct sock *sk = listener->sock->sk;

	write_lock_bh(&sk->sk_callback_lock);
	rcu_assign_sk_user_data(sk, NULL);
	sk->sk_data_ready = listener->saved_data_ready;
	write_unlock_bh(&sk->sk_callback_lock);
}

static struct swr_listener *listener_alloc(struct swr_device *dev)
{
	struct swr_listener *listener = kzalloc(sizeof(*listener), GFP_KERNEL_ACCOUNT);

	if (!listener)
		return NULL;
	kref_init(&listener->kref);
	mutex_init(&listener->lock);
	INIT_LIST_HEAD(&listener->half_open);
	INIT_DELAYED_WORK(&listener->work, accept_work);
	listener->dev = dev;
	return listener;
}

static int listen_on(struct swr_listener *listener)
{
	int error;

	hook(listener);
	error = kernel_listen(listener->sock, SWR_TCP_BACKLOG);
	if (!error)
		return 0;
	unhook(listener);
	cancel_delayed_work_sync(&listener->work);
	return error;
}

struct swr_listener *swr_listener_open(struct swr_device *dev, struct socket *sock)
{
	struct swr_listener *listener = listener_alloc(dev);
	int error;

	if (!listener)
		return ERR_PTR(-ENOMEM);
	listener->sock = sock;
	error = listen_on(listener);
	if (!error)
		return listener;
	swr_listener_put(listener);
	return ERR_PTR(error);
}

void swr_listener_close(struct swr_listener *listener)
{
	struct swr_conn *conn;

	mutex_lock(&listener->lock);
	WRITE_ONCE(listener->closed, true);
	mutex_unlock(&listener->lock);
	if (listener->sock) {
		unhook(listener);
		cancel_delayed_work_sync(&listener->work);
	}
	while ((conn = pop_oldest(listener))) {
		swr_conn_fail(conn, -ECONNABORTED);
		swr_conn_put(conn);
	}
	if (listener->sock)
		sock_release(listener->sock);
	listener->sock = NULL;
	swr_listener_put(listener);
}

/* ---- iw_cm ------------------------------------------------------------------------------------------------------------- */

/* A wildcard is meant for this interface alone: the next device may have the same port. */
static int bind_socket(struct swr_device *dev, struct iw_cm_id *cm_id, struct socket *sock)
{
	struct sockaddr_storage local = cm_id->m_local_addr;
	int error;

	sock_set_reuseaddr(sock->sk);
	if (local.ss_family == AF_INET6 && cm_id->afonly) {
		error = ip6_sock_set_v6only(sock->sk);
		if (error)
			return error;
	}
	if (swr_addr_is_any(&local)) {
		error = sock_bindtoindex(sock->sk, dev->netdev->ifindex, true);
		if (error)
			return error;
	}
	return kernel_bind(sock, (struct sockaddr_unsized *)&local, swr_addr_len(&local));
}

static int open_socket(struct swr_listener *listener)
{
	struct swr_device *dev = listener->dev;
	int error = swr_socket_create(dev, listener->cm_id->m_local_addr.ss_family, &listener->sock);

	if (error)
		return error;
	error = bind_socket(dev, listener->cm_id, listener->sock);
	if (!error)
		error = listen_on(listener);
	if (!error)
		return 0;
	sock_release(listener->sock);
	listener->sock = NULL;
	return error;
}

/* Sometimes under rdma_cm's global mutex, which a netdev notifier takes under rtnl: never take rtnl here. */
int swr_iw_create_listen(struct iw_cm_id *cm_id, int backlog)
{
	struct swr_device *dev = to_swr_device(cm_id->device);
	struct swr_listener *listener = listener_alloc(dev);
	int error;

	if (!listener)
		return -ENOMEM;
	listener->cm_id = cm_id;
	/*
	 * rdma_cm copies a wildcard listener to every device that it sees, and unless namespaces are exclusive that is every
	 * device. Nobody shall hear what arrives in another network namespace, nor take its port there: such a copy is deaf.
	 */
	if (!swr_cm_is_foreign(dev, cm_id))
		error = open_socket(listener);
	else
		error = swr_addr_is_any(&cm_id->m_local_addr) ? 0 : -EADDRNOTAVAIL;
	/* For a wildcard listener older than the device. An error would cost the device all of rdma_cm, silently. */
	if (error == -EADDRINUSE && swr_addr_is_any(&cm_id->m_local_addr) && !READ_ONCE(dev->registered)) {
		pr_info("%s: the listener on port %u does not hear it: taken\n", dev_name(&dev->ibdev.dev),
			be16_to_cpu(*swr_addr_port(&cm_id->m_local_addr)));
		error = 0;
	}
	if (error) {
		swr_listener_put(listener);
		return error;
	}
	cm_id->add_ref(cm_id);
	cm_id->provider_data = listener;
	return 0;
}

int swr_iw_destroy_listen(struct iw_cm_id *cm_id)
{
	struct swr_device *dev = to_swr_device(cm_id->device);
	struct swr_listener *listener = cm_id->provider_data;

	if (!listener)
		return -EINVAL;
	cm_id->provider_data = NULL;
	swr_listener_close(listener);
	swr_conns_kick(dev); /* those that nobody decides now */
	cm_id->rem_ref(cm_id);
	return 0;
}
