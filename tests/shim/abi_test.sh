#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# The provider with userspace shims that speak older and newer versions of the interface (swrnic-abi.h).
# abi_test.sh DRIVER OLDEST NEWEST DIRECTORY VERBS-TEST: DIRECTORY holds libshim-abi-OLDEST-NEWEST.so of each pair that is named below.
set -euo pipefail
driver=$1 oldest=$2 newest=$3 directory=$4 verbs_test=$5

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
works_with "$oldest" "$newest"
works_with "$oldest" "$oldest"
refuses $((newest + 1)) $((newest + 1)) 'a newer swrnic-provider is needed'
refuses $((oldest - 1)) $((oldest - 1)) 'a newer swrnic-tools is needed'

# What version 3 brought is not used with version 2.
SWRNIC_TEST_OLDER_END=1 LD_PRELOAD=$directory/libshim-abi-$oldest-$oldest.so IBV_DRIVERS=$driver "$verbs_test" --gtest_filter='OlderEnd.*'
