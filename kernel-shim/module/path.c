// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* The way from one of the device's GIDs to another's: the addresses that they name, and whether there is a route. */
#include "path.h"
#include "startup.h"

#include <net/ipv6.h>

#define ANY_PORT 9 /* the discard service's: a route is asked for, nothing is sent */

static bool is_v4(const union ib_gid *gid)
{
	return ipv6_addr_v4mapped((const struct in6_addr *)gid);
}

static void copy_gid(struct swr_device *dev, unsigned int index, union ib_gid *gid)
{
	spin_lock(&dev->gid_lock);
	*gid = dev->gids[index];
	spin_unlock(&dev->gid_lock);
}

static void set_v4(struct sockaddr_storage *addr, __be32 number)
{
	struct sockaddr_in *v4 = (struct sockaddr_in *)addr;

	v4->sin_family = AF_INET;
	v4->sin_addr.s_addr = number;
}

/* That of the device's first IPv4 GID. */
static void first_v4(struct swr_device *dev, struct sockaddr_storage *addr)
{
	__be32 number = htonl(INADDR_LOOPBACK);
	unsigned int i;

	spin_lock(&dev->gid_lock);
	for (i = 0; i < SWR_MAX_GIDS; i++) {
		if (is_v4(&dev->gids[i])) {
			memcpy(&number, dev->gids[i].raw + 12, sizeof(number));
			break;
		}
	}
	spin_unlock(&dev->gid_lock);
	set_v4(addr, number);
}

/*
 * The address that a GID names; false: none that one could connect to. A link-local one is at the device's interface. The device's
 * own of index 0 is made from a MAC and need not be anybody's address: it stands for the first IPv4 address.
 */
static bool address_of(struct swr_device *dev, const union ib_gid *gid, bool is_first, struct sockaddr_storage *addr)
{
	struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)addr;
	__be32 number;

	memset(addr, 0, sizeof(*addr));
	if (is_first) {
		first_v4(dev, addr);
		return true;
	}
	if (is_v4(gid)) {
		memcpy(&number, gid->raw + 12, sizeof(number));
		set_v4(addr, number);
		return number != htonl(INADDR_ANY) && number != htonl(INADDR_BROADCAST) && !ipv4_is_multicast(number);
	}
	v6->sin6_family = AF_INET6;
	memcpy(&v6->sin6_addr, gid->raw, sizeof(v6->sin6_addr));
	if (ipv6_addr_type(&v6->sin6_addr) & IPV6_ADDR_LINKLOCAL)
		v6->sin6_scope_id = dev->netdev->ifindex;
	return !ipv6_addr_any(&v6->sin6_addr) && !ipv6_addr_is_multicast(&v6->sin6_addr);
}

/* What a datagram to the peer would carry. path->source: where to start from, or of no family. */
static int find_source(struct net *net, struct swr_path *path)
{
	struct sockaddr_storage target = path->peer;
	struct socket *sock;
	int error = sock_create_kern(net, target.ss_family, SOCK_DGRAM, IPPROTO_UDP, &sock);

	if (error)
		return error;
	*swr_addr_port(&target) = htons(ANY_PORT);
	if (path->source.ss_family)
		error = kernel_bind(sock, (struct sockaddr_unsized *)&path->source, swr_addr_len(&path->source));
	if (!error)
		error = kernel_connect(sock, (struct sockaddr_unsized *)&target, swr_addr_len(&target), 0);
	if (!error) {
		memset(&path->source, 0, sizeof(path->source));
		error = kernel_getsockname(sock, (struct sockaddr *)&path->source);
		*swr_addr_port(&path->source) = 0;
	}
	sock_release(sock);
	return error < 0 ? error : 0;
}

static bool is_usable(const struct rdma_ah_attr *ah)
{
	return (rdma_ah_get_ah_flags(ah) & IB_AH_GRH) && rdma_ah_read_grh(ah)->sgid_index < SWR_MAX_GIDS;
}

int swr_path_find(struct swr_device *dev, const struct rdma_ah_attr *ah, struct swr_path *path)
{
	const struct ib_global_route *to = rdma_ah_read_grh(ah);
	union ib_gid first;
	struct net *net;
	int error;

	if (!is_usable(ah))
		return -EINVAL;
	memset(path, 0, sizeof(*path));
	copy_gid(dev, 0, &first);
	copy_gid(dev, to->sgid_index, &path->source_gid);
	path->peer_is_any_here = !memcmp(&to->dgid, &first, sizeof(first));
	if (!address_of(dev, &to->dgid, path->peer_is_any_here, &path->peer))
		return -EINVAL;
	if (to->sgid_index && !address_of(dev, &path->source_gid, false, &path->source))
		return -EINVAL;
	if (path->source.ss_family != path->peer.ss_family)
		memset(&path->source, 0, sizeof(path->source)); /* the route decides */
	if (path->peer.ss_family == AF_INET6)
		path->interface = ((struct sockaddr_in6 *)&path->peer)->sin6_scope_id;
	net = swr_device_net(dev);
	if (!net)
		return -EINVAL;
	error = find_source(net, path);
	put_net(net);
	return error ? -EINVAL : 0;
}

/* ---- groups ------------------------------------------------------------------------------------------------------------ */

/* rdma_cm writes a group of IPv4 behind ff0e::ffff:, others as an address behind ::ffff:. */
bool swr_path_group(struct swr_device *dev, const union ib_gid *gid, struct sockaddr_storage *addr)
{
	struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)addr;
	union ib_gid mapped = *gid;
	__be32 number;

	memset(addr, 0, sizeof(*addr));
	if (gid->raw[0] == 0xff && gid->raw[1] == 0x0e)
		memset(mapped.raw, 0, 2);
	if (is_v4(&mapped)) {
		memcpy(&number, gid->raw + 12, sizeof(number));
		set_v4(addr, number);
		return ipv4_is_multicast(number);
	}
	v6->sin6_family = AF_INET6;
	memcpy(&v6->sin6_addr, gid->raw, sizeof(v6->sin6_addr));
	if (ipv6_addr_type(&v6->sin6_addr) & IPV6_ADDR_LINKLOCAL)
		v6->sin6_scope_id = dev->netdev->ifindex;
	return ipv6_addr_is_multicast(&v6->sin6_addr);
}

/* The entry of the MAC, which is the last, is nobody's address; nor are those behind it. */
static bool is_source(struct swr_device *dev, unsigned int index, sa_family_t family, struct swr_path *path)
{
	copy_gid(dev, index, &path->source_gid);
	return memchr_inv(path->source_gid.raw + ETH_ALEN, 0, sizeof(path->source_gid.raw) - ETH_ALEN) &&
	       address_of(dev, &path->source_gid, false, &path->source) && path->source.ss_family == family;
}

/* The source is an address of the group's family: that of the entry which is named, or else the first. */
static int find_group(struct swr_device *dev, unsigned int index, struct swr_path *path)
{
	const sa_family_t family = path->peer.ss_family;

	path->peer_is_group = true;
	path->interface = dev->netdev->ifindex;
	if (index && is_source(dev, index, family, path))
		return 0;
	for (index = 1; index < SWR_MAX_GIDS; index++)
		if (is_source(dev, index, family, path))
			return 0;
	return -EINVAL;
}

int swr_path_find_any(struct swr_device *dev, const struct rdma_ah_attr *ah, struct swr_path *path)
{
	const struct ib_global_route *to = rdma_ah_read_grh(ah);

	if (!is_usable(ah))
		return -EINVAL;
	memset(path, 0, sizeof(*path));
	if (swr_path_group(dev, &to->dgid, &path->peer))
		return find_group(dev, to->sgid_index, path);
	return swr_path_find(dev, ah, path);
}
