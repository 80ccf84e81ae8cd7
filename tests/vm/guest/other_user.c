// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * What a process of another user can do with our objects: nothing. The parent makes a context, objects and a connection, hands its
 * descriptors to a child of another uid, and tells it all numbers. The child tries them there, and in a context of its own.
 *   other_user ADDRESS [UID]
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <infiniband/verbs.h>
#include <poll.h>
#include <rdma/ib_user_verbs.h>
#include <rdma/rdma_cma.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "event_file.h"

#define SPARE 40 /* so that no handle of the child's is by chance one of the parent's */

struct secrets {
	uint32_t pd, cq, mr, qp, qpn, rkey;
	uint64_t addr;
	struct sockaddr_in sin;
};

static int bad;

static void die(const char *what)
{
	printf("%s: %s\n", what, strerror(errno));
	exit(1);
}

/* What the kernel said; 0: it agreed. */
static void check(const char *what, int error, int wanted, int or_this)
{
	int wrong = error != wanted && error != or_this;

	printf("%s: %s%s\n", what, error ? strerror(error) : "granted", wrong ? ", WRONG" : "");
	bad |= wrong;
}

static int write_error(int fd, const void *data, size_t len)
{
	return write(fd, data, len) == (ssize_t)len ? 0 : errno;
}

/* A write() command with one handle in it, behind the response's address. */
static int command(int fd, uint32_t number, uint32_t handle, unsigned int words)
{
	static uint64_t answer[64];
	struct {
		struct ib_uverbs_cmd_hdr hdr;
		uint64_t response;
		uint32_t words[32];
	} call = { .hdr = { number, 2 + words, 0 } };

	/* DEALLOC_PD, DEREG_MR have no response: the handle comes first. */
	call.response = words > 1 ? (uintptr_t)answer : handle;
	call.words[0] = handle;
	call.hdr.out_words = words > 1 ? 2 : 0;
	call.hdr.in_words = (sizeof(call.hdr) + (words > 1 ? 8 + 4 * words : 4)) / 4;
	return write_error(fd, &call, call.hdr.in_words * 4);
}

/* ---- the child --------------------------------------------------------------------------------------------------------- */

static int receive_fd(int sock)
{
	char byte, control[CMSG_SPACE(sizeof(int))];
	struct iovec vec = { &byte, 1 };
	struct msghdr msg = { .msg_iov = &vec, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof(control) };
	int fd;

	if (recvmsg(sock, &msg, 0) != 1 || !CMSG_FIRSTHDR(&msg))
		die("no descriptor");
	memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&msg)), sizeof(fd));
	return fd;
}

static void try_event_file(const char *whose, int fd, const struct secrets *s, int wanted)
{
	struct swrnic_up records[] = { { SWRNIC_UP_QP_READY, s->qpn, 0, 0 },
				       { SWRNIC_UP_QP_CLOSED, s->qpn, 0, 0 },
				       { SWRNIC_UP_COMP_POSTED, s->cq, 0, 0 },
				       { SWRNIC_UP_ASYNC_EVENT, s->qpn, IBV_EVENT_QP_FATAL, 0 } };
	char what[80];
	unsigned int i;

	for (i = 0; i < sizeof(records) / sizeof(records[0]); i++) {
		snprintf(what, sizeof(what), "%s event file, record %u", whose, records[i].type);
		check(what, write_error(fd, &records[i], sizeof(records[i])), wanted, wanted);
	}
}

static void try_handles(const char *whose, int fd, const struct secrets *s, int wanted, int or_this)
{
	const struct {
		const char *name;
		uint32_t number, handle;
		unsigned int words;
	} calls[] = {
		{ "DEALLOC_PD", IB_USER_VERBS_CMD_DEALLOC_PD, s->pd, 1 },
		{ "DEREG_MR", IB_USER_VERBS_CMD_DEREG_MR, s->mr, 1 },
		{ "DESTROY_CQ", IB_USER_VERBS_CMD_DESTROY_CQ, s->cq, 2 },
		{ "DESTROY_QP", IB_USER_VERBS_CMD_DESTROY_QP, s->qp, 2 },
	};
	char what[80];
	unsigned int i;

	for (i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
		snprintf(what, sizeof(what), "%s uverbs file, %s", whose, calls[i].name);
		check(what, command(fd, calls[i].number, calls[i].handle, calls[i].words), wanted, or_this);
	}
}

static struct rdma_cm_id *want(struct rdma_event_channel *channel, enum rdma_cm_event_type type)
{
	struct pollfd pfd = { channel->fd, POLLIN, 0 };
	struct rdma_cm_event *event;
	struct rdma_cm_id *id;

	if (poll(&pfd, 1, 20000) <= 0 || rdma_get_cm_event(channel, &event))
		die("no event");
	if (event->event != type) {
		printf("%s %d instead of %s\n", rdma_event_str(event->event), event->status, rdma_event_str(type));
		exit(1);
	}
	id = event->id;
	rdma_ack_cm_event(event);
	return id;
}

static struct rdma_cm_id *resolved(struct rdma_event_channel *channel, struct sockaddr_in sin)
{
	struct rdma_cm_id *id;

	if (!channel || rdma_create_id(channel, &id, NULL, RDMA_PS_TCP) ||
	    rdma_resolve_addr(id, NULL, (struct sockaddr *)&sin, 2000))
		die("resolve");
	want(channel, RDMA_CM_EVENT_ADDR_RESOLVED);
	if (rdma_resolve_route(id, 2000))
		die("route");
	want(channel, RDMA_CM_EVENT_ROUTE_RESOLVED);
	return id;
}

static int child(int sock)
{
	struct rdma_conn_param param = { .responder_resources = 1, .initiator_depth = 1 };
	struct rdma_event_channel *channel = rdma_create_event_channel();
	int event_file = receive_fd(sock), uverbs = receive_fd(sock), own;
	char buffer[sizeof(struct swrnic_down)];
	struct rdma_cm_id *id;
	struct secrets s;

	if (read(sock, &s, sizeof(s)) != sizeof(s))
		die("no secrets");
	try_event_file("their", event_file, &s, EACCES);
	check("their event file, read", read(event_file, buffer, sizeof(buffer)) < 0 ? errno : 0, EACCES, EACCES);
	/* uverbs itself turns a write() by other credentials away, by EACCES. */
	try_handles("their", uverbs, &s, EACCES, EACCES);
	close(event_file);
	close(uverbs);

	id = resolved(channel, s.sin);
	own = find_event_file();
	if (own < 0)
		die("no event file of our own");
	try_event_file("our", own, &s, EINVAL);
	try_handles("our", id->verbs->cmd_fd, &s, ENOENT, EINVAL);
	/* A QP that is somebody else's: by its number alone. */
	param.qp_num = s.qpn;
	check("rdma_connect with their QP", rdma_connect(id, &param) ? errno : 0, EINVAL, EINVAL);
	return bad;
}

/* ---- the parent -------------------------------------------------------------------------------------------------------- */

static void send_fd(int sock, int fd)
{
	char byte = 0, control[CMSG_SPACE(sizeof(int))] = {};
	struct iovec vec = { &byte, 1 };
	struct msghdr msg = { .msg_iov = &vec, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof(control) };
	struct cmsghdr *cmsg = CMSG_FIRSTHDR(&msg);

	cmsg->cmsg_level = SOL_SOCKET;
	cmsg->cmsg_type = SCM_RIGHTS;
	cmsg->cmsg_len = CMSG_LEN(sizeof(int));
	memcpy(CMSG_DATA(cmsg), &fd, sizeof(fd));
	if (sendmsg(sock, &msg, 0) != 1)
		die("cannot hand a descriptor over");
}

static struct ibv_pd *make_qp(struct rdma_cm_id *id)
{
	struct ibv_qp_init_attr attr = { .cap = { 4, 4, 1, 1, 0 }, .qp_type = IBV_QPT_RC, .sq_sig_all = 1 };
	struct ibv_pd *pd = ibv_alloc_pd(id->verbs);

	attr.send_cq = attr.recv_cq = ibv_create_cq(id->verbs, 16, NULL, NULL, 0);
	if (!pd || !attr.send_cq || rdma_create_qp(id, pd, &attr))
		die("qp");
	return pd;
}

/* The peer's QP belongs to another PD than the region that is written to. */
static void try_other_pd(struct rdma_cm_id *id, struct ibv_mr *own, const struct secrets *s)
{
	struct ibv_sge sge = { (uintptr_t)own->addr, 8, own->lkey };
	struct ibv_send_wr wr = { .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_RDMA_READ, .send_flags = IBV_SEND_SIGNALED },
			   *failed;
	struct ibv_wc wc = {};
	int tries;

	wr.wr.rdma.remote_addr = s->addr;
	wr.wr.rdma.rkey = s->rkey;
	if (ibv_post_send(id->qp, &wr, &failed))
		die("post");
	for (tries = 0; tries < 20000 && !ibv_poll_cq(id->qp->send_cq, 1, &wc); tries++)
		usleep(500);
	printf("a Read from a region of another PD: %s\n", tries == 20000 ? "nothing" : ibv_wc_status_str(wc.status));
	bad |= tries == 20000 || wc.status == IBV_WC_SUCCESS;
}

int main(int argc, char **argv)
{
	struct rdma_conn_param param = { .responder_resources = 1, .initiator_depth = 1 };
	struct rdma_event_channel *listening = rdma_create_event_channel(), *calling = rdma_create_event_channel();
	struct sockaddr_in sin = { .sin_family = AF_INET };
	struct rdma_cm_id *listener, *client, *server;
	static char memory[64], others[64];
	struct ibv_mr *theirs, *ours;
	int sock[2], i, status;
	struct ibv_pd *pd;
	struct secrets s;
	pid_t pid;

	if (argc < 2 || socketpair(AF_UNIX, SOCK_STREAM, 0, sock))
		return 2;
	inet_pton(AF_INET, argv[1], &sin.sin_addr);
	/* Before there is any context that a fork would share. */
	pid = fork();
	if (!pid) {
		if (setgid(argc > 2 ? atoi(argv[2]) : 1000) || setuid(argc > 2 ? atoi(argv[2]) : 1000))
			die("setuid");
		return child(sock[1]);
	}
	if (!listening || rdma_create_id(listening, &listener, NULL, RDMA_PS_TCP) ||
	    rdma_bind_addr(listener, (struct sockaddr *)&sin) || rdma_listen(listener, 4))
		die("listen");
	sin.sin_port = rdma_get_src_port(listener);
	client = resolved(calling, sin);
	for (i = 0; i < SPARE; i++)
		if (!ibv_alloc_pd(client->verbs))
			die("pd");
	pd = make_qp(client);
	ours = ibv_reg_mr(pd, memory, sizeof(memory), IBV_ACCESS_LOCAL_WRITE);
	if (!ours || rdma_connect(client, &param))
		die("connect");
	server = want(listening, RDMA_CM_EVENT_CONNECT_REQUEST);
	make_qp(server);
	if (rdma_accept(server, &param))
		die("accept");
	want(calling, RDMA_CM_EVENT_ESTABLISHED);
	want(listening, RDMA_CM_EVENT_ESTABLISHED);
	theirs = ibv_reg_mr(ibv_alloc_pd(client->verbs), others, sizeof(others), IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ);
	if (!theirs)
		die("mr");
	s = (struct secrets){ pd->handle,   client->qp->send_cq->handle, ours->handle, client->qp->handle, client->qp->qp_num,
			      theirs->rkey, (uintptr_t)others,		 sin };

	send_fd(sock[0], find_event_file());
	send_fd(sock[0], client->verbs->cmd_fd);
	if (write(sock[0], &s, sizeof(s)) != sizeof(s) || waitpid(pid, &status, 0) != pid)
		die("the other user");
	bad |= status;
	/* The connection has suffered nothing of it, and does not reach beyond its PD either. */
	check("our own QP still stands",
	      ibv_query_qp(client->qp, &(struct ibv_qp_attr){}, IBV_QP_STATE, &(struct ibv_qp_init_attr){}), 0, 0);
	try_other_pd(client, ours, &s);
	return bad != 0;
}
