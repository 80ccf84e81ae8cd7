// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// A plain socket program that knows nothing of RDMA: the client sends a pattern, the server sends it back, both
// compare.
//
//   plain_sockets server|client ADDRESS PORT OCTETS
#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static void fail(const char* what) {
    perror(what);
    exit(1);
}

static unsigned char pattern(size_t at) {
    return (unsigned char)((at * 2654435761u) >> 24);
}

static void send_all(int fd, const unsigned char* data, size_t length) {
    for (size_t done = 0; done < length;) {
        ssize_t sent = send(fd, data + done, length - done, 0);

        if (sent <= 0) fail("send");
        done += (size_t)sent;
    }
}

static void take_all(int fd, unsigned char* data, size_t length) {
    for (size_t done = 0; done < length;) {
        ssize_t got = recv(fd, data + done, length - done, 0);

        if (got <= 0) fail("recv");
        done += (size_t)got;
    }
    for (size_t i = 0; i < length; i++) {
        if (data[i] != pattern(i)) {
            fprintf(stderr, "octet %zu is %u, expected %u\n", i, data[i], pattern(i));
            exit(1);
        }
    }
}

int main(int argc, char** argv) {
    struct sockaddr_in at = {.sin_family = AF_INET};
    int one = 1, fd = socket(AF_INET, SOCK_STREAM, 0);

    if (argc != 5 || fd < 0) return 2;
    inet_pton(AF_INET, argv[2], &at.sin_addr);
    at.sin_port = htons((unsigned short)atoi(argv[3]));
    const size_t length = (size_t)atol(argv[4]);
    unsigned char* data = malloc(length);

    if (!data) return 2;
    for (size_t i = 0; i < length; i++)
        data[i] = pattern(i);
    if (strcmp(argv[1], "server") == 0) {
        setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
        if (bind(fd, (struct sockaddr*)&at, sizeof(at)) != 0 || listen(fd, 4) != 0) fail("listen");
        int stream = accept(fd, NULL, NULL);

        if (stream < 0) fail("accept");
        memset(data, 0, length);
        take_all(stream, data, length);
        send_all(stream, data, length);
        if (recv(stream, data, 1, 0) != 0) fail("the client's end");
        close(stream);
    } else {
        if (connect(fd, (struct sockaddr*)&at, sizeof(at)) != 0) fail("connect");
        send_all(fd, data, length);
        memset(data, 0, length);
        take_all(fd, data, length);
        shutdown(fd, SHUT_RDWR);
    }
    close(fd);
    free(data);
    printf("the data agrees\n");
    return 0;
}
