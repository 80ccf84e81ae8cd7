# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# perftest's six, with rdma_cm, over the addresses of one interface.
# shellcheck shell=bash
. /functions

modprobe swrnic || die "modprobe"
make_device swr0 dummy0 192.0.2.1/24 2001:db8::1/64
for test in ib_write_bw ib_read_bw ib_send_bw; do
    pair - - 18515 "$test -R -d swr0 -s 65536 -n 100 -F" "$test -R -d swr0 -s 65536 -n 100 -F 192.0.2.1"
    grep ' 65536 ' /tmp/client || die "$test gave no result: $(cat /tmp/client)"
done
for test in ib_write_lat ib_read_lat ib_send_lat; do
    pair - - 18515 "$test -R -d swr0 -s 64 -n 100 -F" "$test -R -d swr0 -s 64 -n 100 -F 192.0.2.1"
    grep ' 64 ' /tmp/client || die "$test gave no result: $(cat /tmp/client)"
done
pair - - 18515 "ib_send_lat -R -e -d swr0 -s 64 -n 100 -F" "ib_send_lat -R -e -d swr0 -s 64 -n 100 -F 192.0.2.1"
nothing_left
rdma link del swr0 && rmmod swrnic || die "something holds the module"
echo passed
