// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Tells the asynchronous events of a device, a line each and at once: async_watch DEVICE. Until it is killed, or the device goes.
 */
#include <infiniband/verbs.h>
#include <stdio.h>

#include "event_file.h"

int main(int argc, char **argv)
{
	struct ibv_context *context = open_device(argc > 1 ? argv[1] : NULL);
	struct ibv_async_event event;

	if (!context)
		return 1;
	setvbuf(stdout, NULL, _IOLBF, 0);
	printf("watching\n");
	while (!ibv_get_async_event(context, &event)) {
		printf("%s\n", ibv_event_type_str(event.event_type));
		ibv_ack_async_event(&event);
		if (event.event_type == IBV_EVENT_DEVICE_FATAL)
			break;
	}
	ibv_close_device(context);
	return 0;
}
