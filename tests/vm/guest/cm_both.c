// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Both ends of a connection in one process, one message over it, and its end: cm_both ADDRESS [ROUNDS]. Small, for many rounds. */
#include "both_ends.h"

#include <string.h>
#include <unistd.h>

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

static void one_round(struct sockaddr_in sin)
{
	struct side listener = {}, client = {}, server = {};

	connect_both(sin, &listener, &client, &server);
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
	struct sockaddr_in sin = { .sin_family = AF_INET, .sin_port = htons(7190) };
	int rounds = argc > 2 ? atoi(argv[2]) : 1;

	if (argc < 2 || inet_pton(AF_INET, argv[1], &sin.sin_addr) != 1)
		return 2;
	alarm(300);
	while (rounds--)
		one_round(sin);
	return 0;
}
