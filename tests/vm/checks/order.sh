# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# Reports early, twice and late; and kill -9 at every stage between accept and QP_READY, of either side.
# shellcheck shell=bash
. /functions

command -v event_file_order >/dev/null || die "the guest's programs are not built"
modprobe swrnic || die "modprobe"
make_device swr0 dummy0 192.0.2.1/24

timeout $((100 * SLOW)) event_file_order table 192.0.2.1 || die "a report had the wrong answer, or rdma_cm the wrong event"
nothing_left

# ended PID WHAT: within a second.
ended() {
    until_true 1 gone "$1" || die "$2 does not end: $(cat "/proc/$1/stack" "/proc/$1/wchan" 2>/dev/null)"
    nothing_left
}

for stage in asked queued taken; do
    event_file_order accept 192.0.2.1 7174 $stage >/tmp/server 2>&1 &
    server=$!
    until_true 10 listening 7174 || die "the server does not listen: $(cat /tmp/server)"
    cm_peer wait 192.0.2.1 7174 >/tmp/client 2>&1 &
    client=$!
    until_true 10 grep -q held /tmp/server || die "the server does not get as far as $stage: $(cat /tmp/server /tmp/client)"
    kill -9 $server
    until_true 1 gone $server || die "the server ($stage) does not end: $(cat /proc/$server/stack)"
    until_true 10 gone $client || die "the client (server killed when $stage) hears nothing"
    # Until the Reply is out it is a refusal; after it the connection stands, and is lost.
    case $stage in
    asked) grep -q 'REJECTED' /tmp/client || die "the client (server killed when $stage) heard: $(cat /tmp/client)" ;;
    *) [ "$(tr "\n" " " </tmp/client)" = "established disconnected " ] || die "the client (server killed when $stage) heard: $(cat /tmp/client)" ;;
    esac
    echo "server killed when $stage, the client: $(tail -n 1 /tmp/client)"
    ended $server server
done

for stage in asked queued taken; do
    cm_peer serve 192.0.2.1 7174 >/tmp/server 2>&1 &
    server=$!
    until_true 10 listening 7174 || die "the server does not listen: $(cat /tmp/server)"
    event_file_order connect 192.0.2.1 7174 $stage >/tmp/client 2>&1 &
    client=$!
    until_true 10 grep -q held /tmp/client || die "the client does not get as far as $stage: $(cat /tmp/client)"
    kill -9 $client
    until_true 1 gone $client || die "the client ($stage) does not end: $(cat /proc/$client/stack)"
    cm_peer call 192.0.2.1 7174 5 >/tmp/client 2>&1 || die "the server does not serve on: $(cat /tmp/client /tmp/server)"
    kill -9 $server
    ended $server server
done

echo "-- a peer that never sends its first FPDU"
cm_peer serve 192.0.2.1 7174 >/tmp/server 2>&1 &
server=$!
until_true 10 listening 7174 || die "the server does not listen: $(cat /tmp/server)"
raw_mpa call 192.0.2.1 7174 2 4 hold >/tmp/client 2>&1 &
client=$!
until_true 10 grep -q 'accepted 4' /tmp/client || die "not accepted: $(cat /tmp/client)"
kill -9 $server
ended $server "the server that waits for an FPDU"
kill -9 $client

echo "-- stopped, then killed"
cm_peer serve 192.0.2.1 7174 >/tmp/server 2>&1 &
server=$!
until_true 10 listening 7174 || die "the server does not listen: $(cat /tmp/server)"
kill -STOP $server
cm_peer call 192.0.2.1 7174 0 >/tmp/client 2>&1 &
client=$!
sleep 1
kill -9 $server
until_true 1 gone $server || die "the stopped server does not end"
until_true 10 gone $client || die "its client hears nothing"
grep -q 'REJECTED' /tmp/client || die "its client heard: $(cat /tmp/client)"
nothing_left
rdma link del swr0 && rmmod swrnic || die "something holds the module"
echo passed
