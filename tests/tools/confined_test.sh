#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# confined_test.sh SWRNIC CONFINED: rping, each byte verified, where nothing is granted: an ordinary user, in a user namespace and a network of its own
# (unshare -Urn), every file system read-only, no /dev/infiniband, 64 KiB of memory to lock, and a container's usual seccomp profile.
set -euo pipefail
swrnic=$1 confined=$2

user=()
if [ "$(id -u)" = 0 ]; then user=(setpriv --reuid=65534 --regid=65534 --clear-groups); fi
cannot() {
    echo "cannot test: $*"
    exit 77
}
for program in rping ibv_devinfo; do command -v "$program" >/dev/null || cannot "$program is not installed"; done
"${user[@]}" test -x "$swrnic" || cannot "an ordinary user cannot reach $swrnic"
"${user[@]}" unshare --user --map-root-user --net --mount true 2>/dev/null || cannot 'no user namespaces for an ordinary user here'
"${user[@]}" "$confined" true || cannot 'no seccomp here'
# shellcheck disable=SC2016  # for the shell inside
"${user[@]}" unshare --user --map-root-user --net --mount bash -euo pipefail -c '
    ip link set lo up
    [ ! -e /dev/infiniband ] || mount -t tmpfs none /dev/infiniband
    # Submounts first. What the namespace may not touch stays as it is; what could be written to by this user may not remain.
    awk "{ print \$2 }" /proc/self/mounts | sort -r | while read -r place; do mount -o remount,bind,ro "$place" 2>/dev/null || true; done
    for place in / /tmp /var/tmp /dev/shm /run; do
        ! : 2>/dev/null >"$place/swrnic-confined" || { echo "$place can be written to"; exit 1; }
    done
    cd /
    run=("$2" "$1" run --)
    "${run[@]}" sh -c "ulimit -l" | grep -qx 64
    "${run[@]}" ibv_devinfo -d swr0 | grep PORT_ACTIVE
    "${run[@]}" rping -s -a 127.0.0.1 -p 7174 -C 20 -S 8192 -V &
    for _ in $(seq 100); do
        grep -q ":1C06 .* 0A " /proc/net/tcp && break
        sleep 0.1
    done
    "${run[@]}" rping -c -a 127.0.0.1 -p 7174 -C 20 -S 8192 -V
    wait $!
' bash "$swrnic" "$confined"
echo passed
