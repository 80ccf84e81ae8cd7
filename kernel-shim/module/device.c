// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* The ib_device: registration, attributes, GIDs, its end. */
#include "conn.h"
#include "kverbs.h"
#include "listen.h"

#include <linux/if_arp.h>
#include <linux/module.h>
#include <linux/random.h>
#include <linux/rtnetlink.h>
#include <net/addrconf.h>

static DEFINE_MUTEX(add_lock); /* two `rdma link add` for one interface */
static DEFINE_SPINLOCK(devices_lock);
static LIST_HEAD(devices); /* by swr_device.link, under devices_lock */

/* ---- attributes -------------------------------------------------------------------------------------------------------- */

static int query_device(struct ib_device *ibdev, struct ib_device_attr *attr, struct ib_udata *udata)
{
	if (udata && (udata->inlen || udata->outlen))
		return -EINVAL;
	memset(attr, 0, sizeof(*attr));
	attr->sys_image_guid = ibdev->node_guid;
	attr->vendor_id = SWRNIC_VENDOR_ID;
	attr->vendor_part_id = SWRNIC_VENDOR_PART_ID;
	attr->max_mr_size = SWR_MAX_MR_SIZE;
	attr->page_size_cap = PAGE_MASK & U32_MAX; /* any: nothing is pinned */
	attr->max_qp = SWR_MAX_QP;
	attr->max_qp_wr = SWR_MAX_QP_WR;
	attr->max_send_sge = SWR_MAX_SGE;
	attr->max_recv_sge = SWR_MAX_SGE;
	attr->max_sge_rd = SWR_MAX_SGE;
	attr->max_cq = SWR_MAX_CQ;
	attr->max_cqe = SWR_MAX_CQE;
	attr->max_srq = SWR_MAX_SRQ;
	attr->max_srq_wr = SWR_MAX_SRQ ? SWR_MAX_SRQ_WR : 0;
	attr->max_srq_sge = SWR_MAX_SRQ ? SWR_MAX_SGE : 0;
	attr->max_mr = SWR_MAX_MR;
	attr->max_mw = SWR_MAX_MW;
	attr->atomic_cap = IB_ATOMIC_GLOB;
	attr->max_ah = SWR_MAX_AH;
	attr->device_cap_flags = IB_DEVICE_MEM_WINDOW | IB_DEVICE_MEM_WINDOW_TYPE_2B | IB_DEVICE_MEM_MGT_EXTENSIONS;
	attr->max_fast_reg_page_list_len = SWR_MAX_FAST_REG_PAGES;
	attr->max_pd = SWR_MAX_PD;
	attr->max_qp_rd_atom = SWR_MAX_READS;
	attr->max_qp_init_rd_atom = SWR_MAX_READS;
	attr->max_res_rd_atom = SWR_MAX_READS;
	attr->max_mcast_grp = SWR_MAX_GROUPS;
	attr->max_mcast_qp_attach = SWR_MAX_GROUPS;
	attr->max_total_mcast_qp_attach = SWR_MAX_GROUPS;
	attr->max_pkeys = 1;
	attr->kernel_cap_flags = IBK_ALLOW_USER_UNREG | IBK_LOCAL_DMA_LKEY; /* without the first, `rdma link del` is refused */
	return 0;
}

/* The core has filled in MTU and state from the interface; its idea of a state wants an IPv4 address. */
static int query_port(struct ib_device *ibdev, u32 port, struct ib_port_attr *attr)
{
	struct swr_device *dev = to_swr_device(ibdev);

	swr_netdev_speed(dev->netdev, attr);
	attr->gid_tbl_len = SWR_MAX_GIDS;
	attr->pkey_tbl_len = 1;
	attr->max_msg_sz = U32_MAX;
	attr->max_mtu = IB_MTU_4096;
	attr->ip_gids = false;
	if (netif_running(dev->netdev) && netif_carrier_ok(dev->netdev)) {
		attr->state = IB_PORT_ACTIVE;
		attr->phys_state = IB_PORT_PHYS_STATE_LINK_UP;
	} else {
		attr->state = IB_PORT_DOWN;
		attr->phys_state = IB_PORT_PHYS_STATE_DISABLED;
	}
	return 0;
}

/* rdma_cm reads it for addresses that it takes as "any", such as 127.0.0.1. */
static int query_pkey(struct ib_device *ibdev, u32 port, u16 index, u16 *pkey)
{
	if (index)
		return -EINVAL;
	*pkey = 0xffff;
	return 0;
}

static int query_gid(struct ib_device *ibdev, u32 port, int index, union ib_gid *gid)
{
	struct swr_device *dev = to_swr_device(ibdev);

	if (index < 0 || index >= SWR_MAX_GIDS)
		return -EINVAL;
	spin_lock(&dev->gid_lock);
	*gid = dev->gids[index];
	spin_unlock(&dev->gid_lock);
	return 0;
}

static int get_port_immutable(struct ib_device *ibdev, u32 port, struct ib_port_immutable *immutable)
{
	immutable->gid_tbl_len = SWR_MAX_GIDS;
	immutable->pkey_tbl_len = 1;
	immutable->core_cap_flags = RDMA_CORE_PORT_IWARP;
	return 0;
}

/* ---- the device's life ------------------------------------------------------------------------------------------------- */

/*
 * A client of our own, to hear of a device's end before rdma_cm does (whose module is loaded first, and clients go in reverse
 * order): rdma_cm waits for connects that are under way.
 */
static int client_add(struct ib_device *ibdev)
{
	if (ibdev->ops.driver_id != SWRNIC_DRIVER_ID)
		return -EOPNOTSUPP;
	WRITE_ONCE(to_swr_device(ibdev)->removing, false); /* it comes back after `rdma dev set netns` */
	return 0;
}

static void client_remove(struct ib_device *ibdev, void *data)
{
	WRITE_ONCE(to_swr_device(ibdev)->removing, true);
	swr_conns_kick(to_swr_device(ibdev));
}

struct ib_client swr_client = { .name = "swrnic", .add = client_add, .remove = client_remove };

static void refresh_gids(struct swr_device *dev)
{
	union ib_gid *gids = kcalloc(SWR_MAX_GIDS, sizeof(*gids), GFP_KERNEL);

	if (!gids)
		return; /* they stay as they were: the next change of an address tries again */
	swr_netdev_gids(dev->netdev, dev->ibdev.node_guid, gids, SWR_MAX_GIDS);
	spin_lock(&dev->gid_lock);
	memcpy(dev->gids, gids, sizeof(dev->gids));
	spin_unlock(&dev->gid_lock);
	kfree(gids);
}

/*
 * The core reads the GIDs anew at two events. GID_CHANGE it keeps to itself on iWARP ports; CLIENT_REREGISTER it tells the
 * applications too, when it has read them.
 */
static void refresh_work(struct work_struct *work)
{
	struct swr_device *dev = container_of(work, struct swr_device, refresh);
	struct ib_event event = { .device = &dev->ibdev, .element.port_num = 1, .event = IB_EVENT_CLIENT_REREGISTER };

	/* The core would ask for the port of an interface that is no more. */
	if (!READ_ONCE(dev->leaving)) {
		refresh_gids(dev);
		ib_dispatch_event(&event);
	}
	ib_device_put(&dev->ibdev);
}

static bool guid_is_taken_locked(__be64 guid)
{
	struct swr_device *other;

	list_for_each_entry(other, &devices, link)
		if (other->ibdev.node_guid == guid)
			return true;
	return false;
}

/*
 * As from the MAC; where another device has that (a VLAN's is its parent's), with another value of the second of the two octets
 * that a MAC does not have; and where all of these are taken, a random one.
 */
static void name_guid(struct swr_device *dev, const u8 *mac)
{
	u8 *guid = (u8 *)&dev->ibdev.node_guid;
	unsigned int tries;

	addrconf_addr_eui48(guid, (const char *)mac);
	spin_lock(&devices_lock);
	for (tries = 0; guid_is_taken_locked(dev->ibdev.node_guid); tries++) {
		if (tries < U8_MAX)
			guid[4]--;
		else
			get_random_bytes(guid + 3, 5);
	}
	list_add(&dev->link, &devices);
	spin_unlock(&devices_lock);
}

/* Every client has let go; what is left are requests that nobody will ever decide. */
static void dealloc_driver(struct ib_device *ibdev)
{
	struct swr_device *dev = to_swr_device(ibdev);
	struct swr_conn *conn;
	unsigned long id;

	xa_lock_irq(&dev->conns);
	xa_for_each(&dev->conns, id, conn) {
		swr_conn_get(conn);
		xa_unlock_irq(&dev->conns);
		swr_conn_fail(conn, -ENODEV);
		swr_conn_put(conn);
		xa_lock_irq(&dev->conns);
	}
	xa_unlock_irq(&dev->conns);
	spin_lock_irq(&dev->all_lock);
	wait_event_lock_irq(dev->idle, list_empty(&dev->all_conns), dev->all_lock);
	spin_unlock_irq(&dev->all_lock);
	spin_lock(&devices_lock);
	list_del(&dev->link);
	spin_unlock(&devices_lock);
	xa_destroy(&dev->conns);
	xa_destroy(&dev->qps);
	xa_destroy(&dev->mrs);
	WARN_ON(!xa_empty(&dev->users));
	WARN_ON(memchr_inv(dev->servers, 0, sizeof(dev->servers)));
	swr_counters_put(dev->counters);
	dev_put(dev->netdev);
}

static const struct ib_device_ops swr_device_ops = {
	.owner = THIS_MODULE,
	.driver_id = SWRNIC_DRIVER_ID,
	.uverbs_abi_ver = SWRNIC_ABI_IN_SYSFS,

	.alloc_hw_port_stats = swr_alloc_hw_port_stats,
	.alloc_mr = swr_alloc_mr,
	.alloc_mw = swr_alloc_mw,
	.alloc_pd = swr_alloc_pd,
	.alloc_ucontext = swr_alloc_ucontext,
	.attach_mcast = swr_attach_mcast,
	.create_cq = swr_create_cq,
	.create_user_ah = swr_create_ah,
	.create_qp = swr_create_qp,
	.create_srq = swr_create_srq,
	.dealloc_driver = dealloc_driver,
	.dealloc_mw = swr_dealloc_mw,
	.dealloc_pd = swr_dealloc_pd,
	.dealloc_ucontext = swr_dealloc_ucontext,
	.dereg_mr = swr_dereg_mr,
	.destroy_ah = swr_destroy_ah,
	.destroy_cq = swr_destroy_cq,
	.destroy_qp = swr_destroy_qp,
	.destroy_srq = swr_destroy_srq,
	.detach_mcast = swr_detach_mcast,
	.disassociate_ucontext = swr_disassociate_ucontext,
	.get_dma_mr = swr_get_dma_mr,
	.get_hw_stats = swr_get_hw_stats,
	.get_port_immutable = get_port_immutable,
	.iw_accept = swr_iw_accept,
	.iw_add_ref = swr_iw_add_ref,
	.iw_connect = swr_iw_connect,
	.iw_create_listen = swr_iw_create_listen,
	.iw_destroy_listen = swr_iw_destroy_listen,
	.iw_get_qp = swr_iw_get_qp,
	.iw_reject = swr_iw_reject,
	.iw_rem_ref = swr_iw_rem_ref,
	.map_mr_sg = swr_map_mr_sg,
	.modify_qp = swr_modify_qp,
	.modify_srq = swr_modify_srq,
	.poll_cq = swr_poll_cq,
	.post_recv = swr_post_recv,
	.post_send = swr_post_send,
	.post_srq_recv = swr_post_srq_recv,
	.query_device = query_device,
	.query_gid = query_gid,
	.query_pkey = query_pkey,
	.query_port = query_port,
	.query_qp = swr_query_qp,
	.query_srq = swr_query_srq,
	.reg_user_mr = swr_op_reg_user_mr,
	.req_notify_cq = swr_req_notify_cq,

	INIT_RDMA_OBJ_SIZE(ib_ah, swr_ah, ibah),
	INIT_RDMA_OBJ_SIZE(ib_cq, swr_cq, ibcq),
	INIT_RDMA_OBJ_SIZE(ib_mw, swr_mw, ibmw),
	INIT_RDMA_OBJ_SIZE(ib_pd, swr_pd, ibpd),
	INIT_RDMA_OBJ_SIZE(ib_qp, swr_qp, ibqp),
	INIT_RDMA_OBJ_SIZE(ib_srq, swr_srq, ibsrq),
	INIT_RDMA_OBJ_SIZE(ib_ucontext, swr_ucontext, ibucontext),
};

static struct swr_device *device_alloc(struct net_device *netdev)
{
	struct swr_device *dev = ib_alloc_device(swr_device, ibdev);
	struct ib_device *ibdev;
	u8 mac[ETH_ALEN];

	if (!dev)
		return NULL;
	dev->counters = swr_counters_alloc();
	if (!dev->counters) {
		ib_dealloc_device(&dev->ibdev);
		return NULL;
	}
	dev_hold(netdev);
	dev->netdev = netdev;
	dev->net = dev_net(netdev);
	xa_init_flags(&dev->qps, XA_FLAGS_LOCK_IRQ);
	xa_init_flags(&dev->conns, XA_FLAGS_ALLOC1 | XA_FLAGS_LOCK_IRQ);
	xa_init_flags(&dev->mrs, XA_FLAGS_ALLOC1);
	xa_init(&dev->users);
	dev->next_mr = get_random_u32() & 0xffffff;
	spin_lock_init(&dev->server_lock);
	spin_lock_init(&dev->all_lock);
	INIT_LIST_HEAD(&dev->all_conns);
	init_waitqueue_head(&dev->idle);
	INIT_WORK(&dev->refresh, refresh_work);
	spin_lock_init(&dev->gid_lock);

	ibdev = &dev->ibdev;
	ib_set_device_ops(ibdev, &swr_device_ops);
	ibdev->node_type = RDMA_NODE_RNIC;
	ibdev->phys_port_cnt = 1;
	ibdev->num_comp_vectors = num_online_cpus();
	ibdev->iw_driver_flags = IW_F_NO_PORT_MAP;
	strscpy(ibdev->node_desc, "swrnic", sizeof(ibdev->node_desc));
	strscpy(ibdev->iw_ifname, netdev->name, sizeof(ibdev->iw_ifname));
	if (netdev->addr_len == ETH_ALEN && !is_zero_ether_addr(netdev->dev_addr))
		memcpy(mac, netdev->dev_addr, ETH_ALEN);
	else
		eth_random_addr(mac);
	name_guid(dev, mac);
	refresh_gids(dev);
	return dev;
}

static int check_newcomer(const char *name, struct net_device *netdev)
{
	struct ib_device *other;

	if (netdev->type != ARPHRD_ETHER && netdev->type != ARPHRD_LOOPBACK) {
		pr_info("%s: interface %s is neither Ethernet nor loopback\n", name, netdev->name);
		return -EINVAL;
	}
	other = ib_device_get_by_netdev(netdev, SWRNIC_DRIVER_ID);
	if (other) {
		pr_info("%s: interface %s has %s already\n", name, netdev->name, dev_name(&other->dev));
		ib_device_put(other);
		return -EEXIST;
	}
	return 0;
}

static bool interface_left(const struct swr_device *dev, const struct net_device *netdev)
{
	bool left;

	rtnl_lock();
	left = netdev->reg_state != NETREG_REGISTERED || dev_net(netdev) != dev->net;
	rtnl_unlock();
	return left;
}

/* An interface that went away before the device could be found by the notifier would wait for it forever. */
static void unregister_again(struct net_device *netdev)
{
	struct ib_device *ibdev = ib_device_get_by_netdev(netdev, SWRNIC_DRIVER_ID);

	if (!ibdev)
		return;
	WRITE_ONCE(to_swr_device(ibdev)->leaving, true);
	swr_conns_kick(to_swr_device(ibdev));
	ib_unregister_device_queued(ibdev);
	ib_device_put(ibdev);
}

static int register_on(struct swr_device *dev, const char *name, struct net_device *netdev)
{
	bool left = false;
	int error;

	error = ib_device_set_netdev(&dev->ibdev, netdev, 1);
	if (error)
		return error;
	get_device(&dev->ibdev.dev); /* as soon as it is registered, somebody may delete it */
	error = ib_register_device(&dev->ibdev, name, NULL);
	if (!error) {
		WRITE_ONCE(dev->registered, true);
		left = interface_left(dev, netdev);
	}
	put_device(&dev->ibdev.dev);
	if (left)
		unregister_again(netdev);
	return error;
}

/* `rdma link add NAME type swrnic netdev NETDEV`. There is no extack on this path: the reason goes to the log. */
int swr_device_add(const char *name, struct net_device *netdev)
{
	struct swr_device *dev;
	int error;

	mutex_lock(&add_lock);
	error = check_newcomer(name, netdev);
	if (error)
		goto out;
	error = -ENOMEM;
	dev = device_alloc(netdev);
	if (!dev)
		goto out;
	error = register_on(dev, name, netdev);
	if (error == -ENFILE) { /* what the core makes of a name that is taken */
		pr_info("%s: there is a device of that name\n", name);
		error = -EEXIST;
	} else if (error) {
		pr_info("%s: cannot be registered on %s: error %d\n", name, netdev->name, -error);
	}
	if (error)
		ib_dealloc_device(&dev->ibdev);
out:
	mutex_unlock(&add_lock);
	return error;
}
