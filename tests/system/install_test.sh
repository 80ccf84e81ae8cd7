#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# install_test.sh BUILD PREFIX: what `cmake --install` puts into an empty directory is whole: the device works from there, and so it does from
# another prefix, beside which nothing is written.
set -euo pipefail

build=$1 prefix=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
fail() {
    echo "FAILED: $*"
    exit 1
}

DESTDIR=$work cmake --install "$build" >"$work/log" || {
    cat "$work/log"
    fail 'cmake --install'
}
swrnic=$work$prefix/bin/swrnic
"$work$prefix/sbin/swrnicd" --version | grep -q '^swrnicd ' || fail "no $prefix/sbin/swrnicd"
grep -qx "ExecStart=$prefix/sbin/swrnicd" "$work$prefix/lib/systemd/system/swrnicd.service" || fail 'no unit of swrnicd'
[ -x "$swrnic" ] || fail "no $prefix/bin/swrnic"
grep -qx 'driver swrnic' "$(find "$work" -path '*/etc/libibverbs.d/swrnic.driver')" || fail 'no .driver file'
for library in libibverbs/libswrnic-rdmav{34,57,59,64,65}.so swrnic/libswrnic-preload.so; do
    [ "$(find "$work" -path "*/lib*/$library" | wc -l)" = 1 ] || fail "not one $library"
done
works_from() { # DIRECTORY SWRNIC: the build tree must not be what answers
    # shellcheck disable=SC2016 # expanded in there
    "$2" run sh -c 'echo "$LD_PRELOAD $IBV_DRIVERS"' | tee "$work/paths"
    [ "$(tr ' ' '\n' <"$work/paths" | grep -c "^$1")" = 2 ] || fail 'preload or provider is not the installed one'
    "$2" run ibv_devinfo -d swr0 | tee "$work/devinfo"
    grep -q PORT_ACTIVE "$work/devinfo" || fail 'no active port'
}
works_from "$work$prefix" "$swrnic"

# As somebody who may write nowhere else. (DESTDIR, so that what were written elsewhere is found, and does no harm.)
DESTDIR=$work/elsewhere cmake --install "$build" --prefix /home/somebody/opt >"$work/log" || {
    cat "$work/log"
    fail 'cmake --install --prefix'
}
beside=$(cd "$work/elsewhere" && find . -type f ! -path './home/somebody/opt/*')
[ -z "$beside" ] || fail "written beside the prefix: $beside"
works_from "$work/elsewhere" "$work/elsewhere/home/somebody/opt/bin/swrnic"
echo passed
