// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* TCP and MPA startup: sockets that wake the connection's work, and the octets that it moves. Nothing here waits. */
#include "startup.h"

#include <linux/tcp.h>
#include <net/tcp.h>

/* ---- sockets ----------------------------------------------------------------------------------------------------------- */

/*
 * The device's namespace, with a reference, or NULL when it goes away. Who finds `leaving` unset under RCU comes before the grace
 * period that follows the interface's removal, so the namespace is still there; but it may be dying already, and then has no
 * references to give.
 */
struct net *swr_device_net(struct swr_device *dev)
{
	struct net *net = NULL;

	rcu_read_lock();
	if (!READ_ONCE(dev->leaving) && dev_net(dev->netdev) == dev->net)
		net = maybe_get_net(dev_net(dev->netdev));
	rcu_read_unlock();
	return net;
}

/*
 * In the caller's context, so that owner, control group and security label are its own; and holding the network namespace, as a
 * socket must that goes to a process.
 */
int swr_socket_of_type(struct swr_device *dev, int family, int type, struct socket **sockp)
{
	struct net *net;
	int error;

	if (family != AF_INET && family != AF_INET6)
		return -EAFNOSUPPORT;
	net = swr_device_net(dev);
	if (!net)
		return -ENODEV;
	error = __sock_create(net, family, type, type == SOCK_STREAM ? IPPROTO_TCP : IPPROTO_UDP, sockp, 0);
	put_net(net);
	if (error)
		return error;
	(*sockp)->sk->sk_allocation = GFP_KERNEL;
	if (type != SOCK_STREAM)
		return 0;
	tcp_sock_set_nodelay((*sockp)->sk);
	sock_set_keepalive((*sockp)->sk);
	return 0;
}

int swr_socket_create(struct swr_device *dev, int family, struct socket **sockp)
{
	return swr_socket_of_type(dev, family, SOCK_STREAM, sockp);
}

static void on_socket(struct sock *sk)
{
	struct swr_conn *conn;

	read_lock_bh(&sk->sk_callback_lock);
	conn = sk->sk_user_data;
	if (conn)
		swr_conn_kick(conn);
	read_unlock_bh(&sk->sk_callback_lock);
}

/* inherited_data_ready: of an accepted socket, whose own is its listener's. */
void swr_conn_hook_socket(struct swr_conn *conn, struct socket *sock, void (*inherited_data_ready)(struct sock *sk))
{
	struct sock *sk = sock->sk;

	conn->sock = sock;
	tcp_sock_set_user_timeout(sk, min_t(u32, conn->timeout_ms, INT_MAX));
	write_lock_bh(&sk->sk_callback_lock);
	conn->saved_data_ready = inherited_data_ready ? inherited_data_ready : sk->sk_data_ready;
	conn->saved_state_change = sk->sk_state_change;
	conn->saved_write_space = sk->sk_write_space;
	sk->sk_user_data = conn;
	sk->sk_data_ready = on_socket;
	sk->sk_state_change = on_socket;
	sk->sk_write_space = on_socket;
	write_unlock_bh(&sk->sk_callback_lock);
}

void swr_conn_unhook_socket(struct swr_conn *conn)
{
	struct sock *sk = conn->sock ? conn->sock->sk : NULL;

	if (!sk)
		return;
	write_lock_bh(&sk->sk_callback_lock);
	if (sk->sk_user_data == conn) {
		sk->sk_user_data = NULL;
		sk->sk_data_ready = conn->saved_data_ready;
		sk->sk_state_change = conn->saved_state_change;
		sk->sk_write_space = conn->saved_write_space;
	}
	write_unlock_bh(&sk->sk_callback_lock);
}

void swr_conn_close_socket(struct swr_conn *conn)
{
	if (conn->sock) {
		swr_conn_unhook_socket(conn);
		sock_release(conn->sock);
		conn->sock = NULL;
	}
	if (conn->spare) {
		sock_release(conn->spare);
		conn->spare = NULL;
	}
}

/* ---- connecting -------------------------------------------------------------------------------------------------------- */

/*
 * The port is the kernel's choice: rdma_cm's own numbers are not reserved with TCP. It is drawn when the peer is known, so that it
 * is none on which a connection to that peer still lingers; and what lingers of this one keeps no listener from the port.
 */
static int bind_to_address(struct socket *sock, struct sockaddr_storage *local)
{
	int error, on = 1;

	sock_set_reuseaddr(sock->sk);
	error = sock->ops->setsockopt(sock, SOL_IP, IP_BIND_ADDRESS_NO_PORT, KERNEL_SOCKPTR(&on), sizeof(on));
	if (error)
		return error;
	*swr_addr_port(local) = 0;
	return kernel_bind(sock, (struct sockaddr_unsized *)local, swr_addr_len(local));
}

int swr_conn_make_socket(struct swr_conn *conn, struct socket **sockp)
{
	struct sockaddr_storage local = conn->local;
	int error = swr_socket_create(conn->dev, conn->peer.ss_family, sockp);

	if (error)
		return error;
	if (local.ss_family != conn->peer.ss_family || swr_addr_is_any(&local)) {
		sock_set_reuseaddr((*sockp)->sk);
		return 0;
	}
	error = bind_to_address(*sockp, &local);
	if (error) {
		sock_release(*sockp);
		*sockp = NULL;
	}
	return error;
}

static void read_addresses(struct swr_conn *conn)
{
	struct sockaddr_storage local = {};

	if (kernel_getsockname(conn->sock, (struct sockaddr *)&local) > 0)
		conn->local = local;
}

/* A second call tells how the first one went, and completes it. */
void swr_conn_connect_locked(struct swr_conn *conn)
{
	int error = kernel_connect(conn->sock, (struct sockaddr_unsized *)&conn->peer, swr_addr_len(&conn->peer), O_NONBLOCK);

	if (error == -EINPROGRESS || error == -EALREADY)
		return;
	if (!error) {
		read_addresses(conn);
		/* TCP lets a socket that is bound to the port it connects to meet itself. Nobody listens there. */
		if (swr_addr_same_host(&conn->local, &conn->peer) && *swr_addr_port(&conn->local) == *swr_addr_port(&conn->peer))
			error = -ECONNREFUSED;
	}
	if (error) {
		swr_conn_startup_failed_locked(conn, error);
		return;
	}
	conn->state = SWR_CONN_STARTUP;
	swr_conn_drive_locked(conn);
}

/* RFC 6581 10: a Responder of revision 1 closes on an enhanced Request. One more connection, within the same deadline. */
static bool retry_unenhanced(struct swr_conn *conn)
{
	struct socket *spare = conn->spare;

	if (!spare || !swrnic_mpa_retry_rev1(&conn->mpa))
		return false;
	conn->terms.rev = 1;
	conn->terms.p2p = 0;
	if (swrnic_mpa_initiate(&conn->mpa, &conn->terms, conn->private_data, conn->private_len))
		return false;
	conn->spare = NULL;
	swr_conn_close_socket(conn);
	swr_conn_hook_socket(conn, spare, NULL);
	conn->state = SWR_CONN_CONNECTING;
	swr_conn_connect_locked(conn);
	return true;
}

/* ---- frames ------------------------------------------------------------------------------------------------------------ */

void swr_conn_mpa_event_locked(struct swr_conn *conn, enum swrnic_mpa_event event)
{
	switch (event) {
	case SWRNIC_MPA_EV_NONE:
		break;
	case SWRNIC_MPA_EV_REQUEST:
		swr_conn_request_locked(conn);
		break;
	case SWRNIC_MPA_EV_ESTABLISHED:
		swr_conn_full_operation_locked(conn, false);
		break;
	case SWRNIC_MPA_EV_TERMINATE:
		swr_conn_full_operation_locked(conn, true);
		break;
	case SWRNIC_MPA_EV_REJECTED:
		swr_conn_startup_failed_locked(conn, -ECONNREFUSED);
		break;
	case SWRNIC_MPA_EV_REJECT_SENT:
		kernel_sock_shutdown(conn->sock, SHUT_WR);
		swr_conn_fail_locked(conn, -ECONNREFUSED);
		break;
	case SWRNIC_MPA_EV_FAILED:
		pr_debug("peer %pISpc: startup failed: %s\n", &conn->peer, swrnic_mpa_reason_name(swrnic_mpa_failure(&conn->mpa)));
		if (!retry_unenhanced(conn))
			swr_conn_startup_failed_locked(conn, swrnic_failure_errno(swrnic_mpa_failure_class(&conn->mpa)));
		break;
	}
}

static enum swrnic_mpa_event send_some(struct swr_conn *conn, bool *moved)
{
	struct msghdr msg = { .msg_flags = MSG_DONTWAIT | MSG_NOSIGNAL };
	struct kvec vec;
	u32 len;
	int sent;

	vec.iov_base = (void *)swrnic_mpa_out(&conn->mpa, &len);
	vec.iov_len = len;
	if (!len)
		return SWRNIC_MPA_EV_NONE;
	sent = kernel_sendmsg(conn->sock, &msg, &vec, 1, len);
	if (sent == -EAGAIN)
		return SWRNIC_MPA_EV_NONE;
	*moved = true;
	return sent > 0 ? swrnic_mpa_sent(&conn->mpa, sent) : swrnic_mpa_reset(&conn->mpa);
}

/* Never an octet beyond the frame: what follows it is the engine's. */
static enum swrnic_mpa_event receive_some(struct swr_conn *conn, bool *moved)
{
	struct msghdr msg = { .msg_flags = MSG_DONTWAIT | MSG_NOSIGNAL };
	u32 want = swrnic_mpa_want(&conn->mpa);
	struct kvec vec;
	int got;

	if (!want)
		return SWRNIC_MPA_EV_NONE;
	vec.iov_base = swrnic_mpa_in(&conn->mpa);
	vec.iov_len = want;
	got = kernel_recvmsg(conn->sock, &msg, &vec, 1, want, msg.msg_flags);
	if (got == -EAGAIN)
		return SWRNIC_MPA_EV_NONE;
	*moved = true;
	if (got > 0)
		return swrnic_mpa_received(&conn->mpa, got);
	return got ? swrnic_mpa_reset(&conn->mpa) : swrnic_mpa_eof(&conn->mpa);
}

/* Until the socket or the machine has nothing more to give; either may end the connection. */
void swr_conn_drive_locked(struct swr_conn *conn)
{
	enum swrnic_mpa_event event;
	bool moved = true;

	while (moved && conn->state == SWR_CONN_STARTUP) {
		moved = false;
		event = send_some(conn, &moved);
		if (event == SWRNIC_MPA_EV_NONE && !moved)
			event = receive_some(conn, &moved);
		swr_conn_mpa_event_locked(conn, event);
	}
}

/* While the ULP decides, only the peer's end matters; what it says waits. */
void swr_conn_check_peer_locked(struct swr_conn *conn)
{
	struct sock *sk = conn->sock->sk;

	if (READ_ONCE(sk->sk_err) || READ_ONCE(sk->sk_state) == TCP_CLOSE)
		swr_conn_mpa_event_locked(conn, swrnic_mpa_reset(&conn->mpa));
	else if (READ_ONCE(sk->sk_shutdown) & RCV_SHUTDOWN)
		swr_conn_mpa_event_locked(conn, swrnic_mpa_eof(&conn->mpa));
}

/* Without waiting for the peer to read it: iw_cm has one queue for the whole host. */
void swr_conn_reject_locked(struct swr_conn *conn, const void *private_data, u32 len)
{
	swr_conn_decided_locked(conn);
	if (swrnic_mpa_reject(&conn->mpa, private_data, len)) {
		swr_conn_fail_locked(conn, -EINVAL);
		return;
	}
	conn->state = SWR_CONN_STARTUP;
	swr_conn_set_deadline(conn, SWR_STARTUP_TIMEOUT_MS);
	swr_conn_kick(conn);
}
