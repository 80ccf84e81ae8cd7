# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# Queue pairs that programs wire themselves, without rdma_cm: perftest's six as people type them, the pingpongs, and what no program does.
# shellcheck shell=bash
. /functions

# gid_of DEVICE ADDRESS: the index of the GID that is this IPv4 address.
gid_of() {
    local text i
    # shellcheck disable=SC2046,SC2183
    text=$(printf '0000:0000:0000:0000:0000:ffff:%02x%02x:%02x%02x' $(tr . ' ' <<<"$2"))
    for ((i = 0; i < 256; i++)); do
        [ "$(cat "/sys/class/infiniband/$1/ports/1/gids/$i")" != "$text" ] || break
    done
    [ $i -lt 256 ] || die "no GID $text"
    echo $i
}

bound() { tcp_sockets | wc -l; }

modprobe swrnic || die "modprobe"
nothing_lingers
make_device swr0 dummy0 192.0.2.1/24 2001:db8::1/64
index=$(gid_of swr0 192.0.2.1) || die "$index"
[ "$index" = 1 ] || die "the IPv4 address is GID $index"
expect '^fe80:' cat /sys/class/infiniband/swr0/ports/1/gids/0
before=$(bound)
for step in numbers itself pair refused strangers given_up; do
    timeout $((60 * SLOW)) wired swr0 192.0.2.1 $step >/tmp/said 2>&1 || die "$step returned $?: $(cat /tmp/said)"
    nothing_left
    echo "$step: passed"
done
timeout $((60 * SLOW)) wired swr0 192.0.2.1 nobody >/tmp/said 2>&1
[ $? = 137 ] || die "nobody: $(cat /tmp/said)"
nothing_left
echo "nobody: passed"
timeout $((60 * SLOW)) wired swr0 192.0.2.1 storm >/tmp/said 2>&1 || die "storm returned $?: $(cat /tmp/said)"
nothing_left
echo "storm: passed"

for test in ib_write_bw ib_read_bw ib_send_bw ib_write_lat ib_read_lat ib_send_lat; do
    size=65536
    case $test in *lat) size=64 ;; esac
    pair - - 18515 "$test -d swr0 -s $size -n 100 -F" "$test -d swr0 -s $size -n 100 -F 192.0.2.1"
    grep -q " $size " /tmp/client || die "$test gave no result: $(cat /tmp/client)"
    echo "$test: passed"
done
pair - - 18515 "ib_write_bw -d swr0 -q 16 -n 100 -F" "ib_write_bw -d swr0 -q 16 -n 100 -F 192.0.2.1"
# ibv_srq_pingpong polls 20 completions for each event, and of its 16 QPs there may be 32: with -e it has fewer.
for command in ibv_rc_pingpong "ibv_rc_pingpong -e" "ibv_rc_pingpong -s 65536" ibv_srq_pingpong "ibv_srq_pingpong -e -q 8"; do
    pair - - 18515 "$command -d swr0 -g $index" "$command -d swr0 -g $index 192.0.2.1"
    grep -q '1000 iters in ' /tmp/client || die "$command: $(cat /tmp/client)"
done
echo "pingpongs: passed"
pair - - 18515 "ibv_rc_pingpong -d swr0 -g 0" "ibv_rc_pingpong -d swr0 -g 0 192.0.2.1"
echo "the first GID: passed"
nothing_left
bound_as_before() { [ "$(bound)" = "$before" ]; }
until_true 5 bound_as_before || die "sockets stay: $(tcp_sockets)"
rdma link del swr0 && free_module && rmmod swrnic || die "something holds the module"
echo passed
