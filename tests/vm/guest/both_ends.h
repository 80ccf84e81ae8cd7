/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Both ends of a connection in one process. Whatever fails ends the program, with a line that says what. */
#ifndef SWRNIC_GUEST_BOTH_ENDS_H
#define SWRNIC_GUEST_BOTH_ENDS_H

#include <arpa/inet.h>
#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>
#include <stdio.h>
#include <stdlib.h>

struct side {
	struct rdma_event_channel *channel;
	struct rdma_cm_id *id;
	struct ibv_pd *pd;
	struct ibv_cq *cq;
	struct ibv_mr *mr;
	char data[64];
};

static inline void die(const char *what)
{
	perror(what);
	exit(1);
}

static inline struct rdma_cm_id *expect(struct rdma_event_channel *channel, enum rdma_cm_event_type type)
{
	struct rdma_cm_event *event;
	struct rdma_cm_id *id;

	if (rdma_get_cm_event(channel, &event))
		die("event");
	if (event->event != type) {
		fprintf(stderr, "%s %d instead of %s\n", rdma_event_str(event->event), event->status, rdma_event_str(type));
		exit(1);
	}
	id = event->id;
	rdma_ack_cm_event(event);
	return id;
}

static inline void open_side(struct side *side)
{
	side->channel = rdma_create_event_channel();
	if (!side->channel || rdma_create_id(side->channel, &side->id, NULL, RDMA_PS_TCP))
		die("id");
}

/* A QP with its queue of completions, and one receive that is posted. */
static inline void equip(struct side *side)
{
	struct ibv_qp_init_attr attr = { .cap = { 4, 4, 1, 1, 0 }, .qp_type = IBV_QPT_RC, .sq_sig_all = 1 };
	struct ibv_sge sge = { (uintptr_t)side->data, sizeof(side->data), 0 };
	struct ibv_recv_wr wr = { .sg_list = &sge, .num_sge = 1 }, *bad;

	side->pd = ibv_alloc_pd(side->id->verbs);
	side->cq = ibv_create_cq(side->id->verbs, 8, NULL, NULL, 0);
	if (!side->pd || !side->cq)
		die("objects");
	side->mr = ibv_reg_mr(side->pd, side->data, sizeof(side->data), IBV_ACCESS_LOCAL_WRITE);
	attr.send_cq = attr.recv_cq = side->cq;
	if (!side->mr || rdma_create_qp(side->id, side->pd, &attr))
		die("qp");
	sge.lkey = side->mr->lkey;
	if (ibv_post_recv(side->id->qp, &wr, &bad))
		die("receive");
}

/* ESTABLISHED on both sides. The port of sin is not 0: rdma_cm would draw a number of its own, that TCP may still have in
 * TIME_WAIT. */
static inline void connect_both(struct sockaddr_in sin, struct side *listener, struct side *client, struct side *server)
{
	struct rdma_conn_param param = { .responder_resources = 1, .initiator_depth = 1 };

	open_side(listener);
	if (rdma_bind_addr(listener->id, (struct sockaddr *)&sin) || rdma_listen(listener->id, 4))
		die("listen");
	open_side(client);
	if (rdma_resolve_addr(client->id, NULL, (struct sockaddr *)&sin, 2000))
		die("address");
	expect(client->channel, RDMA_CM_EVENT_ADDR_RESOLVED);
	if (rdma_resolve_route(client->id, 2000))
		die("route");
	expect(client->channel, RDMA_CM_EVENT_ROUTE_RESOLVED);
	equip(client);
	if (rdma_connect(client->id, &param))
		die("connect");
	server->id = expect(listener->channel, RDMA_CM_EVENT_CONNECT_REQUEST);
	server->channel = rdma_create_event_channel();
	if (!server->channel || rdma_migrate_id(server->id, server->channel))
		die("migrate");
	equip(server);
	if (rdma_accept(server->id, &param))
		die("accept");
	expect(client->channel, RDMA_CM_EVENT_ESTABLISHED);
	expect(server->channel, RDMA_CM_EVENT_ESTABLISHED);
}

/* Whatever of it is there. An id that has gone already is NULL. */
static inline void close_side(struct side *side)
{
	if (side->id && side->id->qp)
		rdma_destroy_qp(side->id);
	if (side->mr)
		ibv_dereg_mr(side->mr);
	if (side->cq)
		ibv_destroy_cq(side->cq);
	if (side->pd)
		ibv_dealloc_pd(side->pd);
	if (side->id)
		rdma_destroy_id(side->id);
	rdma_destroy_event_channel(side->channel);
}

#endif /* SWRNIC_GUEST_BOTH_ENDS_H */
