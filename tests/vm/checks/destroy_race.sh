# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# A user destroys a QP while iw_cm orders the end of its stream. The guest's build of the module can wait between finding the stream
# and telling of it, so that the QP is gone by then if nobody keeps it: run looks for what the kernel says to that.
# shellcheck shell=bash
. /functions

command -v destroy_race >/dev/null || die "the guest's programs are not built"
modprobe swrnic || die "modprobe"
make_device swr0 dummy0 192.0.2.1/24
modprobe rdma_ucm
chmod 666 /dev/infiniband/uverbs0 /dev/infiniband/rdma_cm # as Debian's udev rules have them
race_ms=/sys/module/swrnic/parameters/race_ms

# race MS ROUNDS LEAD_US
race() {
    echo "$1" >$race_ms || die "the module was built without SWRNIC_TEST"
    timeout $((100 * SLOW)) destroy_race 192.0.2.1 "$2" "$3" || die "destroy_race with a window of $1 ms: $?"
}
echo "-- the QP goes within the window"
race 50 20 10000
echo "-- at any time"
race 0 "${ROUNDS:=300}" 0
echo 0 >$race_ms
nothing_left
rdma link del swr0
free_module
rmmod swrnic || die "something holds the module"
echo passed
