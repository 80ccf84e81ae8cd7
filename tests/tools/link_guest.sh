# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# In the guest: `swrnic link` does what `rdma link` does, and says in plain words why it cannot.
# shellcheck shell=bash
# shellcheck disable=SC1091
. /functions

modprobe ib_core || die "modprobe ib_core"
ip link add dummy0 type dummy || die "no dummy interface"
ip link add dummy1 type dummy || die "no dummy interface"
ip addr add 192.0.2.1/24 dev dummy0
ip link set dummy0 up
refused 'no network device nosuch0' swrnic link add swr0 netdev nosuch0
refused 'knows no links of type nosuch: its module is not loaded' swrnic link add swr0 type nosuch netdev dummy0
[ -z "$(swrnic link)" ] || die "a device before there is one: $(swrnic link)"

swrnic link add swr0 netdev dummy0 || die "add, with the module not loaded yet"
expect 'link swr0/1 state ACTIVE physical_state LINK_UP netdev dummy0' swrnic link show swr0
[ "$(swrnic link | sed 's/ *$//')" = "$(rdma link | sed 's/ *$//')" ] || die "not what rdma shows: $(swrnic link) / $(rdma link)"
refused 'the name swr0 is taken' swrnic link add swr0 netdev dummy1
refused 'dummy0 has a device of this kind already' swrnic link add swr1 netdev dummy0
refused 'no RDMA device swr9' swrnic link show swr9
refused 'no RDMA device swr9' swrnic link del swr9
refused 'may be no device name' swrnic link add 'swr%d' type swrnic netdev dummy1

# Anybody may look, and root alone may change.
expect 'link swr0/1' as_nobody swrnic link
refused 'needs root' as_nobody swrnic link add swr1 netdev dummy1
refused 'needs root' as_nobody swrnic link del swr0
swrnic link del swr0 || die "del"
[ -z "$(rdma link)" ] || die "still there: $(rdma link)"

# What README.md and swrnic-link.1 tell to type.
ip link add eth0 type dummy || die "no dummy interface"
# shellcheck disable=SC2016 # a fence, not a command
example=$(sed -n '/^```sh guest link$/,/^```$/{/^```/!p}' /README.md)
bash -e -c "${example:?}" || die "the example of README.md: $example"
expect 'link swr0/1 .* netdev eth0' swrnic link
swrnic link del swr0 || die "del"
example=$(sed -n '/^\.EX$/,/^\.EE$/{/^\./!p}' /swrnic-link.1)
expect 'link swr0/1 .* netdev eth0' bash -e -c "${example:?}"
[ -z "$(rdma link)" ] || die "still there: $(rdma link)"
echo passed
