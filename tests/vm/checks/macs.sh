# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# Interfaces that share a MAC: a VLAN and its parent, a macvlan in passthru mode. Their devices have GUIDs of their own, and each
# serves its own addresses, as far as rdma_cm can tell them apart. 6.1 does so by MAC alone; 6.12 by interface, but a VLAN is its
# parent to it. Devices that it takes for one: the first of them serves the addresses of all, and a wildcard listener's copy on
# another one refuses, since the process is led to make its QP on the first.
# shellcheck shell=bash
. /functions

modprobe swrnic || die "modprobe"
two_namespaces

# second_device N KIND NETDEV: beside swrN, on an interface with the same MAC.
second_device() {
    ip -n n"$1" addr add 10.9.10."$1"/24 dev "$3"
    ip -n n"$1" link set "$3" up
    [ "$(in_ns n"$1" cat /sys/class/net/v"$1"/address)" = "$(in_ns n"$1" cat /sys/class/net/"$3"/address)" ] || die "$2: another MAC"
    in_ns n"$1" rdma link add swr"$1"x type swrnic netdev "$3" || die "no device on $3"
    [ "$(cat /sys/class/infiniband/swr"$1"/node_guid)" != "$(cat /sys/class/infiniband/swr"$1"x/node_guid)" ] ||
        die "$2: swr$1 and swr$1x have one GUID: $(cat /sys/class/infiniband/swr"$1"/node_guid)"
}

# traffic SUBNET [mistaken]: listeners at the address and at none, both ways. mistaken: rdma_cm takes the device for another one.
traffic() {
    local server
    pair n1 n2 7174 "rping -s -a $1.1 -p 7174 -C 3" "rping -c -a $1.1 -p 7174 -C 3 -v"
    if [ "${2-}" = mistaken ]; then
        in_ns n2 rping -s -p 7175 -C 3 >/tmp/server 2>&1 &
        server=$!
        until_true 10 in_ns n2 bash -c '. /functions; listening 7175' || die "no wildcard listener: $(cat /tmp/server)"
        refused 'REJECTED' in_ns n1 timeout 20 rping -c -a "$1".2 -p 7175 -C 3 -v
        kill -9 $server 2>/dev/null
    else
        pair n2 n1 7174 "rping -s -p 7174 -C 3" "rping -c -a $1.2 -p 7174 -C 3 -v"
    fi
    pair n1 n2 7471 "ucmatose -b $1.1 -c 2" "ucmatose -s $1.1 -c 2"
}

echo "-- a VLAN beside its parent"
for n in 1 2; do
    ip -n n$n link add link v$n name v$n.10 type vlan id 10 || die "no VLAN"
    second_device $n VLAN v$n.10
done
traffic 10.9.0
traffic 10.9.10 mistaken
nothing_left
echo "-- the parent's device goes, the VLAN's stays"
for n in 1 2; do rdma link del swr$n || die "swr$n"; done
traffic 10.9.10
for n in 1 2; do
    in_ns n$n rdma link add swr$n type swrnic netdev v$n || die "swr$n"
    ip -n n$n link del v$n.10
done
until_true 10 sh -c '! rdma link | grep -q "swr.x"' || die "a device outlived its VLAN"
traffic 10.9.0

echo "-- a macvlan with its parent's MAC"
for n in 1 2; do
    ip -n n$n link add link v$n name m$n type macvlan mode passthru || die "no macvlan"
    second_device $n macvlan m$n
done
case $(uname -r) in
6.1.*) traffic 10.9.10 mistaken ;;
*) traffic 10.9.10 ;;
esac
nothing_left

# The MAC leaves one octet of a GUID to tell them apart by: more interfaces than that have it. Batches, since each process costs here.
many=260
echo "-- $many VLANs of one MAC"
ip link add crowd type dummy && ip link set crowd up || die "no dummy interface"
for ((n = 1; n <= many; n++)); do echo "link add link crowd name c$n type vlan id $n"; done >/tmp/vlans
for ((n = 1; n <= many; n++)); do echo "link add swc$n type swrnic netdev c$n"; done >/tmp/links
ip -batch /tmp/vlans || die "no VLANs"
timeout $((200 * SLOW)) rdma -b /tmp/links || die "rdma link add: $?"
guids=$(cat /sys/class/infiniband/swc*/node_guid)
[ "$(wc -l <<<"$guids")" = $many ] || die "$(wc -l <<<"$guids") devices"
[ -z "$(sort <<<"$guids" | uniq -d)" ] || die "GUIDs of more than one device: $(sort <<<"$guids" | uniq -d)"
ip link del crowd
for n in 1 2; do ip netns del n$n; done
until_true 20 bash -c '! rdma link | grep -q swr' || die "devices outlived their interfaces: $(rdma link)"
free_module
rmmod swrnic || die "something holds the module"
echo passed
