# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# What happens to the interface, as events and attributes of the port.
# shellcheck shell=bash
. /functions

command -v async_watch >/dev/null || die "the guest's programs are not built"
modprobe swrnic || die "modprobe"
make_device swr0 dummy0 192.0.2.1/24
async_watch swr0 >/tmp/events 2>&1 &
watch=$!
until_true 5 grep -q watching /tmp/events || die "no watch: $(cat /tmp/events)"
# happens EVENT COMMAND...: the command brings one more event of that name.
happens() {
    local event=$1 before
    shift
    before=$(grep -c "$event" /tmp/events)
    "$@" || die "$*"
    until_true 5 bash -c "[ \$(grep -c '$event' /tmp/events) -gt $before ]" || die "no $event after $*: $(cat /tmp/events)"
}
happens 'port error' ip link set dummy0 down
ip link set dummy0 mtu 1400
happens 'port active' ip link set dummy0 up
[ "$(grep -c '^port' /tmp/events)" = 2 ] || die "an MTU change of a dead port was told: $(cat /tmp/events)"
happens 'port active' ip link set dummy0 mtu 9000
expect 'active_mtu:.*4096' ibv_devinfo -d swr0
happens 'port active' ip link set dummy0 mtu 1500
expect 'active_mtu:.*1024' ibv_devinfo -d swr0
happens 'client re' ip link set dummy0 address 02:00:00:00:12:34
expect 'fe80:0000:0000:0000:0000:00ff:fe00:1234' cat /sys/class/infiniband/swr0/ports/1/gids/0
happens 'client re' ip addr add 192.0.2.9/24 dev dummy0
happens 'catastrophic' rdma link del swr0
until_true 5 gone $watch || die "the watch goes on: $(cat /tmp/events)"

# A veth says 10 Gbit/s, a dummy nothing.
ip link add veth0 type veth peer name veth1
rdma link add swr1 type swrnic netdev veth0 || die "no device on veth0"
expect '10 Gb/sec (1X QDR)' cat /sys/class/infiniband/swr1/ports/1/rate
make_device swr0 dummy1 198.51.100.1/24
expect '10 Gb/sec (1X QDR)' cat /sys/class/infiniband/swr0/ports/1/rate
[ -z "$(dmesg | grep -i 'speed')" ] || die "the log speaks of speed: $(dmesg | grep -i speed)"
rdma link del swr0 && rdma link del swr1 && rmmod swrnic || die "something holds the module"
echo passed
