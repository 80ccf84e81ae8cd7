# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# Wants --nfs, and fio (--programs fio) unless NFS_FIO_SIZE is 0.
# NFS over RDMA, versions 3 and 4.2: files of many lengths written and read back, buffered and direct, fio with verification, a thousand
# small files, unmounted and mounted again. NFS_SERVER and NFS_CLIENT: what the ends are (swrnic, siw).
# shellcheck shell=bash
. /functions
. /nfs-functions

: "${NFS_SIZES:=1 4095 65537 1048579 16777216}" "${NFS_FIO_SIZE:=2m}" "${NFS_FILES:=1000}" "${NFS_VERSIONS:=3 4.2}"

# lengths: each file twice, and read back by the way that did not write it too.
lengths() {
    local size
    for size in $NFS_SIZES; do
        random_file /tmp/source "$size"
        cp /tmp/source /mnt/buffered || die "cp of $size octets"
        dd if=/tmp/source of=/mnt/direct bs=1M oflag=direct 2>/tmp/dd || die "direct write of $size: $(cat /tmp/dd)"
        same /tmp/source /export/buffered /export/direct
        forget_cached
        same /tmp/source /mnt/buffered /mnt/direct
        dd if=/mnt/buffered of=/tmp/back bs=1M iflag=direct 2>/tmp/dd || die "direct read of $size: $(cat /tmp/dd)"
        same /tmp/source /tmp/back
        rm /mnt/buffered /mnt/direct /tmp/back || die "rm"
    done
    rm /tmp/source
    echo "$version: lengths $NFS_SIZES: passed"
}

# verified DIRECT: several writers, each of which reads back what it has written and checks each block.
verified() {
    fio --name=verify --directory=/mnt --size="$NFS_FIO_SIZE" --numjobs=4 --rw=randwrite --bsrange=512-256k --bs_unaligned=1 --thread \
        --ioengine=psync --verify=crc32c --verify_fatal=1 --direct="$1" --group_reporting --fallocate=none >/tmp/fio 2>&1 ||
        die "fio: $? $(tail -n 20 /tmp/fio)"
    grep -q 'err= 0' /tmp/fio || die "fio: $(tail -n 20 /tmp/fio)"
    rm /mnt/verify.* || die "no files of fio"
    echo "$version: fio, direct=$1: passed"
}

# small_files: written, found again by a mount that has cached nothing.
small_files() {
    local i got
    mkdir /mnt/many || die "mkdir"
    for ((i = 0; i < NFS_FILES; i++)); do echo "file $i" >/mnt/many/$i || die "file $i"; done
    umount_nfs
    mount_nfs "$version"
    got=$(find /mnt/many -type f | wc -l)
    [ "$got" = "$NFS_FILES" ] || die "$got files of $NFS_FILES"
    for ((i = 0; i < NFS_FILES; i++)); do
        read -r got </mnt/many/$i
        [ "$got" = "file $i" ] || die "file $i says: $got"
    done
    rm -r /mnt/many || die "rm -r"
    echo "$version: $NFS_FILES small files: passed"
}

make_ends
start_daemon
start_server
for version in $NFS_VERSIONS; do
    mount_nfs "$version"
    lengths
    if [ "$NFS_FIO_SIZE" != 0 ]; then
        verified 0
        verified 1
    fi
    small_files
    umount_nfs
    [ -z "$(ls /export)" ] || die "left in the export: $(ls /export)"
done
end_nfs
echo passed
