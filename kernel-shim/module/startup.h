/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* TCP and MPA: a connection until both ends agree. Names with _locked want swr_conn.lock. */
#ifndef SWRNIC_STARTUP_H
#define SWRNIC_STARTUP_H

#include "conn.h"

struct net *swr_device_net(struct swr_device *dev);
/* SOCK_STREAM or SOCK_DGRAM: of TCP or UDP. The second: of TCP. */
int swr_socket_of_type(struct swr_device *dev, int family, int type, struct socket **sockp);
int swr_socket_create(struct swr_device *dev, int family, struct socket **sockp);
int swr_conn_make_socket(struct swr_conn *conn, struct socket **sockp); /* to connect by */
void swr_conn_hook_socket(struct swr_conn *conn, struct socket *sock, void (*inherited_data_ready)(struct sock *sk));
void swr_conn_unhook_socket(struct swr_conn *conn);
void swr_conn_close_socket(struct swr_conn *conn);
void swr_conn_connect_locked(struct swr_conn *conn); /* begins, or looks how far it is */
void swr_conn_check_peer_locked(struct swr_conn *conn);
void swr_conn_drive_locked(struct swr_conn *conn);
void swr_conn_reject_locked(struct swr_conn *conn, const void *private_data, u32 len);
void swr_conn_mpa_event_locked(struct swr_conn *conn, enum swrnic_mpa_event event);

#endif /* SWRNIC_STARTUP_H */
