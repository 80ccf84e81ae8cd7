# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# Wants --nfs; better with little memory.
# Dirty pages are written back over NFS while the guest is at the edge of its memory: the write ends, no octet is wrong, and neither
# swrnicd nor the writer was taken by the out-of-memory killer. Client and server share this memory: with half of these KiB, or with
# more that may be dirty than is usual, siw fails too.
# shellcheck shell=bash
. /functions
. /nfs-functions

: "${NFS_BIG:=50331648}" "${NFS_EDGE:=24576}" # the file's octets, and the KiB that are left
NFS_EXPORT_SIZE=$((NFS_BIG + 1048576))

available() { sed -n 's/^MemAvailable: *\([0-9]*\).*/\1/p' /proc/meminfo; }

# hold: takes memory that nobody can take back, until no more than NFS_EDGE is available.
hold() {
    local had
    had=$(available)
    mkdir /run/hog
    mount -t tmpfs -o size=100% hog /run/hog || die "no tmpfs"
    while [ "$(available)" -gt "$NFS_EDGE" ]; do
        head -c 1048576 /dev/zero >>/run/hog/octets || die "the hog is full"
    done
    echo "of $had KiB $(available) are left"
}

make_ends
start_daemon
start_server
mount_nfs 4.2
pattern 0 "$NFS_BIG" >/export/file # the server has what it needs for the file, and the client writes over it
hold
for round in 1 2 3; do
    pattern $round "$NFS_BIG" | timeout $((200 * SLOW)) dd of=/mnt/file bs=64k iflag=fullblock conv=notrunc,fsync 2>/tmp/dd ||
        die "the write: $? $(cat /tmp/dd)"
    pattern $round "$NFS_BIG" | cmp - /export/file || die "written otherwise"
    pattern $round "$NFS_BIG" | cmp - /mnt/file || die "read otherwise"
    echo "round $round: passed, $(available) KiB are left"
done
! dmesg | grep -q 'Out of memory' || die "$(dmesg | grep 'Out of memory')"
# shellcheck disable=SC2086  # a word for each
[ -z "$daemon" ] || kill -0 $daemon || die "swrnicd has ended: $(tail -n 3 /tmp/swrnicd)"
umount /run/hog
umount_nfs
end_nfs
echo passed
