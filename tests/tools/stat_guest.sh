# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# In the guest, on the kernel module: what perftest moved is what `rdma statistic` and `swrnic stat` show.
# shellcheck shell=bash
# shellcheck disable=SC1091
. /functions

modprobe swrnic || die "modprobe"
make_device swr0 dummy0 192.0.2.1/24
modprobe rdma_ucm

# perftest PORT WORDS...: a server and, once it listens, a client on one device.
perftest() {
    local port=$1 server
    shift
    ib_write_bw -R -F -p "$port" "$@" >/tmp/server 2>&1 &
    server=$!
    until_true 20 listening "$port" || die "no server: $(cat /tmp/server)"
    ib_write_bw -R -F -p "$port" "$@" 192.0.2.1 >/tmp/client 2>&1 || die "the client: $(cat /tmp/client)"
    wait $server || die "the server: $(cat /tmp/server)"
}

# near NAME: this counter of the device is what was moved, within 1 %.
near() {
    local now
    now=$(cat "/sys/class/infiniband/swr0/ports/1/hw_counters/$1")
    echo "$1: $now, perftest: $moved"
    [ "$now" -ge "$moved" ] && [ "$now" -le $((moved + moved / 100)) ]
}

moved=$((400 * 65536))
perftest 18600 -s 65536 -n 400
until_true 3 near tx_bytes || die "$(near tx_bytes)"
near rx_bytes || die "$(near rx_bytes)"
expect "tx_bytes $(cat /sys/class/infiniband/swr0/ports/1/hw_counters/tx_bytes) " rdma statistic show link swr0/1

# The counters move while the program runs, and `swrnic stat` shows them: to their owner, and not to somebody else.
moving() { swrnic stat --json | grep -q '"tx_bytes":[1-9][0-9]\{6\}'; }
perftest 18601 -s 65536 -D 5 &
run=$!
until_true 20 moving || die "swrnic stat shows nothing that moves: $(swrnic stat)"
before=$(cat /sys/class/infiniband/swr0/ports/1/hw_counters/tx_bytes)
swrnic stat
expect 'ib_write_bw' swrnic stat
[ "$(as_nobody swrnic stat --json)" = '{"devices":[]}' ] || die "somebody else sees: $(as_nobody swrnic stat --json)"
further() { [ "$(cat /sys/class/infiniband/swr0/ports/1/hw_counters/tx_bytes)" -gt "$before" ]; }
until_true 3 further || die "rdma statistic stands still while perftest runs"
kill -0 $run || die "perftest had ended by then"
wait $run || die "perftest"
[ "$(swrnic stat --json)" = '{"devices":[]}' ] || die "something is left: $(swrnic stat --json)"
rdma link del swr0
rmmod swrnic || die "something holds the module"
echo passed
