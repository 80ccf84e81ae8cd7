// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Module entry and exit, `rdma link add`. */
#include "swrnic.h"

#include <linux/module.h>
#include <rdma/rdma_netlink.h>

MODULE_AUTHOR("The swrnic authors");
MODULE_DESCRIPTION("swrnic: software RNIC, standard iWARP over kernel TCP sockets, driven from user space");
MODULE_LICENSE("Dual BSD/GPL");
MODULE_VERSION("0.1.0");
MODULE_ALIAS_RDMA_LINK("swrnic");
MODULE_SOFTDEP("pre: rdma_cm"); /* see swr_client */

#ifdef SWRNIC_TEST
unsigned int swr_race_ms;
module_param_named(race_ms, swr_race_ms, uint, 0600);

/*
 * The kernel patches its own code when the first socket may use what is kept in reserve, and when none may any more. An emulator
 * stumbles over that now and then (tests/vm/run), so in guests it happens once.
 */
static void begin_test(void)
{
	static_branch_inc(&memalloc_socks_key);
}

static void end_test(void)
{
	static_branch_dec(&memalloc_socks_key);
}
#else
static void begin_test(void)
{
}

static void end_test(void)
{
}
#endif

/* Flushed from iw_cm's queue, which serves memory reclaim. */
struct workqueue_struct *swr_wq;

/* Its workers may be held up by processes, so nothing else runs there. */
struct workqueue_struct *swr_abort_wq;

static struct rdma_link_ops swr_link_ops = {
	.type = "swrnic",
	.newlink = swr_device_add,
};

static void destroy_workqueues(void)
{
	if (swr_wq)
		destroy_workqueue(swr_wq);
	if (swr_abort_wq)
		destroy_workqueue(swr_abort_wq);
}

static int __init swr_init(void)
{
	int error;

	swr_wq = alloc_workqueue("swrnic", WQ_UNBOUND | WQ_MEM_RECLAIM, 0);
	swr_abort_wq = alloc_workqueue("swrnic_abort", WQ_UNBOUND, 0);
	error = swr_wq && swr_abort_wq ? swr_netdev_init() : -ENOMEM;
	if (error) {
		destroy_workqueues();
		return error;
	}
	error = ib_register_client(&swr_client);
	if (error) {
		swr_netdev_exit();
		destroy_workqueues();
		return error;
	}
	rdma_link_register(&swr_link_ops);
	begin_test();
	return 0;
}

static void __exit swr_exit(void)
{
	end_test();
	rdma_link_unregister(&swr_link_ops);
	swr_netdev_exit();
	/* Also waits for those that a notifier queued: their dealloc_driver is our code. */
	ib_unregister_driver(SWRNIC_DRIVER_ID);
	ib_unregister_client(&swr_client);
	destroy_workqueues();
}

module_init(swr_init);
module_exit(swr_exit);
