# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# What a process makes the kernel keep for it, and never fetches, is bounded.
# shellcheck shell=bash
. /functions

command -v bounds >/dev/null || die "the guest's programs are not built"
modprobe swrnic || die "modprobe"
make_device swr0 dummy0 192.0.2.1/24
chmod 666 /dev/infiniband/uverbs0 # as Debian's udev rules have it
bounds swr0 || die "bounds"
dmesg | grep -q 'is not bounded' && die "the core's lists are not where they should be"
nothing_left
rdma link del swr0 && rmmod swrnic || die "something holds the module"
echo passed
