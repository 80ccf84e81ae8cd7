// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * The core queues each event that a driver raises until the process reads it, without bound and charged to nobody; and here it is
 * processes that make us raise them. The core's own lists tell whether an object still has unread ones.
 */
#include "swrnic.h"

/* The core has just made the object: nothing can be unread, so a list that is one points to itself. */
static const struct list_head *checked(const struct list_head *list)
{
	if (READ_ONCE(list->next) == list && READ_ONCE(list->prev) == list)
		return list;
	pr_warn_once("ib_uverbs keeps its events elsewhere in this kernel: what a process does not read is not bounded\n");
	return NULL;
}

void swr_unread_init_comp(struct swr_unread *unread, struct ib_uobject *uobject)
{
	unread->list = checked(&container_of(uobject, struct swr_ucq_object, uevent.uobject)->unread);
}

void swr_unread_init_async(struct swr_unread *unread, struct ib_uobject *uobject)
{
	unread->list = checked(&container_of(uobject, struct swr_uevent_object, uobject)->unread);
}

/* A look without the core's lock: the list changes under us, but what was read meanwhile is only counted for a while longer. */
bool swr_unread_add(struct swr_unread *unread, unsigned int max)
{
	if (!unread->list || list_empty_careful(unread->list))
		unread->raised = 0;
	if (unread->raised >= max)
		return false;
	unread->raised++;
	return true;
}
