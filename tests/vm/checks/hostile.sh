# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# Strangers at the listener's door: it serves on, memory stays bounded, the log stays clean.
# shellcheck shell=bash
. /functions

command -v hostile_peer >/dev/null || die "the guest's programs are not built"
modprobe swrnic || die "modprobe"
make_device swr0 dummy0 192.0.2.1/24
free_kb() { awk '/MemAvailable/ {print $2}' /proc/meminfo; }
cm_peer serve 192.0.2.1 7174 >/tmp/server 2>&1 &
server=$!
until_true 10 listening 7174 || die "the server does not listen: $(cat /tmp/server)"
call() { timeout 30 cm_peer call 192.0.2.1 7174 "$1" >/tmp/client 2>&1 || die "private data of $1 octets: $(cat /tmp/client)"; }
for length in 0 1 254 255; do call $length; done
before=$(free_kb)
hostile_peer 192.0.2.1 7174 "${STRANGERS:-3000}" || die "the listener refuses strangers"
for length in 0 255; do call $length; done
used=$((before - $(free_kb)))
echo "memory used by it all: $used kB"
[ $used -lt 65536 ] || die "memory grows: $used kB"
kill -9 $server
until_true 5 gone $server || die "the server does not end"
nothing_left
[ "$(dmesg | grep -c -i 'swrnic')" -le 2 ] || die "the log is not clean: $(dmesg | grep -i swrnic)"
rdma link del swr0 && rmmod swrnic || die "something holds the module"
echo passed
