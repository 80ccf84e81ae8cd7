# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# More programs that know nothing of us: ucmatose, rstream, rcopy, qperf.
# shellcheck shell=bash
. /functions

modprobe swrnic || die "modprobe"
make_device swr0 dummy0 192.0.2.1/24 2001:db8::1/64
pair - - 7471 "ucmatose -b 192.0.2.1 -c 4" "ucmatose -s 192.0.2.1 -c 4"
grep 'return status 0' /tmp/client || die "ucmatose: $(cat /tmp/client)"
pair - - 7471 "rstream -b 192.0.2.1 -S 65536 -C 100" "rstream -s 192.0.2.1 -S 65536 -C 100"
tail -n 1 /tmp/client
head -c 3000000 /dev/urandom >/tmp/source
timeout 60 rcopy >/tmp/server 2>&1 &
server=$!
until_true 10 listening 7427 || die "rcopy does not listen: $(cat /tmp/server)"
timeout 60 rcopy /tmp/source 192.0.2.1:/tmp/copy || die "rcopy: $? $(cat /tmp/server)"
cmp /tmp/source /tmp/copy || die "rcopy changed the file"
kill $server
wait $server
timeout 100 qperf >/tmp/server 2>&1 &
server=$!
until_true 10 listening 19765 || die "qperf does not listen"
qperf_client timeout 60 qperf -cm1 -t 1 192.0.2.1 rc_bw rc_lat
kill $server
wait $server
nothing_left
rdma link del swr0 && rmmod swrnic || die "something holds the module"
echo passed
