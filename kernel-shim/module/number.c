// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * QP numbers, and the TCP ports that they name (kernel-shim/policy/swrnic_wiring.h). A user's processes share ports: one is bound,
 * so that nobody else gets it, for each 256 of their QPs, and listens only when the first of them is wired as the end that is
 * called. What a user may hold of them is bounded by the QPs that it may hold.
 */
#include "conn.h"
#include "listen.h"
#include "startup.h"

#include <linux/bitmap.h>
#include <linux/nsproxy.h>
#include <linux/random.h>

struct swr_port {
	struct list_head link; /* swr_user.ports; all that follows is under swr_user.ports_lock, but the number */
	u16 number;
	struct socket *sock;	       /* bound */
	struct swr_listener *listener; /* NULL: it does not listen */
	DECLARE_BITMAP(taken, SWR_QPN_SLOTS);
};

/* ---- ports ------------------------------------------------------------------------------------------------------------- */

/* To all addresses of the namespace, IPv4 and IPv6. */
static int bind_everywhere(struct socket *sock, int family)
{
	struct sockaddr_storage any = { .ss_family = family };
	int error = 0, off = 0;

	if (family == AF_INET6)
		error = sock->ops->setsockopt(sock, SOL_IPV6, IPV6_V6ONLY, KERNEL_SOCKPTR(&off), sizeof(off));
	return error ? error : kernel_bind(sock, (struct sockaddr_unsized *)&any, swr_addr_len(&any));
}

struct socket *swr_bound_socket(struct swr_device *dev, int type, u16 *port)
{
	static const int families[] = { AF_INET6, AF_INET }; /* a host may have no IPv6 */
	struct sockaddr_storage own = {};
	struct socket *sock;
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(families); i++) {
		if (swr_socket_of_type(dev, families[i], type, &sock))
			continue;
		if (!bind_everywhere(sock, families[i]) && kernel_getsockname(sock, (struct sockaddr *)&own) > 0) {
			*port = be16_to_cpu(*swr_addr_port(&own));
			return sock;
		}
		sock_release(sock);
	}
	return NULL;
}

static struct swr_port *open_port(struct swr_device *dev)
{
	struct swr_port *port = kzalloc(sizeof(*port), GFP_KERNEL_ACCOUNT);

	if (!port)
		return NULL;
	port->sock = swr_bound_socket(dev, SOCK_STREAM, &port->number);
	if (port->sock)
		return port;
	kfree(port);
	return NULL;
}

static void close_port(struct swr_port *port)
{
	if (port->listener)
		swr_listener_close(port->listener); /* and the socket with it */
	else
		sock_release(port->sock);
	kfree(port);
}

/* ---- numbers ----------------------------------------------------------------------------------------------------------- */

int swr_number_insert(struct swr_qp *qp, u32 qpn)
{
	qp->ibqp.qp_num = qpn;
	return xa_insert_irq(&qp->dev->qps, qpn, qp, GFP_KERNEL_ACCOUNT);
}

/* Random, so that nobody guesses a neighbour's; 0 and 1 have a meaning of their own elsewhere. */
static int number_at_random(struct swr_qp *qp)
{
	unsigned int tries;
	int error;
	u32 qpn;

	for (tries = 0; tries < 1000; tries++) {
		qpn = get_random_u32() & 0xffffff;
		if (qpn < 2)
			continue;
		error = swr_number_insert(qp, qpn);
		if (error != -EBUSY)
			return error;
	}
	return -ENOMEM;
}

/* -EBUSY: the port has no slot left. */
static int take_slot(struct swr_port *port, struct swr_qp *qp)
{
	unsigned int first = get_random_u32() % SWR_QPN_SLOTS, i, slot;
	int error;

	for (i = 0; i < SWR_QPN_SLOTS; i++) {
		slot = (first + i) % SWR_QPN_SLOTS;
		if (test_bit(slot, port->taken))
			continue;
		/* One that was numbered at random, or names a UDP port, may have it. */
		error = swr_number_insert(qp, swrnic_qpn_of(port->number, slot));
		if (error == -EBUSY)
			continue;
		if (error)
			return error;
		__set_bit(slot, port->taken);
		qp->port = port;
		return 0;
	}
	return -EBUSY;
}

static int number_at_new_port(struct swr_qp *qp, struct swr_user *user)
{
	struct swr_port *port = open_port(qp->dev);
	int error;

	if (!port)
		return -EBUSY;
	error = take_slot(port, qp);
	if (error)
		close_port(port);
	else
		list_add(&port->link, &user->ports);
	return error;
}

static int number_at_port(struct swr_qp *qp)
{
	struct swr_user *user = qp->file->user;
	struct swr_port *port;
	int error = -EBUSY;

	mutex_lock(&user->ports_lock);
	list_for_each_entry(port, &user->ports, link) {
		error = take_slot(port, qp);
		if (error != -EBUSY)
			break;
	}
	if (error == -EBUSY)
		error = number_at_new_port(qp, user);
	mutex_unlock(&user->ports_lock);
	return error;
}

bool swr_is_in_namespace(const struct swr_device *dev)
{
	return current->nsproxy && current->nsproxy->net_ns == dev->net;
}

/*
 * A kernel's QP is not wired by hand. Neither is one of a process in another network namespace, which gets no port in the device's.
 * Where there is no port left, the QP is good enough for rdma_cm, and to be wired to one that can be called.
 */
int swr_number_qp(struct swr_qp *qp)
{
	int error = -EBUSY;

	if (!qp->kernel && swr_is_in_namespace(qp->dev))
		error = number_at_port(qp);
	return error == -EBUSY ? number_at_random(qp) : error;
}

/* Nobody finds the QP by its number any more, nor has a reference. */
void swr_number_free(struct swr_qp *qp)
{
	struct swr_port *port = qp->port;
	struct swr_user *user;
	bool empty;

	if (!port)
		return;
	qp->port = NULL;
	user = qp->file->user;
	mutex_lock(&user->ports_lock);
	__clear_bit(qp->ibqp.qp_num % SWR_QPN_SLOTS, port->taken);
	empty = bitmap_empty(port->taken, SWR_QPN_SLOTS);
	if (empty)
		list_del(&port->link);
	mutex_unlock(&user->ports_lock);
	if (empty)
		close_port(port);
}

/* From now on the QP's port hears calls. */
int swr_number_listen(struct swr_qp *qp)
{
	struct swr_port *port = qp->port;
	struct swr_user *user = qp->file->user;
	struct swr_listener *listener;
	int error = 0;

	if (!port)
		return -EADDRNOTAVAIL;
	mutex_lock(&user->ports_lock);
	if (!port->listener) {
		listener = swr_listener_open(qp->dev, port->sock);
		error = PTR_ERR_OR_ZERO(listener);
		if (!error)
			WRITE_ONCE(port->listener, listener);
	}
	mutex_unlock(&user->ports_lock);
	return error;
}

/* Has the call come in by the QP's own port? The caller has a reference to the QP. */
bool swr_number_is_of(const struct swr_qp *qp, const struct swr_listener *listener)
{
	return qp->port && READ_ONCE(qp->port->listener) == listener;
}
