# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# Ends of every kind under traffic, many times: who is left hears of it, and no object, no module reference and no memory is left
# (a descriptor would show in the cache filp).
# shellcheck shell=bash
. /functions

: "${ROUNDS:=8}" # with fewer an object for each round would pass for noise
modprobe swrnic || die "modprobe"
nothing_lingers
make_device swr0 dummy0 192.0.2.1/24

# Where every thread of it waits.
where() { head -n 2 /proc/"$1"/task/*/stack; }

both_ended() {
    until_true 10 gone "$client" || die "$1: the client does not end: $(where "$client") $(tail -n 3 /tmp/client)"
    until_true 10 gone "$server" || die "$1: the server does not end: $(where "$server") $(tail -n 3 /tmp/server)"
}

# hears HOW WHO WHAT: a program says so when it is told, unless its flushed completions end it first.
declare -A heard=() ended=()
hears() { ! grep -q "$3" "/tmp/$2" || heard[$1]=$((${heard[$1]-0} + 1)); }

end_kill_client() {
    kill -9 "$client"
    both_ended "kill -9 of the client"
    hears kill_client server 'DISCONNECT'
}
end_kill_server() {
    kill -9 "$server"
    both_ended "kill -9 of the server"
    hears kill_server client 'DISCONNECT'
}
end_link_del() {
    timeout $((10 * SLOW)) rdma link del swr0 || die "rdma link del: $?"
    both_ended "rdma link del"
    hears link_del client 'device removal'
    hears link_del server 'device removal'
    rdma link add swr0 type swrnic netdev dummy0 || die "no device again"
}
end_interface_del() {
    timeout $((10 * SLOW)) ip link del dummy0 || die "ip link del: $?"
    both_ended "ip link del"
    hears interface_del client 'device removal'
    hears interface_del server 'device removal'
    until_true 5 bash -c '! rdma link | grep -q swr0' || die "the device outlived its interface"
    make_device swr0 dummy0 192.0.2.1/24
}
end_interface_down() {
    ip link set dummy0 down
    sleep 0.2
    kill -9 "$client" "$server"
    both_ended "ip link set down"
    ip link set dummy0 up
}
end_rmmod() {
    refused 'in use' rmmod swrnic
    kill -9 "$client" "$server"
    both_ended "rmmod"
    rdma link del swr0
    free_module
    rmmod swrnic || die "something holds the module"
    modprobe swrnic || die "modprobe"
    rdma link add swr0 type swrnic netdev dummy0 || die "no device again"
}

# Each kind of end, so many times.
rounds() {
    local i how
    for how in kill_client kill_server link_del interface_del interface_down rmmod; do
        for ((i = 0; i < ROUNDS; i++)); do
            traffic 192.0.2.1
            "end_$how"
            ended[$how]=$((${ended[$how]-0} + 1))
            nothing_left
        done
    done 2>/dev/null
    free_module
    echo "$((ROUNDS * 6)) ends"
}
no_leak "$ROUNDS" rounds
for how in kill_client kill_server link_del interface_del; do
    echo "$how: heard of ${heard[$how]-0} times"
    [ $((${heard[$how]-0} * 3)) -ge "${ended[$how]}" ] || die "$how: few were told, of ${ended[$how]} ends"
done
rdma link del swr0
free_module
rmmod swrnic || die "something holds the module"
echo passed
