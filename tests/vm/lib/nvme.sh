# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# What a guest needs to be NVMe's target and host. All of it is in the kernel: its files in configfs and /dev/nvme-fabrics are written to
# by the shell. Sourced by tests/vm/run.
# shellcheck shell=bash disable=SC2154

nvme_modules=(nvmet nvmet_rdma nvme_rdma brd ext4)

install_nvme() { # INTO
    local into=$1
    command -v mkfs.ext4 >/dev/null || install_or_skip e2fsprogs
    mkdir -p "$into"/{etc,mnt}
    cp /etc/mke2fs.conf "$into/etc/"
    extra_modules+=" ${nvme_modules[*]}"
    more_programs+=(cmp mkfs.ext4 fsck.ext4)
    cp "$here/lib/nfs-functions.sh" "$into/nfs-functions" # the ends and their daemon are the same
    cp "$here/lib/nvme-functions.sh" "$into/nvme-functions"
}
