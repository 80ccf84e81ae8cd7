// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * A patient server and its client, on rdma_cm and nothing else.
 *   cm_peer serve ADDRESS PORT		accepts whoever comes, returns his private data, survives whatever happens to him
 *   cm_peer call ADDRESS PORT LENGTH	connects with LENGTH octets of private data, wants them back, disconnects
 *   cm_peer wait ADDRESS PORT		connects, says "established", waits until the other side ends it
 *   cm_peer hear ADDRESS PORT LENGTH	connects, says "accepted" or "rejected" and what private data came with it
 */
#include <arpa/inet.h>
#include <errno.h>
#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void make_qp(struct rdma_cm_id *id)
{
	struct ibv_qp_init_attr attr = { .cap = { 4, 4, 1, 1, 0 }, .qp_type = IBV_QPT_RC };

	if (rdma_create_qp(id, NULL, &attr)) {
		perror("rdma_create_qp");
		exit(1);
	}
}

static void forget(struct rdma_cm_id *id)
{
	if (id->qp)
		rdma_destroy_qp(id);
	rdma_destroy_id(id);
}

static int serve(struct rdma_event_channel *channel, struct rdma_cm_id *listener, struct sockaddr_in *sin)
{
	struct rdma_conn_param param = {};
	unsigned char private_data[256];
	struct rdma_cm_event *event;
	enum rdma_cm_event_type type;
	struct rdma_cm_id *id;

	if (rdma_bind_addr(listener, (struct sockaddr *)sin) || rdma_listen(listener, 0)) {
		perror("listen");
		return 1;
	}
	while (!rdma_get_cm_event(channel, &event)) {
		type = event->event;
		id = event->id;
		if (type == RDMA_CM_EVENT_CONNECT_REQUEST) {
			param.private_data_len = event->param.conn.private_data_len;
			memcpy(private_data, event->param.conn.private_data, param.private_data_len);
			param.private_data = private_data;
			param.responder_resources = param.initiator_depth = 1;
		}
		rdma_ack_cm_event(event);
		if (type == RDMA_CM_EVENT_CONNECT_REQUEST) {
			make_qp(id);
			if (rdma_accept(id, &param))
				forget(id);
		} else if (type != RDMA_CM_EVENT_ESTABLISHED && id != listener) {
			forget(id);
		}
	}
	return 1;
}

static struct rdma_cm_event *want(struct rdma_event_channel *channel, enum rdma_cm_event_type type)
{
	struct rdma_cm_event *event;

	if (rdma_get_cm_event(channel, &event))
		exit(1);
	if (event->event == type)
		return event;
	printf("%s (%d) instead of %s\n", rdma_event_str(event->event), event->status, rdma_event_str(type));
	exit(1);
}

static void fill(unsigned char *data, int length)
{
	int i;

	for (i = 0; i < length; i++)
		data[i] = i * 7 + 1;
}

static int connect_with(struct rdma_event_channel *channel, struct rdma_cm_id *id, struct sockaddr_in *sin, int length)
{
	struct rdma_conn_param param = { .responder_resources = 1, .initiator_depth = 1, .private_data_len = length };
	unsigned char private_data[256];

	fill(private_data, length);
	param.private_data = private_data;
	if (rdma_resolve_addr(id, NULL, (struct sockaddr *)sin, 2000))
		return 1;
	rdma_ack_cm_event(want(channel, RDMA_CM_EVENT_ADDR_RESOLVED));
	if (rdma_resolve_route(id, 2000))
		return 1;
	rdma_ack_cm_event(want(channel, RDMA_CM_EVENT_ROUTE_RESOLVED));
	make_qp(id);
	if (!rdma_connect(id, &param))
		return 0;
	perror("rdma_connect");
	return 1;
}

static int same_data(const struct rdma_cm_event *event)
{
	unsigned char wanted[256];

	fill(wanted, sizeof(wanted) - 1);
	return !event->param.conn.private_data_len ||
	       !memcmp(event->param.conn.private_data, wanted, event->param.conn.private_data_len);
}

static int call(struct rdma_event_channel *channel, struct rdma_cm_id *id, int length)
{
	struct rdma_cm_event *event = want(channel, RDMA_CM_EVENT_ESTABLISHED);

	if (event->param.conn.private_data_len != length || !same_data(event)) {
		printf("private data: %d of %d octets, or changed\n", event->param.conn.private_data_len, length);
		return 1;
	}
	rdma_ack_cm_event(event);
	rdma_disconnect(id);
	rdma_ack_cm_event(want(channel, RDMA_CM_EVENT_DISCONNECTED));
	forget(id);
	return 0;
}

static int wait_for_end(struct rdma_event_channel *channel, struct rdma_cm_id *id)
{
	rdma_ack_cm_event(want(channel, RDMA_CM_EVENT_ESTABLISHED));
	printf("established\n");
	fflush(stdout);
	rdma_ack_cm_event(want(channel, RDMA_CM_EVENT_DISCONNECTED));
	printf("disconnected\n");
	forget(id);
	return 0;
}

static int hear(struct rdma_event_channel *channel, struct rdma_cm_id *id)
{
	struct rdma_cm_event *event;

	if (rdma_get_cm_event(channel, &event))
		return 1;
	if (event->event != RDMA_CM_EVENT_ESTABLISHED && event->event != RDMA_CM_EVENT_REJECTED) {
		printf("%s (%d)\n", rdma_event_str(event->event), event->status);
		return 1;
	}
	printf("%s: %d octets, %s\n", event->event == RDMA_CM_EVENT_ESTABLISHED ? "accepted" : "rejected",
	       event->param.conn.private_data_len, same_data(event) ? "unchanged" : "changed");
	rdma_ack_cm_event(event);
	forget(id);
	return 0;
}

int main(int argc, char **argv)
{
	struct rdma_event_channel *channel = rdma_create_event_channel();
	struct sockaddr_in sin = { .sin_family = AF_INET };
	int length = argc > 4 ? atoi(argv[4]) : 0;
	struct rdma_cm_id *id;

	if (argc < 4 || length > 255 || !channel || rdma_create_id(channel, &id, NULL, RDMA_PS_TCP))
		return 2;
	inet_pton(AF_INET, argv[2], &sin.sin_addr);
	sin.sin_port = htons(atoi(argv[3]));
	if (!strcmp(argv[1], "serve"))
		return serve(channel, id, &sin);
	if (connect_with(channel, id, &sin, length))
		return 1;
	if (!strcmp(argv[1], "wait"))
		return wait_for_end(channel, id);
	return strcmp(argv[1], "hear") ? call(channel, id, length) : hear(channel, id);
}
