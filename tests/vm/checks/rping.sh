# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# rping over the addresses of one interface, IPv4 and IPv6; afterwards nothing is left.
# shellcheck shell=bash
. /functions

modprobe swrnic || die "modprobe"
make_device swr0 dummy0 192.0.2.1/24 2001:db8::1/64

for address in 192.0.2.1 2001:db8::1; do
    pair - - 7174 "rping -s -a $address -p 7174 -C 10" "rping -c -a $address -p 7174 -C 10 -v"
    [ "$(grep -c 'ping data: rdma-ping' /tmp/client)" = 10 ] || die "not ten pings: $(cat /tmp/client)"
done
nothing_left
rdma link del swr0 && rmmod swrnic || die "something holds the module"
echo passed
