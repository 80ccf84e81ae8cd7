#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# module_check.sh checkpatch|sparse: what the kernel's own tools say of the module and of what it is built with. Nothing, or it fails.
# 77: a tool is not here and cannot be had.
#   checkpatch  from the package linux-source-6.1, which is fetched into the cache of tests/vm
#   sparse      in a build against the headers of each kernel that Debian 12 has; it does not understand those of 7.3
set -euo pipefail

root=$(cd "$(dirname "$0")/../.." && pwd)
cache=${XDG_CACHE_HOME:-$HOME/.cache}/swrnic-vm
work=$(mktemp -d "${TMPDIR:-/tmp}/swrnic-module-check.XXXXXX")
trap 'rm -rf "$work"' EXIT

skip() {
    echo "cannot check: $*"
    exit 77
}

fetch_checkpatch() {
    local package=linux-source-6.1 script
    for script in "$cache"/linux-source-*/scripts/checkpatch.pl; do # as tests/vm/debug-kernel leaves it
        tools=$(dirname "$script")
        [ ! -e "$script" ] || return 0
    done
    tools=$cache/checkpatch
    [ ! -e "$tools/complete" ] || return 0
    command -v apt-get >/dev/null || skip "no apt-get to fetch $package, which checkpatch.pl is in"
    (cd "$work" && apt-get download -q "$package" >/dev/null 2>&1) || skip "cannot download $package, which checkpatch.pl is in"
    dpkg -x "$work"/*.deb "$work"
    rm -rf "$tools"
    mkdir -p "$tools"
    tar -C "$tools" --strip-components=2 -xf "$work/usr/src/$package.tar.xz" \
        "$package"/scripts/{checkpatch.pl,spelling.txt,const_structs.checkpatch}
    touch "$tools/complete"
}

# Excused. Of all: lines as long as clang-format makes them (132). Of kernel-shim/mpa and abi: what wants the kernel's headers, which they do
# without, and two macros that compose a table. Of compat.h: asking for the kernel's version, which it is there for.
freestanding=BIT_MACRO,ARRAY_SIZE,CAMELCASE,BRACKET_SPACE
versions=LINUX_VERSION_CODE,CONSTANT_COMPARISON

# look EXCUSED FILE...
look() {
    "$tools/checkpatch.pl" --no-tree --strict --terse --show-types --no-summary --max-line-length=132 --ignore "FILE_PATH_CHANGES$1" \
        --file "${@:2}"
}

checkpatch() {
    local files=() file code=0
    command -v perl >/dev/null || skip "no perl for checkpatch.pl"
    fetch_checkpatch
    for file in "$root"/kernel-shim/module/*.[ch]; do
        [[ $file == */compat.h ]] || files+=("$file")
    done
    look '' "${files[@]}" || code=1
    look ",$versions" "$root/kernel-shim/module/compat.h" || code=1
    look ",$freestanding" "$root"/kernel-shim/{mpa,abi,policy}/*.[ch] || code=1
    return $code
}

# sparse_for KERNEL: in a subshell, since what is missing ends it.
sparse_for() {
    local out
    need_headers "$1"
    out=$work/$1
    mkdir -p "$out"
    make -s -C "$root/kernel-shim/module" KVER="$release" KDIR="$headers" OUT="$out" C=2 CHECK=sparse >"$work/said" 2>&1 || {
        cat "$work/said"
        exit 1
    }
    # The kernel's headers are not ours to judge, so the file's name is looked at.
    if grep -E "^($out|$root|\.\.)[^:]*:[0-9]+:[0-9]+: (warning|error)" "$work/said"; then exit 1; fi
    echo "$release: clean"
}

sparse() {
    local kernel status code=0
    command -v sparse >/dev/null || skip "sparse is not installed"
    here=$root/tests/vm
    # shellcheck source=tests/vm/lib/guest.sh
    . "$here/lib/guest.sh"
    for kernel in 6.1 6.12; do
        status=0
        (sparse_for "$kernel") || status=$?
        [ "$status" = 0 ] || [ "$code" = 1 ] || code=$status
    done
    return "$code"
}

case ${1-} in
checkpatch | sparse) "$1" ;;
*)
    sed -n '3,6s/^# //p' "$0" >&2
    exit 2
    ;;
esac
