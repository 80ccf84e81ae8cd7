#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# only_loopback_test.sh SWRNIC: where loopback has the only address, `swrnic doctor` says whom that concerns.
set -euo pipefail
swrnic=$1
unshare --net true 2>/dev/null || {
    echo 'cannot test: a network namespace of its own needs CAP_SYS_ADMIN'
    exit 77
}
doctor() { # COMMANDS: what it says of addresses behind them
    # shellcheck disable=SC2016  # for the shell inside
    unshare --net bash -euo pipefail -c 'ip link set lo up; eval "$2"; "$1" doctor' bash "$swrnic" "$1" | grep -c 'libfabric and Open MPI' || true
}
alone=$(doctor :)
beside=$(doctor 'ip link add one up type veth peer name other; ip address add 192.0.2.1/24 dev one')
if [ "$alone" != 1 ] || [ "$beside" != 0 ]; then
    echo "FAILED: of libfabric and Open MPI in $alone lines with loopback alone, in $beside beside another interface"
    exit 1
fi
