# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# Whose a socket is: the namespace of its process and no other, and its user.
# shellcheck shell=bash
. /functions

modprobe swrnic || die "modprobe"
two_namespaces

echo "-- a wildcard listener out here, a device that is added later in a namespace"
rdma link del swr1
rping -s -p 7174 >/tmp/server 2>&1 &
server=$!
sleep 1
gone $server && die "no listener: $(cat /tmp/server)"
ip netns exec n1 rdma link add swr1 type swrnic netdev v1 || die "rdma link add"
ip netns exec n1 bash -c '. /functions; listening 7174' && die "the listener is in n1"
ip netns exec n2 timeout 20 rping -c -a 10.9.0.1 -p 7174 -C 1 -v >/tmp/client 2>&1 && die "heard in n1: $(cat /tmp/server)"
pair n1 n2 7175 "rping -s -p 7175 -C 2" "rping -c -a 10.9.0.1 -p 7175 -C 2 -v"
kill -9 $server
nothing_left

echo "-- an interface with the MAC of a device in another namespace"
ip link add thief type dummy
ip link set thief address "$(ip netns exec n1 cat /sys/class/net/v1/address)"
ip addr add 10.9.0.77/24 dev thief
ip link set thief up
ip netns exec n2 rping -s -a 10.9.0.2 -p 7174 -C 1 >/tmp/server 2>&1 &
server=$!
until_true 10 ip netns exec n2 bash -c '. /functions; listening 7174' || die "no listener in n2: $(cat /tmp/server)"
timeout 20 rping -c -a 10.9.0.2 -p 7174 -C 1 -v >/tmp/client 2>&1 && die "n2 reached from outside"
cat /tmp/client
timeout 3 rping -s -a 10.9.0.77 -p 7176 >/tmp/client 2>&1
ip netns exec n1 bash -c '. /functions; listening 7176' && die "a listener in n1 from outside"
kill -9 $server
nothing_left
ip link del thief
ip netns del n1
ip netns del n2

echo "-- the user of the sockets"
make_device swr0 dummy0 192.0.2.1/24
su user -c 'rping -s -a 192.0.2.1 -p 7174 -v' >/tmp/server 2>&1 &
until_true 10 listening 7174 || die "no listener: $(cat /tmp/server)"
su user -c 'rping -c -a 192.0.2.1 -p 7174 -v' >/tmp/client 2>&1 &
until_true 10 grep -q 'ping data' /tmp/client || die "no traffic: $(cat /tmp/client)"
# Local address, state, uid of every socket at the port; 1C06 is 7174. 06 is TIME_WAIT: of those that were there before.
awk '($2 ~ /:1C06$/ || $3 ~ /:1C06$/) && $4 != "06" {print $2, $3, $4, $8}' /proc/net/tcp | tee /tmp/sockets
[ "$(wc -l </tmp/sockets)" = 3 ] || die "not three sockets"
[ "$(awk '$4 != 1000' /tmp/sockets)" = "" ] || die "a socket of another user"
busybox killall rping
until_true 5 bash -c '! pgrep rping' || die "they do not end"
nothing_left
until_true 5 rmmod swrnic || die "something holds the module"
echo passed
