// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Reports to the device's counters as a provider does: statistic DEVICE. Each counter grows by its number plus one, the first
 * beyond 32 bits; a counter that does not exist is refused.
 */
#include <errno.h>
#include <infiniband/verbs.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "event_file.h"
#include "swrnic-abi.h"

int main(int argc, char **argv)
{
	struct ibv_context *context = open_device(argc > 1 ? argv[1] : NULL);
	int fd = context ? find_event_file() : -1;
	uint32_t i;

	if (fd < 0) {
		fprintf(stderr, "no device or no event file\n");
		return 1;
	}
	for (i = 0; i < SWRNIC_COUNTERS; i++)
		if (send_up(fd, SWRNIC_UP_COUNTED, i, i + 1))
			return 1;
	if (send_up(fd, SWRNIC_UP_COUNTED, 0, UINT32_MAX))
		return 1;
	if (send_up(fd, SWRNIC_UP_COUNTED, SWRNIC_COUNTERS, 1) != EINVAL ||
	    send_up(fd, SWRNIC_UP_COUNTED, UINT32_MAX, 1) != EINVAL) {
		fprintf(stderr, "an unknown counter was taken\n");
		return 1;
	}
	ibv_close_device(context);
	return 0;
}
