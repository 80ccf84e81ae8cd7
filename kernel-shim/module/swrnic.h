/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * swrnic.ko: an RDMA device over a network interface, whose data path is a process's own business (kernel-shim/abi/swrnic-abi.h).
 *
 * Who owns whom:
 *   swr_device	  the ib_device; numbers QPs and undecided connections
 *   swr_file	  one per ucontext: the event file and the objects that may be named through it
 *   swr_qp	  the core's; iw_cm, the file and a connection borrow it, and destroy_qp waits for them
 *   swr_listener one per iw_cm listener: a TCP socket and its half-open connections
 *   swr_conn	  one per connection, from SYN to its close: the MPA machine, the socket until it changes hands, all upcalls
 *
 * Locks, outermost first: swr_qp.modify (mutex), swr_user.ports_lock (mutex), swr_conn.lock (mutex), swr_listener.lock (mutex),
 * swr_file.lock (spin), swr_qp.lock (spin). No consumer's
 * callback is called under a spinlock. iw_cm's event_handler only queues work, so it may be called under swr_conn.lock.
 */
#ifndef SWRNIC_MODULE_H
#define SWRNIC_MODULE_H

#define pr_fmt(fmt) "swrnic: " fmt

#include <linux/completion.h>
#include <linux/delay.h>
#include <linux/kref.h>
#include <linux/list.h>
#include <linux/mutex.h>
#include <linux/net.h>
#include <linux/netdevice.h>
#include <linux/spinlock.h>
#include <linux/wait.h>
#include <linux/workqueue.h>
#include <linux/xarray.h>
#include <net/sock.h>
#include <rdma/ib_verbs.h>
#include <rdma/iw_cm.h>

#include "compat.h"
#include "device_limits.h"
#include "swrnic-abi.h"
#include "swrnic-serve.h"
#include "swrnic_mpa.h"
#include "swrnic_wiring.h"

struct swr_conn;
struct swr_kcq;
struct swr_kmr;
struct swr_kqp;
struct swr_listener;
struct swr_port;
struct swr_stream;
struct swr_wired;

extern struct workqueue_struct *swr_wq;
extern struct workqueue_struct *swr_abort_wq;

/*
 * Where a race would need luck. Only the guest's checks build the module with SWRNIC_TEST, and make the window as long as the
 * module parameter says.
 */
#ifdef SWRNIC_TEST
extern unsigned int swr_race_ms;
static inline void swr_race_pause(void)
{
	if (READ_ONCE(swr_race_ms))
		msleep(READ_ONCE(swr_race_ms));
}
#else
static inline void swr_race_pause(void)
{
}
#endif

/* Objects that processes make, each kind up to what the device announces. */
enum swr_kind {
	SWR_PDS,
	SWR_MRS,
	SWR_MWS,
	SWR_AHS,
	SWR_CQS,
	SWR_SRQS,
	SWR_QPS,
	SWR_GROUPS,   /* attachments, of which the core keeps a record for each */
	SWR_STARTUPS, /* two sockets each at most, of which no process's limits know */
	SWR_KINDS,
};

struct swr_counters {
	struct kref kref;
	atomic64_t values[SWRNIC_COUNTERS];
};

struct swr_device {
	struct ib_device ibdev;
	struct list_head link;	   /* among all our devices */
	struct net_device *netdev; /* holds a reference */
	const struct net *net;	   /* where it was at the beginning: to be compared, never used */
	bool leaving;		   /* the interface goes away, or to another namespace */
	bool registered;	   /* its clients have all seen it */
	bool removing;		   /* its clients are being told to let go */
	struct xarray qps;	   /* by number; XA_FLAGS_LOCK_IRQ */
	struct xarray conns;	   /* those whose fate iw_cm decides, by swr_conn.id; 0 is none */
	u32 next_conn;
	spinlock_t all_lock;	    /* of all_conns */
	struct list_head all_conns; /* swr_conn.all_link */
	wait_queue_head_t idle;	    /* all_conns is empty */
	struct work_struct refresh; /* addresses changed */
	spinlock_t gid_lock;	    /* of gids */
	union ib_gid gids[SWR_MAX_GIDS];
	atomic_t objects[SWR_KINDS];	    /* of processes */
	atomic_t kernel_objects[SWR_KINDS]; /* of consumers in the kernel */
	struct xarray users;		    /* swr_user by uid: those with a context */
	struct swr_counters *counters;	    /* holds a reference */
	struct xarray mrs;		    /* those of consumers in the kernel, by STag index */
	u32 next_mr;
	spinlock_t server_lock;			       /* of servers; inside swr_file.lock */
	struct swr_file *servers[SWRNIC_SERVE_GROUPS]; /* for which the kernel's QPs are made; each holds a reference */
};

/* Somebody with contexts of the device, and what they hold. */
struct swr_user {
	unsigned int contexts; /* under the lock of swr_device.users; with the last one it goes */
	struct swr_device *dev;
	kuid_t uid;
	atomic_t objects[SWR_KINDS];
	struct mutex ports_lock; /* of ports, and of what is in them */
	struct list_head ports;	 /* swr_port.link: those that the numbers of its QPs name */
};

struct swr_ucontext {
	struct ib_ucontext ibucontext;
	struct swr_file *file;
};

struct swr_file {
	struct kref kref;
	spinlock_t lock; /* of what the objects of this file say of themselves: ready, dead, closed, pending, unread; of dev */
	struct list_head ready; /* swr_qp.pending_link of QPs with something to tell */
	wait_queue_head_t wait;
	bool dead;			 /* the ucontext has gone */
	bool closed;			 /* nobody reads any more */
	struct swr_device *dev;		 /* until the ucontext goes */
	struct swr_user *user;		 /* the same: whose context it is; NULL in swr_file_nobody() */
	struct mutex moving;		 /* of buffer and pages: one call has them at a time */
	void *buffer;			 /* of one that serves: what is moved goes through it, and waits for no memory */
	struct page *pages;		 /* for what is sent, where TCP may keep it (kstream.c); NULL: there are none */
	struct delayed_work watch;	 /* from SERVE to the close */
	atomic_t startups;		 /* QPs of its process that are connecting */
	struct delayed_work watch_owner; /* while there are such */
	unsigned long called;		 /* jiffies of its last read(), write() or ioctl() */
	unsigned long told;		 /* jiffies when `ready` was last empty and then was not; under lock */
	bool still;			 /* it was found to stand still, and has not called since: nobody connects */
	struct pid *owner;		 /* thread group that opened the context */
	bool serves;			 /* or has served: SERVE was granted */
	u8 crc_mode, fpdu_mode;		 /* of the QPs that it serves */
	struct swr_counters *counters;	 /* holds a reference */
	struct xarray qps;		 /* by number */
	struct xarray cqs;		 /* by uverbs handle, as are the SRQs */
	struct xarray srqs;
};

/* Events of one object in the core's queue for the process. */
struct swr_unread {
	const struct list_head *list; /* the core's; NULL: it is not where it should be, and there is no bound */
	unsigned int raised;	      /* since it was last seen empty */
};

struct swr_pd {
	struct ib_pd ibpd;
	struct swr_user *user; /* who holds it, here and below; NULL: the kernel */
};

struct swr_mr {
	struct ib_mr ibmr;
	struct swr_user *user;
	struct swr_kmr *kernel; /* of a consumer in the kernel, as in a CQ and a QP; NULL: a process's */
};

struct swr_mw {
	struct ib_mw ibmw;
	struct swr_user *user;
};

struct swr_ah {
	struct ib_ah ibah;
	struct swr_user *user;
};

struct swr_cq {
	struct ib_cq ibcq;
	struct swr_kcq *kernel; /* with it, there is nothing of what follows */
	struct swr_file *file;
	u32 handle;
	bool error_raised;
	struct swr_unread unread; /* under swr_file.lock */
	struct kref kref;
	struct completion free;
};

struct swr_srq {
	struct ib_srq ibsrq;
	struct swr_ksrq *kernel; /* NULL: a process's, and then all that follows is in use */
	struct swr_file *file;
	u32 handle;
	struct ib_srq_attr attr; /* this and the next two under swr_file.lock; srq_limit: 0 is not armed */
	bool error_raised;
	struct swr_unread unread;
	struct kref kref;
	struct completion free;
};

#define SWR_PENDING_CONNECTED BIT(SWRNIC_DOWN_QP_CONNECTED)
#define SWR_PENDING_DISCONNECT BIT(SWRNIC_DOWN_QP_DISCONNECT)
#define SWR_PENDING_ERROR BIT(SWRNIC_DOWN_QP_ERROR)
/* One number, which says the one of a process's QP and the other of a consumer's in the kernel. */
#define SWR_PENDING_DATAGRAMS BIT(SWRNIC_DOWN_QP_DATAGRAMS)
#define SWR_PENDING_WORK BIT(SWRNIC_DOWN_QP_WORK)

struct swr_qp {
	struct ib_qp ibqp;
	struct swr_device *dev;
	struct swr_file *file;	/* a kernel's QP holds a reference: of the daemon that serves it */
	struct swr_kqp *kernel; /* NULL: a process's */
	struct swrnic_create_qp_req startup;
	struct ib_qp_cap cap;
	enum ib_sig_type sq_sig_type;
	struct kref kref;
	struct completion free;

	struct swr_port *port;	 /* that the number names; NULL: none */
	struct mutex modify;	 /* one modify_qp of its process at a time */
	spinlock_t lock;	 /* of conn and what follows, down to async_raised */
	struct swr_conn *conn;	 /* holds a reference */
	struct swr_wired *wired; /* NULL: not by hand */
	bool gone;		 /* being destroyed: no new connection */
	enum ib_qp_state state;
	int access;
	u8 ird, ord;
	u32 async_raised;	    /* bits by enum ib_event_type */
	struct list_head datagrams; /* of a UD QP: sockets that wait to be read; under lock as well */
	struct swr_unread unread;

	struct list_head pending_link; /* under swr_file.lock, as are the two below */
	u32 pending;		       /* SWR_PENDING_* */
	bool dismissed;		       /* being destroyed: it is told nothing any more */
};

static inline struct swr_device *to_swr_device(struct ib_device *ibdev)
{
	return container_of(ibdev, struct swr_device, ibdev);
}

static inline struct swr_ucontext *to_swr_ucontext(struct ib_ucontext *ibucontext)
{
	return container_of(ibucontext, struct swr_ucontext, ibucontext);
}

static inline struct swr_qp *to_swr_qp(struct ib_qp *ibqp)
{
	return container_of(ibqp, struct swr_qp, ibqp);
}

static inline struct swr_cq *to_swr_cq(struct ib_cq *ibcq)
{
	return container_of(ibcq, struct swr_cq, ibcq);
}

static inline struct swr_srq *to_swr_srq(struct ib_srq *ibsrq)
{
	return container_of(ibsrq, struct swr_srq, ibsrq);
}

/* device.c */
extern struct ib_client swr_client;
int swr_device_add(const char *name, struct net_device *netdev);
void swr_device_refresh_gids(struct swr_device *dev);

/* netdev.c */
int swr_netdev_init(void);
void swr_netdev_exit(void);
void swr_netdev_speed(struct net_device *netdev, struct ib_port_attr *attr);
void swr_netdev_gids(struct net_device *netdev, __be64 guid, union ib_gid *gids, unsigned int max);

/* verbs.c */
struct swr_user *swr_user_get(struct swr_device *dev); /* the current one, for one more context; NULL without memory */
void swr_user_put(struct swr_user *user);
/* 0, or -ENOMEM: that is all of them. user: who holds the object; NULL: the kernel, whose objects processes cannot use up */
int swr_count_up(struct ib_device *ibdev, enum swr_kind kind, struct swr_user *user);
void swr_count_down(struct ib_device *ibdev, enum swr_kind kind, struct swr_user *user);
int swr_take_driver_data(struct ib_udata *udata, void *req, size_t size);
int swr_alloc_ucontext(struct ib_ucontext *ibucontext, struct ib_udata *udata);
void swr_dealloc_ucontext(struct ib_ucontext *ibucontext);
void swr_disassociate_ucontext(struct ib_ucontext *ibucontext);
int swr_alloc_pd(struct ib_pd *ibpd, struct ib_udata *udata);
int swr_dealloc_pd(struct ib_pd *ibpd, struct ib_udata *udata);
struct ib_mr *swr_reg_user_mr(struct ib_pd *ibpd, u64 start, u64 length, u64 virt_addr, int access, struct ib_dmah *dmah,
			      struct ib_udata *udata);
int swr_dereg_mr(struct ib_mr *ibmr, struct ib_udata *udata);
int swr_alloc_mw(struct ib_mw *ibmw, struct ib_udata *udata);
int swr_dealloc_mw(struct ib_mw *ibmw);
int swr_create_ah(struct ib_ah *ibah, struct rdma_ah_init_attr *attr, struct ib_udata *udata);
int swr_destroy_ah(struct ib_ah *ibah, u32 flags);
int swr_create_cq(struct ib_cq *ibcq, const struct ib_cq_init_attr *attr, struct swr_create_cq_arg *arg);
int swr_destroy_cq(struct ib_cq *ibcq, struct ib_udata *udata);
void swr_cq_put(struct swr_cq *cq);

/* srq.c */
int swr_create_srq(struct ib_srq *ibsrq, struct ib_srq_init_attr *init, struct ib_udata *udata);
int swr_modify_srq(struct ib_srq *ibsrq, struct ib_srq_attr *attr, enum ib_srq_attr_mask mask, struct ib_udata *udata);
int swr_query_srq(struct ib_srq *ibsrq, struct ib_srq_attr *attr);
int swr_destroy_srq(struct ib_srq *ibsrq, struct ib_udata *udata);
int swr_srq_event(struct swr_file *file, u32 handle, enum ib_event_type type); /* 0, or -EINVAL: not now */

/* qp.c */
int swr_create_qp(struct ib_qp *ibqp, struct ib_qp_init_attr *attr, struct ib_udata *udata);
int swr_modify_qp(struct ib_qp *ibqp, struct ib_qp_attr *attr, int mask, struct ib_udata *udata);
int swr_query_qp(struct ib_qp *ibqp, struct ib_qp_attr *attr, int mask, struct ib_qp_init_attr *init);
int swr_destroy_qp(struct ib_qp *ibqp, struct ib_udata *udata);
void swr_qp_get(struct swr_qp *qp);
void swr_qp_put(struct swr_qp *qp);
struct swr_qp *swr_qp_find(struct swr_device *dev, u32 qpn); /* with a reference, or NULL */
struct ib_qp *swr_iw_get_qp(struct ib_device *ibdev, int qpn);
void swr_iw_add_ref(struct ib_qp *ibqp);
void swr_iw_rem_ref(struct ib_qp *ibqp);
struct swr_conn *swr_qp_conn(struct swr_qp *qp); /* with a reference, or NULL */
/* 0; -EINVAL: may not connect now; -EHOSTUNREACH: nobody drives it; -ENOMEM: too many are under way */
int swr_qp_attach(struct swr_qp *qp, struct swr_conn *conn);
void swr_qp_detach(struct swr_qp *qp, struct swr_conn *conn);
void swr_qp_started(struct swr_qp *qp, struct swr_conn *conn); /* the startup is over; under swr_conn.lock */
void swr_qp_lost(struct swr_qp *qp);			       /* nobody can drive its stream any more, if it has one */
void swr_qp_set_state(struct swr_qp *qp, enum ib_qp_state state);
int swr_qp_failed(struct swr_qp *qp); /* wired by hand, it is in ERROR; -EINVAL: it is not wired */

/* datagrams.c: UD QPs */
int swr_datagrams_create(struct swr_qp *qp); /* numbers it as well, and puts it among swr_device.qps */
void swr_datagrams_free(struct swr_qp *qp);
/* QP_DATAGRAMS; false: there is no socket to be read, or the process can have none */
bool swr_datagrams_hand_over(struct swr_qp *qp, struct swrnic_datagrams *record, struct file **fp);
int swr_attach_mcast(struct ib_qp *ibqp, union ib_gid *gid, u16 lid);
int swr_detach_mcast(struct ib_qp *ibqp, union ib_gid *gid, u16 lid);

/* number.c */
struct socket *swr_bound_socket(struct swr_device *dev, int type, u16 *port); /* to all addresses; NULL: no port is left */
int swr_number_insert(struct swr_qp *qp, u32 qpn);			      /* -EBUSY: another has the number */
bool swr_is_in_namespace(const struct swr_device *dev); /* the current process, in that of the device's interface */
int swr_number_qp(struct swr_qp *qp);			/* and puts it among swr_device.qps */
void swr_number_free(struct swr_qp *qp);
int swr_number_listen(struct swr_qp *qp); /* from now on it can be called; -EADDRNOTAVAIL: it has no port */
bool swr_number_is_of(const struct swr_qp *qp, const struct swr_listener *listener);

/* file.c */
int swr_file_create(struct swr_device *dev, struct swr_file **filep, struct file **fp, int *fdp);
struct swr_file *swr_file_nobody(struct swr_device *dev); /* closed already; NULL without memory */
bool swr_file_is_own(const struct file *fp);		  /* may the current task use it? */
void swr_file_put(struct swr_file *file);
void swr_file_called(struct swr_file *file); /* the process lives */
void swr_file_kill(struct swr_file *file);
void swr_file_tell(struct swr_qp *qp, u32 pending); /* any context */
void swr_file_forget(struct swr_qp *qp);
void swr_file_dismiss(struct swr_qp *qp); /* and it is told nothing any more */
/* fn may sleep; it has a reference to the QP meanwhile. */
void swr_file_each_qp(struct swr_file *file, void (*fn)(struct swr_qp *qp));
void swr_file_end_qps(struct swr_file *file);
bool swr_file_owner_dies(const struct swr_file *file);
void swr_file_startup_begins(struct swr_file *file);
void swr_file_startup_ends(struct swr_file *file);

/* up.c */
int swr_up(struct swr_file *file, const struct swrnic_up *up);
struct swr_qp *swr_file_qp(struct swr_file *file, u32 qpn); /* with a reference, or NULL */

/* unread.c: what a process does not read must not pile up in the kernel. The second wants one lock per object. */
void swr_unread_init_comp(struct swr_unread *unread, struct ib_uobject *uobject);
void swr_unread_init_async(struct swr_unread *unread, struct ib_uobject *uobject);
bool swr_unread_add(struct swr_unread *unread, unsigned int max); /* may one more be raised? */

/* stats.c */
struct swr_counters *swr_counters_alloc(void);
void swr_counters_get(struct swr_counters *counters);
void swr_counters_put(struct swr_counters *counters);
int swr_counted(struct swr_counters *counters, u32 counter, u32 by); /* 0, or -EINVAL: no such counter */
struct rdma_hw_stats *swr_alloc_hw_port_stats(struct ib_device *ibdev, u32 port);
int swr_get_hw_stats(struct ib_device *ibdev, struct rdma_hw_stats *stats, u32 port, int index);

/* cm.c */
bool swr_cm_is_foreign(const struct swr_device *dev, const struct iw_cm_id *cm_id);
int swr_iw_connect(struct iw_cm_id *cm_id, struct iw_cm_conn_param *param);
int swr_iw_accept(struct iw_cm_id *cm_id, struct iw_cm_conn_param *param);
int swr_iw_reject(struct iw_cm_id *cm_id, const void *private_data, u8 len);

/* addr.c */
int swr_addr_len(const struct sockaddr_storage *addr);
bool swr_addr_same_host(const struct sockaddr_storage *a, const struct sockaddr_storage *b);
bool swr_addr_equal(const struct sockaddr_storage *a, const struct sockaddr_storage *b); /* but for the port */
bool swr_addr_is_any(const struct sockaddr_storage *addr);
__be16 *swr_addr_port(struct sockaddr_storage *addr);
void swr_addr_octets(const struct sockaddr_storage *addr, u8 to[16]); /* as in a GID */

#endif /* SWRNIC_MODULE_H */
