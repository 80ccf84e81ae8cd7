# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# Ports that others have taken, and devices that come while a wildcard listener runs.
# shellcheck shell=bash
. /functions

modprobe swrnic || die "modprobe"
make_device swr0 dummy0 192.0.2.1/24

# taken ADDRESS [NETDEV]: a plain TCP listener there, on port 7174, as $plain.
taken() {
    local before
    before=$(grep -c ':1C06 00000000:0000 0A' /proc/net/tcp)
    raw_mpa serve "$1" 7174 0 reject ${2+"$2"} >/tmp/plain 2>&1 &
    plain=$!
    until_true 10 eval "[ \$(grep -c ':1C06 00000000:0000 0A' /proc/net/tcp) -gt $before ]" || die "no plain listener on $1"
}
freed() {
    kill "$plain"
    wait "$plain" 2>/dev/null
    until_true 5 gone "$plain"
}

echo "-- a plain listener has the port"
for address in 192.0.2.1 0.0.0.0; do
    taken $address
    for where in "-a 192.0.2.1" ""; do
        # shellcheck disable=SC2086
        refused 'Address already in use' timeout 20 rping -s $where -p 7174 -C 1
    done
    freed
done
pair - - 7174 "rping -s -p 7174 -C 2" "rping -c -a 192.0.2.1 -p 7174 -C 2 -v"
nothing_left

echo "-- ports that connections of ours still linger on"
# lingering: the local ports of TIME_WAIT, but 7174.
lingering() { awk '$4 == "06" && $2 !~ /:1C06$/ {print $2}' /proc/net/tcp | cut -d : -f 2; }
cm_peer serve 192.0.2.1 7174 >/tmp/server 2>&1 &
server=$!
until_true 10 listening 7174 || die "the server does not listen: $(cat /tmp/server)"
for ((i = 0; i < 3; i++)); do timeout 20 cm_peer call 192.0.2.1 7174 7 >/tmp/client 2>&1 || die "$(cat /tmp/client)"; done
[ -n "$(lingering)" ] || die "nothing lingers: $(cat /proc/net/tcp)"
for port in $(lingering); do
    cm_peer serve 192.0.2.1 $((16#$port)) >/tmp/second 2>&1 &
    second=$!
    until_true 10 listening $((16#$port)) || die "no listener where a connection lingers: $(cat /tmp/second)"
    kill $second
done
kill $server
nothing_left

echo "-- a device that comes while a wildcard listener runs"
rping -s -P -p 7174 >/tmp/wildcard 2>&1 &
wildcard=$!
until_true 10 listening 7174 || die "no wildcard listener: $(cat /tmp/wildcard)"
make_device swr1 dummy1 198.51.100.1/24
# served ADDRESS
served() {
    timeout $((30 * SLOW)) rping -c -a "$1" -p 7174 -C 2 -v >/tmp/client 2>&1 || harmless_end "rping -C 2 -v" ||
        die "not served at $1: $(cat /tmp/client /tmp/wildcard)"
}
served 192.0.2.1
served 198.51.100.1

echo "-- a device that comes when its port has been taken by a plain listener"
ip link add dummy2 type dummy
ip addr add 203.0.113.1/24 dev dummy2
ip link set dummy2 up
taken 203.0.113.1 dummy2
rdma link add swr2 type swrnic netdev dummy2 || die "no third device"
served 192.0.2.1
served 198.51.100.1
# The wildcard listener is deaf there; the device is whole all the same.
pair - - 7175 "rping -s -a 203.0.113.1 -p 7175 -C 2" "rping -c -a 203.0.113.1 -p 7175 -C 2 -v"
dmesg | grep -q 'swrnic: .*swr2.*7174' || die "no word in the log: $(dmesg | tail -n 3)"
freed
kill -9 $wildcard
until_true 2 gone $wildcard || die "the wildcard listener does not end"
pair - - 7174 "rping -s -p 7174 -C 2" "rping -c -a 203.0.113.1 -p 7174 -C 2 -v"
nothing_left
for n in 0 1 2; do rdma link del swr$n || die "swr$n"; done
free_module
rmmod swrnic || die "something holds the module"
echo passed
