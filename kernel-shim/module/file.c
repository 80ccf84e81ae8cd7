// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * The event file: streams and orders to the process, reports from it. It may outlive the ucontext and the device, so it holds no
 * reference to either; it may be inherited or passed on, so only the credentials that opened it may use it (swr_file_is_own()).
 */
#include "conn.h"
#include "kverbs.h"

#include <linux/anon_inodes.h>
#include <linux/file.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/pid.h>
#include <linux/poll.h>
#include <linux/sched/signal.h>

static void file_release(struct kref *kref)
{
	struct swr_file *file = container_of(kref, struct swr_file, kref);

	WARN_ON(!xa_empty(&file->qps) || !xa_empty(&file->cqs) || !xa_empty(&file->srqs));
	put_pid(file->owner);
	swr_counters_put(file->counters);
	kvfree(file->buffer);
	if (file->pages)
		put_page(file->pages);
	kfree(file);
}

void swr_file_put(struct swr_file *file)
{
	kref_put(&file->kref, file_release);
}

void swr_file_called(struct swr_file *file)
{
	WRITE_ONCE(file->called, jiffies);
	WRITE_ONCE(file->still, false);
}

/*
 * Whoever was given the descriptor, or a set-user-id program that inherited it, has other credentials. A daemon may have given up
 * its own since it was allowed to serve; nobody gets there whom the host's administrator did not start.
 */
bool swr_file_is_own(const struct file *fp)
{
	const struct swr_file *file = fp->private_data;

	return fp->f_cred == current_cred() || (READ_ONCE(file->serves) && file->owner == task_tgid(current));
}

/* ---- the owner --------------------------------------------------------------------------------------------------------- */

bool swr_file_owner_dies(const struct swr_file *file)
{
	struct task_struct *task;
	bool dies;

	rcu_read_lock();
	task = pid_task(file->owner, PIDTYPE_TGID);
	dies = !task || (READ_ONCE(task->signal->flags) & SIGNAL_GROUP_EXIT) || !atomic_read(&task->signal->live);
	rcu_read_unlock();
	return dies;
}

static void look_at_owner(struct swr_file *file)
{
	queue_delayed_work(swr_wq, &file->watch_owner, msecs_to_jiffies(SWR_WATCH_MS));
}

void swr_file_each_qp(struct swr_file *file, void (*fn)(struct swr_qp *qp))
{
	struct swr_qp *qp;
	unsigned long qpn;

	xa_lock_irq(&file->qps);
	xa_for_each(&file->qps, qpn, qp) {
		swr_qp_get(qp);
		xa_unlock_irq(&file->qps);
		fn(qp);
		swr_qp_put(qp);
		xa_lock_irq(&file->qps);
	}
	xa_unlock_irq(&file->qps);
}

static void kick_conn(struct swr_qp *qp)
{
	struct swr_conn *conn = swr_qp_conn(qp);

	if (conn) {
		swr_conn_kick(conn);
		swr_conn_put(conn);
	}
}

/* A process that dies in iw_cm waits there for its connections, and nobody would tell them: no close of a file comes that far. */
static void watch_owner_work(struct work_struct *work)
{
	struct swr_file *file = container_of(to_delayed_work(work), struct swr_file, watch_owner);

	if (!atomic_read(&file->startups))
		return;
	if (swr_file_owner_dies(file))
		swr_file_each_qp(file, kick_conn);
	look_at_owner(file);
}

void swr_file_startup_begins(struct swr_file *file)
{
	if (atomic_inc_return(&file->startups) == 1)
		look_at_owner(file);
}

void swr_file_startup_ends(struct swr_file *file)
{
	atomic_dec(&file->startups);
}

/* ---- what is to be told ------------------------------------------------------------------------------------------------ */

/* Each kind at most once per QP, in the QP itself: no memory, no bound to watch. */
void swr_file_tell(struct swr_qp *qp, u32 pending)
{
	struct swr_file *file = qp->file;
	unsigned long flags;

	spin_lock_irqsave(&file->lock, flags);
	if (!file->dead && !file->closed && !qp->dismissed) {
		if (list_empty(&file->ready))
			file->told = jiffies;
		qp->pending |= pending;
		if (list_empty(&qp->pending_link))
			list_add_tail(&qp->pending_link, &file->ready);
	}
	spin_unlock_irqrestore(&file->lock, flags);
	wake_up_interruptible_poll(&file->wait, EPOLLIN | EPOLLRDNORM);
}

static void take_off_locked(struct swr_qp *qp)
{
	qp->pending = 0;
	list_del_init(&qp->pending_link);
}

void swr_file_forget(struct swr_qp *qp)
{
	spin_lock_irq(&qp->file->lock);
	take_off_locked(qp);
	spin_unlock_irq(&qp->file->lock);
}

/* Whoever still has a reference may try to tell it something afterwards: what were linked then would be freed on the list. */
void swr_file_dismiss(struct swr_qp *qp)
{
	spin_lock_irq(&qp->file->lock);
	qp->dismissed = true;
	take_off_locked(qp);
	spin_unlock_irq(&qp->file->lock);
}

/* The next QP with something to tell, with a reference, and what: one bit, the lowest, which is the order of a stream's life. */
static struct swr_qp *next_pending(struct swr_file *file, u32 *type)
{
	struct swr_qp *qp;

	spin_lock_irq(&file->lock);
	qp = list_first_entry_or_null(&file->ready, struct swr_qp, pending_link);
	if (qp) {
		*type = __ffs(qp->pending);
		qp->pending &= ~BIT(*type);
		if (!qp->pending)
			list_del_init(&qp->pending_link);
		/* On the list it has its own reference: destroy_qp takes it off before it lets go of that. */
		swr_qp_get(qp);
	}
	spin_unlock_irq(&file->lock);
	return qp;
}

/* ---- reading ----------------------------------------------------------------------------------------------------------- */

/*
 * QP_CONNECTED: the socket gets a file, and a descriptor that is reserved in the reader's process. false: there is no such stream
 * any more.
 */
static bool hand_over_locked(struct swr_conn *conn, struct swrnic_down *record, struct file **fp)
{
	struct socket *sock;
	int fd, error;

	if (conn->state != SWR_CONN_QUEUED)
		return false;
	fd = get_unused_fd_flags(O_CLOEXEC);
	if (fd < 0) {
		swr_conn_fail_locked(conn, fd); /* its own limit, its own connection */
		return false;
	}
	error = swr_conn_give_away_locked(conn, &sock);
	if (error)
		goto fail;
	*fp = sock_alloc_file(sock, O_NONBLOCK | O_CLOEXEC, NULL);
	if (IS_ERR(*fp)) {
		error = PTR_ERR(*fp); /* the socket went with it */
		goto fail;
	}
	if (conn->qp->kernel)
		swr_conn_keep_file_locked(conn, *fp);
	record->u.connected = conn->connected;
	record->u.connected.fd = fd;
	conn->state = SWR_CONN_TAKEN;
	return true;
fail:
	put_unused_fd(fd);
	swr_conn_fail_locked(conn, error);
	return false;
}

static bool hand_over(struct swr_qp *qp, struct swrnic_down *record, struct file **fp)
{
	struct swr_conn *conn = swr_qp_conn(qp);
	bool taken;

	if (!conn)
		return false;
	mutex_lock(&conn->lock);
	taken = hand_over_locked(conn, record, fp);
	mutex_unlock(&conn->lock);
	swr_conn_put(conn);
	if (taken && qp->kernel)
		swr_kqp_serve(qp);
	return taken;
}

/* As if the process had taken it and told us so. */
static void stream_lost(struct swr_file *file, u32 qpn)
{
	struct swrnic_up closed = { .type = SWRNIC_UP_QP_CLOSED, .id = qpn, .aux = SWRNIC_CLOSE_LOST };

	swr_up(file, &closed);
}

/*
 * 1: a record was written to buf. 0: what was to be told is no more. Else an error, -EFAULT with the record lost. A process can
 * make the copy to its memory take as long as it likes, so nothing is held meanwhile that anybody else waits for.
 */
static int tell_one(struct swr_file *file, char __user *buf)
{
	struct swrnic_down record = {};
	struct file *fp = NULL;
	struct swr_qp *qp;
	bool there = true;

	/* The descriptor of either. */
	BUILD_BUG_ON(offsetof(struct swrnic_connected, fd) != offsetof(struct swrnic_datagrams, fd));
	qp = next_pending(file, &record.type);
	if (!qp)
		return -EAGAIN;
	record.qpn = qp->ibqp.qp_num;
	if (record.type == SWRNIC_DOWN_QP_CONNECTED)
		there = hand_over(qp, &record, &fp);
	else if (record.type == SWRNIC_DOWN_QP_DATAGRAMS && !qp->kernel)
		there = swr_datagrams_hand_over(qp, &record.u.datagrams, &fp);
	swr_qp_put(qp);
	if (!there)
		return 0;
	if (copy_to_user(buf, &record, sizeof(record))) {
		if (fp) {
			put_unused_fd(record.u.connected.fd);
			fput(fp);
			stream_lost(file, record.qpn);
		}
		return -EFAULT;
	}
	if (fp)
		fd_install(record.u.connected.fd, fp);
	return 1;
}

static bool something_to_read(struct swr_file *file)
{
	return READ_ONCE(file->dead) || !list_empty_careful(&file->ready);
}

static ssize_t swr_file_read(struct file *fp, char __user *buf, size_t size, loff_t *pos)
{
	struct swr_file *file = fp->private_data;
	size_t done = 0;
	int result;

	if (!swr_file_is_own(fp))
		return -EACCES;
	if (size < sizeof(struct swrnic_down))
		return -EINVAL;
	swr_file_called(file);
	while (size - done >= sizeof(struct swrnic_down)) {
		if (READ_ONCE(file->dead))
			return done ? done : -EIO;
		result = tell_one(file, buf + done);
		if (result == 1) {
			done += sizeof(struct swrnic_down);
			continue;
		}
		if (!result)
			continue;
		if (done)
			return done;
		if (result != -EAGAIN || (fp->f_flags & O_NONBLOCK))
			return result;
		result = wait_event_interruptible(file->wait, something_to_read(file));
		if (result)
			return result;
		swr_file_called(file); /* whoever waited here did not stand still */
	}
	return done;
}

/* ---- writing, waiting, the end ----------------------------------------------------------------------------------------- */

static ssize_t swr_file_write(struct file *fp, const char __user *buf, size_t size, loff_t *pos)
{
	struct swr_file *file = fp->private_data;
	struct swrnic_up record;
	size_t done;
	int error;

	if (!swr_file_is_own(fp))
		return -EACCES;
	if (!size || size % sizeof(record))
		return -EINVAL;
	swr_file_called(file);
	for (done = 0; done < size; done += sizeof(record)) {
		if (READ_ONCE(file->dead))
			error = -EIO;
		else if (copy_from_user(&record, buf + done, sizeof(record)))
			error = -EFAULT;
		else if (done && signal_pending(current))
			error = -EINTR;
		else
			error = swr_up(file, &record);
		if (error)
			return done ? done : error;
		cond_resched();
	}
	return size;
}

static __poll_t swr_file_poll(struct file *fp, struct poll_table_struct *table)
{
	struct swr_file *file = fp->private_data;
	__poll_t events = EPOLLOUT | EPOLLWRNORM;

	poll_wait(fp, &file->wait, table);
	/* A process that was found to stand still has a reason to call, though there is nothing to be read. */
	if (something_to_read(file) || READ_ONCE(file->still))
		events |= EPOLLIN | EPOLLRDNORM;
	if (READ_ONCE(file->dead))
		events |= EPOLLHUP | EPOLLERR;
	return events;
}

static void end_qp(struct swr_qp *qp)
{
	swr_qp_lost(qp);
	swr_file_forget(qp);
}

/* Nobody can take a stream any more, nor drive one. A QP without one stays as it is: its consumer may be about to accept. */
void swr_file_end_qps(struct swr_file *file)
{
	swr_file_each_qp(file, end_qp);
}

static int swr_file_close(struct inode *inode, struct file *fp)
{
	struct swr_file *file = fp->private_data;

	spin_lock_irq(&file->lock);
	WRITE_ONCE(file->closed, true);
	swr_server_drop_locked(file);
	spin_unlock_irq(&file->lock);
	cancel_delayed_work_sync(&file->watch);
	swr_file_end_qps(file);
	swr_file_put(file);
	return 0;
}

/* .owner holds the module while a process has the file, so while it has the device. */
static const struct file_operations swr_file_ops = {
	.owner = THIS_MODULE,
	.read = swr_file_read,
	.write = swr_file_write,
	.poll = swr_file_poll,
	.unlocked_ioctl = swr_file_ioctl,
	.compat_ioctl = compat_ptr_ioctl,
	.release = swr_file_close,
	.llseek = noop_llseek,
};

static struct swr_file *file_alloc(struct swr_device *dev)
{
	struct swr_file *file = kzalloc(sizeof(*file), GFP_KERNEL_ACCOUNT);

	if (!file)
		return NULL;
	kref_init(&file->kref);
	spin_lock_init(&file->lock);
	INIT_LIST_HEAD(&file->ready);
	init_waitqueue_head(&file->wait);
	INIT_DELAYED_WORK(&file->watch, swr_server_watch);
	INIT_DELAYED_WORK(&file->watch_owner, watch_owner_work);
	mutex_init(&file->moving);
	xa_init_flags(&file->qps, XA_FLAGS_LOCK_IRQ);
	xa_init_flags(&file->cqs, XA_FLAGS_LOCK_IRQ);
	xa_init_flags(&file->srqs, XA_FLAGS_LOCK_IRQ);
	file->dev = dev;
	swr_counters_get(dev->counters);
	file->counters = dev->counters;
	return file;
}

struct swr_file *swr_file_nobody(struct swr_device *dev)
{
	struct swr_file *file = file_alloc(dev);

	if (file)
		file->closed = true;
	return file;
}

/* A reference each for the ucontext and for the file; the descriptor is reserved, not installed. */
int swr_file_create(struct swr_device *dev, struct swr_file **filep, struct file **fp, int *fdp)
{
	struct swr_file *file = file_alloc(dev);
	int error;

	if (!file)
		return -ENOMEM;
	file->user = swr_user_get(dev);
	if (!file->user) {
		swr_file_put(file);
		return -ENOMEM;
	}
	file->owner = get_pid(task_tgid(current));
	error = *fdp = get_unused_fd_flags(O_CLOEXEC);
	if (error < 0)
		goto put;
	*fp = anon_inode_getfile("[swrnic]", &swr_file_ops, file, O_RDWR | O_NONBLOCK | O_CLOEXEC);
	error = PTR_ERR_OR_ZERO(*fp);
	if (error)
		goto put_fd;
	kref_get(&file->kref);
	*filep = file;
	return 0;
put_fd:
	put_unused_fd(*fdp);
put:
	swr_user_put(file->user);
	swr_file_put(file);
	return error;
}

/* The ucontext is gone, and all its objects with it; what is left are the kernel's QPs that it served. */
void swr_file_kill(struct swr_file *file)
{
	spin_lock_irq(&file->lock);
	WRITE_ONCE(file->dead, true);
	swr_server_drop_locked(file);
	file->dev = NULL;
	spin_unlock_irq(&file->lock);
	swr_file_end_qps(file);
	cancel_delayed_work_sync(&file->watch_owner);
	wake_up_interruptible_poll(&file->wait, EPOLLIN | EPOLLHUP | EPOLLERR);
	swr_user_put(file->user);
	file->user = NULL;
}
