// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * An ordinary user with as many connections under way as it wants or gets: startups PEER WANTED. Nobody answers at PEER. Says how
 * many there are, then stays. SWRNIC_TIMEOUT must be longer than that takes.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <rdma/rdma_cma.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

static void die(const char *what)
{
	printf("%s: %s\n", what, strerror(errno));
	exit(1);
}

static void await(struct rdma_event_channel *channel, enum rdma_cm_event_type wanted)
{
	struct rdma_cm_event *event;

	if (rdma_get_cm_event(channel, &event))
		die("rdma_get_cm_event");
	if (event->event != wanted) {
		printf("%s, status %d\n", rdma_event_str(event->event), event->status);
		exit(1);
	}
	rdma_ack_cm_event(event);
}

int main(int argc, char **argv)
{
	struct sockaddr_in peer = { .sin_family = AF_INET, .sin_port = htons(7471) };
	struct rdma_event_channel *channel;
	struct rdma_conn_param param = { .retry_count = 7 };
	struct ibv_qp_init_attr init = { .cap = { 1, 1, 1, 1, 0 }, .qp_type = IBV_QPT_RC };
	struct rlimit few = { 64, 64 };
	struct ibv_pd *pd = NULL;
	struct rdma_cm_id *id;
	int i, wanted;

	if (argc != 3 || inet_pton(AF_INET, argv[1], &peer.sin_addr) != 1)
		die("startups PEER WANTED");
	wanted = atoi(argv[2]);
	if (setrlimit(RLIMIT_NOFILE, &few) || setgid(1000) || setuid(1000))
		die("an ordinary user with few descriptors");
	channel = rdma_create_event_channel();
	if (!channel)
		die("rdma_create_event_channel");
	for (i = 0; i < wanted; i++) {
		if (rdma_create_id(channel, &id, NULL, RDMA_PS_TCP))
			die("rdma_create_id");
		if (rdma_resolve_addr(id, NULL, (struct sockaddr *)&peer, 2000))
			die("rdma_resolve_addr");
		await(channel, RDMA_CM_EVENT_ADDR_RESOLVED);
		if (rdma_resolve_route(id, 2000))
			die("rdma_resolve_route");
		await(channel, RDMA_CM_EVENT_ROUTE_RESOLVED);
		if (!pd) {
			pd = ibv_alloc_pd(id->verbs);
			init.send_cq = init.recv_cq = ibv_create_cq(id->verbs, 16, NULL, NULL, 0);
			if (!pd || !init.send_cq)
				die("ibv_create_cq");
		}
		init.qp_context = id;
		if (rdma_create_qp(id, pd, &init))
			die("rdma_create_qp");
		if (rdma_connect(id, &param))
			break;
	}
	printf("%d under way: %s\n", i, i < wanted ? strerror(errno) : "all that were wanted");
	fflush(stdout);
	pause();
	return 0;
}
