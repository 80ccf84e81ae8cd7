#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# abi_releases.sh SWRNIC PROBE TRIALS: the provider of this build under each libibverbs in TRIALS/rdma-core-releases: directories with lib/ and bin/, as
# a build of rdma-core has them. Each one's own ibv_devinfo, ibv_rc_pingpong (plain, by ibv_wr_*(3), by events) and rping run over swr0.
set -u
swrnic=$1 probe=$2 trials=$3
code=0 tried=0 port=18700
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

fail() {
    echo "  $1"
    tail -n 5 "$scratch"/* 2> /dev/null
    code=1
}

# pair NAME SERVER CLIENT [CODE]: both are commands in words; CODE: the client may end with that, too.
pair() {
    local name=$1 code_too=${4:-0} ended server client
    read -ra server <<< "$2"
    read -ra client <<< "$3"
    timeout 120 "$swrnic" run -- "${server[@]}" > "$scratch/server" 2>&1 &
    local pid=$!
    sleep 2
    timeout 30 "$swrnic" run -- "${client[@]}" > "$scratch/client" 2>&1
    ended=$?
    [ "$ended" = 0 ] || [ "$ended" = "$code_too" ] || fail "$name: the client failed ($ended)"
    wait "$pid" || fail "$name: the server failed"
    port=$((port + 1))
}

for directory in "${trials:-/nowhere}"/rdma-core-releases/*/; do
    [ -e "$directory/lib/libibverbs.so.1" ] || continue
    tried=$((tried + 1))
    export LD_LIBRARY_PATH=$directory/lib
    bin=$directory/bin
    echo "$(basename "$directory"): $("$probe")"
    before=$code
    timeout 60 "$swrnic" run -- "$bin/ibv_devinfo" > "$scratch/devinfo" 2>&1
    grep -q 'PORT_ACTIVE' "$scratch/devinfo" || fail "no active port in ibv_devinfo"
    for option in '' -N -e; do
        pair "ibv_rc_pingpong $option" "$bin/ibv_rc_pingpong -g 0 -n 100 -p $port $option" "$bin/ibv_rc_pingpong -g 0 -n 100 -p $port $option 127.0.0.1"
    done
    # The client of rdma-core 60 and later may wait for ever when it is done: its thread finds the event channel readable, and is in
    # rdma_get_cm_event() when rdma_destroy_id() has taken the event away. The server has verified the data by then.
    pair rping "$bin/rping -s -a 127.0.0.1 -p $port -C 20 -V" "$bin/rping -c -a 127.0.0.1 -p $port -C 20 -V" 124
    [ "$code" = "$before" ] && echo "  ibv_devinfo, ibv_rc_pingpong, with -N, with -e, rping: passed"
done
if [ "$tried" = 0 ]; then
    echo "skipped: no libibverbs in '$trials/rdma-core-releases' (CONTRIBUTING.md, SWRNIC_TRIALS)"
    exit 77
fi
exit "$code"
