# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# Connections under way, to a peer that never answers: they cost nothing while nothing happens, end with their process at once, and
# one user has no more of them than half of what the device allows.
# shellcheck shell=bash
. /functions

command -v startups >/dev/null || die "the guest's programs are not built"
modprobe swrnic || die "modprobe"
modprobe rdma_ucm
make_device swr0 dummy0 192.0.2.1/24 # which drops what is sent to others
chmod 666 /dev/infiniband/uverbs0 /dev/infiniband/rdma_cm # as Debian's udev rules have them
mount -t tracefs tracefs /sys/kernel/tracing 2>/dev/null
cd /sys/kernel/tracing || die "no tracefs"
export SWRNIC_TIMEOUT=3600
echo 12 >/proc/sys/net/ipv4/tcp_syn_retries # TCP gives up after two minutes, which a slow guest needs to begin them all

under_way() { grep -q 'under way' /tmp/startups || ! kill -0 "$pid"; }
begin() { # WANTED SECONDS
    startups 192.0.2.77 "$1" >/tmp/startups 2>&1 &
    pid=$!
    until_true "$2" under_way || die "after $2 s: $(cat /tmp/startups)"
    cat /tmp/startups
}
end() { # SECONDS
    kill -9 "$pid"
    until_true "$1" gone "$pid" || die "killed, and still there after $1 s"
}
looks() { # SECONDS: how often the module has looked at a connection in this time
    : >trace
    echo 1 >events/workqueue/workqueue_execute_start/enable
    sleep "$1"
    echo 0 >events/workqueue/workqueue_execute_start/enable
    grep -c 'function conn_work' trace
}

begin 300 $((60 * SLOW))
grep -q '^300 under way' /tmp/startups || die "fewer"
looked=$(looks 4)
echo "$looked looks at 300 connections in 4 s"
[ "$looked" -lt 60 ] || die "idle connections are looked at by a timer" # TCP sends the SYN again, which is no reason to look
end $((5 * SLOW))

begin 20000 $((240 * SLOW))
grep -q '^16384 under way: Cannot allocate memory' /tmp/startups || die "no bound, or another"
dmesg | grep 'user 1000 has 16384 connections or sockets under way' || die "nobody is told why"
end $((30 * SLOW))
cd /
nothing_left
rdma link del swr0
free_module
rmmod swrnic || die "something holds the module"
echo passed
