# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# Wants --nvme, and fio (--programs fio) unless NVME_FIO_SIZE is 0.
# NVMe over RDMA to a disk in memory: single requests of many lengths, a file system with files of many lengths and many small ones, found
# again by their sums after each new connection, and at last on the target's own disk; requests whose completions are polled for.
# NVME_TARGET and NVME_HOST: what the ends are (swrnic, siw). NVME_SRQ=1: with shared receive queues.
# shellcheck shell=bash
. /functions
. /nvme-functions

: "${NVME_SIZES:=1 4095 65537 1048579 16777216}" "${NVME_FILES:=200}" "${NVME_FIO_SIZE:=1m}"

# requests: one each way. What is short comes with the command itself; the rest is fetched by the target, in pieces of up to 1 MiB.
requests() {
    local size
    for size in 512 4096 8192 66048 1044480 4194304; do
        random_file /tmp/source $size
        dd if=/tmp/source of="$disk" bs=$size oflag=direct 2>/tmp/dd || die "direct write of $size: $(cat /tmp/dd)"
        dd if=/dev/ram0 of=/tmp/there bs=$size count=1 iflag=direct 2>/tmp/dd || die "the target's disk: $(cat /tmp/dd)"
        dd if="$disk" of=/tmp/back bs=$size count=1 iflag=direct 2>/tmp/dd || die "direct read of $size: $(cat /tmp/dd)"
        same /tmp/source /tmp/there /tmp/back
    done
    rm /tmp/source /tmp/there /tmp/back
    echo "requests: passed"
}

# fill: /tmp/files, and their sums.
fill() {
    local size i
    mkdir -p /tmp/files/small
    for size in $NVME_SIZES; do random_file "/tmp/files/$size" "$size"; done
    for ((i = 0; i < NVME_FILES; i++)); do echo "file $i" >/tmp/files/small/$i; done
    (cd /tmp/files && find . -type f -exec md5sum {} +) >/tmp/sums
    [ "$(wc -l </tmp/sums)" = $((NVME_FILES + $(wc -w <<<"$NVME_SIZES"))) ] || die "not all sums"
}

# whole: each file there is as it was. What is read comes from the disk.
whole() {
    forget_cached
    (cd /mnt && md5sum -c -s /tmp/sums) || die "$1: other octets than were written"
    echo "$1: passed"
}

# polled: a queue whose completions nobody is told of.
polled() {
    [ "$NVME_FIO_SIZE" != 0 ] || return 0
    dmesg | grep -q 'mapped 2/0/1 default/read/poll queues' || die "no queue to be polled: $(dmesg | grep mapped)"
    fio --name=polled --filename=/mnt/polled --size="$NVME_FIO_SIZE" --rw=randwrite --bs=16k --ioengine=io_uring --hipri --iodepth=4 --direct=1 \
        --verify=crc32c --verify_fatal=1 --fallocate=none >/tmp/fio 2>&1 || die "fio: $? $(tail -n 20 /tmp/fio)"
    grep -q 'err= 0' /tmp/fio || die "fio: $(tail -n 20 /tmp/fio)"
    rm /mnt/polled || die "no file of fio"
    echo "polled: passed"
}

make_nvme_ends
start_daemon
start_target
connect_nvme
requests
make_filesystem
mount_disk
fill
cp -r /tmp/files/. /mnt/ || die "cp"
whole "files"
umount_disk
disconnect_nvme
connect_nvme ,nr_poll_queues=1
mount_disk
whole "files by another connection"
polled
umount_disk
disconnect_nvme
end_nvme
disk=/dev/ram0
mount_disk
whole "files on the target's disk"
umount_disk
echo passed
