// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * A malicious process at the uAPI: opens the device as the provider does, makes objects, writes nonsense and near-sense to the
 * event file, uses numbers that are not its own, and lets a live connection's records come twice, early and late. The kernel must
 * answer EINVAL and stay whole. fuzz_event_file SECONDS SEED; exit code 0 unless an answer is one that must not be.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <infiniband/verbs.h>
#include <poll.h>
#include <pthread.h>
#include <rdma/rdma_cma.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "swrnic-abi.h"

static uint64_t state;

static uint32_t rnd(uint32_t below)
{
	state ^= state << 13;
	state ^= state >> 7;
	state ^= state << 17;
	return below ? (uint32_t)(state >> 20) % below : (uint32_t)(state >> 20);
}

static void die(const char *what)
{
	fprintf(stderr, "fuzz: %s: %s\n", what, strerror(errno));
	exit(1);
}

/* The provider keeps the event file to itself; it is the descriptor that says so. */
static int find_event_files(int *fds, int max)
{
	char link[64], name[64];
	int fd, count = 0;
	ssize_t len;

	for (fd = 3; fd < 256 && count < max; fd++) {
		snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
		len = readlink(link, name, sizeof(name) - 1);
		if (len <= 0)
			continue;
		name[len] = 0;
		if (strstr(name, "[swrnic]"))
			fds[count++] = fd;
	}
	return count;
}

static void up(int fd, uint32_t type, uint32_t id, uint32_t aux, uint32_t reserved)
{
	struct swrnic_up record = { type, id, aux, reserved };

	if (write(fd, &record, sizeof(record)) < 0 && errno != EINVAL && errno != EIO && errno != EAGAIN && errno != EINTR)
		die("unexpected answer to a record");
}

static void nonsense(int fd)
{
	void *volatile nowhere = (void *)8;
	unsigned char junk[1024];
	size_t i, len = rnd(sizeof(junk));

	for (i = 0; i < len; i++)
		junk[i] = rnd(256);
	if (write(fd, junk, len) >= 0 && len % sizeof(struct swrnic_up))
		die("half a record was taken");
	if (write(fd, nowhere, 16) >= 0)
		die("a bad address was taken");
	if (read(fd, nowhere, 56) > 0)
		die("a bad address was filled");
}

struct side {
	struct rdma_event_channel *channel;
	struct rdma_cm_id *id;
	struct ibv_pd *pd;
	struct ibv_cq *cq;
};

static struct rdma_cm_event *wait_event_ms(struct rdma_event_channel *channel, int ms)
{
	struct pollfd pfd = { channel->fd, POLLIN, 0 };
	struct rdma_cm_event *event;

	if (poll(&pfd, 1, ms) <= 0 || rdma_get_cm_event(channel, &event))
		return NULL;
	return event;
}

static int expect_event(struct rdma_event_channel *channel, enum rdma_cm_event_type type, struct rdma_cm_id **id)
{
	struct rdma_cm_event *event = wait_event_ms(channel, 5000);
	int same;

	if (!event)
		return -1;
	same = event->event == type;
	if (id)
		*id = event->id;
	rdma_ack_cm_event(event);
	return same ? 0 : -1;
}

static void make_qp(struct side *side)
{
	struct ibv_qp_init_attr attr = { .cap = { 4, 4, 1, 1, 0 }, .qp_type = IBV_QPT_RC };

	side->pd = ibv_alloc_pd(side->id->verbs);
	side->cq = ibv_create_cq(side->id->verbs, 16, NULL, NULL, 0);
	if (!side->pd || !side->cq)
		die("objects");
	attr.send_cq = attr.recv_cq = side->cq;
	if (rdma_create_qp(side->id, side->pd, &attr))
		die("rdma_create_qp");
}

static void drop(struct side *side)
{
	if (side->id) {
		if (side->id->qp)
			rdma_destroy_qp(side->id);
		rdma_destroy_id(side->id);
	}
	if (side->cq)
		ibv_destroy_cq(side->cq);
	if (side->pd)
		ibv_dealloc_pd(side->pd);
}

struct meddler {
	int fds[8], count;
	uint32_t qpns[2];
	volatile int stop;
};

/* While the provider does its work, the same files get our records: early, twice, late, for either end. */
static void *meddle(void *arg)
{
	struct meddler *m = arg;
	int fd;

	while (!m->stop) {
		fd = m->fds[rnd(m->count)];
		switch (rnd(6)) {
		case 0:
			nonsense(fd);
			break;
		case 1:
			up(fd, SWRNIC_UP_QP_READY, m->qpns[rnd(2)], 0, 0);
			break;
		case 2:
			if (!rnd(4))
				up(fd, SWRNIC_UP_QP_CLOSED, m->qpns[rnd(2)], rnd(4), 0);
			break;
		case 3:
			up(fd, SWRNIC_UP_ASYNC_EVENT, m->qpns[rnd(2)], rnd(24), 0);
			break;
		case 4:
			up(fd, SWRNIC_UP_COMP_POSTED, rnd(64), rnd(2), 0);
			break;
		default:
			up(fd, rnd(8), rnd(0), rnd(8), rnd(2));
		}
	}
	return NULL;
}

static void one_round(const char *address)
{
	struct rdma_conn_param param = { .responder_resources = 1, .initiator_depth = 1 };
	struct side listener = {}, client = {}, server = {};
	struct sockaddr_in sin = { .sin_family = AF_INET };
	struct meddler m = {};
	pthread_t thread;
	int meddling = 0;

	listener.channel = rdma_create_event_channel();
	client.channel = rdma_create_event_channel();
	if (!listener.channel || !client.channel)
		die("channel");
	inet_pton(AF_INET, address, &sin.sin_addr);
	if (rdma_create_id(listener.channel, &listener.id, NULL, RDMA_PS_TCP) ||
	    rdma_create_id(client.channel, &client.id, NULL, RDMA_PS_TCP))
		die("id");
	if (rdma_bind_addr(listener.id, (struct sockaddr *)&sin) || rdma_listen(listener.id, 4))
		die("listen");
	sin.sin_port = rdma_get_src_port(listener.id);
	if (rdma_resolve_addr(client.id, NULL, (struct sockaddr *)&sin, 2000) ||
	    expect_event(client.channel, RDMA_CM_EVENT_ADDR_RESOLVED, NULL) || rdma_resolve_route(client.id, 2000) ||
	    expect_event(client.channel, RDMA_CM_EVENT_ROUTE_RESOLVED, NULL))
		die("resolve");
	make_qp(&client);
	m.qpns[0] = m.qpns[1] = client.id->qp->qp_num;
	m.count = find_event_files(m.fds, 8);
	if (!m.count)
		die("no event file");
	if (rnd(2)) {
		meddling = !pthread_create(&thread, NULL, meddle, &m);
	}
	if (rdma_connect(client.id, &param))
		die("connect");
	if (rnd(8)) {
		if (!expect_event(listener.channel, RDMA_CM_EVENT_CONNECT_REQUEST, &server.id)) {
			make_qp(&server);
			m.qpns[1] = server.id->qp->qp_num;
			if (rnd(8))
				rdma_accept(server.id, &param);
			else
				rdma_reject(server.id, "no", 2);
		}
		expect_event(client.channel, RDMA_CM_EVENT_ESTABLISHED, NULL);
	}
	if (!meddling)
		meddling = !pthread_create(&thread, NULL, meddle, &m);
	usleep(rnd(20000));
	if (rnd(2))
		rdma_disconnect(client.id);
	usleep(rnd(5000));
	m.stop = 1;
	if (meddling)
		pthread_join(thread, NULL);
	if (!rnd(4))
		_exit(0); /* as if killed in the middle */
	drop(&client);
	drop(&server);
	drop(&listener);
	rdma_destroy_event_channel(client.channel);
	rdma_destroy_event_channel(listener.channel);
	exit(0);
}

int main(int argc, char **argv)
{
	time_t end = time(NULL) + (argc > 1 ? atoi(argv[1]) : 10);
	uint64_t seed = argc > 2 ? strtoull(argv[2], NULL, 0) : (uint64_t)time(NULL);
	const char *address = argc > 3 ? argv[3] : "192.0.2.1";
	unsigned int rounds = 0, bad = 0;
	int status, waited;
	pid_t pid;

	for (; time(NULL) < end; rounds++) {
		pid = fork();
		if (!pid) {
			state = (seed + rounds) * 0x9e3779b97f4a7c15ull | 1;
			alarm(40);
			one_round(address);
		}
		for (waited = 0; !waitpid(pid, &status, WNOHANG); waited++) {
			usleep(2000);
			if (rounds % 5 == 4 && waited == 100)
				kill(pid, SIGKILL);
		}
		if (WIFEXITED(status) ? WEXITSTATUS(status) : WTERMSIG(status) != SIGKILL) {
			printf("round %u (seed %llu): status %#x\n", rounds, (unsigned long long)seed, status);
			bad++;
		}
	}
	printf("%u rounds, seed %llu, %u bad\n", rounds, (unsigned long long)seed, bad);
	return bad != 0;
}
