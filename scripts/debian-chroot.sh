# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# A Debian made by debootstrap, in which what git tracks of the tree is tried, step by step; sourced, not run. The script has set
#   root    the tree
#   suite   the Debian: bookworm, trixie or sid
#   place   where that Debian and the logs lie; the fresh one and the packages that apt has fetched are the suite's
#   keep    not empty: it goes on in the Debian of the run before, and leaves it
# shellcheck shell=bash
# shellcheck disable=SC2154 # those four

name=$(basename "$0")
skip() {
    echo "$name: skipped: $*"
    exit 77
}
say() { printf '\n== %s\n' "$*"; }

[ "$(id -u)" = 0 ] || skip 'not root'
for program in debootstrap git apt-get; do
    command -v "$program" >/dev/null || skip "$program is not installed"
done
unshare --mount --pid --net --fork true 2>/dev/null || skip 'no namespaces here'

suites_place=${XDG_CACHE_HOME:-$HOME/.cache}/swrnic-distro/$suite
fresh=$suites_place/fresh # as debootstrap leaves it
archives=$suites_place/archives
chroot=$place/debian
logs=$place/logs
mkdir -p "$logs" "$archives/partial"
exec {lock}>"$suites_place/lock"
flock --nonblock "$lock" || skip "another run for $suite is under way"

# What is mounted there lives in the mount namespaces of the commands alone, and is gone with them.
finish() { [ -n "$keep" ] || rm -rf "$chroot"; }
trap finish EXIT

# inside [--alone] COMMAND...: in the chroot; --alone: with a network of its own, that is a loopback.
inside() {
    local network=()
    if [ "$1" = --alone ]; then network=(--net) && shift; fi
    # shellcheck disable=SC2016 # expanded in there
    unshare --mount --pid --fork --kill-child "${network[@]}" sh -c '
        set -e
        mount -t proc proc "$0/proc"
        mount -t sysfs -o ro sysfs "$0/sys"
        mount -t tmpfs -o mode=1777 tmpfs "$0/dev/shm"
        mount -t devpts -o newinstance,ptmxmode=666,mode=620 devpts "$0/dev/pts"
        mount --bind "$1" "$0/var/cache/apt/archives"
        [ -z "$2" ] || mount --bind "$2" "$0/srv/ccache"
        [ -z "$3" ] || ip link set lo up
        shift 3
        exec chroot "$0" env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C.UTF-8 DEBIAN_FRONTEND=noninteractive "$@"' \
        "$chroot" "$archives" "${CCACHE_DIR:-}" "${network[*]}" "$@"
}
compilers_cache=()
if [ -n "${CCACHE_DIR:-}" ]; then
    compilers_cache=(CCACHE_DIR=/srv/ccache CCACHE_BASEDIR=/srv CCACHE_NOHASHDIR=1
        CMAKE_C_COMPILER_LAUNCHER=ccache CMAKE_CXX_COMPILER_LAUNCHER=ccache)
fi
at_source() { inside "${compilers_cache[@]}" sh -c "cd /srv/build/swrnic && $1"; } # COMMAND
apt() { inside apt-get -q -y -o Dpkg::Use-Pty=0 "$@"; }

# logged NAME COMMAND...: its output is shown only when it fails.
logged() {
    local log=$logs/$1.log
    shift
    if "$@" >"$log" 2>&1; then return 0; fi
    tail -n 20 "$log"
    echo "$name: FAILED: $* (the log: $log)"
    exit 1
}

make_debian() {
    local archive='' valid=''
    # shellcheck disable=SC2016 # apt's own variables
    archive=$(apt-get indextargets --format '$(SITE) $(CODENAME)' 'Identifier: Packages' |
        awk '$2 !~ /-/ { print $1; exit }')
    [ -n "$archive" ] || skip 'apt here knows no archive of Debian'
    if [ ! -e "$fresh/etc/swrnic-distro" ]; then
        say "a fresh Debian: $suite"
        rm -rf "$fresh"
        debootstrap --variant=minbase --include=ca-certificates "$suite" "$fresh" "$archive" >"$logs/debootstrap.log" 2>&1 || {
            tail -n 5 "$logs/debootstrap.log"
            skip "debootstrap cannot make $suite here"
        }
        # What is tried is not whether it outlives a loss of power.
        echo force-unsafe-io >"$fresh/etc/dpkg/dpkg.cfg.d/swrnic-distro"
        eval "$(apt-config shell valid Acquire::Check-Valid-Until)" # an archive that stands still
        [ -z "$valid" ] || echo "Acquire::Check-Valid-Until \"$valid\";" >"$fresh/etc/apt/apt.conf.d/99swrnic-distro"
        printf '#!/bin/sh\nexit 101\n' >"$fresh/usr/sbin/policy-rc.d"
        chmod 755 "$fresh/usr/sbin/policy-rc.d"
        mkdir -p "$fresh/srv/ccache"
        chroot "$fresh" useradd --create-home tester
        echo "$suite" >"$fresh/etc/swrnic-distro"
    fi
    [ -z "$keep" ] || [ ! -e "$chroot/srv/ready" ] || return 0
    rm -rf "$chroot"
    cp -a --reflink=auto "$fresh" "$chroot"
    logged update apt update
    [ -z "${CCACHE_DIR:-}" ] || logged ccache apt install --no-install-recommends ccache
    touch "$chroot/srv/ready"
}

# What git tracks, as it stands: a clone in which a build of the run before is still good.
put_source() {
    local commit source=$chroot/srv/build/swrnic
    commit=$(git -C "$root" -c safe.directory='*' stash create)
    [ -d "$source/.git" ] || git init -q "$source"
    git -C "$root" -c safe.directory='*' push -q --force "$source/.git" "${commit:-HEAD}:refs/heads/tried"
    git -C "$source" checkout -q --force --detach tried
    git config --file "$chroot/root/.gitconfig" safe.directory '*'
}

# try_steps STEP...: try_STEP of each, in a Debian that has the tree. What became of them is in $table, which failed in $failed.
failed=()
table=()
try_steps() {
    local step log began code seconds what report
    make_debian
    put_source
    for step in "$@"; do
        say "$suite: $step"
        log=$logs/$step.log
        report=$logs/$step-report.xml
        rm -f "$report"
        began=$SECONDS
        code=0
        # Not in the condition of an "if", where a step would go on behind what fails.
        "try_$step" >"$log" 2>&1 </dev/null || code=$?
        seconds=$((SECONDS - began))
        if [ "$code" != 0 ]; then
            tail -n 60 "$log"
            echo "$name: FAILED: $step (the log: $log)"
            failed+=("$step")
        fi
        what=
        # Of a step that has run ctest.
        if [ -f "$report" ]; then
            what=$(sed -nE 's/^\s*(tests|failures|disabled|skipped)="([0-9]+)"$/\1 \2/p' "$report" | paste -sd, | sed 's/,/, /g')
        fi
        table+=("$(printf '%-9s %-11s %-7s %5d s  %s' "$suite" "$step" "$([ "$code" = 0 ] && echo passed || echo FAILED)" "$seconds" "$what")")
    done
}
