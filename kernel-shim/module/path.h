/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The way from one of the device's GIDs to another's. */
#ifndef SWRNIC_PATH_H
#define SWRNIC_PATH_H

#include "swrnic.h"

struct swr_path {
	union ib_gid source_gid;
	struct sockaddr_storage source; /* the address that packets carry; no port */
	struct sockaddr_storage peer;	/* no port */
	u32 interface;			/* to leave by; 0: routing knows */
	bool peer_is_any_here;		/* its GID is the device's own of index 0, which need not be an address */
	bool peer_is_group;
};

/* The address of the multicast group that a GID names, without a port; false: it names none. */
bool swr_path_group(struct swr_device *dev, const union ib_gid *gid, struct sockaddr_storage *addr);

/*
 * 0, or -EINVAL: the GID is not to be reached, or the index is none of ours, or there are only LIDs. The second also finds the way
 * to a group, as datagrams go.
 */
int swr_path_find(struct swr_device *dev, const struct rdma_ah_attr *ah, struct swr_path *path);
int swr_path_find_any(struct swr_device *dev, const struct rdma_ah_attr *ah, struct swr_path *path);

#endif /* SWRNIC_PATH_H */
