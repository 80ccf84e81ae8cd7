// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Strangers at a listener's door: silence, garbage, half a Request, a Request that claims too much, a good one that nobody waits
 * for, ends of both kinds. hostile_peer ADDRESS PORT COUNT: so many connections, up to 500 of them open at a time.
 */
#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#define OPEN 500

static void harass(int fd, unsigned int i)
{
	unsigned char frame[20 + 512] = "MPA ID Req Frame";
	unsigned char *flags = frame + 16, *rev = frame + 17, *len = frame + 18;

	*flags = 0x40;
	*rev = 1;
	memset(frame + 20, i, 512);
	switch (i % 8) {
	case 0: /* silence */
		return;
	case 1:
		memset(frame, i, sizeof(frame));
		(void)!write(fd, frame, 1 + i % sizeof(frame));
		return;
	case 2: /* half a frame */
		(void)!write(fd, frame, 1 + i % 19);
		return;
	case 3: /* private data beyond all bounds */
		len[0] = len[1] = 0xff;
		(void)!write(fd, frame, sizeof(frame));
		return;
	case 4: /* announced, but never sent */
		len[0] = 2;
		(void)!write(fd, frame, 20 + i % 512);
		return;
	case 5: /* an enhanced Request without room for its block */
		*rev = 2;
		*flags |= 0x10;
		len[1] = 3;
		(void)!write(fd, frame, 23);
		return;
	case 6: /* a revision from the future */
		*rev = 77;
		(void)!write(fd, frame, 20);
		return;
	default: /* good, with 512 octets of private data, and gone at once */
		len[0] = 2;
		(void)!write(fd, frame, sizeof(frame));
		shutdown(fd, SHUT_WR);
	}
}

int main(int argc, char **argv)
{
	struct sockaddr_in sin = { .sin_family = AF_INET };
	struct rlimit limit = { OPEN + 100, OPEN + 100 };
	struct linger reset = { 1, 0 };
	unsigned int i, count, failed = 0;
	int fds[OPEN];

	if (argc != 4)
		return 2;
	setrlimit(RLIMIT_NOFILE, &limit);
	inet_pton(AF_INET, argv[1], &sin.sin_addr);
	sin.sin_port = htons(atoi(argv[2]));
	count = atoi(argv[3]);
	memset(fds, 0xff, sizeof(fds));
	for (i = 0; i < count; i++) {
		int *fd = &fds[i % OPEN];

		if (*fd >= 0) {
			if (i % 3 == 0)
				setsockopt(*fd, SOL_SOCKET, SO_LINGER, &reset, sizeof(reset));
			close(*fd);
		}
		*fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
		if (*fd < 0 || connect(*fd, (struct sockaddr *)&sin, sizeof(sin)))
			failed++;
		else
			harass(*fd, i);
	}
	printf("%u connections, %u failed\n", count, failed);
	return failed > count / 10;
}
