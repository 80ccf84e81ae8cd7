# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# Memory windows over the module: the unit tests of the verbs that speak of them, on a device on lo.
# shellcheck shell=bash
. /functions

command -v verbs_test >/dev/null || die "the guest's programs are not built"
modprobe swrnic || die "modprobe"
ip link set lo address 02:00:00:00:00:01 || die "no MAC for lo"
rdma link add swr0 type swrnic netdev lo || die "no device on lo"
timeout $((60 * SLOW)) verbs_test --gtest_filter='*indows*' || die "verbs_test: $?"
nothing_left
rdma link del swr0 && rmmod swrnic || die "something holds the module"
echo passed
