// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * A consumer in the kernel that trusts nobody: it connects to itself by rdma_cm, posts and registers parts of an arena, and
 * looks whether anything else of the arena has changed, or a part after it was given back.
 *
 *   insmod consumer.ko address=192.0.2.1 port=7200 rounds=20 hold_ms=300
 *
 * Says `consumer: done` in the log and in the parameter `verdict` (1: nothing was wrong, 2: something was). With patient=1 the
 * daemon is an honest one: each round must complete all of its requests with success and move the right octets. With srq=1 receives
 * come from a shared queue, and most of them when messages wait for them. With forsaken=1 each client goes before its server
 * accepts.
 */
#define pr_fmt(fmt) "consumer: " fmt

#include <linux/completion.h>
#include <linux/inet.h>
#include <linux/jump_label.h>
#include <linux/kthread.h>
#include <linux/module.h>
#include <linux/slab.h>
#include <net/sock.h>
#include <rdma/ib_verbs.h>
#include <rdma/rdma_cm.h>

#define ARENA_ORDER 5
#define ARENA (PAGE_SIZE << ARENA_ORDER)
#define MAX_PARTS 64
#define NR_RECVS 8
#define NR_SENDS 4
#define NR_EARLY (srq ? 2 : NR_RECVS) /* receives before the connection */
#define WAIT (20 * HZ)

MODULE_DESCRIPTION("A consumer in the kernel, for the checks of swrnic");
MODULE_LICENSE("Dual BSD/GPL");

static char *address = "192.0.2.1";
module_param(address, charp, 0444);
static ushort port = 7200;
module_param(port, ushort, 0444);
static uint rounds = 10;
module_param(rounds, uint, 0444);
static uint hold_ms = 300;
module_param(hold_ms, uint, 0444);
static uint pause_ms; /* between connection and use; `paused` says when */
module_param(pause_ms, uint, 0644);
static bool paused;
module_param(paused, bool, 0444);
static bool patient;
module_param(patient, bool, 0444);
static bool srq;
module_param(srq, bool, 0444);
static uint limits, lasts; /* events of shared queues, and of QPs that take nothing more from them */
module_param(limits, uint, 0444);
module_param(lasts, uint, 0444);
static bool forsaken;
module_param(forsaken, bool, 0444);
static int verdict;
module_param(verdict, int, 0444);
static uint rounds_done;
module_param(rounds_done, uint, 0444);
static uint good, bad; /* completions, by status */
module_param(good, uint, 0444);
module_param(bad, uint, 0444);

/* A run of the arena that somebody else may write, until it is given back. */
struct part {
	struct ib_cqe cqe; /* of the request that ends it */
	struct side *side;
	u32 offset, length;
	bool writable, frozen;
	u8 *copy; /* as it was when it was given back */
};

struct side {
	struct rdma_cm_id *id;
	struct ib_pd *pd;
	struct ib_cq *cq;
	struct ib_srq *srq;		    /* or NULL */
	struct ib_mr *sink, *source, *dead; /* remotely writable; remotely readable; invalidated at once */
	u8 *arena;
	struct part parts[MAX_PARTS];
	unsigned int nr_parts, outstanding;
	u8 pattern;
	bool reached; /* the shared queue's limit */
	struct completion established, ended;
	spinlock_t lock; /* of outstanding */
	wait_queue_head_t idle;
};

static DEFINE_SPINLOCK(events); /* of the counts of them */
static struct task_struct *thread;
static struct completion requested;
static struct rdma_cm_id *request_id;
static int listening; /* the listener is ours to destroy */
static int expecting; /* a request, for request_id */
static bool failed;

#define complain(format, ...)                                                                                                      \
	do {                                                                                                                       \
		failed = true;                                                                                                     \
		pr_err(format, ##__VA_ARGS__);                                                                                     \
	} while (0)

static u8 pattern_at(const struct side *side, u32 offset)
{
	return side->pattern ^ offset ^ (offset >> 8);
}

/* ---- what may change, and what has ------------------------------------------------------------------------------------- */

static struct part *new_part(struct side *side, u32 offset, u32 length, bool writable)
{
	struct part *part = &side->parts[side->nr_parts++];

	part->side = side;
	part->offset = offset;
	part->length = length;
	part->writable = writable;
	part->copy = writable ? kvmalloc(length, GFP_KERNEL) : NULL;
	return part;
}

static void freeze(struct part *part)
{
	if (part->writable && part->copy && !part->frozen) {
		memcpy(part->copy, part->side->arena + part->offset, part->length);
		part->frozen = true;
	}
}

static void look(struct side *side, const char *when)
{
	unsigned int i;
	u32 offset;

	for (offset = 0; offset < ARENA; offset++) {
		u8 want = pattern_at(side, offset);
		bool skip = false;

		if (offset % PAGE_SIZE == 0)
			cond_resched();
		for (i = 0; i < side->nr_parts; i++) {
			const struct part *part = &side->parts[i];

			if (!part->writable || offset < part->offset || offset - part->offset >= part->length)
				continue;
			if (part->frozen)
				want = part->copy[offset - part->offset];
			else
				skip = true;
		}
		if (!skip && side->arena[offset] != want) {
			complain("octet %u has changed, seen %s\n", offset, when);
			return;
		}
	}
}

/* ---- requests ---------------------------------------------------------------------------------------------------------- */

static void finished(struct ib_cq *cq, struct ib_wc *wc)
{
	struct part *part = container_of(wc->wr_cqe, struct part, cqe);
	struct side *side = part->side;
	unsigned long flags;

	freeze(part);
	if (wc->status == IB_WC_SUCCESS)
		good++;
	else
		bad++;
	if (patient && wc->status != IB_WC_SUCCESS && wc->status != IB_WC_WR_FLUSH_ERR)
		complain("opcode %d: status %d\n", wc->opcode, wc->status);
	spin_lock_irqsave(&side->lock, flags);
	side->outstanding--;
	spin_unlock_irqrestore(&side->lock, flags);
	wake_up(&side->idle);
}

static void count_up(struct side *side)
{
	unsigned long flags;

	spin_lock_irqsave(&side->lock, flags);
	side->outstanding++;
	spin_unlock_irqrestore(&side->lock, flags);
}

static void post(struct side *side, struct part *part, struct ib_send_wr *wr)
{
	const struct ib_send_wr *refused;

	part->cqe.done = finished;
	wr->wr_cqe = &part->cqe;
	wr->send_flags |= IB_SEND_SIGNALED;
	count_up(side);
	if (ib_post_send(side->id->qp, wr, &refused)) {
		if (patient)
			complain("post_send %d refused\n", wr->opcode);
		spin_lock_irq(&side->lock);
		side->outstanding--;
		spin_unlock_irq(&side->lock);
	}
}

static struct ib_sge sge_of(const struct side *side, const struct part *part, u32 from, u32 length)
{
	return (struct ib_sge){ .addr = (uintptr_t)(side->arena + part->offset + from),
				.length = length,
				.lkey = side->pd->local_dma_lkey };
}

static void post_recvs(struct side *side, unsigned int from, unsigned int to)
{
	const struct ib_recv_wr *refused;
	unsigned int i;

	for (i = from; i < to; i++) {
		struct part *part = new_part(side, i * 1536 + 100, 1000, true);
		struct ib_sge sge[2] = { sge_of(side, part, 0, 300), sge_of(side, part, 300, 700) };
		struct ib_recv_wr wr = { .wr_cqe = &part->cqe, .sg_list = sge, .num_sge = 2 };

		part->cqe.done = finished;
		count_up(side);
		if (side->srq ? ib_post_srq_recv(side->srq, &wr, &refused) : ib_post_recv(side->id->qp, &wr, &refused))
			complain("post_recv refused\n");
	}
}

static void post_sends(struct side *side)
{
	unsigned int i;

	for (i = 0; i < NR_SENDS; i++) {
		struct part *part = new_part(side, 4 * PAGE_SIZE + i * 1024 + 60, 900, false);
		struct ib_sge sge[2] = { sge_of(side, part, 0, 33), sge_of(side, part, 33, 867) };
		struct ib_send_wr wr = { .opcode = IB_WR_SEND, .sg_list = sge, .num_sge = 2 };

		post(side, part, &wr);
	}
}

static void post_rdma(struct side *side, const struct side *peer, enum ib_wr_opcode opcode, u32 offset)
{
	struct ib_mr *remote = opcode == IB_WR_RDMA_WRITE ? peer->sink : peer->source;
	struct part *part = new_part(side, offset, 6000, opcode == IB_WR_RDMA_READ);
	struct ib_sge sge = sge_of(side, part, 0, part->length);
	struct ib_rdma_wr wr = {
		.wr = { .opcode = opcode, .sg_list = &sge, .num_sge = 1 },
		.remote_addr = remote->iova + 17,
		.rkey = remote->rkey,
	};

	post(side, part, &wr.wr);
}

/* A run of the arena becomes a region; its part is given back by invalidate(). */
static struct part *register_part(struct side *side, struct ib_mr *mr, u32 offset, u32 length, int access)
{
	struct part *part = new_part(side, offset, length, access & IB_ACCESS_REMOTE_WRITE);
	struct part *request = new_part(side, 0, 0, false);
	struct ib_reg_wr wr = { .wr = { .opcode = IB_WR_REG_MR }, .mr = mr, .access = access };
	struct scatterlist sg;

	sg_init_one(&sg, side->arena + offset, length);
	if (ib_dma_map_sg(side->id->device, &sg, 1, DMA_BIDIRECTIONAL) != 1 || ib_map_mr_sg(mr, &sg, 1, NULL, PAGE_SIZE) != 1)
		complain("map_mr_sg\n");
	ib_update_fast_reg_key(mr, ib_inc_rkey(mr->rkey));
	wr.key = mr->rkey;
	post(side, request, &wr.wr);
	return part;
}

static void invalidate(struct side *side, struct ib_mr *mr, struct part *part)
{
	struct ib_send_wr wr = { .opcode = IB_WR_LOCAL_INV, .ex.invalidate_rkey = mr->rkey };

	post(side, part, &wr);
}

static bool wait_idle(struct side *side, unsigned int left)
{
	return wait_event_timeout(side->idle, READ_ONCE(side->outstanding) <= left, msecs_to_jiffies(hold_ms));
}

/* ---- connections ------------------------------------------------------------------------------------------------------- */

static int on_event(struct rdma_cm_id *id, struct rdma_cm_event *event)
{
	struct side *side = id->context;

	switch (event->event) {
	case RDMA_CM_EVENT_CONNECT_REQUEST:
		if (!xchg(&expecting, 0))
			return -ECONNREFUSED; /* whoever asked has given up */
		request_id = id;
		complete(&requested);
		break;
	case RDMA_CM_EVENT_ADDR_RESOLVED:
	case RDMA_CM_EVENT_ROUTE_RESOLVED:
	case RDMA_CM_EVENT_ESTABLISHED:
		if (side)
			complete(&side->established);
		break;
	case RDMA_CM_EVENT_DEVICE_REMOVAL:
		if (!side)
			return xchg(&listening, 0); /* destroyed by the core, unless we are about to */
		complete_all(&side->ended);
		complete(&side->established);
		break;
	case RDMA_CM_EVENT_CONNECT_RESPONSE:
	case RDMA_CM_EVENT_TIMEWAIT_EXIT:
		break;
	default:
		if (!side)
			break;
		complete_all(&side->ended);
		complete(&side->established);
	}
	return 0;
}

static int wait_for(struct completion *what)
{
	return wait_for_completion_timeout(what, WAIT) ? 0 : -ETIMEDOUT;
}

static struct side *side_new(u8 pattern)
{
	struct side *side = kvzalloc(sizeof(*side), GFP_KERNEL);
	u32 offset;

	side->arena = (u8 *)__get_free_pages(GFP_KERNEL, ARENA_ORDER);
	side->pattern = pattern;
	for (offset = 0; offset < ARENA; offset++)
		side->arena[offset] = pattern_at(side, offset);
	init_completion(&side->established);
	init_completion(&side->ended);
	spin_lock_init(&side->lock);
	init_waitqueue_head(&side->idle);
	return side;
}

static void count_event(uint *counter)
{
	unsigned long flags;

	spin_lock_irqsave(&events, flags);
	++*counter;
	spin_unlock_irqrestore(&events, flags);
}

static void on_srq_event(struct ib_event *event, void *context)
{
	struct side *side = context;

	if (event->event != IB_EVENT_SRQ_LIMIT_REACHED)
		complain("event %d of the shared queue\n", event->event);
	count_event(&limits);
	WRITE_ONCE(side->reached, true);
	wake_up(&side->idle);
}

static void on_qp_event(struct ib_event *event, void *context)
{
	if (event->event == IB_EVENT_QP_LAST_WQE_REACHED)
		count_event(&lasts);
}

static int make_objects(struct side *side)
{
	struct ib_srq_init_attr shared = {
		.attr = { .max_wr = NR_RECVS, .max_sge = 2, .srq_limit = NR_EARLY },
		.event_handler = on_srq_event,
		.srq_context = side,
	};
	struct ib_qp_init_attr attr = {
		.cap = { .max_send_wr = 64, .max_recv_wr = 64, .max_send_sge = 4, .max_recv_sge = 4 },
		.qp_type = IB_QPT_RC,
		.sq_sig_type = IB_SIGNAL_REQ_WR,
		.event_handler = on_qp_event,
	};

	side->pd = ib_alloc_pd(side->id->device, 0);
	side->cq = ib_alloc_cq(side->id->device, side, 256, 0, IB_POLL_WORKQUEUE);
	if (IS_ERR(side->pd) || IS_ERR(side->cq))
		return -ENOMEM;
	side->sink = ib_alloc_mr(side->pd, IB_MR_TYPE_MEM_REG, 16);
	side->source = ib_alloc_mr(side->pd, IB_MR_TYPE_MEM_REG, 16);
	side->dead = ib_alloc_mr(side->pd, IB_MR_TYPE_MEM_REG, 16);
	if (IS_ERR(side->sink) || IS_ERR(side->source) || IS_ERR(side->dead))
		return -ENOMEM;
	attr.send_cq = side->cq;
	attr.recv_cq = side->cq;
	if (srq) {
		side->srq = ib_create_srq(side->pd, &shared);
		if (IS_ERR(side->srq))
			return PTR_ERR(side->srq);
		attr.srq = side->srq;
	}
	return rdma_create_qp(side->id, side->pd, &attr);
}

static void free_object(struct ib_mr *mr)
{
	if (!IS_ERR_OR_NULL(mr))
		ib_dereg_mr(mr);
}

/* The regions go first, as with consumers that use rw.c: nothing may be touched by their STags from then on. */
static void side_free(struct side *side)
{
	unsigned int i;

	if (side->id && side->id->qp) {
		ib_drain_qp(side->id->qp);
		for (i = 0; i < side->nr_parts; i++)
			freeze(&side->parts[i]);
		msleep(20);
		look(side, "after the drain");
	}
	free_object(side->sink);
	free_object(side->source);
	free_object(side->dead);
	if (side->id && side->id->qp)
		rdma_destroy_qp(side->id);
	if (!IS_ERR_OR_NULL(side->srq))
		ib_destroy_srq(side->srq);
	if (!IS_ERR_OR_NULL(side->cq))
		ib_free_cq(side->cq);
	if (!IS_ERR_OR_NULL(side->pd))
		ib_dealloc_pd(side->pd);
	if (side->id)
		rdma_destroy_id(side->id);
	look(side, "after the end");
	for (i = 0; i < side->nr_parts; i++)
		kvfree(side->parts[i].copy);
	free_pages((unsigned long)side->arena, ARENA_ORDER);
	kvfree(side);
}

static int await_request(struct side *client, struct rdma_conn_param *param)
{
	int error;

	reinit_completion(&requested);
	xchg(&expecting, 1);
	error = rdma_connect(client->id, param) ?: wait_for(&requested);
	if (error && !xchg(&expecting, 0))
		error = wait_for(&requested); /* it has come just now */
	return error;
}

static int connect_sides(struct side *client, struct side *server, struct sockaddr_in *addr)
{
	struct rdma_conn_param param = { .responder_resources = 4, .initiator_depth = 4, .retry_count = 7 };
	int error;

	client->id = rdma_create_id(&init_net, on_event, client, RDMA_PS_TCP, IB_QPT_RC);
	if (IS_ERR(client->id)) {
		error = PTR_ERR(client->id);
		client->id = NULL;
		return error;
	}
	error = rdma_resolve_addr(client->id, NULL, (struct sockaddr *)addr, 2000) ?: wait_for(&client->established);
	error = error ?: rdma_resolve_route(client->id, 2000) ?: wait_for(&client->established);
	error = error ?: make_objects(client);
	if (error)
		return error;
	post_recvs(client, 0, NR_EARLY);
	error = await_request(client, &param);
	if (error)
		return error;
	server->id = request_id;
	server->id->context = server;
	error = make_objects(server);
	if (error)
		return error;
	post_recvs(server, 0, NR_EARLY);
	if (forsaken) {
		ib_drain_qp(client->id->qp);
		msleep(500);
	}
	rdma_lock_handler(server->id);
	error = rdma_accept(server->id, &param);
	rdma_unlock_handler(server->id);
	if (forsaken && (error || wait_for(&server->ended)))
		complain("accepted too late: error %d, or no end\n", error);
	error = error ?: wait_for(&server->established) ?: wait_for(&client->established);
	return error ?: completion_done(&client->ended) ? -ECONNRESET : 0;
}

/* ---- a round ----------------------------------------------------------------------------------------------------------- */

static struct part *register_all(struct side *side)
{
	struct part *sink =
		register_part(side, side->sink, 8 * PAGE_SIZE + 100, 9000, IB_ACCESS_LOCAL_WRITE | IB_ACCESS_REMOTE_WRITE);

	register_part(side, side->source, 12 * PAGE_SIZE + 50, 8000, IB_ACCESS_REMOTE_READ);
	invalidate(side, side->dead,
		   register_part(side, side->dead, 16 * PAGE_SIZE, 4096, IB_ACCESS_LOCAL_WRITE | IB_ACCESS_REMOTE_WRITE));
	return sink;
}

static bool equal(const struct side *to, u32 at, const struct side *from, u32 offset, u32 length)
{
	u32 i;

	for (i = 0; i < length; i++)
		if (to->arena[at + i] != pattern_at(from, offset + i))
			return false;
	return true;
}

/* What an honest daemon must have done. */
static void look_at_all(const struct side *side, const struct side *peer)
{
	unsigned int i;

	for (i = 0; i < NR_SENDS; i++)
		if (!equal(side, i * 1536 + 100, peer, 4 * PAGE_SIZE + i * 1024 + 60, 900))
			complain("message %u came wrong\n", i);
	if (!equal(side, 8 * PAGE_SIZE + 117, peer, 20 * PAGE_SIZE + 77, 6000))
		complain("what the peer wrote came wrong\n");
	if (!equal(side, 24 * PAGE_SIZE + 33, peer, 12 * PAGE_SIZE + 67, 6000))
		complain("what was read came wrong\n");
}

static void use(struct side *client, struct side *server, unsigned int round)
{
	struct side *const sides[] = { client, server };
	struct part *sinks[2];
	unsigned int i;

	for (i = 0; i < 2; i++)
		sinks[i] = register_all(sides[i]);
	for (i = 0; i < 2; i++)
		if (!wait_idle(sides[i], NR_EARLY) && patient)
			complain("regions are not registered: %u\n", sides[i]->outstanding);
	for (i = 0; i < 2; i++) {
		post_rdma(sides[i], sides[!i], IB_WR_RDMA_WRITE, 20 * PAGE_SIZE + 77);
		post_rdma(sides[i], sides[!i], IB_WR_RDMA_READ, 24 * PAGE_SIZE + 33);
		post_sends(sides[i]);
	}
	/* On a busy machine the first message may be late: with more receives than the limit it would not reach it any more. */
	for (i = 0; i < 2 && srq; i++)
		wait_event_timeout(sides[i]->idle, READ_ONCE(sides[i]->reached), msecs_to_jiffies(hold_ms));
	if (srq)
		msleep(50); /* the last messages find no receive, and wait */
	for (i = 0; i < 2; i++)
		post_recvs(sides[i], NR_EARLY, NR_RECVS);
	for (i = 0; i < 2; i++)
		if (!wait_idle(sides[i], NR_RECVS - NR_SENDS) && patient)
			complain("not done: %u\n", sides[i]->outstanding);
	for (i = 0; i < 2 && patient; i++)
		look_at_all(sides[i], sides[!i]);
	for (i = 0; i < 2; i++)
		invalidate(sides[i], i ? server->sink : client->sink, sinks[i]);
	for (i = 0; i < 2; i++)
		if (!wait_idle(sides[i], NR_RECVS - NR_SENDS) && patient)
			complain("not invalidated: %u\n", sides[i]->outstanding);
	look(client, "while it runs");
	look(server, "while it runs");
	if (round % 3)
		rdma_disconnect(round % 3 == 1 ? client->id : server->id);
}

static int reserves_before; /* whoever may use them besides */

static int use_reserves(void)
{
	return static_key_count(&memalloc_socks_key.key) - reserves_before;
}

/* Streams whose sockets may use what the kernel keeps in reserve: a connection's opener has one, and only while it lasts. */
static void expect_reserves(int streams)
{
	unsigned int tries;

	for (tries = 0; use_reserves() != streams; tries++) {
		if (tries == 100) {
			complain("%d streams may use reserves, %d are expected\n", use_reserves(), streams);
			return;
		}
		msleep(20); /* the last one's socket is let go by a worker */
	}
}

static void one_round(unsigned int round, struct sockaddr_in *addr)
{
	struct side *client = side_new(round * 7), *server = side_new(round * 7 + 101);
	int error = connect_sides(client, server, addr);

	if (!error && pause_ms) {
		paused = true;
		msleep(pause_ms);
		paused = false;
	}
	if (!error && patient)
		expect_reserves(1);
	if (!error)
		use(client, server, round);
	else if (patient)
		complain("no connection: error %d\n", error);
	else
		msleep(100);
	side_free(round & 1 ? client : server);
	side_free(round & 1 ? server : client);
}

static int run(void *unused)
{
	struct sockaddr_in addr = { .sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = in_aton(address) };
	struct rdma_cm_id *listener = rdma_create_id(&init_net, on_event, NULL, RDMA_PS_TCP, IB_QPT_RC);
	int error = PTR_ERR_OR_ZERO(listener);

	xchg(&listening, 1);
	error = error ?: rdma_bind_addr(listener, (struct sockaddr *)&addr) ?: rdma_listen(listener, 8);
	if (error)
		complain("cannot listen: error %d\n", error);
	for (; !error && rounds_done < rounds && READ_ONCE(listening) && !kthread_should_stop() && !failed; rounds_done++)
		one_round(rounds_done, &addr);
	if (!IS_ERR(listener) && xchg(&listening, 0))
		rdma_destroy_id(listener);
	if (patient)
		expect_reserves(0);
	verdict = failed ? 2 : 1;
	pr_info("done: %s, %u rounds, completions %u good, %u bad\n", failed ? "failed" : "passed", rounds_done, good, bad);
	while (!kthread_should_stop())
		msleep(20);
	return 0;
}

static int __init consumer_init(void)
{
	init_completion(&requested);
	reserves_before = static_key_count(&memalloc_socks_key.key);
	thread = kthread_run(run, NULL, "consumer");
	return PTR_ERR_OR_ZERO(thread);
}

static void __exit consumer_exit(void)
{
	kthread_stop(thread);
}

module_init(consumer_init);
module_exit(consumer_exit);
