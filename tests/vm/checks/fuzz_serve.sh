# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# A hostile daemon: it serves consumers in the kernel with every ioctl in any order and with any value. Nothing may change but what was
# posted or registered, and nothing after it was given back; the consumer is never kept waiting; the kernel stays silent.
# shellcheck shell=bash
. /functions

command -v fuzz_serve >/dev/null || die "the guest's programs are not built"
modprobe swrnic || die "modprobe"
make_device swr0 dummy0 192.0.2.1/24

parameter() { cat /sys/module/consumer/parameters/"$1"; }
consumer_done() { [ "$(parameter verdict)" != 0 ]; }

# consumer SECONDS ARGUMENT...: it must have found nothing wrong.
consumer() {
    local seconds=$1
    shift
    modprobe consumer "$@" || die "modprobe consumer"
    until_true "$seconds" consumer_done || die "the consumer hangs: $(parameter rounds_done) rounds; $(dmesg | tail -n 3)"
    [ "$(parameter verdict)" = 1 ] || die "the consumer: $(dmesg | grep consumer: | tail -n 5)"
    echo "consumer: $(parameter rounds_done) rounds, completions $(parameter good) good, $(parameter bad) bad"
}

serving() { grep -q serving /tmp/fuzz; }

# Nobody serves: an error at once, and a line that says why.
consumer 60 rounds=1
dmesg | grep -q 'swrnicd does not run' || die "the log does not say that nobody serves"
rmmod consumer

for seed in 1 2 3; do
    fuzz_serve swr0 $((20 * SLOW)) $seed >/tmp/fuzz 2>&1 &
    server=$!
    until_true 10 serving || die "it does not serve: $(cat /tmp/fuzz)"
    consumer $((120 * SLOW)) rounds=40 hold_ms=300 srq=$((seed % 2))
    [ "$(parameter good)" -gt 0 ] || die "no request was ever completed"
    rmmod consumer
    wait $server || die "the daemon: $(cat /tmp/fuzz)"
    cat /tmp/fuzz
done

# It dies in the middle, again and again.
fuzz_serve swr0 3600 4 >/tmp/fuzz 2>&1 &
server=$!
until_true 10 serving || die "it does not serve"
modprobe consumer rounds=20 hold_ms=300 || die "modprobe consumer"
for i in 1 2 3 4 5 6; do
    sleep 2
    kill -9 $server
    wait $server 2>/dev/null
    fuzz_serve swr0 3600 "$i" >/tmp/fuzz 2>&1 &
    server=$!
done
until_true 120 consumer_done || die "the consumer hangs: $(parameter rounds_done) rounds"
[ "$(parameter verdict)" = 1 ] || die "the consumer: $(dmesg | grep consumer: | tail -n 5)"
rmmod consumer

# It stands still: the consumer ends all the same.
until_true 10 serving || die "it does not serve"
kill -STOP $server
consumer 120 rounds=1 hold_ms=300
rmmod consumer
kill -CONT $server

# The device goes, under consumer and daemon.
modprobe consumer rounds=1000 hold_ms=300 || die "modprobe consumer"
sleep 3
timeout $((60 * SLOW)) rdma link del swr0 || die "the device stays"
until_true 60 consumer_done || die "the consumer hangs: $(parameter rounds_done) rounds"
[ "$(parameter verdict)" = 1 ] || die "the consumer: $(dmesg | grep consumer: | tail -n 5)"
rmmod consumer
! grep FAILED /tmp/fuzz || die "the daemon did not outlive the device"
kill -9 $server
wait $server 2>/dev/null
nothing_left
rmmod swrnic || die "something holds the module"
echo passed
