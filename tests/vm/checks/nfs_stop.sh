# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# Wants --nfs.
# swrnicd is stopped (SIGSTOP) while files are mounted, and while they are written: what tears connections down ends all the same, in
# bounded time: umount, the server's stop, the devices' removal. When it goes on, all works again.
# shellcheck shell=bash
. /functions
. /nfs-functions

: "${NFS_BIG:=16777216}" "${NFS_VERSIONS:=3 4.2}"
# What umount of 4.2 asks the server for is asked so long.
impatient=timeo=50,retrans=1

# bounded SECONDS COMMAND...: done in time.
bounded() {
    local begin=$SECONDS limit=$1
    shift
    timeout -s KILL $((limit * SLOW)) "$@" || die "$* with a silent device: $? after $((SECONDS - begin)) s"
    echo "$version: $* with a silent device: $((SECONDS - begin)) s"
}

use() {
    random_file /tmp/source "$NFS_BIG"
    cp /tmp/source /mnt/file || die "cp"
    forget_cached
    same /tmp/source /mnt/file /export/file
}

# knock TIMES: somebody asks for a connection, and goes before there is one.
knock() {
    # shellcheck disable=SC2016
    in_client bash -c 'for ((i = 0; i < $0; i++)); do
        exec 3<>/dev/tcp/10.9.0.1/20049 && printf "MPA ID Req Frame\x40\x01\x00\x00" >&3 && exec 3>&- || exit 1
    done' "$1" || die "nobody hears a knock"
}

all_answered() { ! rdma resource show cm_id | grep 'state CONNECT' | grep -v -q lqpn; }

make_ends
start_daemon
start_server
for version in $NFS_VERSIONS; do
    NFS_OPTIONS=$impatient mount_nfs "$version"
    use
    silence
    bounded 60 umount /mnt
    hear
    mount_nfs "$version"
    use
    # A write is under way; the server goes, and comes back. The client is as patient as usual: what asks for a connection while the
    # server's threads wait for the device, and go then, knfsd forgets, and holds the device for good (sc_accept_q of its listener).
    dd if=/tmp/source of=/mnt/file bs=1M oflag=direct 2>/tmp/dd &
    writer=$!
    sleep 0.3
    silence
    bounded 30 sh -c 'echo 0 >/proc/fs/nfsd/threads'
    hear
    listen_again
    until_true 200 gone $writer || die "the write does not end: $(head -n 3 /proc/$writer/stack)"
    wait $writer || die "the write returned $?: $(cat /tmp/dd)"
    same /tmp/source /export/file
    umount_nfs
    NFS_OPTIONS=$impatient mount_nfs "$version"
    # Nobody answers, and the client is forced out of its write.
    dd if=/tmp/source of=/mnt/file bs=1M oflag=direct 2>/tmp/dd &
    writer=$!
    sleep 0.3
    silence
    kill -9 $writer
    wait $writer 2>/dev/null
    bounded 60 umount -f /mnt
    hear
done
NFS_OPTIONS=$impatient mount_nfs 4.2
silence
bounded 60 rdma link del end2
hear
bounded 60 umount -f /mnt
in_client rdma link add end2 type "$NFS_CLIENT" netdev v2 || die "no device again"
mount_nfs 4.2
use
umount_nfs
# knfsd of 6.1 never frees what it has made for a connection whose accept fails. Of ours none does, with a daemon or without; siw's do.
if [ "$NFS_SERVER" = swrnic ]; then
    knock 20
    until_true 10 all_answered || die "knfsd does not answer"
    stop_daemon
    knock 5
    until_true 10 all_answered || die "knfsd does not answer without a daemon"
fi
end_nfs
echo passed
