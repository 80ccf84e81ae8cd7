# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# A thousand devices (three hundred on the debug kernel), each with a connection, a message and its end: the guest is as it was.
# shellcheck shell=bash
. /functions

command -v cm_both >/dev/null || die "the guest's programs are not built"
: "${CYCLES:=$((SLOW > 1 ? 300 : 1000))}"
modprobe swrnic || die "modprobe"
nothing_lingers
ip link add dummy0 type dummy
ip addr add 192.0.2.1/24 dev dummy0
ip link set dummy0 up

# cycles HOW-MANY
cycles() {
    local i
    for ((i = 0; i < $1; i++)); do
        rdma link add swr0 type swrnic netdev dummy0 || die "cycle $i: link add"
        cm_both 192.0.2.1 >/tmp/both 2>&1 || die "cycle $i: $(cat /tmp/both)"
        rdma link del swr0 || die "cycle $i: link del"
    done
}
cycles 20
slabs /tmp/slabs.before
SECONDS=0
open=$(descriptors)
cycles "$CYCLES"
echo "$CYCLES cycles in $SECONDS s"
nothing_left
free_module
not_grown /tmp/slabs.before $((CYCLES / 8 + 256)) # a page of the smallest objects is nothing
[ $(($(descriptors) - open)) -le 64 ] || die "descriptors: $open -> $(descriptors)" # counted by 32 on each processor
rmmod swrnic || die "something holds the module"
echo passed
