# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# Unusual places: lo, two devices under one wildcard listener, a namespace that goes away under a live connection, exclusive namespaces.
# shellcheck shell=bash
. /functions

modprobe swrnic || die "modprobe"

echo "-- a device on lo"
ip link set lo address 02:00:00:00:00:01 || die "no MAC for lo"
rdma link add swr9 type swrnic netdev lo || die "no device on lo"
pair - - 7174 "rping -s -a 127.0.0.1 -p 7174 -C 3" "rping -c -a 127.0.0.1 -p 7174 -C 3 -v"
rdma link del swr9
nothing_left

echo "-- two devices, one wildcard listener"
make_device swr0 dummy0 192.0.2.1/24
make_device swr1 dummy1 198.51.100.1/24
for address in 192.0.2.1 198.51.100.1; do
    pair - - 7174 "rping -s -p 7174 -C 3" "rping -c -a $address -p 7174 -C 3 -v"
done
nothing_left
rdma link del swr0
rdma link del swr1
ip link del dummy0
ip link del dummy1

echo "-- a namespace deleted while its connection lives"
two_namespaces
ip netns exec n1 rping -s -a 10.9.0.1 -p 7174 >/tmp/server 2>&1 &
server=$!
until_true 10 ip netns exec n1 bash -c '. /functions; listening 7174' || die "no listener: $(cat /tmp/server)"
ip netns exec n2 rping -c -a 10.9.0.1 -p 7174 -v >/tmp/client 2>&1 &
client=$!
until_true 10 grep -q 'ping data' /tmp/client || die "no traffic: $(cat /tmp/client)"
ip netns del n1
ip netns del n2
sleep 1
gone $client && die "the connection did not survive the name: $(cat /tmp/client)"
kill -9 $client $server
until_true 5 gone $client || die "the client does not end"
until_true 5 gone $server || die "the server does not end"
nothing_left
until_true 20 bash -c '! rdma link | grep -q swr' || die "the namespaces live on: $(rdma link)"

echo "-- exclusive namespaces"
rdma system set netns exclusive || die "not exclusive"
two_namespaces
for n in 1 2; do rdma dev set swr$n netns n$n || die "swr$n does not go to n$n"; done
[ -z "$(rdma link)" ] || die "seen from outside: $(rdma link)"
[ "$(ip netns exec n1 rdma link | wc -l)" = 1 ] || die "n1 sees: $(ip netns exec n1 rdma link)"
pair n1 n2 7174 "rping -s -a 10.9.0.1 -p 7174 -C 3" "rping -c -a 10.9.0.1 -p 7174 -C 3 -v"
timeout 20 rping -c -a 10.9.0.1 -p 7174 -C 1 -v >/tmp/client 2>&1 && die "reached from outside"
ip netns del n1
ip netns del n2
sleep 2
rmmod swrnic || die "something holds the module"
echo passed
