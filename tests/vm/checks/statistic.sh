# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# `rdma statistic` shows what the processes report; each device has numbers of its own.
# shellcheck shell=bash
. /functions

command -v statistic >/dev/null || die "the guest's programs are not built"
modprobe swrnic || die "modprobe"
make_device swr0 dummy0 192.0.2.1/24
make_device swr1 dummy1 198.51.100.1/24
counter() { cat "/sys/class/infiniband/$1/ports/1/hw_counters/$2"; }
expect 'tx_bytes 0 rx_bytes 0 ' rdma statistic show link swr0/1
statistic swr0 || die "the reports were not taken"
expect 'tx_bytes 4294967296 rx_bytes 2 tx_fpdus 3 rx_fpdus 4 tx_sends 5 rx_sends 6 tx_writes 7 rx_writes 8' rdma statistic show link swr0/1
expect 'rx_stalls 16 tx_calls 17 rx_calls 18' rdma statistic show link swr0/1
[ "$(counter swr0 rx_crc_errors)" = 15 ] || die "sysfs: $(counter swr0 rx_crc_errors)"
expect 'tx_bytes 0 rx_bytes 0 .*rx_calls 0' rdma statistic show link swr1/1
rdma link del swr0 && rdma link del swr1 && rmmod swrnic || die "something holds the module"
echo passed
