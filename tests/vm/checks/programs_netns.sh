# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# The programs between two network namespaces over veth, IPv4 and IPv6. perftest's -R, qperf's -cm1 and rcopy's HOST:FILE know IPv4
# only ("Address family for hostname not supported"; perftest's --ipv6 is for GIDs).
# shellcheck shell=bash
. /functions

modprobe swrnic || die "modprobe"
two_namespaces
for address in 10.9.0.1 2001:db8:9::1; do
    pair n1 n2 7174 "rping -s -a $address -p 7174 -C 5" "rping -c -a $address -p 7174 -C 5 -v"
    echo "$address: rping: passed"
done
for test in ib_write_bw ib_read_bw ib_send_bw ib_write_lat ib_read_lat ib_send_lat; do
    size=65536
    case $test in *lat) size=64 ;; esac
    pair n1 n2 18515 "$test -R -d swr1 -s $size -n 50 -F" "$test -R -d swr2 -s $size -n 50 -F 10.9.0.1"
    grep -q " $size " /tmp/client || die "$test gave no result: $(cat /tmp/client)"
    echo "$test: passed"
done
for address in 10.9.0.1 2001:db8:9::1; do
    pair n1 n2 7471 "ucmatose -b $address -c 4" "ucmatose -s $address -c 4"
    grep -q 'return status 0' /tmp/client || die "ucmatose: $(cat /tmp/client)"
    pair n1 n2 7471 "rstream -b $address -S 65536 -C 50" "rstream -s $address -S 65536 -C 50"
    echo "$address: ucmatose, rstream: passed"
done
head -c 1000000 /dev/urandom >/tmp/source
in_ns n1 timeout $((60 * SLOW)) rcopy >/tmp/server 2>&1 &
server=$!
until_true 10 in_ns n1 bash -c '. /functions; listening 7427' || die "rcopy does not listen: $(cat /tmp/server)"
in_ns n2 timeout $((60 * SLOW)) rcopy /tmp/source 10.9.0.1:/tmp/copy || die "rcopy: $? $(cat /tmp/server)"
cmp /tmp/source /tmp/copy || die "rcopy changed the file"
busybox killall rcopy # not $server, which is a shell
wait $server
in_ns n1 timeout $((100 * SLOW)) qperf >/tmp/server 2>&1 &
server=$!
until_true 10 in_ns n1 bash -c '. /functions; listening 19765' || die "qperf does not listen"
qperf_client in_ns n2 timeout $((60 * SLOW)) qperf -cm1 -t 1 10.9.0.1 rc_bw rc_lat
busybox killall qperf
wait $server
nothing_left
for n in 1 2; do rdma link del swr$n; done
free_module
rmmod swrnic || die "something holds the module"
echo passed
