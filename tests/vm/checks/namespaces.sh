# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# Between two network namespaces of one guest, over veth, IPv4 and IPv6; then a namespace that goes away.
# shellcheck shell=bash
. /functions

modprobe swrnic || die "modprobe"
two_namespaces
pair n1 n2 7174 "rping -s -a 10.9.0.1 -p 7174 -C 10" "rping -c -a 10.9.0.1 -p 7174 -C 10 -v"
pair n2 n1 7174 "rping -s -a 2001:db8:9::2 -p 7174 -C 10" "rping -c -a 2001:db8:9::2 -p 7174 -C 10 -v"
pair n1 n2 18515 "ib_write_bw -R -d swr1 -s 65536 -n 100 -F" "ib_write_bw -R -d swr2 -s 65536 -n 100 -F 10.9.0.1"
grep ' 65536 ' /tmp/client

# One port in both namespaces; the listener of one hears nothing of the other's.
ip netns exec n1 rping -s -p 7174 -C 2 >/tmp/first 2>&1 &
first=$!
until_true 10 ip netns exec n1 bash -c '. /functions; listening 7174' || die "no listener in n1: $(cat /tmp/first)"
ip netns exec n2 bash -c '. /functions; listening 7174' && die "the listener of n1 is in n2 as well"
pair n2 n1 7174 "rping -s -p 7174 -C 2" "rping -c -a 10.9.0.2 -p 7174 -C 2 -v"
ip netns exec n2 timeout 20 rping -c -a 10.9.0.1 -p 7174 -C 2 -v >/tmp/client 2>&1 || harmless_end "rping -C 2 -v" ||
    die "the listener in n1 serves not: $(cat /tmp/client /tmp/first)"
wait $first || grep -q 'rdma_get_cm_event: Bad file descriptor' /tmp/first || die "the server in n1: $(cat /tmp/first)"
nothing_left
ip netns del n1
until_true 10 bash -c '! rdma link | grep -q swr' || die "devices outlived their interfaces: $(rdma link)"
ip netns del n2
rmmod swrnic || die "something holds the module"
echo passed
