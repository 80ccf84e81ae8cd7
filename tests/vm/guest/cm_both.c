// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Both ends of a connection in one process, one message over it, and its end: cm_both ADDRESS [ROUNDS]. Small, for many rounds. */
#include <arpa/inet.h>
#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct side {
	struct rdma_event_channel *channel;
	struct rdma_cm_id *id;
	struct ibv_pd *pd;
	struct ibv_cq *cq;
	struct ibv_mr *mr;
	char data[64];
};

static void die(const char *what)
{
	perror(what);
	exit(1);
}

static struct rdma_cm_id *expect(struct rdma_event_channel *channel, enum rdma_cm_event_type type)
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

static void open_side(struct side *side)
{
	side->channel = rdma_create_event_channel();
	if (!side->channel || rdma_create_id(side->channel, &side->id, NULL, RDMA_PS_TCP))
		die("id");
}

static void equip(struct side *side)
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

static void say(struct side *side, const char *text)
{
	struct ibv_sge sge = { (uintptr_t)side->data, strlen(text) + 1, side->mr->lkey };
	struct ibv_send_wr wr = { .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND }, *bad;

	memcpy(side->data, text, sge.length);
	if (ibv_post_send(side->id->qp, &wr, &bad))
		die("send");
}

static void completed(struct side *side)
{
	struct ibv_wc wc;
	int got;

	while (!(got = ibv_poll_cq(side->cq, 1, &wc)))
		;
	if (got < 0 || wc.status) {
		fprintf(stderr, "completion: %s\n", got < 0 ? "none" : ibv_wc_status_str(wc.status));
		exit(1);
	}
}

static void close_side(struct side *side)
{
	if (side->id->qp)
		rdma_destroy_qp(side->id);
	if (side->mr)
		ibv_dereg_mr(side->mr);
	if (side->cq)
		ibv_destroy_cq(side->cq);
	if (side->pd)
		ibv_dealloc_pd(side->pd);
	rdma_destroy_id(side->id);
	rdma_destroy_event_channel(side->channel);
}

static void one_round(struct sockaddr_in sin)
{
	struct rdma_conn_param param = { .responder_resources = 1, .initiator_depth = 1 };
	struct side listener = {}, client = {}, server = {};

	open_side(&listener);
	if (rdma_bind_addr(listener.id, (struct sockaddr *)&sin) || rdma_listen(listener.id, 4))
		die("listen");
	open_side(&client);
	if (rdma_resolve_addr(client.id, NULL, (struct sockaddr *)&sin, 2000))
		die("address");
	expect(client.channel, RDMA_CM_EVENT_ADDR_RESOLVED);
	if (rdma_resolve_route(client.id, 2000))
		die("route");
	expect(client.channel, RDMA_CM_EVENT_ROUTE_RESOLVED);
	equip(&client);
	if (rdma_connect(client.id, &param))
		die("connect");
	server.id = expect(listener.channel, RDMA_CM_EVENT_CONNECT_REQUEST);
	server.channel = rdma_create_event_channel();
	if (!server.channel || rdma_migrate_id(server.id, server.channel))
		die("migrate");
	equip(&server);
	if (rdma_accept(server.id, &param))
		die("accept");
	expect(client.channel, RDMA_CM_EVENT_ESTABLISHED);
	expect(server.channel, RDMA_CM_EVENT_ESTABLISHED);
	say(&client, "from one end to the other");
	completed(&client);
	completed(&server);
	if (strcmp(server.data, "from one end to the other"))
		die("what arrived");
	rdma_disconnect(client.id);
	expect(client.channel, RDMA_CM_EVENT_DISCONNECTED);
	expect(server.channel, RDMA_CM_EVENT_DISCONNECTED);
	close_side(&client);
	close_side(&server);
	close_side(&listener);
}

int main(int argc, char **argv)
{
	/* Not 0: rdma_cm would draw a number of its own, that TCP may still have in TIME_WAIT. */
	struct sockaddr_in sin = { .sin_family = AF_INET, .sin_port = htons(7190) };
	int rounds = argc > 2 ? atoi(argv[2]) : 1;

	if (argc < 2 || inet_pton(AF_INET, argv[1], &sin.sin_addr) != 1)
		return 2;
	alarm(300);
	while (rounds--)
		one_round(sin);
	return 0;
}
