/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The life of a connection, from SYN to its close. Names with _locked want swr_conn.lock. */
#ifndef SWRNIC_CONN_H
#define SWRNIC_CONN_H

#include "swrnic.h"

enum swr_conn_state {
	SWR_CONN_NEW,	     /* being put together */
	SWR_CONN_PAUSING,    /* of a wired QP: the peer is not there yet, and is called again */
	SWR_CONN_CONNECTING, /* TCP */
	SWR_CONN_STARTUP,    /* MPA frames */
	SWR_CONN_DECIDING,   /* CONNECT_REQUEST is raised, the ULP thinks */
	SWR_CONN_QUEUED,     /* QP_CONNECTED waits to be read */
	SWR_CONN_TAKEN,	     /* the process has the socket; QP_READY is due */
	SWR_CONN_READY,	     /* ESTABLISHED was raised */
	SWR_CONN_OVER,
};

struct swr_conn {
	struct kref kref;
	struct mutex lock; /* of all that follows */
	struct swr_device *dev;
	struct delayed_work work;
	enum swr_conn_state state;
	bool initiator;
	bool same_host;
	bool terminate;		       /* the stream goes down to end at once; the ULP has been told already */
	u32 id;			       /* in swr_device.conns, while undecided */
	struct iw_cm_id *cm_id;	       /* holds a reference until the last event; NULL: nobody hears of it */
	struct swr_qp *qp;	       /* holds a reference until the end */
	struct swr_listener *listener; /* until the ULP has decided; holds a reference */
	struct list_head link;	       /* swr_listener.half_open */
	unsigned long since;	       /* jiffies when it came there */
	struct list_head all_link;     /* swr_device.all_conns */
	bool wired;		       /* of a QP that is wired by hand: there is no cm_id */
	u32 pause_ms;		       /* before its next call */
	struct swrnic_wired_end here, there;
	bool starting;		/* counted among the startups */
	unsigned long deadline; /* jiffies; 0: none */
	u32 timeout_ms;
	struct sockaddr_storage local, peer;

	struct socket *sock;	   /* until it changes hands */
	struct socket *spare;	   /* for a second try with revision 1, made in the caller's context */
	struct swr_stream *stream; /* after that */
	void (*saved_data_ready)(struct sock *sk);
	void (*saved_state_change)(struct sock *sk);
	void (*saved_write_space)(struct sock *sk);

	u16 private_len; /* our private data, for that second try */
	u8 private_data[SWR_MAX_PRIVATE];
	struct swrnic_mpa_params terms;
	struct swrnic_connected connected;
	struct swrnic_mpa mpa;
};

struct swr_conn *swr_conn_alloc(struct swr_device *dev);
void swr_conn_get(struct swr_conn *conn);
void swr_conn_put(struct swr_conn *conn);
void swr_conn_kick(struct swr_conn *conn);   /* let the work look at it; any context */
void swr_conns_kick(struct swr_device *dev); /* the same with all of them */
void swr_conn_set_deadline(struct swr_conn *conn, u32 ms);
struct swr_conn *swr_conn_find(struct swr_device *dev, u32 id); /* undecided; with a reference, or NULL */
void swr_conn_decided_locked(struct swr_conn *conn);
void swr_conn_fail_locked(struct swr_conn *conn, int error);
void swr_conn_fail(struct swr_conn *conn, int error);
void swr_conn_startup_failed_locked(struct swr_conn *conn, int error); /* the same, unless it is tried again */
void swr_conn_hand_over_locked(struct swr_conn *conn);
void swr_conn_full_operation_locked(struct swr_conn *conn, bool terminate);
int swr_conn_give_away_locked(struct swr_conn *conn, struct socket **sockp);
void swr_conn_keep_file_locked(struct swr_conn *conn, struct file *file);	       /* of what was given away */
struct file *swr_conn_file(struct swr_conn *conn, struct swrnic_connected *connected); /* with a reference, or NULL */
void swr_conn_request_locked(struct swr_conn *conn);
int swr_conn_ready(struct swr_conn *conn); /* 0, or -EINVAL: not now */
int swr_conn_closed(struct swr_conn *conn);
void swr_conn_qp_gone(struct swr_conn *conn, bool abort);

#endif /* SWRNIC_CONN_H */
