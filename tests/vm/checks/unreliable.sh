# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# UC and UD over the module: perftest and the pingpongs as people type them, the unit tests of the verbs that speak of either, on a device
# on lo, and what the kernel's rdma_cm refuses.
# shellcheck shell=bash
. /functions

command -v verbs_test >/dev/null || die "the guest's programs are not built"
modprobe swrnic || die "modprobe"
make_device swr0 dummy0 192.0.2.1/24 2001:db8::1/64
for test in ib_send_bw ib_write_bw ib_send_lat ib_write_lat; do
    size=65536
    case $test in *lat) size=64 ;; esac
    pair - - 18515 "$test -c UC -d swr0 -s $size -n 100 -F" "$test -c UC -d swr0 -s $size -n 100 -F 192.0.2.1"
    grep -q " $size " /tmp/client || die "$test -c UC gave no result: $(cat /tmp/client)"
    echo "$test -c UC: passed"
done
# Not ib_send_bw: on iWARP it sends its credits by RDMA Write, which no UD QP has.
pair - - 18515 "ib_send_lat -c UD -d swr0 -s 1024 -n 100 -F" "ib_send_lat -c UD -d swr0 -s 1024 -n 100 -F 192.0.2.1"
grep -q ' 1024 ' /tmp/client || die "ib_send_lat -c UD gave no result: $(cat /tmp/client)"
echo "ib_send_lat -c UD: passed"
for index in 1 2; do # IPv4, IPv6
    for command in ibv_uc_pingpong "ibv_uc_pingpong -e" "ibv_ud_pingpong -s 1024" "ibv_ud_pingpong -s 1024 -e"; do
        pair - - 18515 "$command -d swr0 -g $index" "$command -d swr0 -g $index 192.0.2.1"
        grep -q '1000 iters in ' /tmp/client || die "$command: $(cat /tmp/client)"
    done
done
echo "pingpongs: passed"
nothing_left

# An iWARP port of the kernel's rdma_cm has connections alone, and no multicast.
refused 'Invalid argument' timeout $((20 * SLOW)) udaddy -b 192.0.2.1 -s 192.0.2.1
refused 'Function not implemented\|Invalid argument' timeout $((20 * SLOW)) mckey -m 239.192.7.21 -b 192.0.2.1
nothing_left
rdma link del swr0 || die "rdma link del"
ip link set lo address 02:00:00:00:00:01 || die "no MAC for lo"
# Through lo goes no multicast of IPv6, and without such an address the tests pass it over.
echo 1 >/proc/sys/net/ipv6/conf/lo/disable_ipv6
rdma link add swr0 type swrnic netdev lo || die "no device on lo"
# Not what the module does otherwise: a QP that is attached to a group is not destroyed, and no GID is of a type that ibv_init_ah_from_wc
# wants.
for tests in 'Uc.*' 'Ud.*-Ud.DescriptorsComeAndGo:Ud.AnAnswerGoesWhereTheGrhSays'; do
    timeout $((100 * SLOW)) verbs_test --gtest_brief=1 --gtest_filter="$tests" || die "verbs_test $tests: $?"
done
echo 0 >/proc/sys/net/ipv6/conf/lo/disable_ipv6
nothing_left
[ "$(wc -l </proc/net/udp)" = 1 ] && [ "$(wc -l </proc/net/udp6)" = 1 ] || die "sockets stay: $(cat /proc/net/udp /proc/net/udp6)"
rdma link del swr0 && free_module && rmmod swrnic || die "something holds the module"
echo passed
