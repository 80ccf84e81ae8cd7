// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// two_spaces: rdma_cm listens at a port, and then a plain socket does too, as cmtime of rdma-core 52 and later does for
// its own talk. While it is there, what connects is its own; when it has gone, by close() or with a child's end,
// rdma_cm's listener is back. Exit status 0: so it was.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <rdma/rdma_cma.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

static struct sockaddr_in at = { .sin_family = AF_INET };

static void check(int holds, const char *what)
{
	if (holds)
		return;
	perror(what);
	exit(1);
}

static int listen_plainly(void)
{
	int one = 1, fd = socket(AF_INET, SOCK_STREAM, 0);

	check(setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one)) == 0, "SO_REUSEADDR");
	check(bind(fd, (struct sockaddr *)&at, sizeof(at)) == 0, "bind");
	check(listen(fd, 1) == 0, "listen");
	return fd;
}

static int connect_plainly(void)
{
	int fd = socket(AF_INET, SOCK_STREAM, 0);

	if (connect(fd, (struct sockaddr *)&at, sizeof(at)) == 0)
		return fd;
	close(fd);
	return -1;
}

int main(void)
{
	struct rdma_event_channel *channel = rdma_create_event_channel();
	struct rdma_cm_id *id;
	struct sockaddr_in reserved = { .sin_family = AF_INET };

	inet_pton(AF_INET, "127.0.0.1", &at.sin_addr);
	check(channel && rdma_create_id(channel, &id, NULL, RDMA_PS_TCP) == 0, "rdma_create_id");
	check(rdma_bind_addr(id, (struct sockaddr *)&at) == 0 && rdma_listen(id, 4) == 0, "rdma_listen");
	at.sin_port = rdma_get_src_port(id);

	// Without SO_REUSEADDR it is as it always was.
	reserved = at;
	check(bind(socket(AF_INET, SOCK_STREAM, 0), (struct sockaddr *)&reserved, sizeof(reserved)) != 0, "bind, which fails");

	int listener = listen_plainly(), client = connect_plainly();
	int accepted = accept(listener, NULL, NULL);

	check(client >= 0 && accepted >= 0, "the plain socket's connection");
	check(write(client, "x", 1) == 1 && read(accepted, &(char){ 0 }, 1) == 1, "an octet");
	close(listener);
	int again = connect_plainly(); // nobody but rdma_cm can be there

	check(again >= 0, "rdma_cm's listener");
	close(again);

	listener = listen_plainly();
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
	return 0;
}
