// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// as_nobody COMMAND...: becomes the user nobody and runs it; the guest has no tool for that.
#include <grp.h>
#include <stdio.h>
#include <unistd.h>

int main(int argc, char **argv)
{
	if (argc < 2)
		return 2;
	if (setgroups(0, NULL) != 0 || setgid(65534) != 0 || setuid(65534) != 0) {
		perror("as_nobody");
		return 2;
	}
	execvp(argv[1], argv + 1);
	perror(argv[1]);
	return 127;
}
