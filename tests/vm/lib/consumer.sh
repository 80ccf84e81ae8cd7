# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# A consumer in the kernel for the checks: consumer.ko, built from tests/vm/consumer in the cache; and swrnicd. Sourced by tests/vm/run.
# shellcheck shell=bash disable=SC2154

install_consumer() { # INTO
    local out
    out=$cache/consumer-$release-$(md5sum <<<"$root" | cut -c 1-8)
    exec 9>"$out.lock"
    flock 9
    mkdir -p "$out"
    ln -sf "$here"/consumer/* "$out/"
    kernel_make "$out" -s -C "$headers" M="$out" modules >&2 9>&- || fail "consumer.ko does not build for $release"
    strip --strip-debug -o "$1/lib/modules/$release/extra/consumer.ko" "$out/consumer.ko"
    exec 9>&-
}

install_daemon() { # INTO: if it is built
    [ -x "$build/bin/swrnicd" ] || return 0
    mkdir -p "$1/bin"
    cp "$build/bin/swrnicd" "$1/bin/"
    copy_libraries "$1" "$build/bin/swrnicd"
}
