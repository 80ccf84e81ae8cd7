# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# In the guest, as /nvme-functions of `run --nvme`: NVMe over RDMA between two devices. The kernel's target and host know the first network
# namespace alone, so both are in it: the target at 10.9.0.1 (device end1), the host at 10.9.0.2 (device end2). Sourced by bash after
# /functions.
# shellcheck shell=bash

: "${NVME_TARGET:=swrnic}" "${NVME_HOST:=swrnic}" # what each end's device is: swrnic or siw
: "${NVME_DISK:=98304}"                           # KiB
: "${NVME_SRQ:=0}"                                # 1: the target's receives come from shared queues
# shellcheck disable=SC2034
NFS_SERVER=$NVME_TARGET NFS_CLIENT=$NVME_HOST
# shellcheck source=tests/vm/lib/nfs-functions.sh
. /nfs-functions

nqn=nqn.2026-11.org.example:ram
subsystem=/sys/kernel/config/nvmet/subsystems/$nqn
port=/sys/kernel/config/nvmet/ports/1

# make_nvme_ends: two interfaces without neighbours, so that each end's device is found by its address without anybody being asked; what
# they say to each other goes over lo.
make_nvme_ends() {
    local kind n
    for kind in "$NVME_TARGET" "$NVME_HOST"; do modprobe "$kind" || die "modprobe $kind"; done
    for n in 1 2; do
        ip link add d$n type dummy || die "no dummy interface"
        ip addr add 10.9.0.$n/24 dev d$n
        ip link set d$n up
    done
    rdma link add end1 type "$NVME_TARGET" netdev d1 || die "no $NVME_TARGET for the target"
    rdma link add end2 type "$NVME_HOST" netdev d2 || die "no $NVME_HOST for the host"
}

# start_target: a disk in memory, at NVMe's usual port.
start_target() {
    modprobe brd rd_nr=1 rd_size="$NVME_DISK" || die "no disk in memory"
    modprobe nvmet_rdma use_srq="$NVME_SRQ" && modprobe nvme_rdma || die "no NVMe over RDMA in this kernel"
    [ -d /sys/kernel/config/nvmet ] || mount -t configfs configfs /sys/kernel/config || die "no configfs"
    mkdir "$subsystem" && mkdir "$subsystem/namespaces/1" "$port" || die "nvmet takes no subsystem"
    echo 1 >"$subsystem/attr_allow_any_host"
    echo /dev/ram0 >"$subsystem/namespaces/1/device_path"
    echo 1 >"$subsystem/namespaces/1/enable" || die "nvmet does not take /dev/ram0"
    echo rdma >"$port/addr_trtype"
    echo ipv4 >"$port/addr_adrfam"
    echo 10.9.0.1 >"$port/addr_traddr"
    echo 4420 >"$port/addr_trsvcid"
    ln -s "$subsystem" "$port/subsystems/$nqn" || die "no listener for RDMA: $(dmesg | tail -n 3)"
    until_true 10 listening 4420 || die "nobody listens on 4420"
}

stop_target() {
    rm "$port/subsystems/$nqn" && rmdir "$port" || die "nvmet keeps its port"
    echo 0 >"$subsystem/namespaces/1/enable"
    rmdir "$subsystem/namespaces/1" "$subsystem" || die "nvmet keeps its subsystem"
}

# find_disk: sets $disk, what the host sees of the target's; its own paths to it have no files.
find_disk() { disk=$(compgen -G '/dev/nvme*n1') && [ -b "$disk" ]; }
no_disk() { ! find_disk; }

# nr_qps DEVICE
nr_qps() { rdma resource show qp | grep -c "^link $1/1 "; }

state_is() { [ "$(cat "/sys/class/nvme/$controller/state")" = "$1" ]; }

# connect_nvme [,OPTION=VALUE...]: sets $controller and $disk. Two queues, and one for commands of administration.
connect_nvme() {
    local answer
    exec 3<>/dev/nvme-fabrics || die "no /dev/nvme-fabrics"
    printf 'nqn=%s,transport=rdma,traddr=10.9.0.1,trsvcid=4420,host_traddr=10.9.0.2,%s' "$nqn" \
        "nr_io_queues=2,queue_size=32,reconnect_delay=1,ctrl_loss_tmo=600${1-}" >&3 || die "connect: $(dmesg | tail -n 5)"
    read -r answer <&3 || die "connected to nothing"
    exec 3>&-
    controller=nvme${answer#instance=}
    controller=${controller%%,*}
    state_is live || die "connected, but $controller is $(cat "/sys/class/nvme/$controller/state")"
    until_true 10 find_disk || die "$controller has no disk"
    [ "$NVME_SRQ" = 0 ] || rdma resource show srq | grep -q '^link end1\|^dev end1' || die "no shared queue: $(rdma resource show srq)"
    [ "$(nr_qps end1)" = "$(nr_qps end2)" ] && [ "$(nr_qps end2)" -ge 3 ] || die "not between these two: $(rdma resource show qp)"
}

disconnect_nvme() {
    timeout $((60 * SLOW)) sh -c "echo 1 >/sys/class/nvme/$controller/delete_controller" || die "disconnect: $?"
    until_true 10 no_disk || die "$disk is still there"
}

# mount_disk, umount_disk: the latter with a look whether all is well with the file system.
mount_disk() { mount -t ext4 "$disk" /mnt || die "mount $disk: $(dmesg | tail -n 3)"; }
umount_disk() {
    timeout $((100 * SLOW)) umount /mnt || die "umount: $?"
    fsck.ext4 -f -n "$disk" >/tmp/fsck 2>&1 || die "fsck returned $?: $(tail -n 20 /tmp/fsck)"
}

make_filesystem() { mkfs.ext4 -q -F -b 4096 "$disk" >/tmp/mkfs 2>&1 || die "mkfs: $? $(tail -n 5 /tmp/mkfs)"; }

# What consumers hold of the devices. The core makes completion queues for all who want one, and keeps them until the device goes.
kernel_objects() {
    local kind
    for kind in qp mr cm_id pd; do rdma resource show $kind; done
}

# end_nvme: all down again, and nothing left.
end_nvme() {
    stop_target
    until_true 20 no_kernel_objects || die "the kernel has left: $(kernel_objects)"
    stop_daemon
    delete_ends
    nothing_left
    if any_swrnic; then
        free_module
        rmmod swrnic || die "something holds the module"
    fi
}
