/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A QP that is wired by hand: modify_qp(RTR) with the peer's GID and number, instead of rdma_cm (docs/PROTOCOL.md). The end with
 * the smaller number calls, by one connection that tries again for as long as it is not through; the other one takes a Request from
 * exactly the end that it is wired to. Between two RESETs it has one stream at most, whose end is no event. Names with _locked want
 * swr_conn.lock.
 */
#ifndef SWRNIC_WIRED_H
#define SWRNIC_WIRED_H

#include "conn.h"

/* Both under swr_qp.modify: they may wait. */
int swr_wire(struct swr_qp *qp, const struct ib_qp_attr *attr); /* INIT to RTR; 0 or an error, and nothing has happened */
int swr_unwire(struct swr_qp *qp);				/* -EINVAL: it has a stream, which is the engine's to end */

/* The three under swr_qp.lock. */
bool swr_wired_takes(const struct swr_qp *qp, const struct swr_conn *conn);
void swr_wired_begun(struct swr_qp *qp); /* its stream is handed over */
void swr_wired_show(const struct swr_qp *qp, struct ib_qp_attr *attr);

void swr_wired_request_locked(struct swr_conn *conn);
void swr_wired_ended_locked(struct swr_conn *conn, bool was_ready);
void swr_wired_call_later_locked(struct swr_conn *conn);
void swr_wired_call_locked(struct swr_conn *conn);

#endif /* SWRNIC_WIRED_H */
