// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * A process that reports events and reads none: bounds DEVICE. The kernel keeps a handful per object, no event that matters is
 * lost, and after reading they come again.
 */
#include <fcntl.h>
#include <infiniband/verbs.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>

#include "event_file.h"
#include "swrnic-abi.h"

#define ROUNDS 1000

static void die(const char *what)
{
	fprintf(stderr, "bounds: %s\n", what);
	exit(1);
}

/* Reads what the channel has; returns how many events were of this CQ. */
static int drain(struct ibv_comp_channel *channel, const struct ibv_cq *wanted)
{
	struct pollfd pfd = { channel->fd, POLLIN, 0 };
	struct ibv_cq *cq;
	void *context;
	int count = 0;

	while (poll(&pfd, 1, 0) > 0) {
		if (ibv_get_cq_event(channel, &cq, &context))
			die("ibv_get_cq_event");
		ibv_ack_cq_events(cq, 1);
		count += cq == wanted;
	}
	return count;
}

static void completion_events(struct ibv_context *context, int fd)
{
	struct ibv_comp_channel *channel = ibv_create_comp_channel(context);
	struct ibv_cq *cq = channel ? ibv_create_cq(context, 4, NULL, channel, 0) : NULL;
	struct ibv_cq *other = cq ? ibv_create_cq(context, 4, NULL, channel, 0) : NULL;
	int i, count;

	if (!other)
		die("no CQs");
	for (i = 0; i < ROUNDS; i++)
		if (send_up(fd, SWRNIC_UP_COMP_POSTED, cq->handle, 0))
			die("COMP_POSTED was refused");
	if (send_up(fd, SWRNIC_UP_COMP_POSTED, other->handle, 0))
		die("COMP_POSTED for the other CQ was refused");
	if (poll(&(struct pollfd){ channel->fd, POLLIN, 0 }, 1, 0) != 1)
		die("the channel says nothing");
	count = drain(channel, cq);
	printf("%d completion events of %d\n", count, ROUNDS);
	if (count < 1 || count > 8)
		die("not a handful");
	for (i = 0; i < 3; i++)
		if (send_up(fd, SWRNIC_UP_COMP_POSTED, other->handle, 0) || drain(channel, other) != 1)
			die("an event was lost");
	ibv_destroy_cq(other);
	ibv_destroy_cq(cq);
	ibv_destroy_comp_channel(channel);
}

static int drain_async(struct ibv_context *context)
{
	struct pollfd pfd = { context->async_fd, POLLIN, 0 };
	struct ibv_async_event event;
	int count = 0;

	while (poll(&pfd, 1, 0) > 0 && !ibv_get_async_event(context, &event)) {
		ibv_ack_async_event(&event);
		count++;
	}
	return count;
}

/* To the beginning and back, so that each kind may be raised anew. */
static int raise_anew(struct ibv_qp *qp, int fd)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_RESET };

	if (ibv_modify_qp(qp, &attr, IBV_QP_STATE))
		die("modify to RESET");
	return send_up(fd, SWRNIC_UP_ASYNC_EVENT, qp->qp_num, IBV_EVENT_QP_FATAL);
}

static void async_events(struct ibv_context *context, int fd)
{
	struct ibv_pd *pd = ibv_alloc_pd(context);
	struct ibv_cq *cq = ibv_create_cq(context, 4, NULL, NULL, 0);
	struct ibv_qp_init_attr init = { .send_cq = cq, .recv_cq = cq, .cap = { 4, 4, 1, 1, 0 }, .qp_type = IBV_QPT_RC };
	struct ibv_qp *qp = pd && cq ? ibv_create_qp(pd, &init) : NULL;
	int i, taken = 0, count;

	if (!qp)
		die("no QP");
	for (i = 0; i < ROUNDS; i++)
		taken += !raise_anew(qp, fd);
	count = drain_async(context);
	printf("%d asynchronous events of %d, %d taken\n", count, ROUNDS, taken);
	if (count < 1 || count > 32 || count != taken)
		die("not a handful, or an event was lost");
	if (raise_anew(qp, fd) || drain_async(context) != 1)
		die("the next event was lost");
	ibv_destroy_qp(qp);
	ibv_destroy_cq(cq);
	ibv_dealloc_pd(pd);
}

/* As many as are announced to root, half of them to anybody else, no more; and all of them again when they have been given back. */
static void objects(struct ibv_context *context, int share)
{
	struct ibv_device_attr attr;
	struct ibv_pd **pds;
	int i, round;

	if (ibv_query_device(context, &attr) || attr.max_pd < 1 || attr.max_pd > 1000000)
		die("max_pd");
	pds = calloc(attr.max_pd, sizeof(*pds));
	for (round = 0; round < 2; round++) {
		for (i = 0; i < attr.max_pd / share; i++) {
			pds[i] = ibv_alloc_pd(context);
			if (!pds[i])
				die("fewer PDs than announced, or than half of them");
		}
		errno = 0;
		if (ibv_alloc_pd(context) || errno != ENOMEM)
			die("more PDs than announced, or than half of them");
		while (i--)
			ibv_dealloc_pd(pds[i]);
	}
	free(pds);
}

int main(int argc, char **argv)
{
	struct ibv_context *context = open_device(argc > 1 ? argv[1] : NULL);
	int fd = context ? find_event_file() : -1;

	if (fd < 0)
		die("no device or no event file");
	completion_events(context, fd);
	async_events(context, fd);
	objects(context, 1);
	ibv_close_device(context);
	if (setgid(1000) || setuid(1000))
		die("setuid");
	context = open_device(argv[1]);
	if (!context)
		die("no device for an ordinary user");
	objects(context, 2);
	ibv_close_device(context);
	return 0;
}
