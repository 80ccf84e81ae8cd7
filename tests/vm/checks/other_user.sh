# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# A process of one user cannot use another's objects: not by descriptors that it was given, not by their numbers in its own context.
# shellcheck shell=bash
. /functions

command -v other_user >/dev/null || die "the guest's programs are not built"
modprobe swrnic || die "modprobe"
make_device swr0 dummy0 192.0.2.1/24
modprobe rdma_ucm
chmod 666 /dev/infiniband/uverbs0 /dev/infiniband/rdma_cm # as Debian's udev rules have them
timeout $((60 * SLOW)) other_user 192.0.2.1 || die "somebody could do what nobody may"
nothing_left
rdma link del swr0
free_module
rmmod swrnic || die "something holds the module"
echo passed
