#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# link_test.sh SWRNIC: what `swrnic link` says of its words, and on a kernel without RDMA. In a guest: link_guest.sh.
set -euo pipefail
swrnic=$1

# refused CODE TEXT WORD...
refused() {
    local code=0 wanted=$1 text=$2 said
    shift 2
    said=$("$swrnic" link "$@" 2>&1) || code=$?
    if [ "$code" != "$wanted" ] || ! grep -qF -- "$text" <<<"$said"; then
        echo "FAILED: link $*: code $code instead of $wanted, or '$text' is not in: $said"
        exit 1
    fi
}

refused 2 'unknown word bogus' bogus
refused 2 'add takes NAME' add
refused 2 'add takes NAME' add swr0 netdev
refused 2 'netdev NETDEV is missing' add swr0 type swrnic
refused 2 'unknown word nedev' add swr0 nedev eth0
refused 2 'del takes one NAME' del
refused 2 'show takes one NAME' show a b
refused 0 'Usage: swrnic link' --help
if [ -d /sys/class/infiniband ] || [ -d /sys/module/ib_core ]; then
    echo "this kernel has RDMA: what it is like without cannot be shown"
    exit 77
fi
refused 1 'this kernel has no RDMA' show
refused 1 'this kernel has no RDMA' add swr0 netdev lo
refused 1 'this kernel has no RDMA' del swr0
echo passed
