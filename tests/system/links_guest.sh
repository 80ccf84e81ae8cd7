# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# system/apply-links against the kernel: what links.conf names is made, once, and what is refused is told.
# shellcheck shell=bash disable=SC1091 # /functions is in the guest
. /functions

apply=/usr/lib/swrnic/apply-links
mkdir -p /etc/swrnic
modprobe dummy numdummies=0
ip link add dummy0 type dummy
printf '# ours\ndummy0 swr0\ndummy7 swr7\n' >/etc/swrnic/links.conf
# As the service and the udev rule do at boot: both at the same time.
$apply >/tmp/first 2>&1 &
$apply --quiet dummy0 || die "the second of two at the same time"
wait $! || die "the first of two at the same time: $(cat /tmp/first)"
expect 'netdev dummy0' rdma link show swr0/1
expect 'swr0 is on dummy0 already' $apply
expect 'dummy7 is not there yet' $apply
ip link add dummy7 type dummy
$apply --quiet dummy7 || die "the udev rule's call"
expect 'netdev dummy7' rdma link show swr7/1

ip link add dummy1 type dummy
printf 'dummy1 swr0\n' >/etc/swrnic/links.conf
refused 'swr0 is on interface dummy0, not on dummy1' $apply
printf 'dummy0 swr9\n' >/etc/swrnic/links.conf
refused 'cannot make swr9 on dummy0: .*File exists' $apply
dmesg | grep swrnic || die "the kernel's log does not say why"
rdma link del swr0 || die "link del"
$apply || die "not made after the other had gone"
expect 'netdev dummy0' rdma link show swr9/1
rdma link del swr9
rdma link del swr7
if ! { modprobe -r swrnic && modprobe swrnic; }; then die "the module taken out and in again"; fi
echo passed
