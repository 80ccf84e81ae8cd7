#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# The provider with userspace shims that speak older and newer versions of the interface (swrnic-abi.h).
# abi_test.sh DRIVER NEWEST DIRECTORY: DIRECTORY holds libshim-abi-OLDEST-NEWEST.so of each pair that is named below.
set -euo pipefail
driver=$1 newest=$2 directory=$3

devinfo() { # OLDEST NEWEST
    LD_PRELOAD=$directory/libshim-abi-$1-$2.so IBV_DRIVERS=$driver ibv_devinfo -d swr0 2>&1
}

works_with() {
    local text
    text=$(devinfo "$1" "$2") || { echo "a shim of $1 to $2: $text" >&2 && exit 1; }
    grep -q PORT_ACTIVE <<<"$text" || { echo "a shim of $1 to $2 shows no port: $text" >&2 && exit 1; }
}

refuses() { # OLDEST NEWEST WHAT-IT-SAYS
    local text
    ! text=$(devinfo "$1" "$2") || { echo "a shim of $1 to $2 is spoken to" >&2 && exit 1; }
    grep -qF "$3" <<<"$text" || { echo "a shim of $1 to $2: not '$3' but: $text" >&2 && exit 1; }
}

works_with "$newest" $((newest + 1))
works_with $((newest - 1)) "$newest"
refuses $((newest + 1)) $((newest + 1)) 'a newer swrnic-provider is needed'
refuses $((newest - 1)) $((newest - 1)) 'a newer swrnic-tools is needed'
