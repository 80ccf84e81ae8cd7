# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# The uverbs device is open to everybody: a user without rights throws nonsense at it. Nothing but the process itself is hurt.
# shellcheck shell=bash
. /functions

command -v fuzz_uverbs >/dev/null || die "the guest's programs are not built"
modprobe swrnic || die "modprobe"
make_device swr0 dummy0 192.0.2.1/24
pair - - 7174 "rping -s -a 192.0.2.1 -p 7174 -C 2" "rping -c -a 192.0.2.1 -p 7174 -C 2 -v"
chmod 666 /dev/infiniband/uverbs0 # as Debian's udev rule has it
nothing_lingers
: "${ROUNDS:=60}" "${SEED:=1}"
# Each time other rounds than before.
fuzz() {
    timeout $((100 * SLOW)) su user -c "fuzz_uverbs $ROUNDS $SEED" || die "seed $SEED: $?"
    SEED=$((SEED + 1000))
    nothing_left
    free_module
}
no_leak "$ROUNDS" fuzz
pair - - 7174 "rping -s -a 192.0.2.1 -p 7174 -C 2" "rping -c -a 192.0.2.1 -p 7174 -C 2 -v"
nothing_left
rdma link del swr0 && rmmod swrnic || die "something holds the module"
echo passed
