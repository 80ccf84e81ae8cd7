// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* The ioctls of the event file (kernel-shim/abi/swrnic-serve.h), and which file serves the QPs of consumers in the kernel. */
#include "kverbs.h"

#include <linux/capability.h>
#include <linux/fs.h>
#include <linux/mm.h>
#include <linux/nsproxy.h>
#include <linux/poll.h>
#include <linux/sched/mm.h>
#include <linux/sched/signal.h>
#include <linux/uaccess.h>

#define MAX_NAMES 1024
#define MAX_DONE 32768

/* ---- who serves -------------------------------------------------------------------------------------------------------- */

/* The one that serves the fewest QPs, each of which holds a reference to it. */
struct swr_file *swr_server_get(struct swr_device *dev)
{
	struct swr_file *file, *fewest = NULL;
	unsigned int group;

	spin_lock_irq(&dev->server_lock);
	for (group = 0; group < SWRNIC_SERVE_GROUPS; group++) {
		file = dev->servers[group];
		if (file && (!fewest || kref_read(&file->kref) < kref_read(&fewest->kref)))
			fewest = file;
	}
	if (fewest)
		kref_get(&fewest->kref);
	spin_unlock_irq(&dev->server_lock);
	return fewest;
}

void swr_server_drop_locked(struct swr_file *file)
{
	struct swr_device *dev = file->dev;
	unsigned int group;

	if (!dev)
		return;
	spin_lock(&dev->server_lock);
	for (group = 0; group < SWRNIC_SERVE_GROUPS; group++) {
		if (dev->servers[group] != file)
			continue;
		dev->servers[group] = NULL;
		swr_file_put(file); /* never the last: the caller has one */
	}
	spin_unlock(&dev->server_lock);
}

/* ---- a daemon that stands still ---------------------------------------------------------------------------------------- */

static void look_again(struct swr_file *file)
{
	queue_delayed_work(swr_wq, &file->watch, msecs_to_jiffies(SWR_SERVER_LOOK_MS));
}

static bool longer_than(unsigned long since, unsigned int ms)
{
	return time_after(jiffies, since + msecs_to_jiffies(ms));
}

static bool stands_still(struct swr_file *file)
{
	bool unread;

	spin_lock_irq(&file->lock);
	unread = !list_empty(&file->ready) && longer_than(file->told, SWR_SERVER_DEAD_MS);
	spin_unlock_irq(&file->lock);
	return unread && longer_than(READ_ONCE(file->called), SWR_SERVER_DEAD_MS);
}

/* Something to read, that a daemon reads if it lives. */
static void probe(struct swr_qp *qp)
{
	if (qp->kernel && swr_kqp_waits(qp))
		swr_file_tell(qp, SWR_PENDING_WORK);
}

/* The close of the file waits for it. */
void swr_server_watch(struct work_struct *work)
{
	struct swr_file *file = container_of(to_delayed_work(work), struct swr_file, watch);

	if (READ_ONCE(file->dead) || READ_ONCE(file->closed))
		return;
	if (stands_still(file)) {
		pr_warn_ratelimited("swrnicd (process %d) stands still: the kernel's queue pairs end\n", pid_nr(file->owner));
		WRITE_ONCE(file->still, true);
		swr_file_end_qps(file);
		wake_up_interruptible_poll(&file->wait, EPOLLIN | EPOLLRDNORM);
	} else if (longer_than(READ_ONCE(file->called), SWR_SERVER_PROBE_MS)) {
		swr_file_each_qp(file, probe);
	}
	look_again(file);
}

/* ---- serving ----------------------------------------------------------------------------------------------------------- */

static int serve_locked(struct swr_file *file, const struct swrnic_serve *serve)
{
	struct swr_device *dev = file->dead ? NULL : file->dev;
	int error = -EBUSY;

	if (!dev)
		return -EIO;
	if (current->nsproxy->net_ns != dev->net)
		return -EXDEV;
	spin_lock(&dev->server_lock);
	if (!dev->servers[serve->group] && !file->serves) {
		file->crc_mode = serve->crc_mode;
		file->fpdu_mode = serve->fpdu_mode;
		kref_get(&file->kref);
		dev->servers[serve->group] = file;
		error = 0;
	}
	spin_unlock(&dev->server_lock);
	if (!error)
		WRITE_ONCE(file->serves, true);
	return error;
}

/*
 * Who serves moves the data of the host's own mounts and disks, so that only the host's administrator may begin to: a container
 * easily has CAP_NET_ADMIN and a uverbs node.
 */
static int serve(struct swr_file *file, void __user *argument)
{
	struct swrnic_serve serve;
	void *buffer;
	int error;

	if (copy_from_user(&serve, argument, sizeof(serve)))
		return -EFAULT;
	if (serve.crc_mode > SWRNIC_CRC_OFF || serve.fpdu_mode > SWRNIC_FPDU_64K || serve.group >= SWRNIC_SERVE_GROUPS ||
	    memchr_inv(serve.reserved, 0, sizeof(serve.reserved)))
		return -EINVAL;
	if (serve.version < SWRNIC_SERVE_OLDEST)
		return -EPROTO;
	if (!capable(CAP_SYS_ADMIN))
		return -EPERM;
	serve.version = min_t(u32, serve.version, SWRNIC_SERVE_NEWEST);
	if (copy_to_user(argument, &serve, sizeof(serve)))
		return -EFAULT;
	buffer = kvmalloc(SWRNIC_MOVED_OCTETS, GFP_KERNEL);
	if (!buffer)
		return -ENOMEM;
	spin_lock_irq(&file->lock);
	error = serve_locked(file, &serve);
	spin_unlock_irq(&file->lock);
	if (error) {
		kvfree(buffer);
		return error;
	}
	mutex_lock(&file->moving);
	file->buffer = buffer;
	mutex_unlock(&file->moving);
	look_again(file);
	return 0;
}

/* Not to be kept over a copy from or to the daemon's memory. */
struct swr_qp *swr_served_qp(struct swr_file *file, u32 qpn)
{
	struct swr_qp *qp = swr_file_qp(file, qpn);

	if (qp && !qp->kernel) {
		swr_qp_put(qp);
		return NULL;
	}
	return qp;
}

/* The file's buffer, for this call alone: none has to wait for memory. It may wait for another call of the same daemon. */
static void *buffer_get(struct swr_file *file)
{
	if (mutex_lock_interruptible(&file->moving))
		return ERR_PTR(-EINTR);
	if (file->buffer)
		return file->buffer;
	mutex_unlock(&file->moving);
	return ERR_PTR(-EINVAL);
}

static void buffer_put(struct swr_file *file)
{
	mutex_unlock(&file->moving);
}

/* ---- small ones -------------------------------------------------------------------------------------------------------- */

static int qp_info(struct swr_file *file, void __user *argument)
{
	struct swrnic_qp_info info;
	struct swr_qp *qp;

	if (copy_from_user(&info, argument, sizeof(info)))
		return -EFAULT;
	qp = swr_served_qp(file, info.qpn);
	if (!qp)
		return -EINVAL;
	memset(&info, 0, sizeof(info));
	info.qpn = qp->ibqp.qp_num;
	info.max_send_wr = qp->cap.max_send_wr;
	info.max_recv_wr = qp->kernel->srq ? 0 : qp->cap.max_recv_wr;
	spin_lock_irq(&qp->lock);
	info.access = qp->access;
	spin_unlock_irq(&qp->lock);
	swr_qp_put(qp);
	return copy_to_user(argument, &info, sizeof(info)) ? -EFAULT : 0;
}

static int execute(struct swr_file *file, void __user *argument)
{
	struct swrnic_execute execute;
	struct swr_qp *qp;
	int error;

	if (copy_from_user(&execute, argument, sizeof(execute)))
		return -EFAULT;
	qp = swr_served_qp(file, execute.qpn);
	if (!qp)
		return -EINVAL;
	error = swr_kqp_execute(qp, execute.sequence, &execute.error);
	swr_qp_put(qp);
	if (error)
		return error;
	return copy_to_user(argument, &execute, sizeof(execute)) ? -EFAULT : 0;
}

static int invalidate(struct swr_file *file, void __user *argument)
{
	struct swrnic_invalidate invalidate;
	struct swr_qp *qp;

	if (copy_from_user(&invalidate, argument, sizeof(invalidate)))
		return -EFAULT;
	if (invalidate.reserved)
		return -EINVAL;
	qp = swr_served_qp(file, invalidate.qpn);
	if (!qp)
		return -EINVAL;
	invalidate.error = swr_kqp_invalidate(qp, invalidate.stag);
	swr_qp_put(qp);
	return copy_to_user(argument, &invalidate, sizeof(invalidate)) ? -EFAULT : 0;
}

/* ---- FETCH ------------------------------------------------------------------------------------------------------------- */

#define FETCH_BATCH 8

/* A handful of requests: how many there were, or an error. What did not reach the daemon it has not fetched. */
static int fetch_some(struct swr_file *file, u32 qpn, enum swrnic_queue queue, struct swrnic_wqe __user *to, u32 max)
{
	struct swrnic_wqe wqes[FETCH_BATCH];
	struct swr_qp *qp = swr_served_qp(file, qpn);
	u32 count = 0;
	int error;

	if (!qp)
		return -EINVAL;
	if (queue == SWRNIC_QUEUE_SEND)
		swr_kqp_execute_oldest(qp);
	while (count < min_t(u32, max, FETCH_BATCH) && swr_kqp_peek(qp, queue, count, &wqes[count]))
		count++;
	swr_qp_put(qp);
	if (!count)
		return 0;
	if (copy_to_user(to, wqes, count * sizeof(*wqes)))
		return -EFAULT;
	qp = swr_served_qp(file, qpn);
	if (!qp)
		return -EINVAL;
	error = swr_kqp_fetched(qp, queue, wqes[0].sequence, count);
	swr_qp_put(qp);
	return error ? 0 : count;
}

/* 0, or an error of the very first. */
static int fetch_queue(struct swr_file *file, struct swrnic_fetch *fetch, enum swrnic_queue queue)
{
	struct swrnic_wqe __user *wqes = u64_to_user_ptr(fetch->wqes);
	int some;

	for (; fetch->count < fetch->max; fetch->count += some) {
		/* The daemon's memory can make each copy slow. */
		if (fetch->count && signal_pending(current))
			break;
		some = fetch_some(file, fetch->qpn, queue, wqes + fetch->count, fetch->max - fetch->count);
		if (some < 0 && !fetch->count)
			return some;
		if (some <= 0)
			break;
		cond_resched();
	}
	return 0;
}

static void await_recv(struct swr_file *file, u32 qpn, bool awaits)
{
	struct swr_qp *qp = swr_served_qp(file, qpn);

	if (!qp)
		return;
	swr_kqp_await_recv(qp, awaits);
	swr_qp_put(qp);
}

/* The flag first, and then the look: what is posted meanwhile is found, or told of. */
static int fetch_receives(struct swr_file *file, struct swrnic_fetch *fetch)
{
	int error;

	await_recv(file, fetch->qpn, true);
	error = fetch_queue(file, fetch, SWRNIC_QUEUE_RECV);
	if (fetch->count)
		await_recv(file, fetch->qpn, false);
	return error;
}

static bool shares_receives(struct swr_file *file, u32 qpn)
{
	struct swr_qp *qp = swr_served_qp(file, qpn);
	bool shares = qp && qp->kernel->srq;

	if (qp)
		swr_qp_put(qp);
	return shares;
}

static int fetch(struct swr_file *file, void __user *argument)
{
	struct swrnic_fetch fetch;
	int error = 0;

	if (copy_from_user(&fetch, argument, sizeof(fetch)))
		return -EFAULT;
	if (fetch.queue > SWRNIC_QUEUE_BOTH || !fetch.max)
		return -EINVAL;
	fetch.count = 0;
	if (fetch.queue == SWRNIC_QUEUE_RECV)
		error = fetch_receives(file, &fetch);
	else if (fetch.queue == SWRNIC_QUEUE_BOTH && !shares_receives(file, fetch.qpn))
		error = fetch_queue(file, &fetch, SWRNIC_QUEUE_RECV);
	if (!error && fetch.queue != SWRNIC_QUEUE_RECV)
		error = fetch_queue(file, &fetch, SWRNIC_QUEUE_SEND);
	if (error)
		return error;
	return copy_to_user(argument, &fetch, sizeof(fetch)) ? -EFAULT : 0;
}

/* ---- COPY -------------------------------------------------------------------------------------------------------------- */

static bool name_valid(const struct swrnic_name *name)
{
	return name->length && swr_name_valid(name);
}

/* enum swrnic_name_error, or -EINVAL. */
static int move(struct swr_file *file, u32 qpn, const struct swrnic_name *name, u64 from, u32 length, void *buffer, bool in)
{
	struct swr_qp *qp = swr_served_qp(file, qpn);
	int error;

	if (!qp)
		return -EINVAL;
	error = swr_kqp_move(qp, name, from, length, buffer, in);
	swr_qp_put(qp);
	return error;
}

/* A piece, by way of memory of ours: neither are faults taken under a lock, nor must the memory be such that users may be given. */
static int copy_piece(struct swr_file *file, const struct swrnic_copy *copy, const struct swrnic_name *name, u32 done, u32 length,
		      u8 __user *memory, void *buffer)
{
	bool in = copy->direction == SWRNIC_COPY_IN;
	int error;

	if (!in && copy_from_user(buffer, memory, length))
		return -EFAULT;
	error = move(file, copy->qpn, name, name->offset + done, length, buffer, in);
	if (!error && in && copy_to_user(memory, buffer, length))
		return -EFAULT;
	return error;
}

/* 0, enum swrnic_name_error, or less than 0. */
static int copy_name(struct swr_file *file, const struct swrnic_copy *copy, const struct swrnic_name *name, u8 __user *memory,
		     void *buffer)
{
	u32 whole = max(name->length, name->whole);
	u32 done, length;
	int error;

	/* All of it or nothing, as far as nobody invalidates or flushes it meanwhile. */
	if (whole > min_t(u32, name->length, PAGE_SIZE)) {
		error = move(file, copy->qpn, name, name->offset, whole, NULL, copy->direction == SWRNIC_COPY_IN);
		if (error)
			return error;
	}
	for (done = 0; done < name->length; done += length) {
		length = min_t(u32, name->length - done, PAGE_SIZE);
		error = copy_piece(file, copy, name, done, length, memory + done, buffer);
		if (error)
			return error;
		if (fatal_signal_pending(current))
			return -EINTR;
		cond_resched();
	}
	return 0;
}

/* name: the last of them, when it is over */
static int copy_names(struct swr_file *file, struct swrnic_copy *copy, void *buffer, struct swrnic_name *name)
{
	struct swrnic_name __user *names = u64_to_user_ptr(copy->names);
	u8 __user *memory = u64_to_user_ptr(copy->memory);
	int error;
	u32 i;

	for (i = 0; i < copy->count; i++) {
		if (copy_from_user(name, names + i, sizeof(*name)))
			return -EFAULT;
		if (!name_valid(name))
			return -EINVAL;
		error = copy_name(file, copy, name, memory, buffer);
		if (error)
			return error;
		memory += name->length;
	}
	return 0;
}

/* So many octets from the name's beginning on are in their place, and with them its request is complete. */
static void end_request(struct swr_file *file, u32 qpn, const struct swrnic_name *name, u32 octets, struct swrnic_ending *ending)
{
	struct swr_qp *qp = ending->flags & SWRNIC_ENDING ? swr_served_qp(file, qpn) : NULL;

	if (!qp)
		return;
	swr_kqp_end(qp, name, name->offset + octets, ending);
	swr_qp_put(qp);
}

static bool copy_valid(const struct swrnic_copy *copy)
{
	if (copy->direction > SWRNIC_COPY_OUT || !copy->count || copy->count > MAX_NAMES || !swr_ending_valid(&copy->ending))
		return false;
	return !copy->ending.flags || (copy->direction == SWRNIC_COPY_OUT && copy->count == 1);
}

static int copy(struct swr_file *file, void __user *argument)
{
	struct swrnic_copy copy;
	struct swrnic_name name;
	void *buffer;
	int error;

	if (copy_from_user(&copy, argument, sizeof(copy)))
		return -EFAULT;
	if (!copy_valid(&copy))
		return -EINVAL;
	buffer = buffer_get(file);
	if (IS_ERR(buffer))
		return PTR_ERR(buffer);
	error = copy_names(file, &copy, buffer, &name);
	buffer_put(file);
	if (error < 0)
		return error;
	copy.error = error;
	copy.ending.done = 0;
	if (!error)
		end_request(file, copy.qpn, &name, name.length, &copy.ending);
	return copy_to_user(argument, &copy, sizeof(copy)) ? -EFAULT : 0;
}

/* ---- RECEIVE and TRANSMIT ---------------------------------------------------------------------------------------------- */

static bool receive_valid(const struct swrnic_receive *receive)
{
	if (receive->header != SWRNIC_HEADER_TAGGED && receive->header != SWRNIC_HEADER_UNTAGGED)
		return false;
	return !(receive->flags & ~SWRNIC_RECEIVE_MORE) && name_valid(&receive->name) && !receive->name.whole &&
	       swr_ending_valid(&receive->ending) && receive->have >= receive->header && receive->have <= SWRNIC_MOVED_OCTETS &&
	       receive->room && receive->room <= SWRNIC_MOVED_OCTETS - receive->have;
}

static int receive(struct swr_file *file, void __user *argument)
{
	struct swrnic_receive receive;
	void *buffer;
	int error;

	if (copy_from_user(&receive, argument, sizeof(receive)))
		return -EFAULT;
	if (!receive_valid(&receive))
		return -EINVAL;
	buffer = buffer_get(file);
	if (IS_ERR(buffer))
		return PTR_ERR(buffer);
	error = swr_receive(file, &receive, buffer);
	buffer_put(file);
	if (error)
		return error;
	receive.ending.done = 0;
	if (receive.whole)
		end_request(file, receive.qpn, &receive.name, receive.octets, &receive.ending);
	return copy_to_user(argument, &receive, sizeof(receive)) ? -EFAULT : 0;
}

static int transmit(struct swr_file *file, void __user *argument)
{
	struct swrnic_transmit transmit;
	void *buffer;
	int error;

	if (copy_from_user(&transmit, argument, sizeof(transmit)))
		return -EFAULT;
	if (!transmit.count || transmit.count > SWRNIC_TRANSMIT_FPDUS || transmit.reserved)
		return -EINVAL;
	buffer = buffer_get(file);
	if (IS_ERR(buffer))
		return PTR_ERR(buffer);
	error = swr_transmit(file, &transmit, buffer);
	buffer_put(file);
	if (error)
		return error;
	return copy_to_user(argument, &transmit, sizeof(transmit)) ? -EFAULT : 0;
}

/* ---- COMPLETE ---------------------------------------------------------------------------------------------------------- */

#define DONE_BATCH 8

static int complete_some(struct swr_file *file, u32 qpn, const struct swrnic_done __user *from, u32 count, u32 *taken)
{
	struct swrnic_done done[DONE_BATCH];
	struct swr_qp *qp;
	int error;

	*taken = 0;
	if (copy_from_user(done, from, count * sizeof(*done)))
		return -EFAULT;
	qp = swr_served_qp(file, qpn);
	if (!qp)
		return -EINVAL;
	error = swr_kqp_done(qp, done, count, taken);
	swr_qp_put(qp);
	return error;
}

/* An error is that of the first; with another the count ends before it. */
static int complete_many(struct swr_file *file, void __user *argument)
{
	const struct swrnic_done __user *done;
	struct swrnic_complete complete;
	u32 count, taken;
	int error = 0;

	if (copy_from_user(&complete, argument, sizeof(complete)))
		return -EFAULT;
	if (!complete.count || complete.count > MAX_DONE)
		return -EINVAL;
	done = u64_to_user_ptr(complete.done);
	for (count = 0; !error && count < complete.count; count += taken) {
		if (count && signal_pending(current))
			break;
		error = complete_some(file, complete.qpn, done + count, min_t(u32, complete.count - count, DONE_BATCH), &taken);
		cond_resched();
	}
	if (error && !count)
		return error;
	complete.count = count;
	return copy_to_user(argument, &complete, sizeof(complete)) ? -EFAULT : 0;
}

static long run(struct swr_file *file, unsigned int command, void __user *user)
{
	switch (command) {
	case SWRNIC_IOC_SERVE:
		return serve(file, user);
	case SWRNIC_IOC_QP_INFO:
		return qp_info(file, user);
	case SWRNIC_IOC_FETCH:
		return fetch(file, user);
	case SWRNIC_IOC_COPY:
		return copy(file, user);
	case SWRNIC_IOC_RECEIVE:
		return receive(file, user);
	case SWRNIC_IOC_TRANSMIT:
		return transmit(file, user);
	case SWRNIC_IOC_EXECUTE:
		return execute(file, user);
	case SWRNIC_IOC_INVALIDATE:
		return invalidate(file, user);
	case SWRNIC_IOC_COMPLETE:
		return complete_many(file, user);
	default:
		return -ENOTTY;
	}
}

long swr_file_ioctl(struct file *fp, unsigned int command, unsigned long argument)
{
	struct swr_file *file = fp->private_data;
	unsigned int flags;
	long result;

	if (!swr_file_is_own(fp))
		return -EACCES;
	if (READ_ONCE(file->dead))
		return -EIO;
	swr_file_called(file);
	/* Reclaim must not wait here for a file system whose transport we are. */
	flags = memalloc_noio_save();
	result = run(file, command, (void __user *)argument);
	memalloc_noio_restore(flags);
	swr_file_called(file);
	return result;
}
