# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# What tests/vm/run needs to make a guest. Sourced, not run. Kernels and unpacked packages stay in a cache.
# shellcheck shell=bash disable=SC2034,SC2154

cache=${XDG_CACHE_HOME:-$HOME/.cache}/swrnic-vm

skip() {
    printf 'vm: skipped: %s\n' "$*" >&2
    exit 77
}
fail() {
    printf 'vm: %s\n' "$*" >&2
    exit 2
}

# install_or_skip PACKAGE...: by apt-get where we may, else a clear word.
install_or_skip() {
    [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null || skip "not installed, and not root: $*"
    export DEBIAN_FRONTEND=noninteractive
    compgen -G '/var/lib/apt/lists/*_Packages*' >/dev/null || apt-get update -q >&2
    apt-get install -y -q --no-install-recommends "$@" >&2 || skip "cannot install: $*"
}

need_programs() {
    local missing=()
    command -v qemu-system-x86_64 >/dev/null || missing+=(qemu-system-x86)
    [ -x /usr/bin/busybox ] || [ -x /bin/busybox ] || missing+=(busybox-static)
    command -v cpio >/dev/null || missing+=(cpio)
    command -v depmod >/dev/null || [ -x /sbin/depmod ] || missing+=(kmod)
    command -v rping >/dev/null || missing+=(rdmacm-utils)
    command -v ibv_devinfo >/dev/null || missing+=(ibverbs-utils)
    command -v ib_write_bw >/dev/null || missing+=(perftest)
    command -v ip >/dev/null || missing+=(iproute2)
    [ ${#missing[@]} = 0 ] || install_or_skip "${missing[@]}"
    PATH=$PATH:/usr/sbin:/sbin
}

# need_headers KERNEL: sets release, headers and suite_root, the root in which modules are built, or none. KERNEL is one of suites, or newest;
# or 6.1 or 6.12, of the suite that this machine runs.
need_headers() {
    local meta=linux-image-$1-amd64 package suite=$1
    suite_root=''
    case $1 in
    6.1 | 6.12)
        [ "$1" = 6.12 ] || meta=linux-image-amd64
        package=$(apt-cache depends "$meta" 2>/dev/null | sed -n 's/^ *Depends: \(linux-image-.*\)/\1/p' | head -n 1)
        [ -n "$package" ] || skip "apt knows no $meta (bookworm with its security archive is needed)"
        release=${package#linux-image-}
        headers=/lib/modules/$release/build
        [ -e "$headers/Makefile" ] || install_or_skip "linux-headers-$release" make gcc
        return
        ;;
    newest)
        suite=$(newest_suite)
        [ -n "$suite" ] || skip "no suite's kernels can be had"
        ;;
    *) [[ " ${suites[*]} " == *" $1 "* ]] || fail "kernel $1? 6.1, 6.12, debug, newest, ${suites[*]}" ;;
    esac
    need_suite "$suite"
}

# need_kernel KERNEL: what need_headers sets, tree and image. Debian's packages, unpacked, never installed. debug: what debug-kernel makes.
need_kernel() {
    local directory package
    if [ "$1" = debug ]; then
        directory=$("$here/debug-kernel") || exit $?
        release=$(cat "$directory/release") image=$directory/boot/bzImage tree=$directory/root headers=$directory/build suite_root=''
        return
    fi
    need_headers "$1"
    directory=$cache/linux-image-$release
    tree=$directory/root
    image=$tree/boot/vmlinuz-$release
    if [ ! -e "$directory/complete" ]; then
        rm -rf "$directory"
        mkdir -p "$directory"
        if [ -n "$suite_root" ]; then
            fetch_suite_image "$directory"
        else
            (cd "$directory" && apt-get download -q "linux-image-$release" >&2) || skip "cannot download linux-image-$release"
        fi
        for package in "$directory"/*.deb; do dpkg -x "$package" "$tree"; done
        [ -e "$tree/lib" ] || ln -s usr/lib "$tree/lib"
        rm "$directory"/*.deb
        depmod -b "$tree" "$release"
        touch "$directory/complete"
    fi
    [ -e "$image" ] || image=$tree/lib/modules/$release/vmlinuz # there from 7.0 on
}

need_provider() {
    provider=$1/lib/libswrnic-rdmav34.so
    [ -e "$provider" ] && [ -x "$1/bin/swrnic" ] && [ -e "$1/lib/libswrnic-preload.so" ] ||
        skip "no provider or userspace shim in $1: build the tree first"
}

build_module() {
    local out
    out=$cache/module-$release-$(md5sum <<<"$root" | cut -c 1-8) # each working tree its own
    # Several runs at once use one directory: built by one at a time, and taken away before the next.
    exec 9>"$out.lock"
    flock 9
    mkdir -p "$out"
    kernel_make "$out" -s -C "$root/kernel-shim/module" KVER="$release" KDIR="$headers" OUT="$out" SWRNIC_TEST=1 >&2 9>&- ||
        fail "swrnic.ko does not build for $release"
    module=$work/swrnic.ko
    cp "$out/swrnic.ko" "$module"
    exec 9>&-
}

install_provider() { # INTO
    mkdir -p "$1/usr/lib/x86_64-linux-gnu/libibverbs" "$1/etc/libibverbs.d"
    cp -P "${provider%34.so}"*.so "$1/usr/lib/x86_64-linux-gnu/libibverbs/" # with the links for other private ABIs
    echo 'driver swrnic' >"$1/etc/libibverbs.d/swrnic.driver"
    # The userspace shim too, for processes that are to see it instead of the module.
    local built=${provider%/lib/*}
    mkdir -p "$1/opt/swrnic/bin" "$1/opt/swrnic/lib"
    cp "$built/bin/swrnic" "$1/opt/swrnic/bin/"
    cp -P "${provider%34.so}"*.so "$built/lib/libswrnic-preload.so" "$1/opt/swrnic/lib/"
    copy_libraries "$1" "$provider" "$built/bin/swrnic" "$built/lib/libswrnic-preload.so"
}

# copy_libraries INTO FILE...: what ldd says that they need, under the names that they ask for.
copy_libraries() {
    local into=$1 library
    shift
    ldd "$@" 2>/dev/null | sed -n 's/.*=> \(\/[^ ]*\).*/\1/p; s/^\t\(\/lib[^ ]*\) .*/\1/p' | sort -u | while read -r library; do
        mkdir -p "$into$(dirname "$library")"
        [ -e "$into$library" ] || cp -L "$library" "$into$library"
    done
}

guest_programs=(bash ip rdma tc ss ibv_devices ibv_devinfo ibv_rc_pingpong ibv_srq_pingpong ibv_uc_pingpong ibv_ud_pingpong rping ucmatose rstream
    rcopy udaddy mckey cmtime ib_atomic_bw ib_atomic_lat
    ib_write_bw ib_write_lat ib_send_bw ib_send_lat ib_read_bw ib_read_lat qperf strace)
guest_modules=(ib_core ib_uverbs iw_cm ib_cm rdma_cm rdma_ucm virtio_console virtio_pci e1000 veth dummy
    macvlan 8021q)

more_programs=() # that run was asked for

# make_base MODULES: all of the guest that does not change between runs, as one archive in the cache.
make_base() {
    local wanted=("${guest_modules[@]}") found=() program directory archive module file
    read -r -a more <<<"$1"
    wanted+=("${more[@]}")
    for program in "${more_programs[@]}"; do
        command -v "$program" >/dev/null || install_or_skip "$program"
    done
    for program in "${guest_programs[@]}" "${more_programs[@]}"; do
        file=$(command -v "$program") && found+=("$(readlink -f "$file")=$program")
    done
    archive=$cache/base-$release-$(printf '%s\n' "${wanted[@]}" "${found[@]}" "$(stat -c '%Y %s' "${found[@]%%=*}" /usr/bin/busybox \
        "$here/lib/guest.sh" "$tree" 2>/dev/null)" | md5sum | cut -c 1-12).cpio
    base=$archive
    [ ! -e "$archive" ] || return 0
    directory=$work/base
    mkdir -p "$directory"/{bin,sbin,etc,dev,proc,sys,tmp,run,root,usr/bin,usr/sbin,var/run/netns,lib/modules}
    cp "$(command -v busybox)" "$directory/bin/busybox"
    for program in $("$directory/bin/busybox" --list); do
        [ -e "$directory/bin/$program" ] || ln -s busybox "$directory/bin/$program"
    done
    for file in "${found[@]}"; do
        rm -f "$directory/bin/${file#*=}"
        cp -L "${file%%=*}" "$directory/bin/${file#*=}"
    done
    for program in kmod modprobe depmod rmmod insmod lsmod; do # the kernel asks for /sbin/modprobe
        cp -L "$(command -v kmod)" "$directory/bin/kmod"
        [ "$program" = kmod ] || ln -sf ../bin/kmod "$directory/sbin/$program"
        [ "$program" = kmod ] || ln -sf kmod "$directory/bin/$program"
    done
    copy_libraries "$directory" "${found[@]%%=*}" "$(command -v kmod)"
    printf '%s\n' root:x:0:0:root:/root:/bin/sh user:x:1000:1000::/tmp:/bin/sh _rpc:x:101:1000::/run/rpcbind:/bin/false >"$directory/etc/passwd"
    printf 'root:x:0:\nuser:x:1000:\n' >"$directory/etc/group"
    echo '127.0.0.1 localhost' >"$directory/etc/hosts"
    printf 'tcp 6 TCP\nudp 17 UDP\n' >"$directory/etc/protocols"
    for module in "${wanted[@]}"; do
        modprobe -d "$tree" -S "$release" --show-depends "$module" 2>/dev/null || fail "kernel $release has no module $module"
    done >"$work/modules"
    for module in libcrc32c crc32c_generic; do # a part of the kernel itself from 6.15 on
        modprobe -d "$tree" -S "$release" --show-depends "$module" >>"$work/modules" 2>/dev/null || true
    done
    sed -n 's/^insmod \([^ ]*\).*/\1/p' "$work/modules" | sort -u | while read -r file; do
        file=${file#"$tree"}
        mkdir -p "$directory$(dirname "$file")"
        cp "$tree$file" "$directory$file"
    done
    cp "$tree/lib/modules/$release"/modules.{order,builtin,builtin.modinfo} "$directory/lib/modules/$release/"
    (cd "$directory" && find . | cpio --quiet -o -H newc) >"$archive.new"
    mv "$archive.new" "$archive"
    rm -rf "$directory"
}

# What the kernel says when it is in trouble. Out-of-tree and unsigned modules taint; that is expected.
bad_lines='BUG:|WARNING: |Oops|general protection|Kernel panic|refcount_t|blocked for more than|KASAN|UBSAN|kmemleak:.*new suspected'
bad_lines+='|circular locking|recursive locking|sleeping function called|unregister_netdevice: waiting|Call Trace'
bad_lines+='|list_(add|del) corruption|leaked|still referenced|unreferenced object|BUG [a-z0-9_-]+ \(|Objects remaining|ref_tracker:'
bad_lines+='|INFO: (lockdep is turned off|trying to register)|detected stalls|ODEBUG:|DEBUG_LOCKS_WARN_ON'

verdict() { # DIRECTORY EMULATOR-STATUS
    local bad status
    if bad=$(grep -h -a -E "$bad_lines" "$1/console" "$1/dmesg" | sort -u) && [ -n "$bad" ]; then
        grep -a -B 3 -A 25 -m 2 -E "$bad_lines" "$1/console" >&2
        printf 'vm: the kernel complained:\n%s\n' "$bad" >&2
        exit 99
    fi
    [ "$2" != 124 ] || {
        tail -n 20 "$1/console" >&2
        fail "not done in $timeout s"
    }
    status=$(tr -cd 0-9 <"$1/status")
    [ -n "$status" ] || {
        tail -n 20 "$1/console" >&2
        fail "the guest ended without a status (emulator: $2)"
    }
    exit "$status"
}
