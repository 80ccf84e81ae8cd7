# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# In the guest, as /check of `run --checks`: the checks named in /batch one after the other, each from a clean state. Fails when one of them
# has failed, at the end.
# shellcheck shell=bash

# What a check leaves behind, the next must not find.
clean_up() {
    local pid namespace device netdev module i
    for pid in /proc/[0-9]*; do
        pid=${pid#/proc/}
        [ "$pid" -gt 1 ] && [ "$pid" != $$ ] && [ -n "$(readlink "/proc/$pid/exe")" ] && kill -9 "$pid"
    done 2>/dev/null
    sleep 0.5
    for namespace in $(ip netns list | cut -d ' ' -f 1); do ip netns del "$namespace"; done
    for device in $(rdma link | sed -n 's/^link \([^/]*\).*/\1/p'); do rdma link del "$device"; done
    for netdev in /sys/class/net/*; do
        netdev=${netdev##*/}
        case $netdev in lo | eth0) ;; *) ip link del "$netdev" 2>/dev/null ;; esac
    done
    rdma system set netns shared 2>/dev/null
    echo "$timewait" >/proc/sys/net/ipv4/tcp_max_tw_buckets
    ip link set lo mtu 65536
    for ((i = 0; i < 20; i++)); do
        rmmod swrnic 2>/dev/null
        [ -e /sys/module/swrnic ] || break
        sleep 0.5
    done
    for module in rdma_ucm rdma_cm ib_cm iw_cm ib_uverbs; do rmmod $module 2>/dev/null; done
    rm -rf /tmp/*
}

timewait=$(cat /proc/sys/net/ipv4/tcp_max_tw_buckets)
failed=0
while read -r check; do
    begin=$SECONDS
    bash "/checks/$check.sh" >/run/said 2>&1 </dev/null
    status=$?
    echo "$check: status $status, $((SECONDS - begin)) s"
    if [ $status != 0 ]; then
        failed=$((failed + 1))
        tail -n 20 /run/said
    fi
    clean_up
    dmesg -c >/dev/port-dmesg # some checks count the log's lines
done <<<"$(tr -s ' ' '\n' </batch)"
[ $failed = 0 ]
