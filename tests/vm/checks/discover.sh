# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# The device is there for every tool, with no preload and no environment; wrong arguments get the right errno and a line in the log.
# shellcheck shell=bash
. /functions

[ -z "${LD_PRELOAD-}" ] || die "a preload"
modprobe swrnic || die "modprobe"
make_device swr0 dummy0 192.0.2.1/24 2001:db8::1/64
expect 'link swr0/1 state ACTIVE' rdma link
expect 'swr0' ibv_devices
expect 'node_type\|transport.*iWARP' ibv_devinfo -v -d swr0
expect 'PORT_ACTIVE' ibv_devinfo -d swr0
expect '0000:ffff:c000:0201' ibv_devinfo -v -d swr0
expect '2001:0db8:0000:0000:0000:0000:0000:0001' ibv_devinfo -v -d swr0
ip addr add 192.0.2.77/24 dev dummy0
until_true 5 sh -c 'ibv_devinfo -v -d swr0 | grep -q 0000:ffff:c000:024d' || die "the GID did not follow the address"
ip addr del 192.0.2.77/24 dev dummy0
until_true 5 sh -c '! ibv_devinfo -v -d swr0 | grep -q 0000:ffff:c000:024d' || die "the GID outlived the address"

refused 'File exists' rdma link add swr9 type swrnic netdev dummy0
ip link add dummy1 type dummy
refused 'File exists' rdma link add swr0 type swrnic netdev dummy1
refused 'No such device\|Invalid\|invalid\|rong' rdma link add swr9 type swrnic netdev nosuch0
[ "$(dmesg | grep -c 'swrnic: ')" -ge 2 ] || die "no word in the log"

rdma dev set swr0 name other || die "rename"
expect 'PORT_ACTIVE' ibv_devinfo -d other
rdma link add swr1 type swrnic netdev dummy1 || die "a second device"
expect 'swr1' ibv_devices
ip link set dummy0 down
until_true 5 sh -c 'rdma link show other/1 | grep -q DOWN' || die "still up"
ip link set dummy0 up
until_true 5 sh -c 'rdma link show other/1 | grep -q ACTIVE' || die "still down"
rdma link del other || die "link del"
ip link del dummy1
until_true 5 sh -c '! rdma link | grep -q swr1' || die "the device outlived its interface"
rmmod swrnic || die "rmmod"
ip link add dummy2 type dummy
rdma link add swr2 type swrnic netdev dummy2 || die "the module is not loaded by itself"
echo passed
