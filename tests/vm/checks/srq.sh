# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# Shared receive queues: the kernel's part.
# shellcheck shell=bash
. /functions

command -v srq >/dev/null || die "the guest's programs are not built"
modprobe swrnic || die "modprobe"
make_device swr0 dummy0 192.0.2.1/24
srq swr0 || die "srq"
nothing_left
[ "$(rdma resource show srq 2>/dev/null | wc -l)" = 0 ] || die "left behind: $(rdma resource show srq)"
rdma link del swr0 && rmmod swrnic || die "something holds the module"
echo passed
