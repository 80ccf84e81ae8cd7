#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# system/apply-links against an rdma(8) of our own that notes what it is asked. The interface lo is on every host.
set -euo pipefail

apply=$(cd "$(dirname "$0")/../.." && pwd)/system/apply-links
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

mkdir "$work/bin"
cat >"$work/bin/rdma" <<'EOF'
#!/bin/sh
case "$*" in
'link show taken/1') echo 'link taken/1 state ACTIVE physical_state LINK_UP netdev lo ' ;;
'link show moved/1') echo 'link moved/1 state ACTIVE physical_state LINK_UP netdev other0 ' ;;
'link show slow/1') [ ! -e "$ASKED.slow" ] || echo 'link slow/1 state ACTIVE physical_state LINK_UP netdev lo ' ;;
'link add slow '*) sleep 0.3; [ ! -e "$ASKED.slow" ] || exit 1; touch "$ASKED.slow" ;;
'link add refused '*) echo 'error: Operation not supported' >&2; exit 1 ;;
'link add '*) echo "$*" >>"$ASKED" ;;
*) exit 1 ;;
esac
EOF
chmod +x "$work/bin/rdma"
export PATH=$work/bin:$PATH ASKED=$work/asked

fail() {
    echo "FAILED: $case: $*"
    cat "$work/out" "$work/asked"
    exit 1
}

# try CASE EXPECTED-STATUS CONFIGURATION [ARGUMENT...]
try() {
    case=$1
    local expected=$2 status=0
    printf '%b' "$3" >"$work/links.conf"
    shift 3
    : >"$ASKED"
    "$apply" --config "$work/links.conf" "$@" >"$work/out" 2>&1 || status=$?
    [ "$status" = "$expected" ] || fail "status $status, expected $expected"
}
asked() { [ "$(cat "$ASKED")" = "$1" ] || fail "rdma was asked something else than '$1'"; }
says() { grep -qF "$1" "$work/out" || fail "does not say '$1'"; }
silent() { [ ! -s "$work/out" ] || fail "is not silent"; }

try 'one device' 0 'lo swr0\n'
asked 'link add swr0 type swrnic netdev lo'
says 'swr0 made on lo'
try 'comments, blanks, no end of line' 0 '# first\n\n \t lo\tswr0 # behind'
asked 'link add swr0 type swrnic netdev lo'
try 'nothing wanted' 0 '# nothing\n'
asked ''
silent
try 'an interface that is not there' 0 'nosuch0 swr0\n'
asked ''
says 'not there yet'
try 'only one interface' 0 'lo swr0\nnosuch0 swr1\n' --quiet nosuch0
asked ''
silent
try 'there already' 0 'lo taken\n'
asked ''
says 'already'
try 'on another interface' 1 'lo moved\n'
asked ''
says 'moved is on interface other0'
try 'refused by the kernel' 1 'lo refused\n'
says 'Operation not supported'
for wrong in lo 'lo swr0 more' 'lo 0swr' 'lo sw/r' 'lo s;id' 'abcdefghijklmnop swr0' 'a/b swr0' "lo $(printf 'a%.0s' {1..64})"; do
    try "wrong: $wrong" 1 "# one\n$wrong\n"
    asked ''
    says 'links.conf:2: '
done
try 'a wrong line does not stop the others' 1 'wrong\nlo swr0\n'
asked 'link add swr0 type swrnic netdev lo'
try 'an interface twice' 1 'lo swr0\nlo swr1\n'
asked 'link add swr0 type swrnic netdev lo'
says 'by line 1 already'
try 'a device twice' 1 'lo swr0\neth9 swr0\n'
says 'made by line 1 already'
case='the service and the udev rule at once'
printf 'lo slow\n' >"$work/links.conf"
"$apply" --config "$work/links.conf" >"$work/first" 2>&1 &
"$apply" --config "$work/links.conf" >"$work/out" 2>&1 || fail 'the one in the foreground'
wait $! || fail 'the one in the background'
grep -qh 'slow made on lo' "$work/first" "$work/out" || fail 'nobody made it'
grep -qh 'slow is on lo already' "$work/first" "$work/out" || fail 'both made it'
case='no file'
if "$apply" --config "$work/none" >"$work/out" 2>&1; then fail 'took it'; fi
says 'cannot read'
case='unknown option'
if "$apply" --wrong >"$work/out" 2>&1; then fail 'took it'; fi
echo passed
