// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * The event file's order, step by step: this program takes the file away from the provider and speaks for it.
 *   event_file_order table ADDRESS		every report early, in time, twice and late, on both sides: what must be refused
 *with EINVAL is, and rdma_cm hears exactly what it should event_file_order accept ADDRESS PORT STAGE	a server that goes no
 *further than STAGE (asked, queued, taken); says "held", waits event_file_order connect ADDRESS PORT STAGE	the same as a client
 */
#include <arpa/inet.h>
#include <errno.h>
#include <infiniband/verbs.h>
#include <poll.h>
#include <rdma/rdma_cma.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "swrnic-abi.h"

#define QUIET_MS 300
#define PATIENCE_MS 10000

struct side {
	struct rdma_event_channel *channel;
	struct rdma_cm_id *id;
	struct ibv_cq *cq;
	int taken; /* QP_CONNECTED was read */
};

static struct side sides[2], listener; /* one process, one context, one event file: which number is whose tells the record */
static int event_file = -1;
static const char *case_name = "";

static void die(const char *what)
{
	printf("%s: %s (%s)\n", case_name, what, strerror(errno));
	exit(1);
}

/* The provider keeps the number, but it leads nowhere now. */
static void steal_event_file(void)
{
	char link[64], name[64];
	int fd, nowhere[2];
	ssize_t len;

	if (event_file >= 0)
		return;
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, nowhere))
		die("socketpair");
	for (fd = 3; fd < 256; fd++) {
		snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
		len = readlink(link, name, sizeof(name) - 1);
		if (len <= 0)
			continue;
		name[len] = 0;
		if (!strstr(name, "[swrnic]"))
			continue;
		event_file = dup(fd);
		if (event_file < 0 || dup2(nowhere[0], fd) < 0)
			die("dup");
		return;
	}
	die("no event file");
}

static int readable(int fd, int ms)
{
	struct pollfd pfd = { fd, POLLIN, 0 };

	return poll(&pfd, 1, ms) > 0;
}

static struct rdma_cm_id *expect(struct side *side, enum rdma_cm_event_type type)
{
	struct rdma_cm_event *event;
	struct rdma_cm_id *id;
	char said[100];

	if (!readable(side->channel->fd, PATIENCE_MS) || rdma_get_cm_event(side->channel, &event)) {
		snprintf(said, sizeof(said), "no %s", rdma_event_str(type));
		die(said);
	}
	if (event->event != type) {
		snprintf(said, sizeof(said), "%s %d instead of %s", rdma_event_str(event->event), event->status,
			 rdma_event_str(type));
		die(said);
	}
	id = event->id;
	rdma_ack_cm_event(event);
	return id;
}

static void open_side(struct side *side)
{
	memset(side, 0, sizeof(*side));
	side->channel = rdma_create_event_channel();
	if (!side->channel || rdma_create_id(side->channel, &side->id, NULL, RDMA_PS_TCP))
		die("id");
}

static void make_qp(struct side *side)
{
	struct ibv_qp_init_attr attr = { .cap = { 4, 4, 1, 1, 0 }, .qp_type = IBV_QPT_RC };

	side->cq = ibv_create_cq(side->id->verbs, 16, NULL, NULL, 0);
	if (!side->cq)
		die("cq");
	attr.send_cq = attr.recv_cq = side->cq;
	if (rdma_create_qp(side->id, NULL, &attr))
		die("qp");
}

static void close_side(struct side *side)
{
	if (side->id && side->id->qp)
		rdma_destroy_qp(side->id);
	if (side->cq)
		ibv_destroy_cq(side->cq);
	if (side->id)
		rdma_destroy_id(side->id);
	if (side->channel)
		rdma_destroy_event_channel(side->channel);
	memset(side, 0, sizeof(*side));
}

static void listen_at(struct side *side, struct sockaddr_in *sin)
{
	open_side(side);
	if (rdma_bind_addr(side->id, (struct sockaddr *)sin) || rdma_listen(side->id, 4))
		die("listen");
}

static void resolve(struct side *side, struct sockaddr_in *sin)
{
	open_side(side);
	if (rdma_resolve_addr(side->id, NULL, (struct sockaddr *)sin, 2000))
		die("address");
	expect(side, RDMA_CM_EVENT_ADDR_RESOLVED);
	if (rdma_resolve_route(side->id, 2000))
		die("route");
	expect(side, RDMA_CM_EVENT_ROUTE_RESOLVED);
	make_qp(side);
	steal_event_file();
}

/* ---- the steps --------------------------------------------------------------------------------------------------------- */

enum action { READY, CLOSED, CONNECT, ACCEPT, TAKE, DISCONNECT, EVENT, QUIET };
enum { CLIENT, SERVER };

struct step {
	enum action action;
	int side;
	unsigned int value; /* READY, CLOSED: aux; EVENT: which */
	int wanted;	    /* READY, CLOSED: errno */
};

static struct rdma_conn_param plain = { .responder_resources = 1, .initiator_depth = 1 };

static void do_connect(void)
{
	if (rdma_connect(sides[CLIENT].id, &plain))
		die("rdma_connect");
	sides[SERVER].id = expect(&listener, RDMA_CM_EVENT_CONNECT_REQUEST);
	sides[SERVER].channel = rdma_create_event_channel();
	if (!sides[SERVER].channel || rdma_migrate_id(sides[SERVER].id, sides[SERVER].channel))
		die("migrate");
	make_qp(&sides[SERVER]);
}

static void take(struct side *side)
{
	struct swrnic_down record;
	int i;

	while (!side->taken) {
		if (!readable(event_file, PATIENCE_MS))
			die("no record");
		if (read(event_file, &record, sizeof(record)) != sizeof(record))
			die("no whole record");
		if (record.type != SWRNIC_DOWN_QP_CONNECTED)
			continue;
		for (i = 0; i < 2; i++)
			if (sides[i].id && sides[i].id->qp && sides[i].id->qp->qp_num == record.qpn)
				sides[i].taken = 1;
		/* The socket stays open: its end is no report. */
	}
}

static void report(struct side *side, unsigned int type, unsigned int aux, int wanted)
{
	struct swrnic_up record = { type, side->id->qp->qp_num, aux, 0 };
	char said[100];
	int error;

	errno = 0;
	error = write(event_file, &record, sizeof(record)) == sizeof(record) ? 0 : errno;
	if (error != wanted) {
		snprintf(said, sizeof(said), "report %u/%u of the %s: errno %d instead of %d", type, aux,
			 side == &sides[CLIENT] ? "client" : "server", error, wanted);
		die(said);
	}
}

/* Without the provider's part, whose QP knows nothing of the connection. */
static void disconnect(struct rdma_cm_id *id)
{
	struct ibv_qp *qp = id->qp;

	id->qp = NULL;
	if (rdma_disconnect(id))
		die("rdma_disconnect");
	id->qp = qp;
}

static void do_step(const struct step *step)
{
	struct side *side = &sides[step->side];

	switch (step->action) {
	case READY:
		report(side, SWRNIC_UP_QP_READY, step->value, step->wanted);
		break;
	case CLOSED:
		report(side, SWRNIC_UP_QP_CLOSED, step->value, step->wanted);
		break;
	case CONNECT:
		do_connect();
		break;
	case ACCEPT:
		if (rdma_accept(side->id, &plain))
			die("rdma_accept");
		break;
	case TAKE:
		take(side);
		break;
	case DISCONNECT:
		disconnect(side->id);
		break;
	case EVENT:
		expect(side, step->value);
		break;
	case QUIET:
		if (readable(side->channel->fd, QUIET_MS))
			die("an event out of order");
		break;
	}
}

/* ---- the table --------------------------------------------------------------------------------------------------------- */

#define EARLY(side)                                                                                                                \
	{ READY, side, 0, EINVAL },                                                                                                \
	{                                                                                                                          \
		CLOSED, side, 0, EINVAL                                                                                            \
	}
#define LATE(side)                                                                                                                 \
	{ READY, side, 0, EINVAL }, { CLOSED, side, 0, EINVAL }, { CLOSED, side, 1, EINVAL },                                      \
	{                                                                                                                          \
		CLOSED, side, 2, EINVAL                                                                                            \
	}
#define IS_READY(side)                                                                                                             \
	{ TAKE, side, 0, 0 }, { READY, side, 0, 0 },                                                                               \
	{                                                                                                                          \
		EVENT, side, RDMA_CM_EVENT_ESTABLISHED, 0                                                                          \
	}
#define IS_OVER(side, reason)                                                                                                      \
	{ CLOSED, side, reason, 0 }, { EVENT, side, RDMA_CM_EVENT_DISCONNECTED, 0 }, LATE(side),                                   \
	{                                                                                                                          \
		QUIET, side, 0, 0                                                                                                  \
	}
#define CONNECTED                                                                                                                  \
	{ CONNECT, 0, 0, 0 },                                                                                                      \
	{                                                                                                                          \
		ACCEPT, SERVER, 0, 0                                                                                               \
	}

static const struct step before_connect[] = { EARLY(CLIENT), { QUIET, CLIENT, 0, 0 } };
static const struct step undecided[] = {
	{ CONNECT, 0, 0, 0 }, EARLY(CLIENT), EARLY(SERVER), { QUIET, CLIENT, 0, 0 }, { QUIET, SERVER, 0, 0 }
};
static const struct step not_taken[] = {
	CONNECTED, EARLY(SERVER), EARLY(CLIENT), { QUIET, CLIENT, 0, 0 }, { QUIET, SERVER, 0, 0 }, EARLY(SERVER), EARLY(CLIENT)
};
static const struct step twice[] = { CONNECTED,
				     { TAKE, SERVER, 0, 0 },
				     { TAKE, CLIENT, 0, 0 },
				     { QUIET, CLIENT, 0, 0 },
				     { QUIET, SERVER, 0, 0 },
				     { READY, SERVER, 1, EINVAL },
				     IS_READY(SERVER),
				     IS_READY(CLIENT),
				     { READY, SERVER, 0, EINVAL },
				     { READY, CLIENT, 0, EINVAL },
				     { QUIET, CLIENT, 0, 0 },
				     { QUIET, SERVER, 0, 0 },
				     { CLOSED, SERVER, 3, EINVAL },
				     { CLOSED, CLIENT, 77, EINVAL },
				     IS_OVER(SERVER, 0),
				     IS_OVER(CLIENT, 1) };
static const struct step client_first[] = { CONNECTED, IS_READY(CLIENT), IS_READY(SERVER), IS_OVER(CLIENT, 2), IS_OVER(SERVER, 2) };
/* iw_cm was promised an ESTABLISHED by its accept, whatever happens. */
static const struct step server_never_ready[] = { CONNECTED,
						  { TAKE, SERVER, 0, 0 },
						  { CLOSED, SERVER, 1, 0 },
						  { EVENT, SERVER, RDMA_CM_EVENT_ESTABLISHED, 0 },
						  { EVENT, SERVER, RDMA_CM_EVENT_DISCONNECTED, 0 },
						  LATE(SERVER),
						  { QUIET, SERVER, 0, 0 } };
static const struct step client_never_ready[] = {
	CONNECTED,    { TAKE, CLIENT, 0, 0 }, { CLOSED, CLIENT, 2, 0 }, { EVENT, CLIENT, RDMA_CM_EVENT_REJECTED, 0 },
	LATE(CLIENT), { QUIET, CLIENT, 0, 0 }
};
static const struct step asked_to_end[] = { CONNECTED,
					    IS_READY(SERVER),
					    IS_READY(CLIENT),
					    { DISCONNECT, CLIENT, 0, 0 },
					    { READY, CLIENT, 0, EINVAL },
					    IS_OVER(CLIENT, 0),
					    { DISCONNECT, SERVER, 0, 0 },
					    IS_OVER(SERVER, 0) };

static const struct {
	const char *name;
	const struct step *steps;
	unsigned int count;
} table[] = {
#define CASE(name)                                                                                                                 \
	{                                                                                                                          \
#name, name, sizeof(name) / sizeof(name[0])                                                                        \
	}
	CASE(before_connect), CASE(undecided),		CASE(not_taken),	  CASE(twice),
	CASE(client_first),   CASE(server_never_ready), CASE(client_never_ready), CASE(asked_to_end),
};

static int run_table(struct sockaddr_in *sin)
{
	unsigned int i, j;

	for (i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
		case_name = table[i].name;
		sin->sin_port = 0;
		listen_at(&listener, sin);
		sin->sin_port = rdma_get_src_port(listener.id);
		resolve(&sides[CLIENT], sin);
		for (j = 0; j < table[i].count; j++)
			do_step(&table[i].steps[j]);
		close_side(&sides[CLIENT]);
		close_side(&sides[SERVER]);
		close_side(&listener);
		printf("%s: %u steps\n", case_name, table[i].count);
	}
	return 0;
}

/* ---- those who hold ---------------------------------------------------------------------------------------------------- */

static void hold(struct side *side, const char *stage)
{
	if (strcmp(stage, "asked") && !readable(event_file, PATIENCE_MS))
		die("nothing to take");
	if (!strcmp(stage, "taken"))
		take(side);
	printf("held\n");
	fflush(stdout);
	for (;;)
		pause();
}

static int hold_server(struct sockaddr_in *sin, const char *stage)
{
	struct side *side = &sides[SERVER];

	listen_at(&listener, sin);
	side->id = expect(&listener, RDMA_CM_EVENT_CONNECT_REQUEST);
	make_qp(side);
	steal_event_file();
	if (strcmp(stage, "asked") && rdma_accept(side->id, &plain))
		die("rdma_accept");
	hold(side, stage);
	return 0;
}

static int hold_client(struct sockaddr_in *sin, const char *stage)
{
	resolve(&sides[CLIENT], sin);
	if (rdma_connect(sides[CLIENT].id, &plain))
		die("rdma_connect");
	hold(&sides[CLIENT], stage);
	return 0;
}

int main(int argc, char **argv)
{
	struct sockaddr_in sin = { .sin_family = AF_INET };

	if (argc < 3)
		return 2;
	inet_pton(AF_INET, argv[2], &sin.sin_addr);
	if (!strcmp(argv[1], "table"))
		return run_table(&sin);
	if (argc < 5)
		return 2;
	case_name = argv[4];
	sin.sin_port = htons(atoi(argv[3]));
	return strcmp(argv[1], "accept") ? hold_client(&sin, argv[4]) : hold_server(&sin, argv[4]);
}
