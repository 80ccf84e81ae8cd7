# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# In the guest, as /nfs-functions of `run --nfs`: NFS over RDMA between two ends. The server is in the first network namespace
# (10.9.0.1, device end1), its client's transport in n2 (10.9.0.2, device end2); files are mounted for all to see. Sourced by bash
# after /functions.
# shellcheck shell=bash

: "${NFS_SERVER:=swrnic}" "${NFS_CLIENT:=swrnic}" # what each end's device is: swrnic or siw
: "${NFS_EXPORT_SIZE:=80%}" "${NFS_CRC:=auto}" # of ours
: "${NFS_DAEMON:=}" # options of its daemons
read -ra daemon_options <<<"$NFS_DAEMON"
daemon=''

die() {
    echo "FAILED: $*"
    [ ! -e /tmp/swrnicd ] || tail -n 20 /tmp/swrnicd
    exit 1
}

# in_client COMMAND...: in the client's network namespace. Not by ip netns exec, which would keep the mount to itself.
in_client() { nsenter --net=/run/netns/n2 "$@"; }

# any_swrnic: one of the ends is ours.
any_swrnic() { [ "$NFS_SERVER" = swrnic ] || [ "$NFS_CLIENT" = swrnic ]; }

add_ends() {
    rdma link add end1 type "$NFS_SERVER" netdev v1 || die "no $NFS_SERVER for the server"
    in_client rdma link add end2 type "$NFS_CLIENT" netdev v2 || die "no $NFS_CLIENT for the client"
}

delete_ends() {
    local end
    for end in end1 end2; do timeout $((20 * SLOW)) rdma link del $end || die "rdma link del $end: $?"; done
}

# make_interfaces: v1 here and v2 in n2, joined.
make_interfaces() {
    ip netns add n2 || die "no namespace"
    ip link add v1 index 11 type veth peer name v2 index 12 netns n2 || die "no veth"
    ip addr add 10.9.0.1/24 dev v1
    ip link set v1 up
    ip -n n2 link set lo up
    ip -n n2 addr add 10.9.0.2/24 dev v2
    ip -n n2 link set v2 up
}

# make_ends: veth with a device on both of its interfaces.
make_ends() {
    local kind
    for kind in "$NFS_SERVER" "$NFS_CLIENT"; do modprobe "$kind" || die "modprobe $kind"; done
    make_interfaces
    add_ends
}

# start_daemon, stop_daemon: the daemons that serve our devices, one in each namespace that has such; their processes are in $daemon.
serving() { [ "$(grep -c ': serving$' /tmp/swrnicd)" -ge "$1" ]; }
start_daemon() {
    local ours=0 kind
    any_swrnic || return 0
    for kind in "$NFS_SERVER" "$NFS_CLIENT"; do [ "$kind" != swrnic ] || ours=$((ours + 1)); done
    command -v swrnicd >/dev/null || die "no swrnicd in this guest"
    modprobe ib_uverbs || die "modprobe ib_uverbs"
    : >/tmp/swrnicd
    SWRNIC_LOG=info SWRNIC_CRC=$NFS_CRC swrnicd "${daemon_options[@]}" >>/tmp/swrnicd 2>&1 &
    daemon=$!
    if [ -e /run/netns/n2 ]; then
        SWRNIC_LOG=info SWRNIC_CRC=$NFS_CRC nsenter --net=/run/netns/n2 swrnicd "${daemon_options[@]}" >>/tmp/swrnicd 2>&1 & # not in_client, whose process is another
        daemon+=" $!"
    fi
    until_true 20 serving $ours || die "swrnicd serves not: $(tail -n 5 /tmp/swrnicd)"
    # shellcheck disable=SC2086  # a word for each, as below
    kill -0 $daemon || die "swrnicd has ended: $(tail -n 5 /tmp/swrnicd)"
}
stop_daemon() {
    [ -n "$daemon" ] || return 0
    local one
    # shellcheck disable=SC2086
    kill $daemon
    for one in $daemon; do
        until_true 10 gone "$one" || die "swrnicd does not end"
        wait "$one" || die "swrnicd ended with $?: $(tail -n 5 /tmp/swrnicd)"
    done
    daemon=''
}

# start_server: knfsd with /export, a tmpfs, on TCP and on RDMA's port.
start_server() {
    ln -sf /run/rpcbind.sock /var/run/rpcbind.sock
    mkdir -p /run/rpcbind /run/sendsigs.omit.d
    modprobe -a nfsd rpcrdma nfs nfsv3 nfsv4 || die "no NFS in this kernel"
    mount -t tmpfs -o "size=$NFS_EXPORT_SIZE" export /export || die "no tmpfs"
    [ -e /proc/fs/nfsd/threads ] || mount -t nfsd nfsd /proc/fs/nfsd || die "no nfsd"
    touch /var/lib/nfs/etab /var/lib/nfs/rmtab
    rpcbind -w && until_true 10 listening 111 || die "rpcbind"
    exportfs -i -o rw,async,no_root_squash,no_subtree_check,fsid=0,insecure '10.9.0.0/24:/export' || die "exportfs"
    rpc.mountd -N 2 || die "rpc.mountd"
    echo 10 >/proc/fs/nfsd/nfsv4leasetime
    echo 10 >/proc/fs/nfsd/nfsv4gracetime
    rpc.nfsd -G 10 -L 10 4 || die "rpc.nfsd"
    echo Y >/proc/fs/nfsd/v4_end_grace # nobody was there before
    listen_rdma
}

# listen_rdma: on the devices that there are, and those to come.
listen_rdma() {
    echo 'rdma 20049' >/proc/fs/nfsd/portlist || die "no listener for RDMA: $(dmesg | tail -n 3)"
    [ -z "$(rdma link)" ] || until_true 10 listening 20049 || die "nobody listens on 20049"
}

# listen_again: after the server's threads have been sent home.
listen_again() {
    rpc.nfsd -G 10 -L 10 4 || die "rpc.nfsd"
    listen_rdma
}

stop_server() {
    echo 0 >/proc/fs/nfsd/threads || die "nfsd does not stop"
    exportfs -au
    busybox killall rpc.mountd rpcbind
    until_true 10 umount /proc/fs/nfsd || die "nfsd is held"
    until_true 10 umount /export || die "something holds the exported files"
}

# options VERSION TRANSPORT
options() {
    local common=vers=$1
    [ "$1" != 3 ] || common+=,nolock,mountproto=tcp
    common+=${NFS_OPTIONS:+,$NFS_OPTIONS}
    if [ "$2" = tcp ]; then echo "$common,proto=tcp"; else echo "$common,proto=rdma,port=20049"; fi
}

# mount_nfs VERSION [TRANSPORT]: 3 or 4.2; rdma, or tcp. Looked at, lest it is the other one.
mount_nfs() {
    local transport=${2-rdma} path=/export
    [ "$1" = 3 ] || path=/
    in_client timeout $((60 * SLOW)) mount.nfs "10.9.0.1:$path" /mnt -o "$(options "$1" "$transport")" ||
        die "mount -o $(options "$1" "$transport"): $? $(dmesg | tail -n 5)"
    grep -q " /mnt nfs.*[ ,]vers=$1[, ].*proto=$transport" /proc/mounts || die "mounted otherwise: $(grep " /mnt " /proc/mounts)"
}

umount_nfs() { timeout $((60 * SLOW)) umount /mnt || die "umount: $?"; }

# forget_cached: what is read next comes from the server.
forget_cached() {
    sync
    echo 3 >/proc/sys/vm/drop_caches
}

# random_file FILE OCTETS: other octets each time. The guest's own source of them is slow.
seed=0
random_file() {
    seed=$((seed + 1))
    pattern $seed "$2" >"$1" || die "$1 does not take $2 octets"
}

# same FILE FILE...
same() {
    local first=$1
    shift
    for file in "$@"; do cmp "$first" "$file" || die "$file differs from $first"; done
}

# kernel_objects: what consumers in the kernel hold of the devices.
kernel_objects() {
    local kind
    for kind in qp cq mr cm_id pd; do rdma resource show $kind; done | grep 'comm \['
}
no_kernel_objects() { [ -z "$(kernel_objects)" ]; }

# end_nfs: all down again, and nothing left.
end_nfs() {
    stop_server
    until_true 20 no_kernel_objects || die "the kernel has left: $(kernel_objects)"
    stop_daemon
    nothing_left
    delete_ends
    if any_swrnic; then
        free_module
        rmmod swrnic || die "something holds the module"
    fi
}

# silence, hear: nothing comes through any more, and again it does. Of ours the daemon's workers are stopped; siw, which has none, loses its
# interface's link instead.
silence() {
    # shellcheck disable=SC2046,SC2086
    if [ -n "$daemon" ]; then kill -STOP $(workers_of $daemon); else ip link set v1 down; fi
}
hear() {
    # shellcheck disable=SC2046,SC2086
    if [ -n "$daemon" ]; then kill -CONT $(workers_of $daemon); else ip link set v1 up; fi
}

# cut_off: all connections end at once. Of ours the daemon is killed and a new one started; siw's are reset.
cut_off() {
    if [ -z "$daemon" ]; then
        ss -K -t dport = 20049 >/dev/null
        in_client ss -K -t dport = 20049 >/dev/null
        return
    fi
    # shellcheck disable=SC2046,SC2086
    kill -9 $(workers_of $daemon) $daemon
    # shellcheck disable=SC2086
    wait $daemon 2>/dev/null
    sleep "${1-0}"
    start_daemon
}
