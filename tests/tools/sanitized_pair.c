// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Both ends of a connection in one process, a thread each, which have nothing in common but the connection once it
 * stands: what a ThreadSanitizer that does not see into the engine may take for a race. Built with each sanitizer, and
 * run under `swrnic run`. sanitized_pair ADDRESS [overflow | child] overflow: at the end it reads behind a buffer,
 * which AddressSanitizer has to find.
 */
#include <pthread.h>
#include <rdma/rdma_cma.h>
#include <rdma/rdma_verbs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ROUNDS 300
#define OCTETS 20000

static const char *host;
static char port[8] = "0";
static pthread_barrier_t listening;

struct side {
	struct rdma_cm_id *id;
	struct ibv_mr *received, *sent, *target;
	unsigned char *in, *out, *placed; /* placed: the peer writes there */
};

struct remote {
	uint64_t addr;
	uint32_t rkey;
};

static void die(const char *what)
{
	perror(what);
	exit(1);
}

static struct rdma_cm_id *endpoint(int passive)
{
	struct rdma_addrinfo hints = { .ai_port_space = RDMA_PS_TCP, .ai_flags = passive ? RAI_PASSIVE : 0 }, *found;
	struct ibv_qp_init_attr init = { .cap = { 8, 8, 1, 1, 64 }, .sq_sig_all = 1 };
	struct rdma_cm_id *id;

	if (rdma_getaddrinfo(host, port, &hints, &found) || rdma_create_ep(&id, found, NULL, &init))
		die("rdma_create_ep");
	rdma_freeaddrinfo(found);
	return id;
}

static void prepare(struct side *side)
{
	side->in = calloc(1, OCTETS);
	side->out = calloc(1, OCTETS);
	side->placed = calloc(1, OCTETS);
	side->received = rdma_reg_msgs(side->id, side->in, OCTETS);
	side->sent = rdma_reg_msgs(side->id, side->out, OCTETS);
	side->target = rdma_reg_write(side->id, side->placed, OCTETS);
	if (!side->received || !side->sent || !side->target || rdma_post_recv(side->id, NULL, side->in, OCTETS, side->received))
		die("registration");
}

static void await_send(struct side *side)
{
	struct ibv_wc wc;

	if (rdma_get_send_comp(side->id, &wc) != 1 || wc.status != IBV_WC_SUCCESS)
		die("a send's completion");
}

static void await_receive(struct side *side)
{
	struct ibv_wc wc;

	if (rdma_get_recv_comp(side->id, &wc) != 1 || wc.status != IBV_WC_SUCCESS)
		die("a receive's completion");
}

/* A Send with out, behind a Write of the same octets to where the peer said. */
static void tell(struct side *side, int round, const struct remote *remote)
{
	memset(side->out, round, OCTETS);
	if (rdma_post_write(side->id, NULL, side->out, OCTETS, side->sent, 0, remote->addr, remote->rkey) ||
	    rdma_post_send(side->id, NULL, side->out, OCTETS, side->sent, 0))
		die("post");
	await_send(side);
	await_send(side);
}

static void hear(struct side *side, int round)
{
	int i;

	await_receive(side);
	for (i = 0; i < OCTETS; i++)
		if (side->in[i] != (unsigned char)round || side->placed[i] != (unsigned char)round)
			die("other octets than were sent");
	memset(side->placed, 0, OCTETS); /* and the program goes on using it */
	if (rdma_post_recv(side->id, NULL, side->in, OCTETS, side->received))
		die("rdma_post_recv");
}

/* Each tells the other where it may write, in its first message. */
static struct remote exchange(struct side *side, int first)
{
	struct remote own = { (uintptr_t)side->placed, side->target->rkey }, peers = { 0 };
	int turn;

	for (turn = 0; turn < 2; turn++) {
		if (turn == first) {
			memcpy(side->out, &own, sizeof(own));
			if (rdma_post_send(side->id, NULL, side->out, sizeof(own), side->sent, 0))
				die("rdma_post_send");
			await_send(side);
		} else {
			await_receive(side);
			memcpy(&peers, side->in, sizeof(peers));
			if (rdma_post_recv(side->id, NULL, side->in, OCTETS, side->received))
				die("rdma_post_recv");
		}
	}
	return peers;
}

static void finish(struct side *side)
{
	rdma_disconnect(side->id);
	rdma_dereg_mr(side->received);
	rdma_dereg_mr(side->sent);
	rdma_dereg_mr(side->target);
	rdma_destroy_ep(side->id);
	free(side->in);
	free(side->out);
	free(side->placed);
}

static void *serve(void *unused)
{
	struct rdma_cm_id *listener = endpoint(1);
	struct side side = { 0 };
	struct remote remote;
	int i;

	if (rdma_listen(listener, 1))
		die("rdma_listen");
	snprintf(port, sizeof(port), "%u", ntohs(rdma_get_src_port(listener)));
	pthread_barrier_wait(&listening);
	if (rdma_get_request(listener, &side.id))
		die("rdma_get_request");
	prepare(&side);
	if (rdma_accept(side.id, NULL))
		die("rdma_accept");
	remote = exchange(&side, 1);
	for (i = 0; i < ROUNDS; i++) {
		hear(&side, i);
		tell(&side, i, &remote);
	}
	finish(&side);
	rdma_destroy_ep(listener);
	return unused;
}

int main(int argc, char **argv)
{
	struct side side = { 0 };
	struct remote remote;
	volatile unsigned char *small;
	pthread_t server;
	int i;

	if (argc < 2)
		return 2;
	host = argv[1];
	pthread_barrier_init(&listening, NULL, 2);
	if (pthread_create(&server, NULL, serve, NULL))
		die("pthread_create");
	pthread_barrier_wait(&listening);
	side.id = endpoint(0);
	prepare(&side);
	if (rdma_connect(side.id, NULL))
		die("rdma_connect");
	remote = exchange(&side, 0);
	for (i = 0; i < ROUNDS; i++) {
		tell(&side, i, &remote);
		hear(&side, i);
	}
	finish(&side);
	pthread_join(server, NULL);
	pthread_barrier_destroy(&listening);
	printf("%d rounds\n", ROUNDS);
	if (argc > 2 && strcmp(argv[2], "child") == 0)
		return system("! printenv LD_PRELOAD | grep -E '(a|t)san'") == 0 ? 0 : 1;
	if (argc > 2) {
		small = malloc(16);
		i = small[8 + strlen(argv[2])];
	}
	return 0;
}
