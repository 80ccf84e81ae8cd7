# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# Wants --nfs.
# Four clients at once beside one: four mounts from one device, each of another address of the server's, so that each has a connection of
# its own. Together they must not be slower than one is alone. Emulated, so only the ratio means anything; each is the median of its runs.
# shellcheck shell=bash
. /functions
. /nfs-functions

: "${NFS_BIG:=4194304}" "${NFS_BLOCKS:=65536 1048576}" "${NFS_RUNS:=5}" "${NFS_LEAST:=1}"
clients='1 2 3 4' sockets=''

# mount_client N: /mnt/N. Version 3, whose client does not find out that the addresses are of one server.
mount_client() {
    mkdir -p "/mnt/$1"
    ip addr add "10.9.0.1$1/24" dev v1
    in_client timeout $((60 * SLOW)) mount.nfs "10.9.0.1$1:/export" "/mnt/$1" -o "$(options 3 rdma),nosharecache" ||
        die "mount of client $1: $? $(dmesg | tail -n 5)"
}

# rate COMMAND BLOCK CLIENT...: MiB/s of all of them together.
rate() {
    local what=$1 block=$2 begin end client process processes=()
    shift 2
    begin=${EPOCHREALTIME/./}
    for client in "$@"; do
        "$what" "$client" "$block" &
        processes+=($!)
    done
    for process in "${processes[@]}"; do wait "$process" || die "$what: $(cat /tmp/dd.*)"; done
    end=${EPOCHREALTIME/./}
    awk -v octets=$((NFS_BIG * $#)) -v us=$((end - begin)) 'BEGIN { printf "%.2f\n", octets / 1048576 * 1000000 / us }'
}
write_file() { dd if=/tmp/source of="/mnt/$1/file$1" bs="$2" oflag=direct conv=notrunc 2>"/tmp/dd.$1"; }
read_file() { dd if="/mnt/$1/file$1" of=/dev/null bs="$2" iflag=direct 2>"/tmp/dd.$1"; }

make_ends
start_daemon
start_server
random_file /tmp/source "$NFS_BIG"
for client in $clients; do
    cp /tmp/source "/export/file$client"
    mount_client "$client"
done
[ "$(rdma resource show qp link end1/1 | grep -c 'comm \[')" = 4 ] || die "not four connections: $(rdma resource show qp)"
# Of each end's four connections each of its workers has as many as the others; one more socket is its line to its parent.
workers=0
# shellcheck disable=SC2086
for worker in $(workers_of $daemon); do
    workers=$((workers + 1))
    sockets+=" $(for fd in "/proc/$worker/fd"/*; do readlink "$fd"; done | grep -c socket:)"
done
[ "$(xargs -n 1 <<<"$sockets" | sort -u)" = $((2 * 4 / workers + 1)) ] || die "the workers' sockets: $sockets"
printf '%-24s %10s %10s %8s\n' "NFS 3, direct, MiB/s" 'one' 'four' 'ratio'
for block in $NFS_BLOCKS; do
    rm -f /tmp/*.rate
    for ((run = 0; run < NFS_RUNS; run++)); do
        for what in write_file read_file; do
            rate $what "$block" 1 >>/tmp/$what.one.rate
            # shellcheck disable=SC2086
            rate $what "$block" $clients >>/tmp/$what.four.rate
        done
    done
    for what in write_file read_file; do
        awk -v what="${what%_file}, $block" -v one="$(median </tmp/$what.one.rate)" -v four="$(median </tmp/$what.four.rate)" -v least="$NFS_LEAST" '
            BEGIN {
                printf "%-24s %10s %10s %8.2f\n", what, one, four, four / one
                if (four / one < least) print what >>"/tmp/slower"
            }'
    done
done
for client in $clients; do
    same /tmp/source "/export/file$client"
    timeout $((60 * SLOW)) umount "/mnt/$client" || die "umount: $?"
done
end_nfs
[ ! -e /tmp/slower ] || die "four together are slower than one: $(xargs </tmp/slower)"
echo passed
