# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# A consumer in the kernel and swrnicd: each kind of request between two QPs, both ways, with what must change changed and nothing else;
# regions that end when they are invalidated; ends by disconnect and by drain.
# shellcheck shell=bash
. /functions

command -v swrnicd >/dev/null || die "swrnicd is not built"
modprobe -a swrnic ib_uverbs || die "modprobe"
make_device swr0 dummy0 192.0.2.1/24

parameter() { cat /sys/module/consumer/parameters/"$1"; }
consumer_done() { [ "$(parameter verdict)" != 0 ]; }
serving() { grep -q ': serving$' /tmp/swrnicd; }

SWRNIC_LOG=info swrnicd >/tmp/swrnicd 2>&1 &
daemon=$!
until_true 20 serving || die "swrnicd serves not: $(tail -n 5 /tmp/swrnicd)"
# Who talks to peers has no rights; who opens devices keeps one.
rights() { sed -nE "s/^(Uid|CapPrm|CapEff|CapInh|CapAmb):\t([0-9a-f]+).*/\1 \2/p" "/proc/$1/status" | tr '\n' ' '; }
none='Uid 65534 CapInh 0000000000000000 CapPrm 0000000000000000 CapEff 0000000000000000 CapAmb 0000000000000000 '
read -ra workers <<<"$(workers_of $daemon)"
[ "${#workers[@]}" = "$(nproc)" ] || die "${#workers[@]} workers"
for worker in "${workers[@]}"; do
    [ "$(rights "$worker")" = "$none" ] || die "the worker's rights: $(rights "$worker")"
done
[ "$(rights $daemon)" = 'Uid 0 CapInh 0000000000000000 CapPrm 00000000002000c0 CapEff 00000000002000c0 CapAmb 0000000000000000 ' ] ||
    die "the daemon's rights: $(rights $daemon)"

# all_is_done ROUNDS BAD ARGUMENT...: BAD completions of each side without success.
all_is_done() {
    local rounds=$1 bad=$2
    shift 2
    modprobe consumer patient=1 rounds="$rounds" hold_ms=8000 "$@" || die "modprobe consumer"
    until_true 200 consumer_done || die "the consumer hangs after $(parameter rounds_done) rounds: $(tail -n 5 /tmp/swrnicd)"
    [ "$(parameter verdict)" = 1 ] || die "the consumer: $(dmesg | grep consumer: | tail -n 5) $(tail -n 5 /tmp/swrnicd)"
    # Of each side: four registrations and invalidations before, one after; a Write, a Read, four Sends, four receives.
    [ "$(parameter good)" = $((rounds * 2 * 15)) ] || die "$(parameter good) completions with success"
    [ "$(parameter bad)" = $((rounds * 2 * bad)) ] || die "$(parameter bad) completions without"
}
all_is_done 20 4 # what was left in the receive queues
rmmod consumer
all_is_done 20 0 srq=1 # what is left stays in the shared one
for event in limits lasts; do
    [ "$(parameter $event)" = 40 ] || die "$(parameter $event) $event: one for each shared queue is expected"
done
rmmod consumer

# The client goes before the server accepts it: that is no error, but a connection that ends at once.
modprobe consumer forsaken=1 rounds=3 || die "modprobe consumer"
until_true 60 consumer_done || die "the consumer hangs after $(parameter rounds_done) rounds"
[ "$(parameter verdict)" = 1 ] || die "the consumer: $(dmesg | grep consumer: | tail -n 5)"
rmmod consumer

# The daemon stands still while requests are under way that the consumer waits for without a limit of its own: they end. Then it goes on.
more_rounds() { [ "$(parameter rounds_done)" -gt "$1" ]; }
more_good() { [ "$(parameter good)" -gt "$1" ]; }
is_paused() { [ "$(parameter paused)" = Y ]; }
modprobe consumer rounds=100000 hold_ms=600000 pause_ms=$((3000 * SLOW)) || die "modprobe consumer"
until_true 60 is_paused || die "no connection"
kill -STOP "${workers[@]}"
at=$(parameter rounds_done)
until_true 60 more_rounds "$at" || die "the consumer waits for a daemon that stands still"
dmesg | grep -q 'stands still' || die "the log does not say that it stands still"
kill -CONT "${workers[@]}"
echo 0 >/sys/module/consumer/parameters/pause_ms
until_true 90 more_good $(($(parameter good) + 30)) || die "it does not go on: $(tail -n 5 /tmp/swrnicd)"

# A worker dies: its QPs end, another takes its place, and the rest stay.
another_instead_of() {
    local now
    now=" $(workers_of $daemon) "
    [[ $now != *" $1 "* && $now == *" ${workers[0]} "* && $(wc -w <<<"$now") = "${#workers[@]}" ]]
}
kill -9 "${workers[-1]}"
until_true 20 another_instead_of "${workers[-1]}" || die "workers: $(workers_of $daemon), of ${workers[*]}: $(tail -n 5 /tmp/swrnicd)"
until_true 90 more_good $(($(parameter good) + 30)) || die "it does not go on: $(tail -n 5 /tmp/swrnicd)"
rmmod consumer
kill $daemon
wait $daemon || die "swrnicd ended with $?: $(tail -n 5 /tmp/swrnicd)"

# Within one host there is no CRC, and frames are large, unless the daemon's settings say otherwise. Bit 0 of the flags is the one, bit 3
# the other.
all_connections_have() { [ -n "$flags" ] && [ -z "$(tr ' ' '\n' <<<"$flags" | grep -v "$1")" ]; }
connections() { flags=$(sed -n 's/.*, flags 0x\([0-9a-f]*\), IRD.*/\1/p' /tmp/swrnicd | sort -u | xargs); }
connections
all_connections_have '[8ace]$' || die "connections with flags $flags"
SWRNIC_LOG=info SWRNIC_CRC=on SWRNIC_FPDU=emss swrnicd >/tmp/swrnicd 2>&1 &
daemon=$!
until_true 20 serving || die "swrnicd serves not: $(tail -n 5 /tmp/swrnicd)"
all_is_done 3 4
rmmod consumer
connections
all_connections_have '[1357]$' || die "connections with CRC and frames of segments have flags $flags"
kill $daemon
wait $daemon || die "swrnicd ended with $?: $(tail -n 5 /tmp/swrnicd)"
nothing_left
rdma link del swr0 && rmmod swrnic || die "something holds the module"
echo passed
