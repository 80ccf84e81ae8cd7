# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# shellcheck shell=bash
# Sourced by the tests beside it. They try what is installed; as root they go on as an ordinary user.
set -euo pipefail

if [ "$(id -u)" = 0 ]; then exec setpriv --reuid=65534 --regid=65534 --clear-groups -- env HOME=/ "$0" "$@"; fi

fail() {
    echo "FAILED: $*"
    exit 1
}

# Whether some process listens on TCP port $1. Read from /proc: to connect would disturb the server.
listens() {
    local hex
    printf -v hex '%04X' "$1"
    cat /proc/net/tcp /proc/net/tcp6 2>/dev/null | awk -v port=":$hex" '
        $4 == "0A" && substr($2, length($2) - 4) == port { found = 1 } END { exit !found }'
}

free_port() {
    local port=$((20000 + RANDOM % 10000))
    while listens "$port"; do port=$((port + 1)); done
    echo "$port"
}

# over_device PORT SERVER... -- CLIENT...: both under `swrnic run`; both must end with status 0. The outputs are in $out.
over_device() {
    local port=$1 server=() pid code=0 server_code=0
    shift
    while [ "$1" != -- ]; do
        server+=("$1")
        shift
    done
    shift
    timeout 120 swrnic run "${server[@]}" >"$out/server" 2>&1 &
    pid=$!
    for _ in $(seq 200); do
        listens "$port" && break
        kill -0 "$pid" 2>/dev/null || break
        sleep 0.1
    done
    timeout 90 swrnic run "$@" >"$out/client" 2>&1 || code=$?
    [ "$code" = 0 ] || kill "$pid" 2>/dev/null || true
    wait "$pid" || server_code=$?
    tail -n 20 "$out/server" "$out/client"
    [ "$code" = 0 ] && [ "$server_code" = 0 ]
}

out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
