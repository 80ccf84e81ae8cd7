# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# With siw, an iWARP by others, in the other namespace: both ways, with our CRC on and off.
# shellcheck shell=bash
. /functions

variant=$(cat /siw-variant) || die "no siw: run with --siw"
modprobe swrnic || die "modprobe swrnic"
modprobe siw || die "modprobe siw"
two_namespaces
rdma link del swr2
ip netns exec n2 rdma link add siw2 type siw netdev v2 || die "no siw"
export SWRNIC_MPA_REV=${variant:3:1}
for crc in on off; do
    export SWRNIC_CRC=$crc
    echo "-- siw $variant, our CRC $crc"
    pair n1 n2 7174 "rping -s -a 10.9.0.1 -p 7174 -C 10" "rping -c -a 10.9.0.1 -p 7174 -C 10 -v"
    # With revision 1 siw's Responder cannot post Reads, which rping's server does.
    [ "${variant%-crc}" = rev1 ] ||
        pair n2 n1 7174 "rping -s -a 10.9.0.2 -p 7174 -C 10" "rping -c -a 10.9.0.2 -p 7174 -C 10 -v"
    for test in ib_write_bw ib_read_bw ib_send_bw; do
        [ "$SWRNIC_MPA_REV $test" != "1 ib_read_bw" ] || continue
        pair n1 n2 18515 "$test -R -d swr1 -s 65536 -n 50 -F" "$test -R -d siw2 -s 65536 -n 50 -F 10.9.0.1"
        grep ' 65536 ' /tmp/client || die "$test: $(cat /tmp/client)"
        pair n2 n1 18515 "$test -R -d siw2 -s 65536 -n 50 -F" "$test -R -d swr1 -s 65536 -n 50 -F 10.9.0.2"
        grep ' 65536 ' /tmp/client || die "$test: $(cat /tmp/client)"
    done
done
rdma link del siw2
nothing_left
rdma link del swr1 && rmmod swrnic || die "something holds the module"
echo passed
