// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * A malicious process at the uverbs device itself: write() commands and RDMA_VERBS_IOCTLs that are plausible but for some of their
 * fields, with handles of objects that are there, were there, or never were; then whatever is left, left to the kernel.
 *   fuzz_uverbs ROUNDS SEED [DEVICE]	exit code 0 if every round ended as it should, and enough of what was asked for was granted
 */
#include <errno.h>
#include <fcntl.h>
#include <infiniband/verbs.h>
#include <rdma/ib_user_ioctl_cmds.h>
#include <rdma/ib_user_verbs.h>
#include <rdma/rdma_user_ioctl_cmds.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "swrnic-abi.h"

#define CALLS 1500 /* per round, which is one process with one context */
#define ARENA 65536
#define MAX_CALL 512

static uint64_t state;
static char *arena; /* all that the kernel may write to */
static unsigned int *granted;
enum { CONTEXTS, PDS, CQS, QPS, MRS, IOCTLS, RECORDS, KINDS };
static const char *const kinds[KINDS] = { "contexts", "PDs", "CQs", "QPs", "MRs", "ioctls", "records" };

static uint32_t rnd(uint32_t below)
{
	state ^= state << 13;
	state ^= state >> 7;
	state ^= state << 17;
	return below ? (uint32_t)(state >> 20) % below : (uint32_t)(state >> 20);
}

static uint64_t somewhere(void)
{
	switch (rnd(20)) {
	case 0:
		return 0;
	case 1:
		return 8;
	case 2:
		return 0xffff888000000000ull;
	case 3:
		return (uintptr_t)arena + ARENA - rnd(16); /* its end is no page */
	default:
		return (uintptr_t)arena + rnd(ARENA / 2);
	}
}

static uint32_t number(void)
{
	static const uint32_t edges[] = { 0, 1, 2, 3, 4, 16, 255, 256, 4096, 65535, 65536, 0x7fffffff, 0x80000000, 0xffffffff };

	return rnd(3) ? rnd(12) : rnd(2) ? edges[rnd(sizeof(edges) / sizeof(edges[0]))] : rnd(0);
}

/* ---- write() commands -------------------------------------------------------------------------------------------------- */

struct call {
	struct ib_uverbs_cmd_hdr hdr;
	union {
		uint64_t response;
		unsigned char body[MAX_CALL];
	};
};

static void spoil(struct call *call, size_t len)
{
	unsigned int i, count = rnd(3) ? 0 : 1 + rnd(3);

	for (i = 0; i < count && len > 8; i++) {
		if (rnd(2))
			call->body[8 + rnd(len - 8)] = rnd(256);
		else
			memset(call->body + 8 + (rnd(len - 8) & ~3u), number(), 4 > len - 8 ? 1 : 4);
	}
}

/* len: of the body; out: of the response. With driver data behind it, if given. 0: granted. */
static int send_call(int fd, struct call *call, uint32_t command, size_t len, size_t out, const void *driver, size_t driver_len)
{
	static const uint32_t flags[] = { 0, 0, 0, IB_USER_VERBS_CMD_FLAG_EXTENDED, 0x40000000 };
	size_t total;

	if (driver)
		memcpy(call->body + len, driver, driver_len);
	len += driver_len;
	call->response = rnd(16) ? (uintptr_t)arena : somewhere();
	spoil(call, len);
	if (!rnd(16))
		len = rnd(MAX_CALL);
	total = sizeof(call->hdr) + len;
	call->hdr.command = command | (rnd(12) ? 0 : flags[rnd(5)]);
	call->hdr.in_words = rnd(20) ? total / 4 : number();
	call->hdr.out_words = rnd(12) ? out / 4 : number();
	return write(fd, call, total) == (ssize_t)total ? 0 : -1;
}

static int get_context(int fd)
{
	struct swrnic_alloc_ucontext_req req = { .abi_version = SWRNIC_ABI_NEWEST };
	struct call call = {};

	return send_call(fd, &call, IB_USER_VERBS_CMD_GET_CONTEXT, sizeof(struct ib_uverbs_get_context),
			 sizeof(struct ib_uverbs_get_context_resp) + sizeof(struct swrnic_alloc_ucontext_resp), &req, sizeof(req));
}

static void alloc_pd(int fd)
{
	struct call call = {};

	granted[PDS] += !send_call(fd, &call, IB_USER_VERBS_CMD_ALLOC_PD, 8, 4, NULL, 0);
}

static void create_cq(int fd)
{
	struct ib_uverbs_create_cq cq = { .user_handle = rnd(0), .cqe = number(), .comp_channel = rnd(2) ? -1 : (int)rnd(16) };
	struct call call = {};

	memcpy(call.body, &cq, sizeof(cq));
	granted[CQS] += !send_call(fd, &call, IB_USER_VERBS_CMD_CREATE_CQ, sizeof(cq), 8, NULL, 0);
}

static void create_qp(int fd)
{
	struct swrnic_create_qp_req req = {
		.crc_mode = rnd(3), .fpdu_mode = rnd(3), .mpa_rev = 1 + rnd(2), .timeout_ms = number()
	};
	struct ib_uverbs_create_qp qp = { .pd_handle = rnd(12),
					  .send_cq_handle = rnd(12),
					  .recv_cq_handle = rnd(12),
					  .srq_handle = rnd(12),
					  .max_send_wr = rnd(100),
					  .max_recv_wr = number(),
					  .max_send_sge = rnd(17),
					  .max_recv_sge = rnd(17),
					  .qp_type = rnd(4) ? IBV_QPT_RC : number(),
					  .is_srq = !rnd(8) };
	struct call call = {};

	memcpy(call.body, &qp, sizeof(qp));
	granted[QPS] += !send_call(fd, &call, IB_USER_VERBS_CMD_CREATE_QP, sizeof(qp), sizeof(struct ib_uverbs_create_qp_resp),
				   &req, sizeof(req));
}

static void reg_mr(int fd)
{
	struct swrnic_reg_mr_req req = { .stag = rnd(0) | 1 };
	uint64_t start = rnd(4) ? somewhere() : (uint64_t)rnd(0) << 32 | rnd(0);
	struct ib_uverbs_reg_mr mr = { .start = start,
				       .length = rnd(3) ? number() : ~start,
				       .hca_va = start,
				       .pd_handle = rnd(12),
				       .access_flags = rnd(4) ? rnd(8) : number() };
	struct call call = {};

	memcpy(call.body, &mr, sizeof(mr));
	granted[MRS] += !send_call(fd, &call, IB_USER_VERBS_CMD_REG_MR, sizeof(mr), sizeof(struct ib_uverbs_reg_mr_resp), &req,
				   sizeof(req));
}

static void modify_qp(int fd)
{
	struct ib_uverbs_modify_qp qp = { .qp_handle = rnd(12), .attr_mask = rnd(3) ? 1 : number(), .qp_state = rnd(8) };
	struct call call = {};

	memcpy(call.body, &qp, sizeof(qp));
	send_call(fd, &call, IB_USER_VERBS_CMD_MODIFY_QP, sizeof(qp), 0, NULL, 0);
}

/* Of any kind: a handle, a few numbers. */
static void any_command(int fd)
{
	uint32_t words[MAX_CALL / 4], i, count = 2 + rnd(24);
	struct call call = {};

	for (i = 0; i < count; i++)
		words[i] = number();
	words[2] = rnd(12);
	memcpy(call.body, words, count * sizeof(words[0]));
	send_call(fd, &call, rnd(60), count * 4, rnd(64) * 4, NULL, 0);
}

/* ---- RDMA_VERBS_IOCTL -------------------------------------------------------------------------------------------------- */

static void fill_attr(struct ib_uverbs_attr *attr)
{
	static const uint16_t lengths[] = { 0, 1, 2, 4, 8, 12, 16, 24, 32, 64, 144, 4096, 65535 };

	attr->attr_id = rnd(4) ? rnd(12) : 0x1000 + rnd(6);
	attr->len = lengths[rnd(sizeof(lengths) / sizeof(lengths[0]))];
	attr->flags = rnd(3) ? UVERBS_ATTR_F_MANDATORY : rnd(4);
	attr->attr_data.reserved = rnd(10) ? 0 : rnd(0);
	attr->data = rnd(2) ? rnd(16) : rnd(2) ? somewhere() : number();
}

static void any_ioctl(int fd)
{
	struct {
		struct ib_uverbs_ioctl_hdr hdr;
		struct ib_uverbs_attr attrs[16];
	} call = {};
	unsigned int i;

	call.hdr.object_id = rnd(20) ? rnd(20) : rnd(0);
	call.hdr.method_id = rnd(20) ? rnd(10) : rnd(0);
	/*
	 * Contexts come by write() here: the core of 6.1 frees one that its ioctl refuses without rdma_restrack_put(), whatever the
	 * driver did, and the caller's task with all that hangs on it is never given back.
	 */
	if (call.hdr.object_id == UVERBS_OBJECT_DEVICE && call.hdr.method_id == UVERBS_METHOD_GET_CONTEXT)
		call.hdr.method_id++;
	call.hdr.num_attrs = rnd(9);
	call.hdr.driver_id = rnd(20) ? SWRNIC_DRIVER_ID : rnd(0);
	call.hdr.reserved1 = !rnd(40);
	for (i = 0; i < call.hdr.num_attrs; i++)
		fill_attr(&call.attrs[i]);
	call.hdr.length = sizeof(call.hdr) + call.hdr.num_attrs * sizeof(call.attrs[0]);
	if (!rnd(20))
		call.hdr.length = rnd(0);
	granted[IOCTLS] += !ioctl(fd, rnd(30) ? RDMA_VERBS_IOCTL : rnd(0), &call);
}

static void send_ioctl(int fd, unsigned int object, unsigned int method, const struct ib_uverbs_attr *attrs, unsigned int count)
{
	struct {
		struct ib_uverbs_ioctl_hdr hdr;
		struct ib_uverbs_attr attrs[4];
	} call = { .hdr = { .object_id = object, .method_id = method, .driver_id = SWRNIC_DRIVER_ID, .num_attrs = count } };
	unsigned int i;

	memcpy(call.attrs, attrs, count * sizeof(*attrs));
	for (i = 0; i < count; i++) {
		if (!rnd(12))
			call.attrs[i].len = rnd(0);
		if (!rnd(12))
			call.attrs[i].data = rnd(2) ? somewhere() : number();
	}
	call.hdr.length = sizeof(call.hdr) + count * sizeof(*attrs);
	granted[IOCTLS] += !ioctl(fd, RDMA_VERBS_IOCTL, &call);
}

/* What there is for certain: destroying by handle, and a question. */
static void known_ioctl(int fd)
{
	struct ib_uverbs_attr handle = { .flags = UVERBS_ATTR_F_MANDATORY, .data = rnd(40) };
	struct ib_uverbs_attr port[] = {
		{ UVERBS_ATTR_QUERY_PORT_PORT_NUM, 1, UVERBS_ATTR_F_MANDATORY, {}, .data = rnd(4) ? 1 : rnd(256) },
		{ UVERBS_ATTR_QUERY_PORT_RESP, 64, UVERBS_ATTR_F_MANDATORY, {}, .data = (uintptr_t)arena },
	};

	if (rnd(2)) {
		send_ioctl(fd, UVERBS_OBJECT_DEVICE, UVERBS_METHOD_QUERY_PORT, port, 2);
		return;
	}
	handle.attr_id = UVERBS_ATTR_DESTROY_PD_HANDLE;
	send_ioctl(fd, UVERBS_OBJECT_PD, UVERBS_METHOD_PD_DESTROY, &handle, 1);
}

/* A write() command in an ioctl's clothes, as libibverbs sends them where it can. Up to eight octets stand in the attribute. */
static void invoke_write(int fd)
{
	static const struct {
		uint32_t command;
		uint16_t in, out;
	} calls[] = {
		{ IB_USER_VERBS_CMD_ALLOC_PD, 8, 4 },	  { IB_USER_VERBS_CMD_DEALLOC_PD, 4, 0 },
		{ IB_USER_VERBS_CMD_QUERY_PORT, 16, 40 }, { IB_USER_VERBS_CMD_QUERY_QP, 16, 152 },
		{ IB_USER_VERBS_CMD_REG_MR, 40, 12 },	  { IB_USER_VERBS_CMD_CREATE_CQ, 32, 8 },
	};
	unsigned int which = rnd(sizeof(calls) / sizeof(calls[0])), i;
	uint32_t body[32];
	struct ib_uverbs_attr attrs[] = {
		{ UVERBS_ATTR_WRITE_CMD, 8, UVERBS_ATTR_F_MANDATORY, {}, .data = rnd(6) ? calls[which].command : rnd(60) },
		{ UVERBS_ATTR_CORE_IN, calls[which].in, UVERBS_ATTR_F_MANDATORY, {}, .data = (uintptr_t)arena },
		{ UVERBS_ATTR_CORE_OUT, calls[which].out, UVERBS_ATTR_F_MANDATORY, {}, .data = (uintptr_t)arena + 4096 },
		{ rnd(2) ? UVERBS_ATTR_UHW_IN : UVERBS_ATTR_UHW_OUT,
		  rnd(20) * 4,
		  UVERBS_ATTR_F_MANDATORY,
		  {},
		  .data = somewhere() },
	};

	for (i = 0; i < 32; i++)
		body[i] = i < 4 ? rnd(12) : number();
	memcpy(arena, body, sizeof(body));
	if (calls[which].in <= 8)
		attrs[1].data = rnd(40);
	send_ioctl(fd, UVERBS_OBJECT_DEVICE, UVERBS_METHOD_INVOKE_WRITE, attrs, rnd(3) ? 3 : 1 + rnd(4));
}

/* ---- a round ----------------------------------------------------------------------------------------------------------- */

/* Descriptors that the kernel has given: the event file, the async file, completion channels. */
static void meddle(int uverbs)
{
	int fd = uverbs + 1 + rnd(6);
	struct swrnic_up record = { rnd(7), rnd(4) ? rnd(12) : rnd(0), rnd(24), !rnd(10) };
	char link[64], name[64] = "";
	void *map;

	switch (rnd(6)) {
	case 0:
		map = mmap(NULL, 4096 << rnd(3), PROT_READ | PROT_WRITE, MAP_SHARED, uverbs, (off_t)number() << 12);
		if (map != MAP_FAILED)
			munmap(map, 4096);
		break;
	case 1:
		if (rnd(40) == 0)
			close(fd);
		break;
	default:
		snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
		if (readlink(link, name, sizeof(name) - 1) <= 0)
			break;
		fcntl(fd, F_SETFL, O_NONBLOCK);
		granted[RECORDS] += write(fd, &record, rnd(20) ? sizeof(record) : rnd(sizeof(record))) > 0;
		(void)!read(fd, (void *)(uintptr_t)somewhere(), rnd(200));
	}
}

static void one_round(const char *device)
{
	static void (*const moves[])(int) = { alloc_pd,	   create_cq,	create_qp, create_qp,	reg_mr,	      modify_qp,
					      any_command, any_command, any_ioctl, known_ioctl, invoke_write, meddle };
	int fd = open(device, O_RDWR | O_CLOEXEC), i;

	if (fd < 0)
		_exit(2);
	for (i = 0; i < 50 && get_context(fd); i++)
		;
	granted[CONTEXTS] += i < 50;
	for (i = 0; i < CALLS; i++)
		moves[rnd(sizeof(moves) / sizeof(moves[0]))](fd);
	_exit(0);
}

int main(int argc, char **argv)
{
	unsigned int round, rounds = argc > 1 ? atoi(argv[1]) : 50, bad = 0, kind;
	uint64_t seed = argc > 2 ? strtoull(argv[2], NULL, 0) : 1;
	const char *device = argc > 3 ? argv[3] : "/dev/infiniband/uverbs0";
	int status;
	pid_t pid;

	arena = mmap(NULL, ARENA + 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	granted = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (arena == MAP_FAILED || granted == MAP_FAILED || mprotect(arena + ARENA, 4096, PROT_NONE))
		return 2;
	for (round = 0; round < rounds; round++) {
		pid = fork();
		if (!pid) {
			state = (seed + round) * 0x9e3779b97f4a7c15ull | 1;
			alarm(60);
			one_round(device);
		}
		if (pid < 0 || waitpid(pid, &status, 0) != pid || !WIFEXITED(status) || WEXITSTATUS(status)) {
			printf("round %u (seed %llu): status %#x\n", round, (unsigned long long)seed + round, status);
			bad++;
		}
	}
	printf("%u rounds from seed %llu, %u bad; granted:", rounds, (unsigned long long)seed, bad);
	for (kind = 0; kind < KINDS; kind++) {
		printf(" %u %s", granted[kind], kinds[kind]);
		bad += granted[kind] < rounds / 4; /* a fuzzer that is turned away at the door shows nothing */
	}
	printf("\n");
	return bad != 0;
}
