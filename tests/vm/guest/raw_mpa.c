// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * A peer that is nothing but a TCP socket and startup frames.
 *   raw_mpa call ADDRESS PORT REV LENGTH	one Request with LENGTH octets of private data; says "accepted N" (N octets came
 *						back, unchanged as far as they go), "rejected" or "closed", then holds if "hold"
 *follows raw_mpa serve ADDRESS PORT LENGTH accept|reject answers one Request with so much private data; says what the Request had
 *   raw_mpa half ADDRESS PORT COUNT		COUNT connections with half a Request each; says "open N", holds them until killed
 */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#define HEADER 20
#define BLOCK 4
#define REJECT 0x20
#define ENHANCED 0x10

static int private_length(const unsigned char *frame)
{
	return frame[18] << 8 | frame[19];
}

/* The same octets as cm_peer's. */
static void fill(unsigned char *data, int length)
{
	int i;

	for (i = 0; i < length; i++)
		data[i] = i * 7 + 1;
}

/* Whole frames only: what does not come in whole is as if nothing came. */
static int receive(int fd, unsigned char *frame)
{
	if (recv(fd, frame, HEADER, MSG_WAITALL) != HEADER || private_length(frame) > 512)
		return -1;
	if (!private_length(frame))
		return 0;
	return recv(fd, frame + HEADER, private_length(frame), MSG_WAITALL) == private_length(frame) ? 0 : -1;
}

static void hold(void)
{
	fflush(stdout);
	for (;;)
		pause();
}

static int call(int fd, int rev, int length, int stay)
{
	unsigned char frame[HEADER + BLOCK + 512] = "MPA ID Req Frame", answer[HEADER + BLOCK + 512], *data = frame + HEADER;
	int off = rev > 1 ? BLOCK : 0, got;
	unsigned char want[512];

	fill(want, sizeof(want));
	frame[16] = rev > 1 ? ENHANCED : 0;
	frame[17] = rev;
	frame[18] = (length + off) >> 8;
	frame[19] = length + off;
	if (off) {
		/* Peer to peer, and every kind of RTR, which will not come. */
		data[0] = 0xc0;
		data[1] = 1;
		data[2] = 0xc0;
		data[3] = 1;
	}
	fill(data + off, length);
	if (write(fd, frame, HEADER + off + length) < 0)
		return 1;
	if (receive(fd, answer)) {
		printf("closed\n");
	} else if (answer[16] & REJECT) {
		printf("rejected\n");
	} else {
		got = private_length(answer) - off;
		if (got < 0 || memcmp(answer + HEADER + off, want, got)) {
			printf("changed\n");
			return 1;
		}
		printf("accepted %d\n", got);
	}
	if (stay)
		hold();
	return 0;
}

static int serve(int listener, int length, const char *how)
{
	unsigned char frame[HEADER + BLOCK + 512];
	int fd, off, said;

	if (listen(listener, 8))
		return 1;
	fd = accept(listener, NULL, NULL);
	if (fd < 0 || receive(fd, frame))
		return 1;
	off = frame[16] & ENHANCED ? BLOCK : 0;
	said = private_length(frame) - off;
	memcpy(frame, "MPA ID Rep Frame", 16);
	if (!strcmp(how, "reject"))
		frame[16] |= REJECT;
	frame[18] = (length + off) >> 8;
	frame[19] = length + off;
	fill(frame + HEADER + off, length);
	if (write(fd, frame, HEADER + off + length) < 0)
		return 1;
	printf("asked with %d\n", said);
	fflush(stdout);
	while (recv(fd, frame, sizeof(frame), 0) > 0)
		;
	return 0;
}

static int half(struct sockaddr_in *sin, int count)
{
	struct rlimit limit = { count + 100, count + 100 };
	int i, fd, open = 0;

	if (setrlimit(RLIMIT_NOFILE, &limit))
		perror("descriptors");
	for (i = 0; i < count; i++) {
		fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
		if (fd < 0 || connect(fd, (struct sockaddr *)sin, sizeof(*sin)))
			continue;
		open++;
		(void)!send(fd, "MPA ID Req Frame", 1 + i % 16, MSG_NOSIGNAL);
	}
	printf("open %d\n", open);
	hold();
	return 0;
}

int main(int argc, char **argv)
{
	struct sockaddr_in sin = { .sin_family = AF_INET };
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), one = 1;

	if (argc < 5 || fd < 0)
		return 2;
	inet_pton(AF_INET, argv[2], &sin.sin_addr);
	sin.sin_port = htons(atoi(argv[3]));
	if (!strcmp(argv[1], "half"))
		return half(&sin, atoi(argv[4]));
	if (argc < 6 || atoi(argv[4]) > 512 || atoi(argv[5]) > 512)
		return 2;
	if (!strcmp(argv[1], "serve")) {
		setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
		if (argc > 6 && setsockopt(fd, SOL_SOCKET, SO_BINDTODEVICE, argv[6], strlen(argv[6])))
			return 1;
		if (bind(fd, (struct sockaddr *)&sin, sizeof(sin)))
			return 1;
		return serve(fd, atoi(argv[4]), argv[5]);
	}
	if (connect(fd, (struct sockaddr *)&sin, sizeof(sin))) {
		perror("connect");
		return 1;
	}
	return call(fd, atoi(argv[4]), atoi(argv[5]), argc > 6);
}
