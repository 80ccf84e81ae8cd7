#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# only_test.sh SWRNIC: where /dev/infiniband has devices, the userspace shim steps aside, unless it is insisted on.
set -euo pipefail
swrnic=$1
unshare --mount true 2>/dev/null || {
    echo 'cannot test: a mount namespace of its own needs CAP_SYS_ADMIN'
    exit 77
}
directory=$(mktemp -d)
trap 'rm -rf "$directory"' EXIT
# shellcheck disable=SC2016  # for the shell inside
unshare --mount bash -euo pipefail -c '
swrnic=$1 code=0
fail() {
    echo "FAILED: $*"
    code=1
}
mkdir -p "$2/dev"
mount -t tmpfs none "$2/dev"
for node in null zero urandom; do
    : >"$2/dev/$node"
    mount --bind "/dev/$node" "$2/dev/$node"
done
mkdir "$2/dev/infiniband"
: >"$2/dev/infiniband/uverbs0"
: >"$2/dev/infiniband/rdma_cm"
mount --rbind "$2/dev" /dev

type=/sys/class/infiniband/swr0/node_type
! "$swrnic" run cat $type 2>/dev/null || fail "swr0 is there beside devices of the kernel"
[ "$("$swrnic" run --only cat $type)" = "4: RNIC" ] || fail "--only does not show swr0"
[ "$(SWRNIC_ONLY=on "$swrnic" run cat $type)" = "4: RNIC" ] || fail "SWRNIC_ONLY=on does not show swr0"
! SWRNIC_ONLY=off "$swrnic" run cat $type 2>/dev/null || fail "SWRNIC_ONLY=off shows swr0"
"$swrnic" run cat /dev/null 2>&1 | grep "RDMA devices of its own" >/dev/null || fail "no warning of the devices"
[ -z "$("$swrnic" run --only cat /dev/null 2>&1)" ] || fail "a warning of devices that are not wanted"
{ "$swrnic" doctor || true; } | grep -e "--only" >/dev/null || fail "doctor does not tell of --only"
steps_aside="holds devices of the kernel.s, so the userspace shim steps aside"
{ "$swrnic" doctor || true; } | grep "FAIL  .*$steps_aside" >/dev/null || fail "doctor does not say that the shim steps aside"
! { SWRNIC_ONLY=on "$swrnic" doctor || true; } | grep "FAIL  /dev/infiniband" >/dev/null || fail "doctor does not heed SWRNIC_ONLY=on"
{ SWRNIC_ONLY=on "$swrnic" doctor || true; } | grep "ok    /dev/infiniband holds devices" >/dev/null || fail "doctor hides the devices"
exit $code' bash "$swrnic" "$directory"
echo passed
