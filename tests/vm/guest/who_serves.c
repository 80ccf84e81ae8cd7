// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Whom the module lets serve the kernel's queue pairs: who_serves DEVICE KEPT EXPECTED, where KEPT is which capabilities the
 * program has when it asks (all, net_admin) and EXPECTED what it is told (granted, refused, elsewhere). Whoever was granted it
 * gives up everything, its user too, and must be able to go on; a child of it must not.
 */
#include <fcntl.h>
#include <linux/capability.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "event_file.h"
#include "swrnic-serve.h"

static void die(const char *what)
{
	perror(what);
	exit(1);
}

static void keep_net_admin_alone(void)
{
	struct __user_cap_header_struct header = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct data[2] = { { .effective = 1u << CAP_NET_ADMIN, .permitted = 1u << CAP_NET_ADMIN } };

	if (syscall(SYS_capset, &header, data))
		die("capset");
}

/* What a call for a QP that is not there is told: EINVAL, if the caller may call at all. */
static int told(int file)
{
	struct swrnic_qp_info info = { .qpn = 0xfffffe };

	return ioctl(file, SWRNIC_IOC_QP_INFO, &info) ? errno : 0;
}

static int serve(int file, unsigned int group)
{
	struct swrnic_serve serve = { .version = SWRNIC_SERVE_NEWEST, .group = group };

	return ioctl(file, SWRNIC_IOC_SERVE, &serve) ? errno : 0;
}

/* Each group has one server, and each file serves one group. */
static void expect_groups(const char *device, int served)
{
	int other;

	if (!open_device(device))
		die("no second context");
	other = find_event_file_behind(served);
	if (other < 0)
		die("no second event file");
	if (serve(other, 0) != EBUSY)
		die("a group that is served already");
	if (serve(other, SWRNIC_SERVE_GROUPS) != EINVAL)
		die("a group that there is not");
	if (serve(other, 1))
		die("SERVE of another group");
	if (serve(other, 2) != EBUSY)
		die("a second group for one file");
}

int main(int argc, char **argv)
{
	struct swrnic_serve serve = { .version = SWRNIC_SERVE_NEWEST }, old = { .version = SWRNIC_SERVE_OLDEST - 1 };
	int file, status, granted;
	const char *answer;
	struct swrnic_down record;
	pid_t child;

	if (argc < 4 || !open_device(argv[1]))
		die("no device");
	file = find_event_file();
	if (!strcmp(argv[2], "net_admin")) {
		/* The file is of the same credentials: it is opened anew. */
		keep_net_admin_alone();
		close(file);
		if (!open_device(argv[1]))
			die("no second context");
		file = find_event_file();
	}
	if (file < 0)
		die("no event file");
	if (!ioctl(file, SWRNIC_IOC_SERVE, &old) || errno != EPROTO)
		die("SERVE of a version that nobody speaks any more");
	granted = !ioctl(file, SWRNIC_IOC_SERVE, &serve);
	answer = granted ? "granted" : errno == EPERM ? "refused" : errno == EXDEV ? "elsewhere" : NULL;
	if (!answer)
		die("SERVE");
	if (serve.version != SWRNIC_SERVE_NEWEST && granted)
		die("SERVE does not say what both speak");
	puts(answer);
	if (strcmp(answer, argv[3]))
		return 1;
	if (!granted)
		return 0;
	expect_groups(argv[1], file);
	if (setgid(1000) || setuid(1000))
		die("setuid");
	if (told(file) != EINVAL)
		die("the server that gave up its user may not call");
	if (fcntl(file, F_SETFL, O_NONBLOCK) || read(file, &record, sizeof(record)) >= 0 || errno != EAGAIN)
		die("the server that gave up its user may not read");
	child = syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0); /* fork() would have the provider close it there */
	if (!child)
		_exit(told(file) == EACCES ? 0 : 1);
	if (waitpid(child, &status, 0) != child || status)
		die("another process may call");
	return 0;
}
