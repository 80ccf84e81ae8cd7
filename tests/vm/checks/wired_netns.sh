# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# Wired queue pairs and groups between two network namespaces; and who is in another namespace than the device's interface is not wired.
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
for group in ::ffff:239.192.7.11 ff0e::ffff:239.192.7.12 ff15::7:11; do
    members=()
    for member in 1 2; do
        in_ns n1 timeout $((60 * SLOW)) group_member listen $group 20 swr1 >/tmp/member-$member 2>&1 &
        members+=($!)
        until_true 20 grep -q joined /tmp/member-$member || die "no member of $group: $(cat /tmp/member-$member)"
    done
    # A link that has just come up sends to no group of IPv6 for a second.
    for try in 1 2 3 4; do
        in_ns n2 timeout $((60 * SLOW)) group_member send $group 20 swr2 || die "nothing is sent to $group"
        if gone "${members[0]}" && gone "${members[1]}"; then break; fi
        sleep 1
    done
    for member in "${members[@]}"; do wait "$member" || die "$group: a member ends with $? after $try tries"; done
    echo "$group: heard by both"
done
in_ns n1 timeout $((60 * SLOW)) wired swr1 10.9.0.1 pair || die "not wired in its own namespace"
timeout $((60 * SLOW)) wired swr1 10.9.0.1 pair >/tmp/said 2>&1 && die "wired from another namespace"
grep -q 'RTR (Invalid argument)' /tmp/said || die "from another namespace: $(cat /tmp/said)"
[ -z "$(tcp_sockets)" ] || die "it took a port here: $(tcp_sockets)"
nothing_left
for n in 1 2; do rdma link del swr$n; done
free_module
rmmod swrnic || die "something holds the module"
echo passed
