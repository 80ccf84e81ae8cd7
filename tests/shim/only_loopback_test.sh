#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# only_loopback_test.sh PROGRAM FILTER: its tests of GIDs where loopback has the only address, then beside an interface with and
# without one.
set -euo pipefail
unshare --net true 2>/dev/null || {
    echo 'cannot test: a network namespace of its own needs CAP_SYS_ADMIN'
    exit 77
}
there() { # COMMANDS
    # shellcheck disable=SC2016  # for the shell inside
    unshare --net bash -euo pipefail -c 'ip link set lo up; eval "$2"; "$1" --gtest_brief=1 --gtest_filter="$3"' bash "$program" "$1" "$filter"
}
program=$1
filter=$2
pair='echo 0 >/proc/sys/net/ipv6/conf/default/accept_dad; ip link add one type veth peer name other; ip link set one up; ip link set other up'
there :
there "$pair"
there "$pair; ip address add 192.0.2.1/24 dev one; ip address add 2001:db8::1/64 dev one nodad"
