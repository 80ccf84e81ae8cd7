// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * One thread ends a connection by its rdma_cm id, the other destroys its QP at the same time: destroy_race ADDRESS ROUNDS LEAD_US.
 * iw_cm orders the QP's end for the first; the second comes LEAD_US later, and may be done while that order is under way. By user
 * 1000, as anybody may.
 */
#include "both_ends.h"

#include <pthread.h>
#include <string.h>
#include <unistd.h>

static pthread_barrier_t start;
static useconds_t lead_us;

static void *destroy_qp(void *argument)
{
	struct ibv_qp *qp = argument;

	pthread_barrier_wait(&start);
	usleep(lead_us);
	if (ibv_destroy_qp(qp))
		die("ibv_destroy_qp");
	return NULL;
}

static void one_round(struct sockaddr_in sin)
{
	struct side listener = {}, client = {}, server = {};
	struct ibv_qp *qp;
	pthread_t thread;

	connect_both(sin, &listener, &client, &server);
	qp = client.id->qp;
	client.id->qp = NULL; /* else librdmacm modifies it by itself, which waits for the destroyer in the core */
	if (pthread_create(&thread, NULL, destroy_qp, qp))
		die("thread");
	pthread_barrier_wait(&start);
	rdma_destroy_id(client.id);
	client.id = NULL;
	pthread_join(thread, NULL);
	close_side(&client);
	close_side(&server);
	close_side(&listener);
}

int main(int argc, char **argv)
{
	struct sockaddr_in sin = { .sin_family = AF_INET };
	int round, rounds;

	if (argc < 4 || inet_pton(AF_INET, argv[1], &sin.sin_addr) != 1)
		return 2;
	if (setgid(1000) || setuid(1000))
		die("setuid");
	rounds = atoi(argv[2]);
	lead_us = strtoul(argv[3], NULL, 10);
	pthread_barrier_init(&start, NULL, 2);
	for (round = 0; round < rounds; round++) {
		sin.sin_port = htons(7190 + round % 20000);
		one_round(sin);
	}
	printf("%d rounds\n", rounds);
	return 0;
}
