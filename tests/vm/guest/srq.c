// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Shared receive queues by the uverbs commands themselves, whether the provider has them or not: srq DEVICE. Creation, limits,
 * a QP that holds one, and its events, once per arming.
 */
#include <fcntl.h>
#include <infiniband/verbs.h>
#include <rdma/ib_user_verbs.h>
#include <stdlib.h>

#include "event_file.h"
#include "swrnic-abi.h"

static void die(const char *what)
{
	fprintf(stderr, "srq: %s (errno %d)\n", what, errno);
	exit(1);
}

#define EXPECT(condition)                                                                                                          \
	do {                                                                                                                       \
		if (!(condition))                                                                                                  \
			die(#condition);                                                                                           \
	} while (0)

/* One command by write(): 0 or the errno. The request follows the header in memory. */
static int command(int fd, uint32_t number, void *request, size_t size, size_t response)
{
	struct ib_uverbs_cmd_hdr *header = request;

	header->command = number;
	header->in_words = size / 4;
	header->out_words = response / 4;
	return write(fd, request, size) == (ssize_t)size ? 0 : errno;
}

static int create_srq(struct ibv_pd *pd, uint32_t max_wr, uint32_t max_sge, uint32_t limit, uint32_t *handle)
{
	struct ib_uverbs_create_srq_resp response = {};
	struct {
		struct ib_uverbs_cmd_hdr header;
		struct ib_uverbs_create_srq body;
	} request = {};
	int error;

	request.body.response = (uintptr_t)&response;
	request.body.user_handle = 0x5351;
	request.body.pd_handle = pd->handle;
	request.body.max_wr = max_wr;
	request.body.max_sge = max_sge;
	request.body.srq_limit = limit;
	error = command(pd->context->cmd_fd, IB_USER_VERBS_CMD_CREATE_SRQ, &request, sizeof(request), sizeof(response));
	if (!error && (response.max_wr != max_wr || response.max_sge != max_sge))
		die("other sizes than asked for");
	*handle = response.srq_handle;
	return error;
}

static int modify_srq(int fd, uint32_t handle, uint32_t mask, uint32_t max_wr, uint32_t limit)
{
	struct {
		struct ib_uverbs_cmd_hdr header;
		struct ib_uverbs_modify_srq body;
	} request = { .body = { .srq_handle = handle, .attr_mask = mask, .max_wr = max_wr, .srq_limit = limit } };

	return command(fd, IB_USER_VERBS_CMD_MODIFY_SRQ, &request, sizeof(request), 0);
}

static uint32_t limit_of(int fd, uint32_t handle)
{
	struct ib_uverbs_query_srq_resp response = {};
	struct {
		struct ib_uverbs_cmd_hdr header;
		struct ib_uverbs_query_srq body;
	} request = { .body = { .response = (uintptr_t)&response, .srq_handle = handle } };

	EXPECT(!command(fd, IB_USER_VERBS_CMD_QUERY_SRQ, &request, sizeof(request), sizeof(response)));
	return response.srq_limit;
}

static int destroy_srq(int fd, uint32_t handle)
{
	struct ib_uverbs_destroy_srq_resp response = {};
	struct {
		struct ib_uverbs_cmd_hdr header;
		struct ib_uverbs_destroy_srq body;
	} request = { .body = { .response = (uintptr_t)&response, .srq_handle = handle } };

	return command(fd, IB_USER_VERBS_CMD_DESTROY_SRQ, &request, sizeof(request), sizeof(response));
}

static uint32_t create_qp(struct ibv_pd *pd, struct ibv_cq *cq, uint32_t srq)
{
	struct ib_uverbs_create_qp_resp response = {};
	struct {
		struct ib_uverbs_cmd_hdr header;
		struct ib_uverbs_create_qp body;
		struct swrnic_create_qp_req driver;
	} request = { .driver = { .mpa_rev = 2 } };

	request.body.response = (uintptr_t)&response;
	request.body.pd_handle = pd->handle;
	request.body.send_cq_handle = request.body.recv_cq_handle = cq->handle;
	request.body.srq_handle = srq;
	request.body.max_send_wr = request.body.max_send_sge = 1;
	request.body.qp_type = IBV_QPT_RC;
	request.body.is_srq = 1;
	EXPECT(!command(pd->context->cmd_fd, IB_USER_VERBS_CMD_CREATE_QP, &request, sizeof(request), sizeof(response)));
	return response.qp_handle;
}

static int destroy_qp(int fd, uint32_t handle)
{
	struct ib_uverbs_destroy_qp_resp response = {};
	struct {
		struct ib_uverbs_cmd_hdr header;
		struct ib_uverbs_destroy_qp body;
	} request = { .body = { .response = (uintptr_t)&response, .qp_handle = handle } };

	return command(fd, IB_USER_VERBS_CMD_DESTROY_QP, &request, sizeof(request), sizeof(response));
}

static uint32_t next_event(struct ibv_context *context)
{
	struct ib_uverbs_async_event_desc event = {};

	if (read(context->async_fd, &event, sizeof(event)) != sizeof(event))
		return UINT32_MAX;
	EXPECT(event.element == 0x5351);
	return event.event_type;
}

static void events(struct ibv_context *context, int file, uint32_t srq)
{
	fcntl(context->async_fd, F_SETFL, O_NONBLOCK);
	EXPECT(send_up(file, SWRNIC_UP_ASYNC_EVENT, srq, IBV_EVENT_SRQ_LIMIT_REACHED) == EINVAL);
	EXPECT(!modify_srq(context->cmd_fd, srq, IBV_SRQ_LIMIT, 0, 3));
	EXPECT(limit_of(context->cmd_fd, srq) == 3);
	EXPECT(!send_up(file, SWRNIC_UP_ASYNC_EVENT, srq, IBV_EVENT_SRQ_LIMIT_REACHED));
	EXPECT(next_event(context) == IBV_EVENT_SRQ_LIMIT_REACHED);
	EXPECT(limit_of(context->cmd_fd, srq) == 0);
	EXPECT(send_up(file, SWRNIC_UP_ASYNC_EVENT, srq, IBV_EVENT_SRQ_LIMIT_REACHED) == EINVAL);
	EXPECT(!send_up(file, SWRNIC_UP_ASYNC_EVENT, srq, IBV_EVENT_SRQ_ERR));
	EXPECT(send_up(file, SWRNIC_UP_ASYNC_EVENT, srq, IBV_EVENT_SRQ_ERR) == EINVAL);
	EXPECT(next_event(context) == IBV_EVENT_SRQ_ERR);
	EXPECT(next_event(context) == UINT32_MAX);
	EXPECT(send_up(file, SWRNIC_UP_ASYNC_EVENT, srq + 100, IBV_EVENT_SRQ_ERR) == EINVAL);
}

int main(int argc, char **argv)
{
	struct ibv_context *context = open_device(argc > 1 ? argv[1] : NULL);
	int file = context ? find_event_file() : -1;
	uint32_t srq, limited, none, qp;
	struct ibv_pd *pd;
	struct ibv_cq *cq;

	EXPECT(file >= 0);
	pd = ibv_alloc_pd(context);
	cq = ibv_create_cq(context, 4, NULL, NULL, 0);
	EXPECT(pd && cq);
	EXPECT(create_srq(pd, 0, 1, 0, &none) == EINVAL);
	EXPECT(create_srq(pd, 1 << 30, 1, 0, &none) == EINVAL);
	EXPECT(create_srq(pd, 16, 1000, 0, &none) == EINVAL);
	EXPECT(create_srq(pd, 16, 1, 17, &none) == EINVAL);
	EXPECT(!create_srq(pd, 16, 1, 0, &srq));
	EXPECT(!create_srq(pd, 16, 4, 16, &limited));
	EXPECT(limit_of(context->cmd_fd, limited) == 16);
	EXPECT(modify_srq(context->cmd_fd, srq, IBV_SRQ_LIMIT, 0, 1 << 30) == EINVAL);
	EXPECT(modify_srq(context->cmd_fd, srq, IBV_SRQ_MAX_WR, 32, 0) == EOPNOTSUPP);
	events(context, file, srq);
	qp = create_qp(pd, cq, srq);
	EXPECT(destroy_srq(context->cmd_fd, srq) == EBUSY);
	EXPECT(!destroy_qp(context->cmd_fd, qp));
	EXPECT(!destroy_srq(context->cmd_fd, srq));
	EXPECT(send_up(file, SWRNIC_UP_ASYNC_EVENT, srq, IBV_EVENT_SRQ_ERR) == EINVAL);
	/* The other one is left for the kernel to clean up. */
	create_qp(pd, cq, limited);
	return 0;
}
