// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * A hostile daemon for the QPs of consumers in the kernel: fuzz_serve DEVICE SECONDS [SEED]. It serves, takes every stream, and
 * says what it likes: right, nearly right, wrong, from several threads. What the consumer's memory says of it, consumer.ko tells.
 * 0: every answer was one of those that the contract knows, and all kinds of calls have succeeded and have been refused.
 */
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <time.h>

#include "event_file.h"
#include "swrnic-serve.h"

#define THREADS 3
#define QPS 16
#define KNOWN 64
#define STAGS 6 /* a consumer tells two of each side */
#define ROOM SWRNIC_MOVED_OCTETS
#define FPDUS 4

enum kind {
	FETCH,
	COPY_SEND,
	COPY_RECV,
	COPY_TAGGED,
	COPY_END,
	RECEIVE,
	RECEIVE_RUN,
	RECEIVE_END,
	TRANSMIT,
	TRANSMIT_END,
	EXECUTE,
	INVALIDATE,
	COMPLETE,
	INFO,
	KINDS
};
static const char *const kinds[] = { "fetch",	"copy of a request",  "copy to a receive", "tagged copy", "copy of an end",
				     "receive", "receive of several", "receive of an end", "transmit",	  "transmit of an end",
				     "execute", "invalidate",	      "complete",	   "info" };

struct known {
	uint32_t qpn;
	int fd;
	unsigned int nr[2];
	struct swrnic_wqe wqes[2][KNOWN];
	uint64_t done[2]; /* what is to be completed next, as far as we know */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct known qps[QPS];
static unsigned int next_qp;
static uint32_t stags[STAGS];
static uint64_t tos[STAGS];
static unsigned int next_stag;
static int file;
static unsigned long succeeded[KINDS], refused[KINDS];
static volatile bool over;

static void die(const char *what, long detail)
{
	printf("FAILED: %s: %ld\n", what, detail);
	fflush(stdout);
	_exit(1);
}

/* ---- what to say ------------------------------------------------------------------------------------------------------- */

struct dice {
	uint64_t state;
	char *memory; /* ROOM, and then nothing */
};

static uint64_t roll(struct dice *dice)
{
	dice->state ^= dice->state << 13;
	dice->state ^= dice->state >> 7;
	dice->state ^= dice->state << 17;
	return dice->state;
}

static bool one_in(struct dice *dice, unsigned int n)
{
	return roll(dice) % n == 0;
}

static uint64_t strange(struct dice *dice)
{
	static const uint64_t values[] = {
		0,	    1,		 2,	     4095,  4096,      4097,	     0x7fffffff,	 0x80000000,
		0xffffffff, 0x100000000, 1ULL << 63, ~0ULL, ~0ULL - 1, ~0ULL - 4095, 0xffff888000000000, 0xffffffff81000000
	};

	return one_in(dice, 8) ? roll(dice) : values[roll(dice) % (sizeof(values) / sizeof(*values))] + roll(dice) % 3 - 1;
}

static struct known some_qp(struct dice *dice)
{
	struct known qp;

	pthread_mutex_lock(&lock);
	/* Mostly one of the two that live. */
	qp = qps[one_in(dice, 8) ? roll(dice) % QPS : (next_qp + QPS - 1 - roll(dice) % 2) % QPS];
	pthread_mutex_unlock(&lock);
	if (one_in(dice, 50))
		qp.qpn = strange(dice);
	return qp;
}

static void *some_memory(struct dice *dice, uint64_t length)
{
	if (length <= ROOM && !one_in(dice, 30))
		return dice->memory + ROOM - length;
	return one_in(dice, 3) ? NULL : one_in(dice, 2) ? dice->memory + ROOM - 8 : (void *)strange(dice);
}

/* ---- saying it --------------------------------------------------------------------------------------------------------- */

/* What the contract knows, of any call. */
static bool expected(int error)
{
	return !error || error == EINVAL || error == EFAULT || error == EIO || error == EINTR;
}

/* 0, or the error, which must be an expected one. */
static int call(enum kind kind, unsigned long command, void *argument)
{
	int error = ioctl(file, command, argument) ? errno : 0;

	if (!expected(error))
		die(kinds[kind], error);
	__atomic_add_fetch(error ? &refused[kind] : &succeeded[kind], 1, __ATOMIC_RELAXED);
	return error;
}

static void remember(const struct swrnic_wqe *wqe)
{
	stags[next_stag % STAGS] = wqe->remote_stag;
	tos[next_stag++ % STAGS] = wqe->remote_to;
}

static void fetch(uint32_t qpn, uint32_t queue, uint32_t max)
{
	struct swrnic_wqe wqes[16];
	struct swrnic_fetch fetch = { qpn, queue, (uintptr_t)wqes, max, 0 };
	unsigned int i, j;

	if (max > 16)
		fetch.wqes = 16; /* it must not take what it cannot tell */
	if (call(FETCH, SWRNIC_IOC_FETCH, &fetch))
		return;
	if (fetch.count > max)
		die("more than asked for", fetch.count);
	pthread_mutex_lock(&lock);
	for (i = 0; i < QPS; i++) {
		if (qps[i].qpn != qpn)
			continue;
		for (j = 0; j < fetch.count; j++) {
			unsigned int from = wqes[j].opcode == SWRNIC_WQE_RECV;

			if (queue != SWRNIC_QUEUE_BOTH && from != queue)
				die("fetched from the other queue", from);
			/* Local ones before it may be complete without a word. */
			if (!qps[i].nr[from] || qps[i].done[from] == qps[i].wqes[from][qps[i].nr[from] - 1].sequence + 1)
				qps[i].done[from] = wqes[j].sequence;
			if (qps[i].nr[from] < KNOWN)
				qps[i].wqes[from][qps[i].nr[from]++] = wqes[j];
			if (wqes[j].remote_to)
				remember(&wqes[j]);
		}
	}
	pthread_mutex_unlock(&lock);
}

static void some_name(struct dice *dice, const struct known *qp, struct swrnic_name *name, const struct swrnic_wqe **wqe)
{
	unsigned int queue = roll(dice) % 2, i;

	*wqe = NULL;
	memset(name, 0, sizeof(*name));
	name->kind = one_in(dice, 3) ? SWRNIC_NAME_TAGGED : queue;
	if (name->kind == SWRNIC_NAME_TAGGED) {
		i = roll(dice) % STAGS;
		name->id = stags[i];
		name->length = 1 + roll(dice) % (one_in(dice, 2) ? 1000 : 12000);
		name->offset = tos[i] + roll(dice) % (one_in(dice, 2) ? 1000 : 9000);
	} else if (qp->nr[queue]) {
		*wqe = &qp->wqes[queue][roll(dice) % qp->nr[queue]];
		name->id = (*wqe)->sequence;
		name->offset = (*wqe)->length ? roll(dice) % (*wqe)->length : 0;
		name->length = 1 + roll(dice) % ((*wqe)->length - name->offset + 1);
	}
	if (one_in(dice, 6))
		name->offset = strange(dice);
	if (one_in(dice, 6))
		name->length = strange(dice);
	if (one_in(dice, 12))
		name->id = strange(dice), *wqe = NULL;
	if (one_in(dice, 40))
		name->kind = strange(dice), *wqe = NULL;
	if (one_in(dice, 20))
		name->whole = one_in(dice, 2) ? name->length + roll(dice) % 5000 : strange(dice);
	if (one_in(dice, 100))
		name->reserved = 1;
}

/* The oldest request of a queue, as far as we know: nearly all of it is named. */
static bool oldest_name(struct dice *dice, const struct known *qp, unsigned int queue, struct swrnic_name *name,
			const struct swrnic_wqe **wqe)
{
	unsigned int i;

	for (i = 0; i < qp->nr[queue]; i++) {
		const struct swrnic_wqe *oldest = &qp->wqes[queue][i];

		if (oldest->sequence != qp->done[queue] || !oldest->length)
			continue;
		memset(name, 0, sizeof(*name));
		name->kind = queue;
		name->id = oldest->sequence;
		name->length = oldest->length - (one_in(dice, 4) ? roll(dice) % oldest->length : 0);
		*wqe = oldest;
		return true;
	}
	return false;
}

static void some_ending(struct dice *dice, struct swrnic_ending *ending)
{
	ending->flags = SWRNIC_ENDING | (one_in(dice, 10) ? roll(dice) % 4 : 0);
	ending->invalidated = stags[roll(dice) % STAGS];
	if (one_in(dice, 50))
		ending->flags = strange(dice);
	if (one_in(dice, 100))
		ending->reserved = 1;
}

static void completed(uint32_t qpn, unsigned int queue, uint64_t sequence)
{
	unsigned int i;

	pthread_mutex_lock(&lock);
	for (i = 0; i < QPS; i++)
		if (qps[i].qpn == qpn)
			qps[i].done[queue & 1] = sequence + 1;
	pthread_mutex_unlock(&lock);
}

/* As call(). What it is good for beside an error, the caller says by `done`. */
static void count_move(enum kind kind, bool done)
{
	__atomic_add_fetch(done ? &succeeded[kind] : &refused[kind], 1, __ATOMIC_RELAXED);
}

static void count_ending(enum kind kind, uint32_t qpn, const struct swrnic_name *name, uint32_t asked, uint32_t done)
{
	if (done && !(asked & SWRNIC_ENDING))
		die("it completed what nobody has asked for", name->kind);
	if (done && name->kind > SWRNIC_NAME_RECV)
		die("it completed what is no request", name->kind);
	if (asked & SWRNIC_ENDING)
		count_move(kind, done);
	if (done)
		completed(qpn, name->kind, name->id);
}

static void copy(struct dice *dice)
{
	const struct known qp = some_qp(dice);
	struct swrnic_name names[3];
	const struct swrnic_wqe *wqe, *first = NULL;
	struct swrnic_copy copy = { .qpn = qp.qpn, .direction = roll(dice) % 2, .names = (uintptr_t)names };
	uint64_t length = 0;
	enum kind kind;
	unsigned int i;
	uint32_t asked;

	copy.count = 1 + roll(dice) % 3;
	for (i = 0; i < copy.count; i++) {
		some_name(dice, &qp, &names[i], &wqe);
		first = i ? first : wqe;
		length += names[i].length;
	}
	if (one_in(dice, 6) && oldest_name(dice, &qp, roll(dice) % 2, &names[0], &first)) {
		copy.count = 1;
		copy.direction = SWRNIC_COPY_OUT;
		length = names[0].length;
		some_ending(dice, &copy.ending);
	} else if (one_in(dice, 50)) {
		some_ending(dice, &copy.ending);
	}
	asked = copy.ending.flags;
	kind = names[0].kind == SWRNIC_NAME_SEND ? COPY_SEND : names[0].kind == SWRNIC_NAME_RECV ? COPY_RECV : COPY_TAGGED;
	copy.memory = (uintptr_t)some_memory(dice, length);
	if (one_in(dice, 50))
		copy.count = strange(dice);
	if (one_in(dice, 50))
		copy.direction = strange(dice);
	if (call(kind, SWRNIC_IOC_COPY, &copy))
		return;
	if (copy.error > SWRNIC_NAME_BOUNDS)
		die("no such error", copy.error);
	__atomic_add_fetch(copy.error ? &refused[kind] : &succeeded[kind], 1, __ATOMIC_RELAXED);
	__atomic_sub_fetch(&succeeded[kind], 1, __ATOMIC_RELAXED);
	if (!copy.error && copy.count == 1 && first && names[0].offset + names[0].length > first->length)
		die("copied past the end of a request", names[0].kind);
	count_ending(COPY_END, qp.qpn, &names[0], asked, copy.ending.done);
}

/* ---- octets of the streams --------------------------------------------------------------------------------------------- */

static bool of_the_stream(int error)
{
	return error == EAGAIN || error == ENOTCONN || error == ECONNRESET || error == EPIPE || error == ECONNABORTED ||
	       error == ETIMEDOUT || error == EPROTO; /* another thread has read from it meanwhile */
}

static int call_stream(enum kind kind, unsigned long command, void *argument)
{
	int error = ioctl(file, command, argument) ? errno : 0;

	if (!expected(error) && !of_the_stream(error))
		die(kinds[kind], error);
	if (error)
		count_move(kind, false);
	return error;
}

/* An FPDU's beginning, with a header as the name needs it: how long it is. */
static unsigned int begin_fpdu(struct dice *dice, const struct swrnic_name *name, uint8_t *header)
{
	unsigned int length = name->kind == SWRNIC_NAME_TAGGED ? SWRNIC_HEADER_TAGGED : SWRNIC_HEADER_UNTAGGED;
	unsigned int ulpdu = length - 2 + name->length, i;

	if (one_in(dice, 20))
		length = length == SWRNIC_HEADER_TAGGED ? SWRNIC_HEADER_UNTAGGED : SWRNIC_HEADER_TAGGED;
	if (one_in(dice, 20))
		ulpdu = strange(dice);
	for (i = 0; i < length; i++)
		header[i] = 0x5a; /* as feed() sends it: what follows may continue it */
	if (one_in(dice, 2))
		header[2] ^= 0x40; /* L */
	header[0] = ulpdu >> 8;
	header[1] = ulpdu;
	return length;
}

static void add_offset(uint8_t *end, unsigned int width, unsigned int by)
{
	unsigned int i;

	for (i = 1; i <= width; i++) {
		by += end[-(int)i];
		end[-(int)i] = by;
		by >>= 8;
	}
}

static unsigned int fpdu_len(const uint8_t *header)
{
	return ((2 + (header[0] << 8 | header[1]) + 3) & ~3) + 4;
}

static void drain(int fd)
{
	char octets[8192];

	while (recv(fd, octets, sizeof(octets), MSG_DONTWAIT) > 0)
		;
}

/* What is to come behind a header: the rest of its FPDU, and some that continue it; unless another thread comes between. */
static void feed_run(struct dice *dice, uint32_t qpn, const struct swrnic_receive *receive, const uint8_t *header)
{
	unsigned int width = receive->header == SWRNIC_HEADER_TAGGED ? 8 : 4;
	unsigned int at = fpdu_len(header) - receive->header, i;
	uint8_t next[SWRNIC_HEADER_UNTAGGED];
	int from = -1, to = -1;
	static __thread uint8_t octets[100000];

	pthread_mutex_lock(&lock);
	for (i = 0; i < 2; i++) {
		const struct known *live = &qps[(next_qp + QPS - 1 - i) % QPS];

		*(live->qpn == qpn ? &to : &from) = live->qpn ? live->fd : -1;
	}
	pthread_mutex_unlock(&lock);
	if (from < 0 || to < 0 || fpdu_len(header) < receive->header)
		return;
	memset(octets, 0x5a, sizeof(octets));
	memcpy(next, header, receive->header);
	while (at + fpdu_len(header) <= sizeof(octets) && !one_in(dice, 4)) {
		add_offset(next + receive->header, width, receive->name.length);
		if (one_in(dice, 4))
			next[2] ^= 0x40; /* L */
		memcpy(octets + at, next, receive->header);
		at += fpdu_len(header);
	}
	drain(to);
	send(from, octets, at < sizeof(octets) ? at : sizeof(octets), MSG_DONTWAIT | MSG_NOSIGNAL);
}

static void receive(struct dice *dice)
{
	const struct known qp = some_qp(dice);
	uint8_t header[SWRNIC_HEADER_UNTAGGED];
	bool run = one_in(dice, 2);
	struct swrnic_receive receive = { .qpn = qp.qpn, .flags = roll(dice) % 2 };
	const struct swrnic_wqe *wqe;
	uint32_t asked;

	if (one_in(dice, 2) || !oldest_name(dice, &qp, roll(dice) % 2, &receive.name, &wqe))
		some_name(dice, &qp, &receive.name, &wqe);
	if (one_in(dice, 2))
		some_ending(dice, &receive.ending);
	asked = receive.ending.flags;
	receive.header = begin_fpdu(dice, &receive.name, header);
	receive.have = receive.header;
	receive.room = one_in(dice, 4) ? 65536 : 1 + roll(dice) % 20000;
	receive.fpdu = (uintptr_t)header;
	receive.rest = (uintptr_t)some_memory(dice, receive.room);
	if (run && receive.name.length < 20000) {
		feed_run(dice, qp.qpn, &receive, header);
		receive.flags = SWRNIC_RECEIVE_MORE;
	}
	if (one_in(dice, 30))
		receive.have = strange(dice);
	if (one_in(dice, 30))
		receive.room = strange(dice);
	if (one_in(dice, 50))
		receive.header = strange(dice);
	if (one_in(dice, 50))
		receive.fpdu = strange(dice);
	if (one_in(dice, 50))
		receive.flags = strange(dice);
	if (call_stream(RECEIVE, SWRNIC_IOC_RECEIVE, &receive))
		return;
	if (receive.taken > receive.room || receive.left > receive.taken)
		die("more than there was room for", receive.taken);
	if (!receive.placed != !receive.octets || receive.octets > receive.have - receive.header + receive.taken)
		die("it placed what has not come", receive.octets);
	if (receive.last > receive.octets || receive.ended > receive.placed || receive.whole > receive.ended)
		die("what ended was not placed", receive.ended);
	if (receive.ended > 1 && receive.name.kind != SWRNIC_NAME_TAGGED)
		die("it went on behind the end of a message", receive.ended);
	if (receive.placed && wqe && receive.name.offset + receive.octets > wqe->length)
		die("received past the end of a request", receive.name.kind);
	if (receive.ending.done && !receive.whole)
		die("it completed what has not ended", receive.name.kind);
	count_ending(RECEIVE_END, qp.qpn, &receive.name, asked, receive.ending.done);
	if (receive.placed > 1 && receive.flags != SWRNIC_RECEIVE_MORE)
		die("it placed more than it should", receive.placed);
	count_move(receive.flags == SWRNIC_RECEIVE_MORE ? RECEIVE_RUN : RECEIVE,
		   receive.flags == SWRNIC_RECEIVE_MORE ? receive.placed > 1 : receive.placed);
}

static void transmit(struct dice *dice)
{
	const struct known qp = some_qp(dice);
	struct swrnic_fpdu fpdus[FPDUS] = {};
	struct swrnic_transmit transmit = { .qpn = qp.qpn, .count = 1 + roll(dice) % FPDUS, .fpdus = (uintptr_t)fpdus };
	const struct swrnic_wqe *wqe[FPDUS];
	unsigned int i, ends = 0;

	for (i = 0; i < transmit.count; i++) {
		some_name(dice, &qp, &fpdus[i].name, &wqe[i]);
		if (!i && one_in(dice, 3) && oldest_name(dice, &qp, SWRNIC_QUEUE_SEND, &fpdus[0].name, &wqe[0]))
			fpdus[0].flags = SWRNIC_FPDU_ENDS;
		if (one_in(dice, 6))
			fpdus[i].name.length = 0;
		fpdus[i].header_len = begin_fpdu(dice, &fpdus[i].name, fpdus[i].header);
		if (one_in(dice, 50))
			fpdus[i].header_len = strange(dice);
		if (one_in(dice, 50))
			fpdus[i].flags = strange(dice);
		ends += fpdus[i].flags == SWRNIC_FPDU_ENDS;
	}
	transmit.rest = (uintptr_t)some_memory(dice, SWRNIC_FPDU_OCTETS);
	if (one_in(dice, 30))
		transmit.count = strange(dice);
	if (one_in(dice, 50))
		transmit.fpdus = strange(dice);
	if (call_stream(TRANSMIT, SWRNIC_IOC_TRANSMIT, &transmit))
		return;
	if (transmit.laid_out > transmit.count || transmit.error > SWRNIC_NAME_BOUNDS || transmit.left > SWRNIC_FPDU_OCTETS)
		die("it cannot have sent that", transmit.laid_out);
	if (transmit.done > ends || (transmit.done && !transmit.sent))
		die("it completed what was not sent", transmit.done);
	if (fpdus[0].flags == SWRNIC_FPDU_ENDS) {
		count_move(TRANSMIT_END, transmit.done);
		if (transmit.done)
			completed(qp.qpn, SWRNIC_QUEUE_SEND, fpdus[0].name.id);
	}
	for (i = 0; i < transmit.laid_out; i++)
		if (wqe[i] && fpdus[i].name.length && fpdus[i].name.offset + fpdus[i].name.length > wqe[i]->length)
			die("sent past the end of a request", fpdus[i].name.kind);
	count_move(TRANSMIT, transmit.sent);
}

/* Octets for the peer's RECEIVE, past the module; and what a daemon may do to a socket that is its own. */
static void feed(struct dice *dice)
{
	const struct known qp = some_qp(dice);
	char octets[8192];

	memset(octets, 0x5a, sizeof(octets));
	if (!qp.qpn)
		return;
	if (one_in(dice, 500))
		shutdown(qp.fd, roll(dice) % 3);
	else if (one_in(dice, 50))
		recv(qp.fd, octets, sizeof(octets), MSG_DONTWAIT);
	else
		send(qp.fd, octets, roll(dice) % sizeof(octets), MSG_DONTWAIT | MSG_NOSIGNAL);
}

static void execute(struct dice *dice)
{
	const struct known qp = some_qp(dice);
	struct swrnic_execute execute = { .qpn = qp.qpn, .sequence = one_in(dice, 8) ? strange(dice) : roll(dice) % 2 };

	if (qp.nr[SWRNIC_QUEUE_SEND])
		execute.sequence += qp.wqes[SWRNIC_QUEUE_SEND][roll(dice) % qp.nr[SWRNIC_QUEUE_SEND]].sequence;
	call(EXECUTE, SWRNIC_IOC_EXECUTE, &execute);
}

static void invalidate(struct dice *dice)
{
	const struct known qp = some_qp(dice);
	struct swrnic_invalidate invalidate = { .qpn = qp.qpn,
						.stag = one_in(dice, 3) ? strange(dice) : stags[roll(dice) % STAGS] };

	if (one_in(dice, 4)) /* seldom, or there is soon nothing left to be written to */
		call(INVALIDATE, SWRNIC_IOC_INVALIDATE, &invalidate);
}

static void finish(struct dice *dice)
{
	const struct known qp = some_qp(dice);
	struct swrnic_done done = { .queue = roll(dice) % 2 };
	struct swrnic_complete complete = { .qpn = qp.qpn, .count = 1, .done = (uintptr_t)&done };

	done.sequence = qp.done[done.queue];
	done.length = one_in(dice, 4) ? strange(dice) : roll(dice) % 1000;
	if (one_in(dice, 200))
		done.status = roll(dice) % 30;
	if (one_in(dice, 20))
		done.flags = roll(dice) % 8, done.invalidated = stags[roll(dice) % STAGS];
	if (one_in(dice, 20))
		done.sequence = strange(dice);
	if (one_in(dice, 40))
		complete.count = strange(dice) | 2;
	if (one_in(dice, 40))
		complete.done = strange(dice);
	if (call(COMPLETE, SWRNIC_IOC_COMPLETE, &complete))
		return;
	completed(qp.qpn, done.queue, done.sequence);
}

static void info(struct dice *dice)
{
	struct swrnic_qp_info info = { .qpn = some_qp(dice).qpn };

	call(INFO, SWRNIC_IOC_QP_INFO, one_in(dice, 20) ? (void *)strange(dice) : (void *)&info);
}

static void *hammer(void *argument)
{
	struct dice dice = { (uintptr_t)argument | 1, NULL };

	dice.memory = mmap(NULL, 2 * ROOM, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	mprotect(dice.memory + ROOM, ROOM, PROT_NONE);
	memset(dice.memory, 0xa5, ROOM);
	while (!over) {
		switch (roll(&dice) % 17) {
		case 0:
			fetch(some_qp(&dice).qpn, one_in(&dice, 50) ? strange(&dice) : roll(&dice) % 3,
			      one_in(&dice, 20) ? 1000 : 1 + roll(&dice) % 8);
			break;
		case 1:
			execute(&dice);
			break;
		case 2:
			invalidate(&dice);
			break;
		case 3:
			finish(&dice);
			break;
		case 4:
			info(&dice);
			break;
		case 5:
		case 6:
		case 7:
			receive(&dice);
			break;
		case 8:
		case 9:
			transmit(&dice);
			break;
		case 10:
			feed(&dice);
			break;
		case 11:
			if (one_in(&dice, 20)) {
				int error = ioctl(file, roll(&dice), strange(&dice)) ? errno : 0;

				if (!expected(error) && error != ENOTTY && error != EBUSY && !of_the_stream(error))
					die("some other ioctl", error);
			}
			break;
		default:
			copy(&dice);
		}
	}
	return NULL;
}

/* ---- events ------------------------------------------------------------------------------------------------------------ */

static void connected(const struct swrnic_down *record)
{
	struct known *qp = &qps[next_qp++ % QPS];

	pthread_mutex_lock(&lock);
	if (qp->qpn)
		close(qp->fd);
	memset(qp, 0, sizeof(*qp));
	qp->qpn = record->qpn;
	qp->fd = record->u.connected.fd;
	pthread_mutex_unlock(&lock);
	send_up(file, SWRNIC_UP_QP_READY, record->qpn, 0);
}

static void events(struct dice *dice, int seconds)
{
	time_t end = time(NULL) + seconds;
	struct pollfd poll_for = { file, POLLIN, 0 };
	struct swrnic_down record;

	while (time(NULL) < end) {
		if (poll(&poll_for, 1, 100) < 1)
			continue;
		if (read(file, &record, sizeof(record)) != sizeof(record))
			continue;
		if (record.type == SWRNIC_DOWN_QP_CONNECTED)
			connected(&record);
		else if (record.type != SWRNIC_DOWN_QP_WORK && !one_in(dice, 3))
			send_up(file, SWRNIC_UP_QP_CLOSED, record.qpn, roll(dice) % 3);
	}
}

int main(int argc, char **argv)
{
	struct dice dice = { argc > 3 ? strtoull(argv[3], NULL, 0) | 1 : 1, NULL };
	struct swrnic_serve serve = { .version = SWRNIC_SERVE_NEWEST + 1 }, strange_mode = { .crc_mode = 3 };
	pthread_t threads[THREADS];
	unsigned int i;

	if (argc < 3 || !open_device(argv[1]))
		die("no device", argc);
	file = find_event_file();
	if (file < 0 || ioctl(file, SWRNIC_IOC_SERVE, &serve))
		die("it cannot serve", errno);
	if (!ioctl(file, SWRNIC_IOC_SERVE, &strange_mode) || errno != EINVAL)
		die("it takes a mode of CRC that is none", errno);
	if (serve.version != SWRNIC_SERVE_NEWEST)
		die("both cannot speak that", serve.version);
	if (!ioctl(file, SWRNIC_IOC_SERVE, &serve) || errno != EBUSY)
		die("it serves twice", errno);
	puts("serving");
	fflush(stdout);
	for (i = 0; i < THREADS; i++)
		pthread_create(&threads[i], NULL, hammer, (void *)(uintptr_t)(roll(&dice) | 1));
	events(&dice, atoi(argv[2]));
	over = true;
	for (i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	for (i = 0; i < KINDS; i++) {
		printf("%-20s %8lu done %8lu refused\n", kinds[i], succeeded[i], refused[i]);
		if (!succeeded[i] || !refused[i])
			die("never seen", i);
	}
	return 0;
}
