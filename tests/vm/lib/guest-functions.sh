# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# In the guest, as /functions: what the checks share. Sourced by bash.
# shellcheck shell=bash

SLOW=1 # how much longer everything may take here
# shellcheck disable=SC1091
[ ! -e /settings ] || . /settings

die() {
    echo "FAILED: $*"
    exit 1
}

# expect TEXT COMMAND...: the command succeeds and says TEXT (a basic regular expression).
expect() {
    local text=$1 said
    shift
    said=$("$@" 2>&1) || die "$* returned $?: $said"
    grep -q -- "$text" <<<"$said" || die "$* did not say '$text' but: $said"
}

# refused TEXT COMMAND...: the command fails and says TEXT.
refused() {
    local text=$1 said
    shift
    if said=$("$@" 2>&1); then die "$* was not refused: $said"; fi
    grep -q -- "$text" <<<"$said" || die "$* did not say '$text' but: $said"
}

# make_device NAME NETDEV ADDRESS...: a dummy interface with these addresses, and our device on it.
make_device() {
    local name=$1 netdev=$2 address
    shift 2
    ip link add "$netdev" type dummy || die "no dummy interface"
    for address in "$@"; do ip addr add "$address" dev "$netdev" nodad 2>/dev/null || ip addr add "$address" dev "$netdev"; done
    ip link set "$netdev" up
    rdma link add "$name" type swrnic netdev "$netdev" || die "rdma link add $name failed"
}

# until_true SECONDS COMMAND...
until_true() {
    local left=$(($1 * 5 * SLOW))
    shift
    while ! "$@" >/dev/null 2>&1; do
        left=$((left - 1))
        [ $left -gt 0 ] || return 1
        sleep 0.2
    done
}

# median: the middle one of the numbers on standard input, the lower one of two.
median() { sort -g | awk '{v[NR] = $1} END {print v[int((NR + 1) / 2)]}'; }

# listening PORT: somebody listens there, on TCP; kernel sockets do not show up in every ss, so /proc is asked.
listening() {
    local hex
    hex=$(printf '%04X' "$1")
    cat /proc/net/tcp /proc/net/tcp6 2>/dev/null | awk '{print $2, $4}' | grep -q ":$hex 0A"
}

# in_ns NAMESPACE COMMAND...: "-" is the namespace that we are in.
in_ns() {
    local namespace=$1
    shift
    if [ "$namespace" = - ]; then "$@"; else ip netns exec "$namespace" "$@"; fi
}

# Without rdma_cm perftest never deregisters the region of the credits that its ib_send_bw sends on iWARP, and so cannot free its PD.
harmless_leak() { # COMMAND OUTPUT
    [[ $1 == *ib_send_bw* && $1 != *" -R"* ]] && grep -q 'Failed to deallocate PD - Device or resource busy' "$2"
}

# rping closes its event channel under its own thread, which then ends the process with 255 if it is quick: what counts is the pings.
harmless_end() {
    if harmless_leak "$1" /tmp/client; then return; fi
    [[ $1 =~ ^rping.*-C\ ([0-9]+).*-v ]] && grep -q 'rdma_get_cm_event: Bad file descriptor' /tmp/client &&
        [ "$(grep -c 'ping data: rdma-ping' /tmp/client)" = "${BASH_REMATCH[1]}" ]
}

# The same of its server, which has done its part when the client has all its pings.
harmless_server_end() {
    if harmless_leak "$1" /tmp/server; then return; fi
    [[ $1 == rping* ]] && grep -q 'rdma_get_cm_event: Bad file descriptor' /tmp/server
}

# perftest's client connects twice, and does not wait for its server to listen a second time.
early_client() { [[ $1 == ib_* ]] && grep -q 'RDMA_CM_EVENT_REJECTED; error: -111' /tmp/client; }

# pair SERVER-NS CLIENT-NS PORT 'SERVER COMMAND' 'CLIENT COMMAND': both must succeed; what they say is in /tmp/server and /tmp/client.
pair() {
    local server tries
    for tries in 1 2 3 4 5; do
        # shellcheck disable=SC2086
        in_ns "$1" timeout $((100 * SLOW)) $4 >/tmp/server 2>&1 &
        server=$!
        until_true 20 in_ns "$1" bash -c ". /functions; listening $3" || die "$4 does not listen: $(cat /tmp/server)"
        # shellcheck disable=SC2086
        if in_ns "$2" timeout $((100 * SLOW)) $5 >/tmp/client 2>&1 || harmless_end "$5"; then
            wait $server || harmless_server_end "$4" || die "$4 returned $?: $(tail -n 8 /tmp/server)"
            return
        fi
        early_client "$5" || break
        busybox killall -9 "${4%% *}"
        wait $server
    done
    die "$5 failed ($tries): $(tail -n 8 /tmp/client) server: $(tail -n 8 /tmp/server)"
}

# traffic ADDRESS: $server and $client, rping without end.
traffic() {
    rping -s -a "$1" -p 7174 >/tmp/server 2>&1 &
    server=$!
    until_true 10 listening 7174 || die "the server does not listen: $(cat /tmp/server)"
    : >/tmp/client # what the last one said is not what this one says
    rping -c -a "$1" -p 7174 -v >/tmp/client 2>&1 &
    client=$!
    until_true 10 grep -q 'ping data' /tmp/client || die "no traffic: $(cat /tmp/client)"
}

# qperf_client COMMAND...: qperf's server tells its port before it listens there; a client that is faster is rejected, and tries again.
qperf_client() {
    local tries
    for tries in 1 2 3 4 5; do
        if "$@" >/tmp/client 2>&1; then break; fi
        grep -q 'Event rejected' /tmp/client || tries=5
        [ "$tries" != 5 ] || die "qperf: $(cat /tmp/client) server: $(cat /tmp/server) $(dmesg | tail -n 3)"
    done
    cat /tmp/client
}

objects() {
    local kind
    for kind in qp cq mr cm_id pd ctx; do rdma resource show $kind; done | grep -v '\[.*\]$'
}

no_objects() { [ -z "$(objects)" ]; }

# nothing_left: no object of ours in the kernel's accounts.
nothing_left() { until_true 5 no_objects || die "left behind: $(objects)"; }

gone() { ! kill -0 "$1" 2>/dev/null; }
# workers_of PROCESS...: the processes that these swrnicd have for their devices.
workers_of() {
    local daemon
    # Not all kernels have /proc/PID/task/PID/children.
    for daemon in "$@"; do grep -ls "^PPid:[[:space:]]*$daemon\$" /proc/[0-9]*/status | cut -d / -f 3 | xargs; done
}

# two_namespaces: n1 and n2, joined by veth, device swrN with 10.9.0.N and 2001:db8:9::N in namespace nN.
two_namespaces() {
    ip netns add n1 && ip netns add n2 || die "no namespaces"
    # Two numbers, since siw binds other namespaces' listeners to this one's interface of the same number.
    ip link add v1 index 11 netns n1 type veth peer name v2 index 12 netns n2 || die "no veth"
    local n
    for n in 1 2; do
        ip -n n$n link set lo up
        ip -n n$n addr add 10.9.0.$n/24 dev v$n
        ip -n n$n addr add 2001:db8:9::$n/64 dev v$n nodad
        ip -n n$n link set v$n up
        ip netns exec n$n rdma link add swr$n type swrnic netdev v$n || die "rdma link add in n$n"
    done
}

# nothing_lingers: from now on TCP keeps no connection in TIME_WAIT, which would be counted for a minute.
nothing_lingers() { echo 0 >/proc/sys/net/ipv4/tcp_max_tw_buckets; }

# tcp_sockets: those of this namespace, but for connections of earlier checks that linger in TIME_WAIT (06).
tcp_sockets() { cat /proc/net/tcp /proc/net/tcp6 | grep -v '^ *sl\|^ *[0-9]*: [0-9A-F:]* [0-9A-F:]* 06 '; }

# slabs FILE: how many objects each cache of the kernel has. A processor keeps pages to itself whose free objects count too, so caches
# that others use as well waver by a page or two: the least of three readings, and no process is made meanwhile. Wants slab_nomerge,
# as run gives.
slabs() {
    local cache objects _ i
    local -A least=()
    for i in 1 2 3; do
        sleep 1 # what RCU frees
        echo 3 >/proc/sys/vm/drop_caches
        for cache in /sys/kernel/slab/*; do
            echo 1 >"$cache/shrink"
            read -r objects _ <"$cache/objects"
            cache=${cache##*/}
            [ "${least[$cache]-$objects}" -lt "$objects" ] || least[$cache]=$objects
        done
    done 2>/dev/null
    # Stacks of processes that have ended are given back by the thousand; names of files stay as long as there is room. A file that
    # is left behind shows in filp, a socket in sock_inode_cache. What kmemleak
    # and debug_objects keep of others' objects is not counted twice.
    for cache in vmap_area dentry inode_cache lsm_inode_cache kernfs_iattrs_cache kmemleak_object kmemleak_scan_area \
        debug_objects_cache; do
        unset "least[$cache]"
    done
    for cache in "${!least[@]}"; do echo "$cache ${least[$cache]}"; done >"$1"
    [ -s "$1" ] || die "the kernel counts no slab objects"
}

# grown BEFORE AFTER MORE-THAN: the caches that have gained more objects than that.
grown() { awk -v allowed="$3" 'NR == FNR { had[$1] = $2; next } $2 - had[$1] > allowed { print $1, had[$1], "->", $2 }' "$1" "$2"; }

# not_grown BEFORE ALLOWED: no cache has gained more objects than that since.
not_grown() {
    slabs /tmp/slabs.now
    [ -z "$(grown "$1" /tmp/slabs.now "$2")" ] || die "slab objects: $(grown "$1" /tmp/slabs.now "$2")"
}

# no_leak ROUNDS COMMAND...: the command, which does that many rounds, is run three times: the first makes what is made once. A cache
# that gains an object for every other round both times after that has a leak; what grows but once has none. On the debug kernel once
# is enough: kmemleak looks at every object when the check is over, and KASAN's slabs cannot be counted so finely (where 144 ends left
# five objects more in kmalloc-128 by the allocations' own traces, the cache told of -84 and +66).
no_leak() {
    local rounds=$1 twice allowed=$(($1 / 2 > 5 ? $1 / 2 : 5)) # fewer come and go by themselves
    shift
    "$@"
    [ ! -e /sys/kernel/debug/kmemleak ] || return 0
    slabs /tmp/slabs.1
    "$@"
    slabs /tmp/slabs.2
    "$@"
    slabs /tmp/slabs.3
    grown /tmp/slabs.1 /tmp/slabs.2 $allowed >/tmp/grown.2
    grown /tmp/slabs.2 /tmp/slabs.3 $allowed >/tmp/grown.3
    twice=$(awk 'NR == FNR { first[$1] = $0; next } $1 in first { print first[$1], $3, $4 }' /tmp/grown.2 /tmp/grown.3)
    [ -z "$twice" ] || die "grows with the rounds, by $rounds each: $twice"
}

# free_module, unreferenced: nobody holds the module, now that nobody has a device open.
unreferenced() { [ "$(cat /sys/module/swrnic/refcnt)" = 0 ]; }
free_module() { until_true 5 unreferenced || die "module references: $(cat /sys/module/swrnic/refcnt)"; }

# descriptors: how many files the whole guest has open.
descriptors() { cut -f 1 /proc/sys/fs/file-nr; }
