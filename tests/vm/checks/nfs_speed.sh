# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# Wants --nfs, and siw (--siw rev2).
# NFS over swrnic beside NFS over siw and over TCP, in one guest between the same two interfaces: one file written and read by direct I/O.
# Of ours CRC is as siw has it. NFS takes 1 MiB in one request (rsize, wsize) where the guest has more than 4 GiB of memory. Emulated, so
# only the ratios mean anything. Runs are interleaved; each figure is the median of its runs, in MiB/s.
# shellcheck shell=bash
. /functions
. /nfs-functions

NFS_CRC=off
[[ $(cat /siw-variant) != *-crc ]] || NFS_CRC=on
: "${NFS_BIG:=8388608}" "${NFS_BLOCKS:=65536 1048576}" "${NFS_RUNS:=5}" "${NFS_KINDS:=swrnic siw tcp}" "${NFS_MTUS:=1500 65535}"

# device KIND: both ends are that; of TCP nobody is.
device() {
    NFS_SERVER=$1 NFS_CLIENT=$1
    [ "$1" != tcp ] || return 0
    add_ends
    start_daemon
}
no_device() {
    [ "$NFS_SERVER" != tcp ] || return 0
    until_true 20 no_client || die "$NFS_SERVER is held: $(kernel_objects)"
    stop_daemon
    delete_ends
}
no_client() { ! rdma resource show qp | grep -q 'comm \[' ; }

# rate COMMAND...: MiB/s of NFS_BIG octets in the time that it takes.
rate() {
    local begin end
    begin=${EPOCHREALTIME/./}
    "$@" 2>/tmp/dd || die "$*: $(cat /tmp/dd)"
    end=${EPOCHREALTIME/./}
    awk -v octets="$NFS_BIG" -v us=$((end - begin)) 'BEGIN { printf "%.2f\n", octets / 1048576 * 1000000 / us }'
}

# runs KIND: one mount, each block size once; figures go to /tmp/KIND.WHAT.
runs() {
    local kind=$1 transport=rdma block
    [ "$kind" != tcp ] || transport=tcp
    device "$kind"
    mount_nfs 4.2 $transport
    size=$(sed -n 's|.* /mnt nfs.*[ ,]rsize=\([0-9]*\),.*|\1|p' /proc/mounts)
    for block in $NFS_BLOCKS; do
        rate dd if=/tmp/source of=/mnt/file bs="$block" oflag=direct conv=notrunc >>"/tmp/$kind.write.$block"
        rate dd if=/mnt/file of=/tmp/back bs="$block" iflag=direct conv=notrunc >>"/tmp/$kind.read.$block"
        same /tmp/source /export/file /tmp/back
    done
    umount_nfs
    no_device
}

# table: a row for each figure; ours over the others'.
table() {
    local what block kind row
    for what in write read; do
        for block in $NFS_BLOCKS; do
            row=$(printf '%-28s' "$what, MTU $mtu, $block")
            for kind in swrnic siw tcp; do
                if [ -s "/tmp/$kind.$what.$block" ]; then row+=" $(median <"/tmp/$kind.$what.$block")"; else row+=' -'; fi
            done
            awk '{ ours = $(NF - 2); siw = $(NF - 1); tcp = $NF
                printf "%-28s %10s %10s %10s %8s %8s %8s\n", substr($0, 1, 28), ours, siw, tcp, ratio(ours, siw), ratio(ours, tcp), ratio(siw, tcp) }
                function ratio(a, b) { return a + 0 && b + 0 ? sprintf("%.2f", a / b) : "-" }' <<<"$row"
        done
    done
}

for kind in $NFS_KINDS; do [ "$kind" = tcp ] || modprobe "$kind" || die "modprobe $kind"; done
make_interfaces
start_server
random_file /tmp/source "$NFS_BIG"
cp /tmp/source /export/file
cp /tmp/source /tmp/back
echo "CRC $NFS_CRC"
printf '%-28s %10s %10s %10s %8s %8s %8s\n' "NFS 4.2, direct, MiB/s" swrnic siw TCP ours/siw ours/TCP siw/TCP
for mtu in $NFS_MTUS; do
    ip link set v1 mtu "$mtu"
    ip -n n2 link set v2 mtu "$mtu"
    rm -f /tmp/*.write.* /tmp/*.read.*
    for ((run = 0; run < NFS_RUNS; run++)); do
        for kind in $NFS_KINDS; do runs "$kind"; done
    done
    echo "rsize $size"
    table
done
stop_server
echo passed
