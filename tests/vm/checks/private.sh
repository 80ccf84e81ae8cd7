# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# Private data of every length, both ways. rdma_cm's own length is one octet: 255 is the most that can be asked for or shown. What a
# peer that is not Linux sends beyond that is refused when it asks, and cut when it answers (docs/EXCEPTIONS.md, VERBS-48).
# shellcheck shell=bash
. /functions

command -v raw_mpa >/dev/null || die "the guest's programs are not built"
modprobe swrnic || die "modprobe"
make_device swr0 dummy0 192.0.2.1/24

cm_peer serve 192.0.2.1 7174 >/tmp/server 2>&1 &
server=$!
until_true 10 listening 7174 || die "the server does not listen: $(cat /tmp/server)"
for length in 0 1 251 252 254 255; do
    for revision in 1 2; do
        SWRNIC_MPA_REV=$revision timeout $((30 * SLOW)) cm_peer call 192.0.2.1 7174 $length >/tmp/client 2>&1 ||
            die "$length octets by rdma_cm, revision $revision: $(cat /tmp/client)"
    done
done

# call REVISION LENGTH ANSWER
call() {
    timeout $((30 * SLOW)) raw_mpa call 192.0.2.1 7174 "$1" "$2" >/tmp/client 2>&1
    [ "$(cat /tmp/client)" = "$3" ] || die "a peer's $2 octets, revision $1: $(cat /tmp/client) instead of $3"
}
for revision in 1 2; do
    for length in 0 255; do call $revision $length "accepted $length"; done
    for length in 256 257 508; do call $revision $length rejected; done
done
call 1 512 rejected
call 2 509 closed
timeout $((30 * SLOW)) cm_peer call 192.0.2.1 7174 255 >/tmp/client 2>&1 || die "the server serves no more: $(cat /tmp/client)"
kill -9 $server

# answer LENGTH accept|reject WHAT-THE-CALLER-SAYS: by a raw peer, to a Request with 9 octets.
answer() {
    raw_mpa serve 192.0.2.1 7180 "$1" "$2" >/tmp/server 2>&1 &
    server=$!
    until_true 10 listening 7180 || die "the raw peer does not listen"
    SWRNIC_MPA_REV=1 timeout $((30 * SLOW)) cm_peer hear 192.0.2.1 7180 9 >/tmp/client 2>&1
    grep -q "$3" /tmp/client || die "an answer ($2) with $1 octets: $(cat /tmp/client) instead of $3"
    wait $server
    grep -q 'asked with 9' /tmp/server || die "the raw peer: $(cat /tmp/server)"
}
for how in accept reject; do
    for length in 0 255; do answer $length $how "$how.* $length octets, unchanged"; done
    for length in 256 512; do answer $length $how "$how.* 255 octets, unchanged"; done
done
nothing_left
[ "$(dmesg | grep -c -i 'swrnic')" -le 2 ] || die "the log is not clean: $(dmesg | grep -i swrnic)"
rdma link del swr0 && rmmod swrnic || die "something holds the module"
echo passed
