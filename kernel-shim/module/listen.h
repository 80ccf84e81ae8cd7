/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Listeners: a TCP socket for each of iw_cm's and for each port of wired QPs; the connections whose Request is not complete. */
#ifndef SWRNIC_LISTEN_H
#define SWRNIC_LISTEN_H

#include "swrnic.h"

struct swr_listener {
	struct kref kref;
	struct swr_device *dev;
	struct iw_cm_id *cm_id; /* NULL: it is called by wired QPs */
	struct socket *sock;
	void (*saved_data_ready)(struct sock *sk);
	struct delayed_work work;
	struct mutex lock; /* of closed and half_open */
	bool closed;
	struct list_head half_open; /* swr_conn.link, oldest first; each holds a reference */
	unsigned int nr_half_open;
};

int swr_iw_create_listen(struct iw_cm_id *cm_id, int backlog);
int swr_iw_destroy_listen(struct iw_cm_id *cm_id);
/* For the port of wired QPs: sock is bound, and goes when the listener is closed. */
struct swr_listener *swr_listener_open(struct swr_device *dev, struct socket *sock);
void swr_listener_close(struct swr_listener *listener);
void swr_listener_put(struct swr_listener *listener);
void swr_listener_drop(struct swr_conn *conn);				    /* the connection's fate is decided */
int swr_listener_request(struct swr_conn *conn, struct iw_cm_event *event); /* 0, or nobody will decide */

#endif /* SWRNIC_LISTEN_H */
