// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* What happens to the network interface, told as port and device events; and the GIDs that follow its addresses. */
#include "conn.h"

#include <linux/ethtool.h>
#include <linux/inetdevice.h>
#include <linux/rtnetlink.h>
#include <net/addrconf.h>
#include <net/if_inet6.h>

static void add_gid(union ib_gid *gids, unsigned int *count, unsigned int max, const struct in6_addr *addr)
{
	/* The first entry is often one of the addresses. */
	if (*count < max && (!*count || memcmp(gids[0].raw, addr, sizeof(*addr))))
		memcpy(gids[(*count)++].raw, addr, sizeof(*addr));
}

static bool has_mac(const struct net_device *netdev)
{
	return netdev->addr_len == ETH_ALEN && !is_zero_ether_addr(netdev->dev_addr);
}

/* Of the MAC as IPv6 makes it; without a MAC, of the GUID. */
static void link_local(const struct net_device *netdev, __be64 guid, struct in6_addr *addr)
{
	ipv6_addr_set(addr, htonl(0xfe800000), 0, 0, 0);
	if (has_mac(netdev))
		addrconf_addr_eui48(addr->s6_addr + 8, netdev->dev_addr);
	else
		memcpy(addr->s6_addr + 8, &guid, sizeof(guid));
}

#if IS_ENABLED(CONFIG_IPV6)
static void add_v6(struct net_device *netdev, union ib_gid *gids, unsigned int *count, unsigned int max)
{
	struct inet6_dev *in6 = __in6_dev_get(netdev);
	const struct inet6_ifaddr *ifa;

	if (!in6)
		return;
	read_lock_bh(&in6->lock);
	list_for_each_entry(ifa, &in6->addr_list, if_list)
		add_gid(gids, count, max, &ifa->addr);
	read_unlock_bh(&in6->lock);
}
#else
static void add_v6(struct net_device *netdev, union ib_gid *gids, unsigned int *count, unsigned int max)
{
}
#endif

/*
 * First a link-local entry, then the addresses, IPv4 before IPv6, without holes: programs look for theirs by rules of their own,
 * all of which this pleases, as the userspace shim's table does. The last is the interface's MAC and ten zeros, which rdma_cm
 * of 6.1 looks for, and which no program takes for an address. (That of 6.12 wants entry 0 not to be empty.) gids: zeros.
 */
void swr_netdev_gids(struct net_device *netdev, __be64 guid, union ib_gid *gids, unsigned int max)
{
	const struct in_ifaddr *ifa4;
	struct in6_addr addr;
	struct in_device *in4;
	unsigned int count = 0;

	link_local(netdev, guid, &addr);
	add_gid(gids, &count, max, &addr);
	max -= has_mac(netdev);
	rcu_read_lock();
	in4 = __in_dev_get_rcu(netdev);
	if (in4) {
		in_dev_for_each_ifa_rcu(ifa4, in4) {
			ipv6_addr_set_v4mapped(ifa4->ifa_local, &addr);
			add_gid(gids, &count, max, &addr);
		}
	}
	add_v6(netdev, gids, &count, max);
	rcu_read_unlock();
	if (has_mac(netdev))
		memcpy(gids[count].raw, netdev->dev_addr, ETH_ALEN);
}

/* Lanes and their speed, as InfiniBand names them, for at least so many Mbit/s. */
static const struct {
	u32 mbits;
	u16 speed;
	u8 width;
} speeds[] = {
	{ 400000, IB_SPEED_NDR, IB_WIDTH_4X }, { 200000, IB_SPEED_HDR, IB_WIDTH_4X }, { 100000, IB_SPEED_EDR, IB_WIDTH_4X },
	{ 50000, IB_SPEED_HDR, IB_WIDTH_1X },  { 40000, IB_SPEED_QDR, IB_WIDTH_4X },  { 25000, IB_SPEED_EDR, IB_WIDTH_1X },
	{ 10000, IB_SPEED_QDR, IB_WIDTH_1X },  { 5000, IB_SPEED_DDR, IB_WIDTH_1X },   { 0, IB_SPEED_SDR, IB_WIDTH_1X },
};

#define SPEED_OF_NOTHING 10000 /* dummy, lo and their like name none, but a port must */

/* ib_get_eth_speed() does the like, but writes to the log at each query of an interface that names none. */
void swr_netdev_speed(struct net_device *netdev, struct ib_port_attr *attr)
{
	struct ethtool_link_ksettings settings = {};
	u32 mbits = SPEED_OF_NOTHING;
	unsigned int i = 0;

	rtnl_lock();
	if (netdev->reg_state == NETREG_REGISTERED && netif_device_present(netdev) &&
	    !__ethtool_get_link_ksettings(netdev, &settings) && settings.base.speed && settings.base.speed != (u32)SPEED_UNKNOWN)
		mbits = settings.base.speed;
	rtnl_unlock();
	while (speeds[i].mbits > mbits)
		i++;
	attr->active_speed = speeds[i].speed;
	attr->active_width = speeds[i].width;
}

/* Takes over the caller's reference to the device. */
static void queue_refresh(struct swr_device *dev)
{
	if (!queue_work(swr_wq, &dev->refresh))
		ib_device_put(&dev->ibdev);
}

static void port_event(struct swr_device *dev, enum ib_event_type type)
{
	struct ib_event event = { .device = &dev->ibdev, .element.port_num = 1, .event = type };

	ib_dispatch_event(&event);
}

static bool port_is_up(const struct net_device *netdev)
{
	return netif_running(netdev) && netif_carrier_ok(netdev);
}

/* Under rtnl: nothing here may query a port or unregister at once. */
static int on_netdev(struct notifier_block *nb, unsigned long what, void *info)
{
	struct net_device *netdev = netdev_notifier_info_to_dev(info);
	struct ib_device *ibdev = ib_device_get_by_netdev(netdev, SWRNIC_DRIVER_ID);
	struct swr_device *dev;

	if (!ibdev)
		return NOTIFY_DONE;
	dev = to_swr_device(ibdev);
	switch (what) {
	case NETDEV_UP:
	case NETDEV_DOWN:
	case NETDEV_CHANGE:
		if (SWR_TELLS_PORT_STATE)
			port_event(dev, port_is_up(netdev) ? IB_EVENT_PORT_ACTIVE : IB_EVENT_PORT_ERR);
		break;
	case NETDEV_CHANGEMTU:
		/* There is no event for it; at this one the core's cache and applications look at the port again. */
		if (port_is_up(netdev))
			port_event(dev, IB_EVENT_PORT_ACTIVE);
		break;
	case NETDEV_CHANGEADDR:
		queue_refresh(dev);
		return NOTIFY_DONE;
	case NETDEV_UNREGISTER:
		WRITE_ONCE(dev->leaving, true);
		swr_conns_kick(dev);
		ib_unregister_device_queued(ibdev);
		break;
	}
	ib_device_put(ibdev);
	return NOTIFY_DONE;
}

static void addresses_changed(struct net_device *netdev)
{
	struct ib_device *ibdev = ib_device_get_by_netdev(netdev, SWRNIC_DRIVER_ID);

	if (ibdev)
		queue_refresh(to_swr_device(ibdev));
}

static int on_inet4(struct notifier_block *nb, unsigned long what, void *info)
{
	const struct in_ifaddr *ifa = info;

	addresses_changed(ifa->ifa_dev->dev);
	return NOTIFY_DONE;
}

static struct notifier_block netdev_notifier = { .notifier_call = on_netdev };
static struct notifier_block inet4_notifier = { .notifier_call = on_inet4 };

#if IS_ENABLED(CONFIG_IPV6)
static int on_inet6(struct notifier_block *nb, unsigned long what, void *info)
{
	const struct inet6_ifaddr *ifa = info;

	addresses_changed(ifa->idev->dev);
	return NOTIFY_DONE;
}

static struct notifier_block inet6_notifier = { .notifier_call = on_inet6 };
#endif

int swr_netdev_init(void)
{
	int error = register_netdevice_notifier(&netdev_notifier);

	if (error)
		return error;
	register_inetaddr_notifier(&inet4_notifier);
#if IS_ENABLED(CONFIG_IPV6)
	register_inet6addr_notifier(&inet6_notifier);
#endif
	return 0;
}

void swr_netdev_exit(void)
{
#if IS_ENABLED(CONFIG_IPV6)
	unregister_inet6addr_notifier(&inet6_notifier);
#endif
	unregister_inetaddr_notifier(&inet4_notifier);
	unregister_netdevice_notifier(&netdev_notifier);
}
