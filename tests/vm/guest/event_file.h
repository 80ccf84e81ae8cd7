/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What programs need that speak to the event file behind the provider's back. */
#ifndef SWRNIC_TESTS_VM_EVENT_FILE_H
#define SWRNIC_TESTS_VM_EVENT_FILE_H

#include <errno.h>
#include <infiniband/verbs.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "swrnic-abi.h"

/* By name, or NULL. */
static inline struct ibv_context *open_device(const char *name)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct ibv_context *context = NULL;
	int i;

	for (i = 0; list && list[i]; i++)
		if (name && !strcmp(ibv_get_device_name(list[i]), name))
			context = ibv_open_device(list[i]);
	if (list)
		ibv_free_device_list(list);
	return context;
}

/* The provider keeps it to itself; it is the descriptor that says what it is. Behind one that is known; -1 without one. */
static inline int find_event_file_behind(int known)
{
	char link[64], name[64];
	ssize_t len;
	int fd;

	for (fd = known + 1; fd < 256; fd++) {
		snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
		len = readlink(link, name, sizeof(name) - 1);
		if (len <= 0)
			continue;
		name[len] = 0;
		if (strstr(name, "[swrnic]"))
			return fd;
	}
	return -1;
}

static inline int find_event_file(void)
{
	return find_event_file_behind(2);
}

/* 0, or the errno that the record got. */
static inline int send_up(int fd, uint32_t type, uint32_t id, uint32_t aux)
{
	struct swrnic_up record = { type, id, aux, 0 };

	return write(fd, &record, sizeof(record)) == sizeof(record) ? 0 : errno;
}

#endif
