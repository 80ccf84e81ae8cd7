# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# Ten thousand connections that never complete their Request (two thousand on the debug kernel): memory is bounded, and the listener
# serves on.
# shellcheck shell=bash
. /functions

command -v raw_mpa >/dev/null || die "the guest's programs are not built"
: "${STRANGERS:=$((SLOW > 1 ? 2000 : 10000))}"
modprobe swrnic || die "modprobe"
make_device swr0 dummy0 192.0.2.1/24 192.0.2.2/24
nothing_lingers
free_kb() { awk '/MemAvailable/ {print $2}' /proc/meminfo; }
cm_peer serve 192.0.2.1 7174 >/tmp/server 2>&1 &
server=$!
until_true 10 listening 7174 || die "the server does not listen: $(cat /tmp/server)"
call() { timeout $((30 * SLOW)) cm_peer call 192.0.2.1 7174 7 >/tmp/client 2>&1 || die "not served ($1): $(cat /tmp/client)"; }
for ((i = 0; i < 5; i++)); do call "before"; done
slabs /tmp/slabs.before
before=$(free_kb)

raw_mpa half 192.0.2.1 7174 "$STRANGERS" >/tmp/strangers 2>&1 &
strangers=$!
for ((i = 0; i < 20; i++)); do call "while they come"; done
until_true 300 grep -q open /tmp/strangers || die "they do not get in: $(cat /tmp/strangers)"
[ "$(cut -d ' ' -f 2 /tmp/strangers)" -ge $((STRANGERS * 9 / 10)) ] || die "not as many as they should be: $(cat /tmp/strangers)"
for ((i = 0; i < 5; i++)); do call "with all of them there"; done
pair - - 7175 "rping -s -a 192.0.2.1 -p 7175 -C 3" "rping -c -a 192.0.2.1 -I 192.0.2.2 -p 7175 -C 3 -v"
# Both ends of each connection live in this guest; the strangers' own sockets are most of it.
used=$((before - $(free_kb)))
echo "with $(cat /tmp/strangers): $used kB"
[ $used -lt $((STRANGERS * 16)) ] || die "memory grows: $used kB"
kept=$(cut -d " " -f 1 /sys/kernel/slab/TCP/objects)
echo "TCP sockets: $kept"
kill -9 $strangers
until_true 30 gone $strangers || die "the strangers do not end"
call "after them"
kill -9 $server
until_true 5 gone $server || die "the server does not end"
nothing_left
sleep 12 # a startup's deadline
# Not one object for every twentieth of them; a page or two of the smallest objects is nothing.
not_grown /tmp/slabs.before $((STRANGERS / 20 > 256 ? STRANGERS / 20 : 256))
[ "$(dmesg | grep -c -i 'swrnic')" -le 2 ] || die "the log is not clean: $(dmesg | grep -i swrnic)"
rdma link del swr0
free_module
rmmod swrnic || die "something holds the module"
echo passed
