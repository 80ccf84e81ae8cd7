// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * UD QPs: a UDP socket for each, whose port its number names, and one for each group that it is attached to. They are made in the
 * context of whoever asks, so they are its own as those of its connections are, and wait here until its process reads QP_DATAGRAMS.
 * Nothing here sends or receives.
 */
#include "path.h"
#include "startup.h"

#include <linux/file.h>
#include <linux/in.h>
#include <linux/in6.h>
#include <linux/pid.h>
#include <linux/random.h>
#include <linux/sched.h>

/* A socket that the process has not read yet. Counted among the startups, since none of its limits know of it. */
struct swr_datagrams {
	struct list_head link; /* swr_qp.datagrams */
	struct socket *sock;
	bool is_group;
	union ib_gid group;
};

/* ---- sockets ----------------------------------------------------------------------------------------------------------- */

/* Who may not go beyond the limit for users gets that. */
static void widen(struct socket *sock)
{
	int room = SWR_DATAGRAM_ROOM;

	if (sock_setsockopt(sock, SOL_SOCKET, SO_RCVBUFFORCE, KERNEL_SOCKPTR(&room), sizeof(room)))
		sock_setsockopt(sock, SOL_SOCKET, SO_RCVBUF, KERNEL_SOCKPTR(&room), sizeof(room));
}

/* Each datagram tells where it came to: the engine shows that in the GRH. */
static int fit(struct socket *sock)
{
	int on = 1;

	widen(sock);
	if (sock->sk->sk_family == AF_INET6)
		return sock->ops->setsockopt(sock, SOL_IPV6, IPV6_RECVPKTINFO, KERNEL_SOCKPTR(&on), sizeof(on));
	return sock->ops->setsockopt(sock, SOL_IP, IP_PKTINFO, KERNEL_SOCKPTR(&on), sizeof(on));
}

static int join(struct socket *sock, const struct sockaddr_storage *group, int ifindex)
{
	struct ipv6_mreq v6 = { .ipv6mr_ifindex = ifindex };
	struct ip_mreqn v4 = { .imr_ifindex = ifindex };

	if (group->ss_family == AF_INET6) {
		v6.ipv6mr_multiaddr = ((const struct sockaddr_in6 *)group)->sin6_addr;
		return sock->ops->setsockopt(sock, SOL_IPV6, IPV6_ADD_MEMBERSHIP, KERNEL_SOCKPTR(&v6), sizeof(v6));
	}
	v4.imr_multiaddr = ((const struct sockaddr_in *)group)->sin_addr;
	return sock->ops->setsockopt(sock, SOL_IP, IP_ADD_MEMBERSHIP, KERNEL_SOCKPTR(&v4), sizeof(v4));
}

/* Bound to the group's own address: what comes to the port otherwise is not for its members. */
static int open_group(struct swr_device *dev, const union ib_gid *gid, struct socket **sockp)
{
	struct sockaddr_storage group;
	struct socket *sock;
	int error;

	if (!swr_path_group(dev, gid, &group))
		return -EINVAL;
	error = swr_socket_of_type(dev, group.ss_family, SOCK_DGRAM, &sock);
	if (error)
		return error;
	sock_set_reuseaddr(sock->sk);
	*swr_addr_port(&group) = cpu_to_be16(SWR_GROUP_PORT);
	error = kernel_bind(sock, (struct sockaddr_unsized *)&group, swr_addr_len(&group));
	if (!error)
		error = join(sock, &group, dev->netdev->ifindex);
	if (!error)
		error = fit(sock);
	if (error)
		sock_release(sock);
	else
		*sockp = sock;
	return error;
}

/* ---- those that wait to be read ---------------------------------------------------------------------------------------- */

static void drop(struct swr_qp *qp, struct swr_datagrams *waiting)
{
	if (waiting->sock)
		sock_release(waiting->sock);
	kfree(waiting);
	swr_count_down(qp->ibqp.device, SWR_STARTUPS, qp->file->user);
}

/* From here on the socket is the QP's, and goes with it, if this returns 0. */
static int keep(struct swr_qp *qp, struct socket *sock, const union ib_gid *group)
{
	struct swr_datagrams *waiting;
	int error = swr_count_up(qp->ibqp.device, SWR_STARTUPS, qp->file->user);

	if (error)
		return error;
	waiting = kzalloc(sizeof(*waiting), GFP_KERNEL_ACCOUNT);
	if (!waiting) {
		swr_count_down(qp->ibqp.device, SWR_STARTUPS, qp->file->user);
		return -ENOMEM;
	}
	waiting->sock = sock;
	waiting->is_group = group;
	if (group)
		waiting->group = *group;
	spin_lock_irq(&qp->lock);
	list_add_tail(&waiting->link, &qp->datagrams);
	spin_unlock_irq(&qp->lock);
	return 0;
}

/* The next one, or that of a group; NULL: there is none. more: whether others wait behind it. */
static struct swr_datagrams *take(struct swr_qp *qp, const union ib_gid *group, bool *more)
{
	struct swr_datagrams *waiting, *found = NULL;

	spin_lock_irq(&qp->lock);
	list_for_each_entry(waiting, &qp->datagrams, link) {
		if (!group || (waiting->is_group && !memcmp(&waiting->group, group, sizeof(*group)))) {
			found = waiting;
			list_del(&found->link);
			break;
		}
	}
	if (more)
		*more = !list_empty(&qp->datagrams);
	spin_unlock_irq(&qp->lock);
	return found;
}

void swr_datagrams_free(struct swr_qp *qp)
{
	struct swr_datagrams *waiting;

	while ((waiting = take(qp, NULL, NULL)))
		drop(qp, waiting);
}

static int give_file(struct swr_datagrams *waiting, struct swrnic_datagrams *record, struct file **fp)
{
	int fd = get_unused_fd_flags(O_CLOEXEC);

	if (fd < 0)
		return fd;
	*fp = sock_alloc_file(waiting->sock, O_NONBLOCK | O_CLOEXEC, NULL);
	waiting->sock = NULL; /* it went with the file, or with the error */
	if (IS_ERR(*fp)) {
		put_unused_fd(fd);
		return PTR_ERR(*fp);
	}
	record->fd = fd;
	record->is_group = waiting->is_group;
	memcpy(record->group, waiting->group.raw, sizeof(record->group));
	return 0;
}

bool swr_datagrams_hand_over(struct swr_qp *qp, struct swrnic_datagrams *record, struct file **fp)
{
	struct swr_datagrams *waiting;
	bool more = false;
	int error;

	waiting = take(qp, NULL, &more);
	if (!waiting)
		return false;
	error = give_file(waiting, record, fp);
	drop(qp, waiting); /* with its own limit it loses its own socket */
	if (more)
		swr_file_tell(qp, SWR_PENDING_DATAGRAMS);
	return !error;
}

/* ---- verbs ------------------------------------------------------------------------------------------------------------- */

/* TCP's ports and UDP's are not the same: another QP may have the port, but not the number. */
static int number(struct swr_qp *qp, u16 port)
{
	u32 first = get_random_u32() % SWR_QPN_SLOTS, i;
	int error = -EBUSY;

	for (i = 0; i < SWR_QPN_SLOTS && error == -EBUSY; i++)
		error = swr_number_insert(qp, swrnic_qpn_of(port, first + i));
	return error == -EBUSY ? -ENOMEM : error;
}

/* The process is about to take a socket for a descriptor. If it has none left, it is told so here, where it asks. */
static int may_take_socket(const struct swr_qp *qp)
{
	int fd;

	if (qp->kernel || qp->file->owner != task_tgid(current) || !swr_is_in_namespace(qp->dev))
		return -EINVAL;
	fd = get_unused_fd_flags(O_CLOEXEC);
	if (fd < 0)
		return fd;
	put_unused_fd(fd);
	return 0;
}

int swr_datagrams_create(struct swr_qp *qp)
{
	struct socket *sock;
	u16 port;
	int error = may_take_socket(qp);

	if (error)
		return error;
	sock = swr_bound_socket(qp->dev, SOCK_DGRAM, &port);
	if (!sock)
		return -ENOMEM;
	error = fit(sock);
	if (!error)
		error = keep(qp, sock, NULL);
	if (error) {
		sock_release(sock);
		return error;
	}
	error = number(qp, port);
	if (error)
		swr_datagrams_free(qp);
	return error;
}

/* The core keeps what a QP is attached to, and detaches it from that when it goes. */
int swr_attach_mcast(struct ib_qp *ibqp, union ib_gid *gid, u16 lid)
{
	struct swr_qp *qp = to_swr_qp(ibqp);
	struct socket *sock;
	int error = may_take_socket(qp);

	if (!error)
		error = swr_count_up(ibqp->device, SWR_GROUPS, qp->file->user);
	if (error)
		return error;
	error = open_group(qp->dev, gid, &sock);
	if (error)
		goto uncount;
	error = keep(qp, sock, gid);
	if (error)
		goto release;
	swr_file_tell(qp, SWR_PENDING_DATAGRAMS);
	return 0;
release:
	sock_release(sock);
uncount:
	swr_count_down(ibqp->device, SWR_GROUPS, qp->file->user);
	return error;
}

/* The provider closes the socket, if it has read of it. */
int swr_detach_mcast(struct ib_qp *ibqp, union ib_gid *gid, u16 lid)
{
	struct swr_qp *qp = to_swr_qp(ibqp);
	struct swr_datagrams *waiting = take(qp, gid, NULL);

	if (waiting)
		drop(qp, waiting);
	swr_count_down(ibqp->device, SWR_GROUPS, qp->file->user);
	return 0;
}
