# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# Wants --nfs.
# kill -9 of swrnicd while a large file is written, and while it is read: with a new daemon both go on and end, and no octet is wrong.
# The ends' connections are cut for siw, which has no daemon.
# shellcheck shell=bash
. /functions
. /nfs-functions

: "${NFS_BIG:=67108864}" "${NFS_VERSIONS:=3 4.2}" "${NFS_CUTS:=3}"

# written OCTETS: so much of the file has come to the server.
written() { [ "$(du -k /export/big 2>/dev/null | cut -f 1)" -ge $(($1 / 1024)) ] || gone "$writer"; }

# cut_while_writing DD-OPTION...: as often as NFS_CUTS says, at even distances.
cut_while_writing() {
    local cut cuts=0
    rm -f /mnt/big
    dd if=/tmp/source of=/mnt/big bs=1M "$@" 2>/tmp/dd &
    writer=$!
    for ((cut = 1; cut <= NFS_CUTS; cut++)); do
        until_true 100 written $((NFS_BIG * cut / (NFS_CUTS + 1))) || die "the write stands still: $(cat /tmp/dd)"
        gone $writer || cuts=$((cuts + 1))
        cut_off 1
    done
    [ $cuts -gt 0 ] || die "written before it was cut off once: NFS_BIG is too small"
    until_true 200 gone $writer || die "the write does not end: $(head -n 3 /proc/$writer/stack)"
    wait $writer || die "the write returned $?: $(cat /tmp/dd)"
    sync
    same /tmp/source /export/big
    forget_cached
    same /tmp/source /mnt/big
    echo "$version: $*: $cuts cuts in a write: passed"
}

cut_while_reading() {
    forget_cached
    cmp /tmp/source /mnt/big &
    local reader=$!
    sleep 1
    gone $reader && die "read before it was cut off: NFS_BIG is too small"
    cut_off
    until_true 200 gone $reader || die "the read does not end: $(head -n 3 /proc/$reader/stack)"
    wait $reader || die "the read returned $?"
    echo "$version: a cut in a read: passed"
}

make_ends
start_daemon
start_server
random_file /tmp/source "$NFS_BIG"
for version in $NFS_VERSIONS; do
    mount_nfs "$version"
    cut_while_writing conv=fsync
    cut_while_writing oflag=direct
    cut_while_reading
    rm /mnt/big
    umount_nfs
done
end_nfs
echo passed
