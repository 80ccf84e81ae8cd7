# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# Wants --nfs.
# What an NFS operation by direct I/O costs the daemons of both ends together: calls to the module by their names, other system calls, and
# how often their threads are woken. Counted by the kernel's tracepoints, so that nothing runs otherwise than it does; what opening the
# file costs is shared among the operations. Fails where more calls are made, or threads woken more often, than NFS_LIMITS allows.
# shellcheck shell=bash
. /functions
. /nfs-functions

: "${NFS_BLOCKS:=65536 1048576}" "${NFS_MTUS:=1500 65535}" "${NFS_OCTETS:=8388608}"
# WHAT,MTU,BLOCK=CALLS,WAKES: of an operation, to the module, and of threads. Of 64 KiB each post and each message may wake one: three and
# four for a write, two and two for a read. An operation of 1 MiB is eight of 128 KiB for NFS.
: "${NFS_LIMITS:=write,1500,65536=12,7.5 read,1500,65536=12,4.5 write,1500,1048576=130,40 read,1500,1048576=100,30
    write,65535,65536=13,7.5 read,65535,65536=12,4.5 write,65535,1048576=130,40 read,65535,1048576=100,30}"

tracing=/sys/kernel/tracing
names=(SERVE QP_INFO FETCH COPY - EXECUTE INVALIDATE COMPLETE RECEIVE TRANSMIT) # by their numbers, from 0x80 on

# threads: of the daemons' workers, those that drive their engines.
threads() {
    local worker task
    # shellcheck disable=SC2086
    for worker in $(workers_of $daemon); do
        for task in "/proc/$worker/task"/*; do
            [ "$(cat "$task/comm")" != swrnic ] || echo "${task##*/}"
        done
    done
}

# any_of FIELD: a filter that takes what has one of the threads there.
any_of() {
    local filter='' thread
    for thread in $(threads); do filter+="${filter:+ || }$1 == $thread"; done
    echo "$filter"
}

# trigger EVENT KEY FIELD: from now on the event is counted by KEY. The same with a ! before the first ends it.
trigger() {
    local event=${1#!}
    echo "${1%"$event"}hist:keys=$2 if $(any_of "$3")" >"$tracing/events/$event/trigger" || die "no trigger for $event"
}
triggers() {
    trigger "${1-}syscalls/sys_enter_ioctl" cmd common_pid
    trigger "${1-}raw_syscalls/sys_enter" id common_pid
    trigger "${1-}sched/sched_wakeup" pid pid
}
# counted EVENT: a line for each key, and how often it was there.
counted() { sed -nE 's/^\{ [a-z_]*: *([0-9]+).*\} hitcount: *([0-9]+).*/\1 \2/p' "$tracing/events/$1/hist"; }

operation() { # WHAT BLOCK COUNT
    if [ "$1" = write ]; then
        dd if=/tmp/source of=/mnt/file bs="$2" count="$3" oflag=direct conv=notrunc 2>/tmp/dd || die "write: $(cat /tmp/dd)"
    else
        dd if=/mnt/file of=/dev/null bs="$2" count="$3" iflag=direct 2>/tmp/dd || die "read: $(cat /tmp/dd)"
    fi
}

# row WHAT MTU BLOCK: a line of the table; what is over its limit is told of.
row() {
    local count=$((NFS_OCTETS / $3)) limit
    limit=$(tr -s ' ' '\n' <<<"$NFS_LIMITS" | sed -n "s/^$1,$2,$3=//p")
    operation "$1" "$3" 4 # what is done once is done now
    triggers
    operation "$1" "$3" "$count"
    sleep 0.2 # the last completions
    counted syscalls/sys_enter_ioctl >/tmp/calls
    counted raw_syscalls/sys_enter >/tmp/all
    counted sched/sched_wakeup >/tmp/wakes
    triggers '!'
    awk -v what="$1" -v mtu="$2" -v block="$3" -v count="$count" -v limit="$limit" -v names="${names[*]}" '
        BEGIN { split(names, name, " "); split(limit, most, ",") }
        FILENAME == "/tmp/calls" {
            if (int($1 / 256) % 256 != 115 || $1 % 256 < 128) next
            calls += $2
            by[$1 % 256 - 127] += $2
        }
        FILENAME == "/tmp/all" {
            total += $2
            if ($1 == 0) other["read"] += $2
            else if ($1 == 281) other["epoll"] += $2
            else if ($1 == 45 || $1 == 47) other["recv"] += $2
            else if ($1 == 44 || $1 == 46) other["send"] += $2
            else if ($1 != 16) other["rest"] += $2
        }
        FILENAME == "/tmp/wakes" { wakes += $2 }
        END {
            printf "%s, %d KiB, MTU %d: %.1f calls, %.1f others, woken %.1f times;", what, block / 1024, mtu, calls / count, (total - calls) / count, wakes / count
            for (i = 1; i <= 10; i++) if (by[i]) printf " %s %.1f", name[i], by[i] / count
            for (i in other) printf " %s %.1f", i, other[i] / count
            print ""
            if (!calls) print what, mtu, block ": nothing is counted" >"/tmp/over"
            if (limit && calls / count > most[1]) print what, mtu, block ":", calls / count, "calls, more than", most[1] >"/tmp/over"
            if (limit && wakes / count > most[2]) print what, mtu, block ":", wakes / count, "wake-ups, more than", most[2] >"/tmp/over"
        }' /tmp/calls /tmp/all /tmp/wakes
    [ ! -s /tmp/over ] || die "$(cat /tmp/over)"
}

mount -t tracefs tracefs $tracing || die "this kernel traces nothing"
make_ends
start_daemon
start_server
random_file /tmp/source "$NFS_OCTETS"
cp /tmp/source /export/file
for mtu in $NFS_MTUS; do
    ip link set v1 mtu "$mtu"
    ip -n n2 link set v2 mtu "$mtu"
    mount_nfs 4.2
    for block in $NFS_BLOCKS; do
        for what in write read; do row $what "$mtu" "$block"; done
    done
    umount_nfs
done
same /tmp/source /export/file
end_nfs
echo passed
