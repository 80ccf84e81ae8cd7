// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// confined PROGRAM ARGUMENT...: becomes PROGRAM as in a container with the usual settings: no new privileges, 64 KiB of
// memory to lock, and EPERM for the system calls that containers' default seccomp profiles keep from a process without
// capabilities (clone3, whose flags no filter can see: ENOSYS).
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#define REFUSE(name, error)                                                                                                        \
	BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_##name, 0, 1), BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | (error))

int main(int argc, char **argv)
{
	struct sock_filter filter[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		REFUSE(clone3, ENOSYS),
		REFUSE(add_key, EPERM),
		REFUSE(bpf, EPERM),
		REFUSE(get_mempolicy, EPERM),
		REFUSE(io_uring_enter, EPERM),
		REFUSE(io_uring_register, EPERM),
		REFUSE(io_uring_setup, EPERM),
		REFUSE(kcmp, EPERM),
		REFUSE(keyctl, EPERM),
		REFUSE(mbind, EPERM),
		REFUSE(mount, EPERM),
		REFUSE(move_pages, EPERM),
		REFUSE(name_to_handle_at, EPERM),
		REFUSE(open_by_handle_at, EPERM),
		REFUSE(perf_event_open, EPERM),
		REFUSE(pidfd_getfd, EPERM),
		REFUSE(process_vm_readv, EPERM),
		REFUSE(process_vm_writev, EPERM),
		REFUSE(ptrace, EPERM),
		REFUSE(request_key, EPERM),
		REFUSE(set_mempolicy, EPERM),
		REFUSE(setns, EPERM),
		REFUSE(syslog, EPERM),
		REFUSE(unshare, EPERM),
		REFUSE(userfaultfd, EPERM),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = { sizeof(filter) / sizeof(filter[0]), filter };
	struct rlimit locked = { 64 << 10, 64 << 10 };
	if (argc < 2)
		return 2;
	if (setrlimit(RLIMIT_MEMLOCK, &locked) != 0 || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
	    prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0) {
		perror("confined");
		return 77;
	}
	execvp(argv[1], argv + 1);
	perror(argv[1]);
	return 127;
}
