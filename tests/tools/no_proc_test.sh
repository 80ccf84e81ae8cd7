#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# no_proc_test.sh SWRNIC: where /proc is not mounted the command still finds its libraries, and the device opens.
set -euo pipefail
swrnic=$1
unshare --mount true 2>/dev/null || {
    echo 'cannot test: a mount namespace of its own needs CAP_SYS_ADMIN'
    exit 77
}
# shellcheck disable=SC2016  # for the shell inside
unshare --mount bash -euo pipefail -c '
    mount --make-rprivate /
    umount --lazy /proc
    [ ! -e /proc/self ] || { echo "/proc is still there"; exit 1; }
    "$1" run -- ibv_devinfo -d swr0
' bash "$swrnic"
