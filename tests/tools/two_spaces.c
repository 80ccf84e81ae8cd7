// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// two_spaces [ADDRESS]: rdma_cm listens at a port of the address (127.0.0.1, or an IPv6 one), and then a plain socket does
// too, as UCX does and cmtime of rdma-core 52 and later; and the other way round. Both stay, and each gets what is its own; when
// the plain socket has gone rdma_cm's listener goes on. "two_spaces aside": where the plain one listens at all addresses nothing
// tells the two apart, so what connects is the plain socket's until it has gone, by close() or with a child's end. Exit status 0:
// so it was.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <rdma/rdma_cma.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

static union {
	struct sockaddr base;
	struct sockaddr_in v4;
	struct sockaddr_in6 v6;
} at;

static void check(int holds, const char *what)
{
	if (holds)
		return;
	perror(what);
	exit(1);
}

static socklen_t size_of_at(void)
{
	return at.base.sa_family == AF_INET ? sizeof(at.v4) : sizeof(at.v6);
}

static int listen_plainly(const struct sockaddr *where, int reuse)
{
	int fd = socket(at.base.sa_family, SOCK_STREAM, 0);

	check(setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &reuse, sizeof(reuse)) == 0, "SO_REUSEADDR");
	check(bind(fd, where, size_of_at()) == 0, "bind");
	check(listen(fd, 8) == 0, "listen");
	return fd;
}

static int connect_plainly(void)
{
	int fd = socket(at.base.sa_family, SOCK_STREAM, 0);

	if (connect(fd, &at.base, size_of_at()) == 0)
		return fd;
	close(fd);
	return -1;
}

static void reaches_the_plain_one(int listener)
{
	int client = connect_plainly(), accepted = accept(listener, NULL, NULL);

	check(client >= 0 && accepted >= 0, "the plain socket's connection");
	check(write(client, "x", 1) == 1 && read(accepted, &(char){ 0 }, 1) == 1, "an octet");
	close(client);
	close(accepted);
}

static struct rdma_cm_event *next(struct rdma_event_channel *channel, enum rdma_cm_event_type type)
{
	struct rdma_cm_event *event;
	struct pollfd news = { .fd = channel->fd, .events = POLLIN };

	check(poll(&news, 1, 5000) == 1 && rdma_get_cm_event(channel, &event) == 0, rdma_event_str(type));
	if (event->event != type)
		fprintf(stderr, "%s instead of %s\n", rdma_event_str(event->event), rdma_event_str(type));
	check(event->event == type, "an event");
	return event;
}

// A Request of rdma_cm's comes to its listener, which refuses it.
static void reaches_rdma_cm(struct rdma_event_channel *listeners)
{
	struct rdma_event_channel *channel = rdma_create_event_channel();
	struct rdma_cm_id *id;
	struct ibv_qp_init_attr attr = { .qp_type = IBV_QPT_RC, .cap = { 1, 1, 1, 1, 0 } };
	struct rdma_conn_param param = { .responder_resources = 1, .initiator_depth = 1 };
	struct rdma_cm_event *request;

	check(rdma_create_id(channel, &id, NULL, RDMA_PS_TCP) == 0, "rdma_create_id");
	check(rdma_resolve_addr(id, NULL, &at.base, 1000) == 0, "rdma_resolve_addr");
	rdma_ack_cm_event(next(channel, RDMA_CM_EVENT_ADDR_RESOLVED));
	check(rdma_resolve_route(id, 1000) == 0, "rdma_resolve_route");
	rdma_ack_cm_event(next(channel, RDMA_CM_EVENT_ROUTE_RESOLVED));
	check(rdma_create_qp(id, NULL, &attr) == 0 && rdma_connect(id, &param) == 0, "rdma_connect");
	request = next(listeners, RDMA_CM_EVENT_CONNECT_REQUEST);
	check(rdma_reject(request->id, NULL, 0) == 0, "rdma_reject");
	rdma_destroy_id(request->id);
	rdma_ack_cm_event(request);
	rdma_ack_cm_event(next(channel, RDMA_CM_EVENT_REJECTED));
	rdma_destroy_qp(id);
	rdma_destroy_id(id);
	rdma_destroy_event_channel(channel);
}

static void both_stay(struct rdma_event_channel *channel)
{
	for (int reuse = 0; reuse < 2; ++reuse) {
		int listener = listen_plainly(&at.base, reuse);

		for (int i = 0; i < 20; ++i) { // chance would find the right one once or twice
			reaches_the_plain_one(listener);
			reaches_rdma_cm(channel);
		}
		close(listener);
		reaches_rdma_cm(channel);
	}
}

// The plain one is there first.
static void the_other_way_round(struct rdma_event_channel *channel)
{
	struct rdma_cm_id *id;
	socklen_t size = size_of_at();

	at.v4.sin_port = 0;
	int listener = listen_plainly(&at.base, 0);

	check(getsockname(listener, &at.base, &size) == 0, "getsockname");
	check(rdma_create_id(channel, &id, NULL, RDMA_PS_TCP) == 0, "rdma_create_id");
	check(rdma_bind_addr(id, &at.base) == 0 && rdma_listen(id, 4) == 0, "rdma_listen, where a plain socket is");
	for (int i = 0; i < 20; ++i) {
		reaches_the_plain_one(listener);
		reaches_rdma_cm(channel);
	}
	close(listener);
	reaches_rdma_cm(channel);
	listener = listen_plainly(&at.base, 0);
	for (int i = 0; i < 20; ++i) {
		reaches_the_plain_one(listener);
		reaches_rdma_cm(channel);
	}
}

static void one_steps_aside(void)
{
	struct sockaddr_in everywhere = { .sin_family = AF_INET, .sin_port = at.v4.sin_port };
	int listener = listen_plainly((struct sockaddr *)&everywhere, 1);

	reaches_the_plain_one(listener);
	close(listener);
	int again = connect_plainly(); // nobody but rdma_cm can be there

	check(again >= 0, "rdma_cm's listener");
	close(again);

	listener = listen_plainly((struct sockaddr *)&everywhere, 1);
	pid_t child = fork();

	if (child == 0) {
		sleep(2);
		_exit(0);
	}
	close(listener);
	check(child > 0 && waitpid(child, NULL, 0) == child, "a child that has the socket");
	usleep(300000);
	again = connect_plainly();
	check(again >= 0, "rdma_cm's listener, behind a child");
}

int main(int argc, char **argv)
{
	struct rdma_event_channel *channel = rdma_create_event_channel();
	struct rdma_cm_id *id;
	const int aside = argc > 1 && strcmp(argv[1], "aside") == 0;

	if (argc > 1 && !aside) {
		at.v6.sin6_family = AF_INET6;
		check(inet_pton(AF_INET6, argv[1], &at.v6.sin6_addr) == 1, argv[1]);
	} else {
		at.v4.sin_family = AF_INET;
		inet_pton(AF_INET, "127.0.0.1", &at.v4.sin_addr);
	}
	check(channel && rdma_create_id(channel, &id, NULL, RDMA_PS_TCP) == 0, "rdma_create_id");
	check(rdma_bind_addr(id, &at.base) == 0 && rdma_listen(id, 4) == 0, "rdma_listen");
	at.v4.sin_port = rdma_get_src_port(id); // where IPv6's is, too
	if (aside)
		one_steps_aside();
	else
		both_stay(channel), the_other_way_round(channel);
	return 0;
}
