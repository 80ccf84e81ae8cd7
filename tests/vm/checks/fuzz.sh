# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# A malicious process at the uAPI hurts itself alone: while it rages, two honest ones go on.
# shellcheck shell=bash
. /functions

command -v fuzz_event_file >/dev/null || die "the guest's programs are not built"
modprobe swrnic || die "modprobe"
make_device swr0 dummy0 192.0.2.1/24
fuzz_event_file "${SECONDS_OF_FUZZING:-25}" "${SEED:-1}" &
fuzz=$!
rounds=0
while ! gone $fuzz; do
    pair - - 7174 'rping -s -a 192.0.2.1 -p 7174 -C 2' "rping -c -a 192.0.2.1 -p 7174 -C 2 -v"
    rounds=$((rounds + 1))
done
wait $fuzz || die "the fuzzer found an answer that must not be"
echo "$rounds rounds of rping meanwhile"
nothing_left
rdma link del swr0 && rmmod swrnic || die "something holds the module"
echo passed
