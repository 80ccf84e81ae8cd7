# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# A process on the module wired to one that runs on the userspace shim, in the same guest: either may be the server.
# shellcheck shell=bash
. /functions

modprobe swrnic || die "modprobe"
make_device swr0 dummy0 192.0.2.1/24
ip link set lo up
shim="/opt/swrnic/bin/swrnic run --only --"
# shellcheck disable=SC2086
expect 'transport.*iWARP' $shim ibv_devinfo
for test in ib_write_bw ib_read_bw ib_send_bw ib_write_lat ib_read_lat ib_send_lat; do
    size=65536
    case $test in *lat) size=64 ;; esac
    pair - - 18515 "$test -d swr0 -s $size -n 100 -F" "$shim $test -s $size -n 100 -F 192.0.2.1"
    grep -q " $size " /tmp/client || die "$test gave no result: $(cat /tmp/client)"
    pair - - 18515 "$shim $test -s $size -n 100 -F" "$test -d swr0 -s $size -n 100 -F 192.0.2.1"
    grep -q " $size " /tmp/client || die "$test gave no result: $(cat /tmp/client)"
    echo "$test: passed"
done
for i in 1 2 3 4 5; do # which end calls is chance
    pair - - 18515 "ibv_rc_pingpong -d swr0 -g 1" "$shim ibv_rc_pingpong -g 1 192.0.2.1"
    grep -q '1000 iters in ' /tmp/client || die "ibv_rc_pingpong $i: $(cat /tmp/client)"
done
echo "ibv_rc_pingpong: passed"
nothing_left
rdma link del swr0 && free_module && rmmod swrnic || die "something holds the module"
echo passed
