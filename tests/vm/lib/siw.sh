# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# siw, the kernel's own software iWARP, which Debian does not ship: built from its source package, in the cache, for 6.1. Its ways
# are constants, so each variant is a build. One thing is changed in all of them: its sockets are made in its interface's network
# namespace, not in that of whoever calls, which for a consumer in the kernel is a worker of the first one. Sourced by tests/vm/run.
# shellcheck shell=bash disable=SC2154

# build_siw VARIANT: rev1 or rev2, with -crc or without. Sets siw_module.
build_siw() {
    local source=$cache/siw-source out=$cache/siw-$release-$1-netns revision=${1%%-*}
    siw_module=$out/siw.ko
    [ ! -e "$siw_module" ] || return 0
    if [ ! -e "$source/siw_main.c" ]; then
        rm -rf "$source" "$source.package"
        mkdir -p "$source" "$source.package"
        (cd "$source.package" && apt-get download -q linux-source-6.1 >&2) || skip "cannot download linux-source-6.1"
        dpkg -x "$source.package"/*.deb "$source.package"
        tar -C "$source" --strip-components=5 -xf "$source.package"/usr/src/linux-source-6.1.tar.xz \
            linux-source-6.1/drivers/infiniband/sw/siw
        rm -rf "$source.package"
    fi
    rm -rf "$out"
    cp -r "$source" "$out"
    sed -i "s/mpa_version = MPA_REVISION_[12]/mpa_version = MPA_REVISION_${revision#rev}/" "$out/siw_main.c"
    sed -i -E 's/ sock_create\((.*), &s\);/ __sock_create(dev_net(sdev->netdev), \1, \&s, 0);/' "$out/siw_cm.c"
    [ "$(grep -c '__sock_create(dev_net' "$out/siw_cm.c")" = 2 ] || fail "siw makes its sockets otherwise than thought"
    case $1 in
    *-crc) sed -i 's|mpa_crc_required;|mpa_crc_required = true;|' "$out/siw_main.c" ;;
    esac
    make -s -C "/lib/modules/$release/build" M="$out" CONFIG_RDMA_SIW=m modules >&2 || fail "siw does not build"
}

install_siw() { # INTO VARIANT
    local provider
    [ "$kernel" = 6.1 ] || skip "siw is built for 6.1 only"
    provider=$(compgen -G '/usr/lib/x86_64-linux-gnu/libibverbs/libsiw-rdmav*.so' | head -n 1) || install_or_skip ibverbs-providers
    provider=$(compgen -G '/usr/lib/x86_64-linux-gnu/libibverbs/libsiw-rdmav*.so' | head -n 1)
    build_siw "$2"
    strip --strip-debug -o "$1/lib/modules/$release/extra/siw.ko" "$siw_module"
    cp "$provider" "$1/usr/lib/x86_64-linux-gnu/libibverbs/"
    copy_libraries "$1" "$provider"
    echo 'driver siw' >"$1/etc/libibverbs.d/siw.driver"
    echo "$2" >"$1/siw-variant"
}
