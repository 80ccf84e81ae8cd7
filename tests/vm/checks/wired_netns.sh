# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# Wired queue pairs between two network namespaces; and who is in another namespace than the device's interface is not wired.
# shellcheck shell=bash
. /functions

modprobe swrnic || die "modprobe"
two_namespaces
for test in ib_write_bw ib_read_bw ib_send_bw ib_write_lat ib_read_lat ib_send_lat; do
    size=65536
    case $test in *lat) size=64 ;; esac
    pair n1 n2 18515 "$test -d swr1 -s $size -n 50 -F" "$test -d swr2 -s $size -n 50 -F 10.9.0.1"
    grep -q " $size " /tmp/client || die "$test gave no result: $(cat /tmp/client)"
    echo "$test: passed"
done
for index in 1 2; do # IPv4, IPv6
    pair n1 n2 18515 "ibv_rc_pingpong -d swr1 -g $index" "ibv_rc_pingpong -d swr2 -g $index 10.9.0.1"
    grep -q '1000 iters in ' /tmp/client || die "ibv_rc_pingpong: $(cat /tmp/client)"
done
echo "ibv_rc_pingpong: passed"
in_ns n1 timeout $((60 * SLOW)) wired swr1 10.9.0.1 pair || die "not wired in its own namespace"
timeout $((60 * SLOW)) wired swr1 10.9.0.1 pair >/tmp/said 2>&1 && die "wired from another namespace"
grep -q 'RTR (Invalid argument)' /tmp/said || die "from another namespace: $(cat /tmp/said)"
[ "$(wc -l </proc/net/tcp)" = 1 ] || die "it took a port here: $(cat /proc/net/tcp)"
nothing_left
for n in 1 2; do rdma link del swr$n; done
free_module
rmmod swrnic || die "something holds the module"
echo passed
