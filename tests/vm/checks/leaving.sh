# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# Devices that go while others are busy with them: connecting, or adding them.
# shellcheck shell=bash
. /functions

# In this order rdma_cm hears of a device's end before uverbs, which would take the QPs and with them the connects.
modprobe ib_uverbs || die "modprobe ib_uverbs"
modprobe swrnic || die "modprobe swrnic"

echo "-- rdma link del and ip link del do not wait for a connect to a black hole"
for command in 'rdma link del swr0' 'ip link del dummy0'; do
    make_device swr0 dummy0 192.0.2.1/24
    SWRNIC_TIMEOUT=60 rping -c -a 192.0.2.99 -p 7174 -v >/tmp/client 2>&1 &
    client=$!
    sleep 2
    gone $client && die "it did not wait: $(cat /tmp/client)"
    kill -STOP $client # rping would end itself when it hears of the end
    # shellcheck disable=SC2086
    timeout 5 $command || die "$command waits: $?"
    kill -CONT $client
    until_true 5 gone $client || die "the client waits: $(cat /tmp/client)"
    until_true 5 bash -c '! rdma link | grep -q swr0' || die "the device is still there"
    nothing_left
    ip link del dummy0 2>/dev/null
done

echo "-- an interface that goes while its device is added"
# Two programs that wait for orders, so that the two follow each other within milliseconds. Between the interface's last use in a
# registration and the moment when a notifier finds the device lie microseconds; no round has been seen to meet them.
mkfifo /tmp/ip /tmp/rdma
ip -force -batch /tmp/ip >/tmp/ip.out 2>&1 &
rdma -f -b /tmp/rdma >/tmp/rdma.out 2>&1 &
exec 7>/tmp/ip 8>/tmp/rdma
nothing_there() { ! [ -e /sys/class/net/dummy0 ] && ! [ -e /sys/class/infiniband/swr0 ]; }
for ((i = 0; i < 100; i++)); do
    echo "link add dummy0 type dummy" >&7
    until [ -e /sys/class/net/dummy0 ]; do :; done
    echo "link add swr0 type swrnic netdev dummy0" >&8
    for ((k = 0; k < (i % 50) * 15; k++)); do :; done
    echo "link del dummy0" >&7
    until_true 10 nothing_there || die "round $i: $(ls -d /sys/class/net/dummy0 /sys/class/infiniband/swr0)"
done
exec 7>&- 8>&-
wait

echo "-- a device that is deleted by two, and while it is added"
ip link add dummy0 type dummy
for ((i = 0; i < 20; i++)); do
    rdma link add swr0 type swrnic netdev dummy0 2>/dev/null &
    add=$!
    rdma link del swr0 2>/dev/null &
    until_true 2 rdma link del swr0 || { wait $add && rdma link | grep -q swr0 && die "round $i: not deleted"; }
    wait
    rdma link del swr0 2>/dev/null
done
ip link del dummy0
until_true 5 rmmod swrnic || die "something holds the module"
echo passed
