/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * QPs that are wired by hand, on the module: wired DEVICE IPV4-ADDRESS STEP. The address is one of the device's. Steps: numbers,
 * itself, pair, refused, strangers, given_up, nobody, storm. Whatever fails ends the program, with a line that says what.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <infiniband/verbs.h>
#include <pthread.h>
#include <rdma/ib_user_verbs.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define OCTETS 4096
#define STORM_QPS 6
#define STORM_SECONDS 8

static struct ibv_context *context;
static struct ibv_pd *pd;
static struct ibv_cq *cq;
static struct ibv_mr *mr;
static char memory[2 * OCTETS];
static struct in_addr address;
static union ibv_gid own;
static int own_index = -1;

static void fail(const char *what)
{
	fprintf(stderr, "%s (%s)\n", what, strerror(errno));
	exit(1);
}

static void open_device(const char *name)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct ibv_port_attr port;
	int i;

	for (i = 0; list && list[i] && strcmp(ibv_get_device_name(list[i]), name); i++)
		;
	context = list && list[i] ? ibv_open_device(list[i]) : NULL;
	if (!context || ibv_query_port(context, 1, &port))
		fail("no device");
	for (i = 0; i < port.gid_tbl_len && own_index < 0; i++)
		if (!ibv_query_gid(context, 1, i, &own) && !memcmp(own.raw, "\0\0\0\0\0\0\0\0\0\0\xff\xff", 12) &&
		    !memcmp(own.raw + 12, &address, 4))
			own_index = i;
	if (own_index < 0)
		fail("no GID of the address");
	pd = ibv_alloc_pd(context);
	cq = ibv_create_cq(context, 64, NULL, NULL, 0);
	mr = pd ? ibv_reg_mr(pd, memory, sizeof(memory), IBV_ACCESS_LOCAL_WRITE) : NULL;
	if (!cq || !mr)
		fail("no objects");
}

static struct ibv_qp *make_qp(void)
{
	struct ibv_qp_init_attr attr = {
		.send_cq = cq, .recv_cq = cq, .cap = { 8, 8, 1, 1, 0 }, .qp_type = IBV_QPT_RC, .sq_sig_all = 1
	};
	struct ibv_qp *qp = ibv_create_qp(pd, &attr);

	if (!qp)
		fail("create_qp");
	return qp;
}

static void to_init(struct ibv_qp *qp)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_INIT, .port_num = 1, .qp_access_flags = IBV_ACCESS_LOCAL_WRITE };

	if (ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS))
		fail("INIT");
}

static int to_rtr(struct ibv_qp *qp, uint32_t peer, int index, const union ibv_gid *gid)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_RTR, .path_mtu = IBV_MTU_1024, .dest_qp_num = peer, .max_dest_rd_atomic = 1
	};

	attr.ah_attr.port_num = 1;
	if (gid) {
		attr.ah_attr.is_global = 1;
		attr.ah_attr.grh.dgid = *gid;
		attr.ah_attr.grh.sgid_index = index;
		attr.ah_attr.grh.hop_limit = 1;
	}
	errno = ibv_modify_qp(qp, &attr,
			      IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
				      IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
	return errno;
}

static void to_rts(struct ibv_qp *qp, int timeout)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_RTS, .timeout = timeout, .retry_cnt = 1, .rnr_retry = 7, .max_rd_atomic = 1
	};

	if (ibv_modify_qp(qp, &attr,
			  IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
				  IBV_QP_MAX_QP_RD_ATOMIC))
		fail("RTS");
}

static void wire(struct ibv_qp *qp, uint32_t peer)
{
	to_init(qp);
	if (to_rtr(qp, peer, own_index, &own))
		fail("RTR");
	to_rts(qp, 0);
}

static void reset(struct ibv_qp *qp)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_RESET };

	if (ibv_modify_qp(qp, &attr, IBV_QP_STATE))
		fail("RESET");
}

static enum ibv_wc_status completion(void)
{
	struct ibv_wc wc;
	time_t until = time(NULL) + 60;
	int n;

	while (!(n = ibv_poll_cq(cq, 1, &wc)))
		if (time(NULL) > until)
			fail("no completion");
	if (n < 0)
		fail("poll");
	return wc.status;
}

static void post_send(struct ibv_qp *qp)
{
	struct ibv_sge sge = { (uintptr_t)memory, OCTETS, mr->lkey };
	struct ibv_send_wr wr = { .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND }, *bad;

	if (ibv_post_send(qp, &wr, &bad))
		fail("post_send");
}

static void post_recv(struct ibv_qp *qp)
{
	struct ibv_sge sge = { (uintptr_t)memory + OCTETS, OCTETS, mr->lkey };
	struct ibv_recv_wr wr = { .sg_list = &sge, .num_sge = 1 }, *bad;

	if (ibv_post_recv(qp, &wr, &bad))
		fail("post_recv");
}

static void transfer(struct ibv_qp *from, struct ibv_qp *to)
{
	memset(memory + OCTETS, 0, OCTETS);
	memory[0]++;
	post_recv(to);
	post_send(from);
	if (completion() || completion())
		fail("a completion with an error");
	if (memcmp(memory, memory + OCTETS, OCTETS))
		fail("other octets");
}

/* ---- steps ------------------------------------------------------------------------------------------------------------- */

static int bind_to(uint16_t port)
{
	struct sockaddr_in own_port = { .sin_family = AF_INET, .sin_port = htons(port) };
	int fd = socket(AF_INET, SOCK_STREAM, 0);
	int error = bind(fd, (struct sockaddr *)&own_port, sizeof(own_port)) ? errno : 0;

	close(fd);
	return error;
}

static int connect_to(uint16_t port)
{
	struct sockaddr_in peer = { .sin_family = AF_INET, .sin_port = htons(port), .sin_addr = address };
	int fd = socket(AF_INET, SOCK_STREAM, 0);

	if (!connect(fd, (struct sockaddr *)&peer, sizeof(peer)))
		return fd;
	close(fd);
	return -1;
}

/* 300 QPs have two ports, which nobody else can have, and which are free again when the QPs have gone. */
static void step_numbers(void)
{
	struct ibv_qp *qps[300];
	uint16_t ports[300];
	int i, j, count = 0;

	for (i = 0; i < 300; i++) {
		qps[i] = make_qp();
		for (j = 0; j < i; j++)
			if (qps[i]->qp_num == qps[j]->qp_num)
				fail("a number twice");
		for (j = 0; j < count && ports[j] != qps[i]->qp_num >> 8; j++)
			;
		if (j == count)
			ports[count++] = qps[i]->qp_num >> 8;
	}
	if (count != 2)
		fail("not two ports");
	for (j = 0; j < count; j++) {
		if (bind_to(ports[j]) != EADDRINUSE)
			fail("the port is not taken");
		if (connect_to(ports[j]) >= 0 || errno != ECONNREFUSED)
			fail("it listens before anybody is wired");
	}
	for (i = 0; i < 300; i++)
		if (ibv_destroy_qp(qps[i]))
			fail("destroy_qp");
	for (j = 0; j < count; j++)
		if (bind_to(ports[j]))
			fail("the port is still taken");
}

static void step_itself(void)
{
	struct ibv_qp *qp = make_qp();
	int i;

	for (i = 0; i < 3; i++) {
		wire(qp, qp->qp_num);
		transfer(qp, qp);
		reset(qp);
	}
	ibv_destroy_qp(qp);
}

/* Two QPs of one process; then crosswise with two others, by the same numbers. */
static void step_pair(void)
{
	struct ibv_qp *qps[4];
	struct ibv_qp_attr attr;
	struct ibv_qp_init_attr init;
	uint32_t numbers[4];
	int i, round;

	for (i = 0; i < 4; i++) {
		qps[i] = make_qp();
		numbers[i] = qps[i]->qp_num;
	}
	for (round = 0; round < 4; round++) {
		const int step = round % 2 ? 2 : 1; /* 0-1 2-3, then 0-2 1-3 */

		for (i = 0; i < 4; i++)
			wire(qps[i], qps[i ^ step]->qp_num);
		for (i = 0; i < 4; i++)
			transfer(qps[i], qps[i ^ step]);
		if (ibv_query_qp(qps[0], &attr, IBV_QP_STATE | IBV_QP_DEST_QPN, &init) || attr.qp_state != IBV_QPS_RTS ||
		    attr.dest_qp_num != qps[step]->qp_num)
			fail("query_qp says otherwise");
		for (i = 0; i < 4; i++)
			reset(qps[i]);
		for (i = 0; i < 4; i++)
			if (qps[i]->qp_num != numbers[i])
				fail("another number after RESET");
	}
	for (i = 0; i < 4; i++)
		ibv_destroy_qp(qps[i]);
}

static void refuse_handle(int index, const union ibv_gid *gid)
{
	struct ibv_ah_attr attr = { .is_global = !!gid, .port_num = 1 };

	attr.grh.sgid_index = index;
	if (gid)
		attr.grh.dgid = *gid;
	if (ibv_create_ah(pd, &attr))
		fail("an address handle of what cannot be reached");
}

static void step_refused(void)
{
	struct ibv_ah_attr reachable = { .is_global = 1, .port_num = 1, .grh = { .dgid = own, .sgid_index = own_index } };
	struct ibv_ah *ah = ibv_create_ah(pd, &reachable);
	struct ibv_qp *qp = make_qp();
	union ibv_gid gid = own;

	if (!ah || ibv_destroy_ah(ah))
		fail("no address handle of a GID of our own");
	refuse_handle(0, NULL);
	refuse_handle(255, &own);

	to_init(qp);
	if (to_rtr(qp, 12345 << 8, 0, NULL) != EINVAL)
		fail("taken without a GID");
	if (to_rtr(qp, 12345 << 8, 255, &own) != ENODATA) /* the core's word, before the driver is asked */
		fail("taken by an empty GID");
	memcpy(gid.raw + 12, "\xe0\0\0\x01", 4);
	if (to_rtr(qp, 12345 << 8, own_index, &gid) != EINVAL)
		fail("a group is taken for a peer");
	memcpy(gid.raw + 12, "\xcb\0\x71\x01", 4); /* 203.0.113.1: no route */
	if (to_rtr(qp, 12345 << 8, own_index, &gid) != EINVAL)
		fail("taken without a route");
	refuse_handle(own_index, &gid);
	if (to_rtr(qp, qp->qp_num, own_index, &own))
		fail("refused after that");
	to_rts(qp, 0);
	transfer(qp, qp);
	ibv_destroy_qp(qp);
}

static void put_end(unsigned char *to, uint32_t number)
{
	memcpy(to, own.raw, 16);
	to[16] = 0;
	to[17] = number >> 16;
	to[18] = number >> 8;
	to[19] = number;
}

/* What comes back: 0 for nothing, 1 for a refusal, 2 for anything else. */
static int call(uint16_t port, const char *key, uint32_t caller, uint32_t called)
{
	unsigned char frame[20 + 48] = { 0 }, answer[20];
	struct timeval patience = { .tv_sec = 20 };
	int fd = connect_to(port);
	ssize_t got;

	if (fd < 0)
		fail("it does not listen");
	memcpy(frame, "MPA ID Req Frame", 16);
	frame[17] = 1;
	frame[19] = 48;
	memcpy(frame + 20, key, 4);
	frame[24] = 1;
	put_end(frame + 28, caller);
	put_end(frame + 48, called);
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
	if (send(fd, frame, sizeof(frame), 0) != sizeof(frame))
		fail("send");
	got = recv(fd, answer, sizeof(answer), MSG_WAITALL);
	close(fd);
	if (got < 20)
		return 0;
	return !memcmp(answer, "MPA ID Rep Frame", 16) && (answer[16] & 0x20) ? 1 : 2;
}

/* Who calls a QP that waits for another is refused, and what it waits for comes through. */
static void step_strangers(void)
{
	struct ibv_qp *a = make_qp(), *b = make_qp();
	struct ibv_qp *caller = a->qp_num < b->qp_num ? a : b, *called = caller == a ? b : a;
	const uint16_t port = called->qp_num >> 8;

	wire(called, caller->qp_num);
	if (call(port, "SWQP", caller->qp_num ^ 1, called->qp_num) != 1)
		fail("another number is not refused");
	if (call(port, "SWQP", caller->qp_num, called->qp_num ^ 1) != 1)
		fail("a call to nobody is not refused");
	if (call(port, "SWQP", called->qp_num, caller->qp_num) != 1)
		fail("a call to the end that calls is not refused");
	if (call(port, "swqp", caller->qp_num, called->qp_num) != 1)
		fail("private data of others is not refused");
	wire(caller, called->qp_num);
	transfer(caller, called);
	transfer(called, caller);
	if (call(port, "SWQP", caller->qp_num, called->qp_num) != 1)
		fail("a second stream is not refused");
	transfer(caller, called);
	reset(called);
	if (call(port, "SWQP", caller->qp_num, called->qp_num) != 1)
		fail("a QP in RESET is called");
	ibv_destroy_qp(a);
	ibv_destroy_qp(b);
}

/* A listener at a port above those that QPs get by themselves, so that the end with the smaller number, which calls, is the QP's.
 */
static int listen_high(uint16_t *port)
{
	struct sockaddr_in own_port = { .sin_family = AF_INET };
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);

	for (*port = 61000; *port < 62000; (*port)++) {
		own_port.sin_port = htons(*port);
		if (!bind(fd, (struct sockaddr *)&own_port, sizeof(own_port)) && !listen(fd, 64))
			return fd;
	}
	fail("no port to listen at");
	return -1;
}

/* Refuses by closing whoever calls within that time; how many they were. */
static int calls_within(int listener, int ms)
{
	int calls = 0, caller;

	for (; ms > 0; ms -= 10) {
		while ((caller = accept(listener, NULL, NULL)) >= 0) {
			calls++;
			close(caller);
		}
		usleep(10000);
	}
	return calls;
}

static enum ibv_qp_state state_in_kernel(const struct ibv_qp *qp)
{
	struct {
		struct ib_uverbs_cmd_hdr head;
		struct ib_uverbs_query_qp body;
	} command = { .head = { IB_USER_VERBS_CMD_QUERY_QP, sizeof(command) / 4, sizeof(struct ib_uverbs_query_qp_resp) / 4 } };
	struct ib_uverbs_query_qp_resp said = { 0 };

	command.body.response = (uintptr_t)&said;
	command.body.qp_handle = qp->handle;
	command.body.attr_mask = IBV_QP_STATE;
	if (write(context->cmd_fd, &command, sizeof(command)) < 0)
		fail("query_qp");
	return said.qp_state;
}

/* With the last request that waits for a peer the module stops to call it, until the QP is wired anew. */
static void step_given_up(void)
{
	struct ibv_qp *qp = make_qp(), *other = make_qp();
	uint16_t port;
	int listener = listen_high(&port), round;

	for (round = 0; round < 2; round++) {
		to_init(qp);
		if (to_rtr(qp, port << 8, own_index, &own))
			fail("RTR");
		to_rts(qp, 16);
		post_send(qp);
		if (calls_within(listener, 1000) < 2)
			fail("it does not call");
		if (completion() != IBV_WC_RETRY_EXC_ERR)
			fail("not RETRY_EXC_ERR");
		calls_within(listener, 200);
		if (state_in_kernel(qp) != IBV_QPS_ERR)
			fail("not in ERROR to the kernel");
		if (calls_within(listener, 2500))
			fail("it goes on calling a peer that it has given up");
		reset(qp);
	}
	wire(qp, other->qp_num);
	wire(other, qp->qp_num);
	transfer(qp, other);
	ibv_destroy_qp(qp);
	ibv_destroy_qp(other);
	close(listener);
}

/* Nobody is there: the request ends when the QP's own time is over. A QP that still calls can be destroyed, and its process killed.
 */
static void step_nobody(void)
{
	struct ibv_qp *qp = make_qp(), *other = make_qp();

	to_init(qp);
	if (to_rtr(qp, 0xffffff, own_index, &own))
		fail("RTR");
	to_rts(qp, 16); /* a quarter of a second */
	post_send(qp);
	if (completion() != IBV_WC_RETRY_EXC_ERR)
		fail("not RETRY_EXC_ERR");
	ibv_destroy_qp(qp);
	wire(other, 0xffffff);
	usleep(300000);
	kill(getpid(), SIGKILL);
}

/* ---- storm: modify_qp from four threads, past the provider ------------------------------------------------------------- */

static struct ibv_qp *storm[STORM_QPS];
static volatile int storm_over;

static void modify(struct ibv_qp *qp, unsigned int state, const struct ibv_qp *peer)
{
	struct {
		struct ib_uverbs_cmd_hdr head;
		struct ib_uverbs_modify_qp body;
	} command = { .head = { IB_USER_VERBS_CMD_MODIFY_QP, sizeof(command) / 4, 0 } };

	command.body.qp_handle = qp->handle;
	command.body.qp_state = state;
	command.body.attr_mask = IBV_QP_STATE;
	if (state == IBV_QPS_RTR) {
		command.body.attr_mask |= IBV_QP_AV | IBV_QP_DEST_QPN;
		command.body.dest_qp_num = peer->qp_num;
		memcpy(command.body.dest.dgid, own.raw, 16);
		command.body.dest.is_global = 1;
		command.body.dest.sgid_index = own_index;
		command.body.dest.port_num = 1;
	}
	if (write(context->cmd_fd, &command, sizeof(command)) < 0 && errno != EINVAL)
		fail("modify_qp");
}

static void *storm_of(void *argument)
{
	static const unsigned int states[] = { IBV_QPS_RESET, IBV_QPS_INIT, IBV_QPS_RTR, IBV_QPS_RTS, IBV_QPS_RTR, IBV_QPS_ERR };
	unsigned int seed = (uintptr_t)argument, count = 0;

	while (!storm_over) {
		struct ibv_qp *qp = storm[rand_r(&seed) % STORM_QPS];
		/* Mostly in order, so that streams come about. */
		const unsigned int step = rand_r(&seed) % 8 ? count++ : (unsigned int)rand_r(&seed);

		modify(qp, states[step % 6], storm[rand_r(&seed) % STORM_QPS]);
		if (count % 64 == 0)
			usleep(2000);
	}
	return NULL;
}

static void step_storm(void)
{
	pthread_t threads[4];
	unsigned long i;

	for (i = 0; i < STORM_QPS; i++)
		storm[i] = make_qp();
	for (i = 0; i < 4; i++)
		pthread_create(&threads[i], NULL, storm_of, (void *)(i + 1));
	sleep(STORM_SECONDS);
	storm_over = 1;
	for (i = 0; i < 4; i++)
		pthread_join(threads[i], NULL);
	for (i = 0; i < STORM_QPS; i++)
		if (ibv_destroy_qp(storm[i]))
			fail("destroy_qp");
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		void (*run)(void);
	} steps[] = { { "numbers", step_numbers }, { "itself", step_itself },	    { "pair", step_pair },
		      { "refused", step_refused }, { "strangers", step_strangers }, { "given_up", step_given_up },
		      { "nobody", step_nobody },   { "storm", step_storm } };
	unsigned int i;

	if (argc != 4 || !inet_aton(argv[2], &address))
		fail("wired DEVICE IPV4-ADDRESS STEP");
	open_device(argv[1]);
	for (i = 0; i < sizeof(steps) / sizeof(*steps); i++) {
		if (!strcmp(argv[3], steps[i].name)) {
			steps[i].run();
			return 0;
		}
	}
	fail("no such step");
}
