# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# Ends of every kind, under traffic: nobody hangs, nothing is left.
# shellcheck shell=bash
. /functions

modprobe swrnic || die "modprobe"
make_device swr0 dummy0 192.0.2.1/24

# ended PID SECONDS WHAT
ended() {
    until_true "$2" gone "$1" || {
        cat "/proc/$1/stack" "/proc/$1/wchan" "/proc/$1/status" 2>/dev/null
        die "$3 does not end"
    }
}

echo "-- kill -9 of the client"
traffic 192.0.2.1
kill -9 "$client"
ended "$client" 1 client
ended "$server" 10 server
nothing_left

echo "-- kill -9 of the server"
traffic 192.0.2.1
kill -9 "$server"
ended "$server" 1 server
ended "$client" 10 client
nothing_left

echo "-- rmmod while the device is open"
traffic 192.0.2.1
refused 'in use' rmmod swrnic
kill -9 "$client" "$server"
ended "$client" 1 client
ended "$server" 1 server
nothing_left

echo "-- rdma link del under traffic"
traffic 192.0.2.1
timeout 10 rdma link del swr0 || die "rdma link del: $?"
ended "$client" 10 client
ended "$server" 10 server
rdma link add swr0 type swrnic netdev dummy0 || die "no second device"

echo "-- rdma link del under one-sided traffic"
ib_write_bw -R -d swr0 -D 60 -F >/tmp/server 2>&1 &
server=$!
until_true 10 listening 18515 || die "the server does not listen: $(cat /tmp/server)"
ib_write_bw -R -d swr0 -D 60 -F 192.0.2.1 >/tmp/client 2>&1 &
client=$!
sleep 4
timeout 10 rdma link del swr0 || die "rdma link del: $?"
ended "$client" 10 client
# perftest's server looks at nothing while it waits for its client: ended from outside, it must go at once.
kill -9 "$server" 2>/dev/null
ended "$server" 1 server
rdma link add swr0 type swrnic netdev dummy0 || die "no second device"

echo "-- ip link set down and up under traffic"
traffic 192.0.2.1
ip link set dummy0 down
sleep 1
ip link set dummy0 up
ip addr add 192.0.2.1/24 dev dummy0 2>/dev/null
before=$(grep -c 'ping data' /tmp/client)
goes_on() { [ "$(grep -c 'ping data' /tmp/client)" -gt "$before" ]; }
until_true 4 goes_on || die "the traffic did not survive" # TCP sends again after its own time, longer on a slow machine
kill -9 "$client" "$server"
ended "$client" 1 client
ended "$server" 1 server
nothing_left

echo "-- ip link del under traffic"
traffic 192.0.2.1
timeout 10 ip link del dummy0 || die "ip link del: $?"
ended "$client" 10 client
ended "$server" 10 server
until_true 5 bash -c '! rdma link | grep -q swr0' || die "the device outlived its interface"
make_device swr0 dummy0 192.0.2.1/24

echo "-- a black hole: the deadline"
SWRNIC_TIMEOUT=2 timeout 20 rping -c -a 192.0.2.99 -p 7174 -v >/tmp/client 2>&1 && die "a black hole answered"
grep -q 'UNREACHABLE\|event 6\|error -110' /tmp/client || die "not UNREACHABLE: $(cat /tmp/client)"

echo "-- a black hole: kill -9"
rping -c -a 192.0.2.99 -p 7174 -v >/tmp/client 2>&1 &
client=$!
sleep 2
gone "$client" && die "it did not wait: $(cat /tmp/client)"
kill -9 "$client"
ended "$client" 1 client
nothing_left

echo "-- nobody listens"
timeout 20 rping -c -a 192.0.2.1 -p 7999 -v >/tmp/client 2>&1 && die "nobody answered"
grep -q 'REJECTED\|event 8' /tmp/client || die "not REJECTED: $(cat /tmp/client)"

echo "-- ${CYCLES:=20} devices, one after the other"
rdma link del swr0
for ((cycle = 0; cycle < CYCLES; cycle++)); do
    rdma link add swr0 type swrnic netdev dummy0 || die "cycle $cycle"
    pair - - 7174 "rping -s -a 192.0.2.1 -p 7174 -C 2" "rping -c -a 192.0.2.1 -p 7174 -C 2 -v"
    rdma link del swr0 || die "cycle $cycle"
done
rmmod swrnic || die "something holds the module"
echo passed
