# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# Wants --nvme.
# kill -9 of swrnicd while a large file is written to a disk over NVMe, and while it is read: with a new daemon the host connects anew,
# both go on and end, and no octet is wrong.
# shellcheck shell=bash
. /functions
. /nvme-functions

: "${NVME_BIG:=33554432}" "${NVME_CUTS:=2}"
NVME_DISK=$((NVME_BIG / 512 + 32768))

# sectors FIELD: so many were read (3) or written (7) by way of the host's disk; its paths count, or else itself.
sectors() { cat /sys/block/nvme*/stat | awk -v field="$1" '$field > most { most = $field } END { print most + 0 }'; }
moved() { [ $((($(sectors "$1") - had) * 512)) -ge "$2" ] || gone "$worker"; } # FIELD OCTETS
reconnected() { [ "$(dmesg | grep -c 'Successfully reconnected')" -gt "$1" ] && state_is live; }

# cut_while FIELD COMMAND...: as often as NVME_CUTS says, at even distances of what the command moves.
cut_while() {
    local field=$1 cut cuts=0 before
    shift
    had=$(sectors "$field")
    "$@" 2>/tmp/worker &
    worker=$!
    for ((cut = 1; cut <= NVME_CUTS; cut++)); do
        until_true 100 moved "$field" $((NVME_BIG * cut / (NVME_CUTS + 1))) || die "$*: stands still: $(cat /tmp/worker)"
        ! gone $worker || break
        cuts=$((cuts + 1))
        before=$(dmesg | grep -c 'Successfully reconnected')
        cut_off 1
        until_true 60 reconnected "$before" || die "$controller is $(cat "/sys/class/nvme/$controller/state") after a cut"
    done
    [ $cuts -gt 0 ] || die "$*: done before it was cut off once: NVME_BIG is too small"
    until_true 300 gone $worker || die "$*: does not end: $(head -n 3 /proc/$worker/stack)"
    wait $worker || die "$* returned $?: $(cat /tmp/worker)"
    echo "$*: $cuts cuts: passed"
}

make_nvme_ends
start_daemon
start_target
connect_nvme
make_filesystem
mount_disk
random_file /tmp/source "$NVME_BIG"
for how in oflag=direct conv=fsync; do
    cut_while 7 dd if=/tmp/source of=/mnt/big bs=1M "$how"
    forget_cached
    same /tmp/source /mnt/big
done
forget_cached
cut_while 3 cmp /tmp/source /mnt/big
umount_disk
disconnect_nvme
end_nvme
disk=/dev/ram0
mount_disk
same /tmp/source /mnt/big
umount_disk
echo passed
