# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# Wants siw (--siw rev2) and rawtcp (--file).
# Beside plain TCP and siw, in one guest over lo, CRC off everywhere: ib_write_bw and ib_send_lat. Emulated, so only the ratios mean
# anything. Runs are interleaved; each figure is the median of its runs. A row of ib_write_bw behind siw, or less than three times
# siw at 1 MiB with MTU 1500, fails.
# shellcheck shell=bash
. /functions

[ -e /siw-variant ] || die "no siw: run with --siw rev2"
command -v rawtcp >/dev/null || die "no rawtcp: run with --file .../rawtcp:/bin/rawtcp"
: "${PAIRS:=3}"
modprobe swrnic || die "modprobe swrnic"
modprobe siw || die "modprobe siw"
export SWRNIC_CRC=off
ip link add dummy0 type dummy
ip addr add 192.0.2.1/24 dev dummy0
ip link set dummy0 up

# only DEVICE: this one and no other, since a server's listener is on every device that there is.
only() {
    local kind=${1%0}
    rdma link | grep -q "$1" && return
    rdma link | grep -q swr0 && rdma link del swr0
    rdma link | grep -q siw0 && rdma link del siw0
    rdma link add "$1" type "${kind/swr/swrnic}" netdev dummy0 || die "no $1"
}

declare -A count=([64]=20000 [4096]=5000 [65536]=1000 [1048576]=100)

# column FILE SIZE N
column() { awk -v size="$2" -v n="$3" '$1 == size {print $n}' "$1" | tail -n 1; }

# bw DEVICE SIZE, lat DEVICE [-e], tcp_bw SIZE, tcp_lat HOW: set figure.
bw() {
    only "$1"
    pair - - 18515 "ib_write_bw -R -d $1 -s $2 -n ${count[$2]} -F" "ib_write_bw -R -d $1 -s $2 -n ${count[$2]} -F 192.0.2.1"
    figure=$(column /tmp/client "$2" 4) # average, MiB/s
}
lat() {
    only "$1"
    pair - - 18515 "ib_send_lat -R $2 -d $1 -s 64 -n 2000 -F" "ib_send_lat -R $2 -d $1 -s 64 -n 2000 -F 192.0.2.1"
    figure=$(column /tmp/client 64 5) # typical, us
}
tcp_bw() { figure=$(rawtcp bw "$1" 1 | tail -n 1 | awk '{print $1 * 1000000 / 1048576}'); }
tcp_lat() { figure=$(rawtcp lat 64 2000 "$1" | tail -n 1 | awk '{print $1}'); }

# row NAME: the three files' medians, and how ours compares; better: 1 if more is better.
row() {
    local ours siw tcp
    ours=$(median </tmp/ours) siw=$(median </tmp/siw) tcp=$(median </tmp/tcp)
    [ -n "$ours" ] && [ -n "$siw" ] && [ -n "$tcp" ] || die "$1: no figure: $ours, $siw, $tcp"
    awk -v name="$1" -v a="$ours" -v s="$siw" -v t="$tcp" 'BEGIN {
        printf "%-34s %10.2f %10.2f %10.2f %8.2f %8.2f\n", name, a, s, t, a / s, a / t }' | tee -a /tmp/table
}

# measure 'OURS' 'SIW' 'TCP'
measure() {
    local i
    : >/tmp/ours
    : >/tmp/siw
    : >/tmp/tcp
    for ((i = 0; i < PAIRS; i++)); do
        $1
        echo "$figure" >>/tmp/ours
        $2
        echo "$figure" >>/tmp/siw
        $3
        echo "$figure" >>/tmp/tcp
    done
}

missed=''
printf '%-34s %10s %10s %10s %8s %8s\n' "CRC off, siw $(cat /siw-variant)" swrnic siw TCP /siw /TCP
for mtu in ${MTUS:-1500 65536}; do
    ip link set lo mtu "$mtu"
    for size in ${SIZES:-64 4096 65536 1048576}; do
        measure "bw swr0 $size" "bw siw0 $size" "tcp_bw $size"
        row "ib_write_bw MTU $mtu, $size"
        least=1
        [ "$mtu $size" != "1500 1048576" ] || least=3
        tail -n 1 /tmp/table | awk -v least=$least '{exit !($(NF - 1) >= least)}' || missed+=" $mtu/$size"
    done
done
for how in spin block; do
    flag=''
    [ $how = spin ] || flag=-e
    measure "lat swr0 $flag" "lat siw0 $flag" "tcp_lat $how"
    row "ib_send_lat 64 $flag, us"
done
[ -z "$missed" ] || die "rows of ib_write_bw behind siw (MTU/size):$missed"
echo passed
