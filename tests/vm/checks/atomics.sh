# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# Immediate data and atomics over the module: perftest's atomics by rdma_cm and without, and the unit tests of the verbs that speak of
# either, on a device on lo.
# shellcheck shell=bash
. /functions

command -v verbs_test >/dev/null || die "the guest's programs are not built"
modprobe swrnic || die "modprobe"
make_device swr0 dummy0 192.0.2.1/24
expect 'atomic_cap:.*ATOMIC_GLOB' ibv_devinfo -v -d swr0
for test in ib_atomic_bw ib_atomic_lat; do
    for kind in FETCH_AND_ADD CMP_AND_SWAP; do
        for way in "" "-R "; do
            command="$test $way-d swr0 -A $kind -n 100 -F"
            pair - - 18515 "$command" "$command 192.0.2.1"
            grep -q '^ *8 *100 ' /tmp/client || die "$command gave no result: $(cat /tmp/client)"
        done
        echo "$test $kind: passed"
    done
done
nothing_left
rdma link del swr0 || die "rdma link del"
ip link set lo address 02:00:00:00:00:01 || die "no MAC for lo"
rdma link add swr0 type swrnic netdev lo || die "no device on lo"
timeout $((100 * SLOW)) verbs_test --gtest_brief=1 --gtest_filter='Way/Rfc7306*:Rfc7306*' || die "verbs_test: $?"
nothing_left
rdma link del swr0 && free_module && rmmod swrnic || die "something holds the module"
echo passed
