# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# Who may become the mover of the data of the kernel's own consumers: the host's administrator, in the network namespace of the device,
# and no container that was given CAP_NET_ADMIN and a uverbs node. The server may give up its user and its capabilities afterwards.
# shellcheck shell=bash
. /functions

command -v who_serves >/dev/null || die "the guest's programs are not built"
modprobe -a swrnic ib_uverbs || die "modprobe"
make_device swr0 dummy0 192.0.2.1/24
ip netns add elsewhere || die "no namespace"

timeout $((20 * SLOW)) who_serves swr0 all granted || die "the administrator: $?"
timeout $((20 * SLOW)) who_serves swr0 net_admin refused || die "CAP_NET_ADMIN alone: $?"
in_ns elsewhere timeout $((20 * SLOW)) who_serves swr0 all elsewhere || die "another network namespace: $?"
nothing_left
rdma link del swr0
free_module
rmmod swrnic || die "something holds the module"
echo passed
