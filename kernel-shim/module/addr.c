// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Socket addresses, IPv4 in all its spellings. */
#include "swrnic.h"

#include <net/ipv6.h>

int swr_addr_len(const struct sockaddr_storage *addr)
{
	switch (addr->ss_family) {
	case AF_INET:
		return sizeof(struct sockaddr_in);
	case AF_INET6:
		return sizeof(struct sockaddr_in6);
	default:
		return 0;
	}
}

static void as_v6(const struct sockaddr_storage *addr, struct in6_addr *out)
{
	if (addr->ss_family == AF_INET)
		ipv6_addr_set_v4mapped(((const struct sockaddr_in *)addr)->sin_addr.s_addr, out);
	else
		*out = ((const struct sockaddr_in6 *)addr)->sin6_addr;
}

static bool is_loopback(const struct in6_addr *addr)
{
	if (ipv6_addr_v4mapped(addr))
		return ipv4_is_loopback(addr->s6_addr32[3]);
	return ipv6_addr_loopback(addr);
}

void swr_addr_octets(const struct sockaddr_storage *addr, u8 to[16])
{
	struct in6_addr v6;

	as_v6(addr, &v6);
	memcpy(to, &v6, sizeof(v6));
}

bool swr_addr_equal(const struct sockaddr_storage *a, const struct sockaddr_storage *b)
{
	struct in6_addr one, other;

	if (!swr_addr_len(a) || !swr_addr_len(b))
		return false;
	as_v6(a, &one);
	as_v6(b, &other);
	return ipv6_addr_equal(&one, &other);
}

bool swr_addr_same_host(const struct sockaddr_storage *a, const struct sockaddr_storage *b)
{
	struct in6_addr one, other;

	if (!swr_addr_len(a) || !swr_addr_len(b))
		return false;
	as_v6(a, &one);
	as_v6(b, &other);
	return ipv6_addr_equal(&one, &other) || (is_loopback(&one) && is_loopback(&other));
}

bool swr_addr_is_any(const struct sockaddr_storage *addr)
{
	if (addr->ss_family == AF_INET)
		return ((const struct sockaddr_in *)addr)->sin_addr.s_addr == htonl(INADDR_ANY);
	return addr->ss_family == AF_INET6 && ipv6_addr_any(&((const struct sockaddr_in6 *)addr)->sin6_addr);
}

/* The same place in both families. */
__be16 *swr_addr_port(struct sockaddr_storage *addr)
{
	BUILD_BUG_ON(offsetof(struct sockaddr_in, sin_port) != offsetof(struct sockaddr_in6, sin6_port));
	return &((struct sockaddr_in *)addr)->sin_port;
}
