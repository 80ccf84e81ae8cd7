# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# Kernels of Debian's suites, other than the one that this machine runs. Their headers bring programs and want a compiler that are linked
# with the suite's own libc, so both are unpacked into a directory, a root of its own in which modules are built; nothing is installed.
# What is fetched comes from where this machine's apt is set up to fetch from. Sourced, after guest.sh.
# shellcheck shell=bash disable=SC2034,SC2154

suites=(bookworm-backports trixie trixie-backports sid)
suite_tools=(make binutils dash bash coreutils sed grep findutils mawk perl-base base-files)

# in_suite PROGRAM ARG...: apt, with lists and settings of the suite alone.
in_suite() { APT_CONFIG=$suite_directory/apt.conf "$@"; }

# open_suite SUITE: sets suite_directory, whose lists are of today.
open_suite() {
    local site='' release line keyring=/usr/share/keyrings/debian-archive-keyring.gpg
    suite_directory=$cache/suite-$1
    command -v apt-get >/dev/null || skip "no apt-get to fetch kernels of $1"
    [ -e "$keyring" ] || keyring=''
    # shellcheck disable=SC2016
    while read -r line release; do
        [[ $release == *-* ]] || { site=$line && break; }
    done < <(apt-get indextargets --format '$(SITE) $(RELEASE)' 'Created-By: Packages' 'Origin: Debian' 2>/dev/null)
    [ -n "$site" ] || skip "apt fetches from no archive of Debian, which has the kernels of $1"
    mkdir -p "$suite_directory"/{state/lists/partial,cache/archives/partial}
    cat >"$suite_directory/apt.conf" <<END
Dir::State "$suite_directory/state";
Dir::State::status "/dev/null";
Dir::Cache "$suite_directory/cache";
Dir::Etc::sourcelist "$suite_directory/sources.list";
Dir::Etc::sourceparts "/dev/null";
Dir::Etc::preferencesparts "/dev/null";
Acquire::Languages "none";
APT::Default-Release "$1";
APT::Sandbox::User "root";
END
    for release in "${1%-backports}" "$1"; do
        echo "deb ${keyring:+[signed-by=$keyring] }$site $release main"
    done | sort -u >"$suite_directory/sources.list"
    if [ -z "$(find "$suite_directory/fresh" -mtime -1 2>/dev/null)" ]; then
        in_suite apt-get update -q >"$suite_directory/log" 2>&1 && in_suite apt-cache show linux-headers-amd64 >/dev/null 2>&1 ||
            skip "cannot read what $1 has"
        touch "$suite_directory/fresh"
    fi
}

suite_version() { in_suite apt-cache policy linux-headers-amd64 | sed -n 's/^ *Candidate: //p'; }

# newest_suite: prints the one whose kernel is the newest.
newest_suite() {
    local suite
    for suite in "${suites[@]}"; do
        (open_suite "$suite" && echo "$(suite_version) $suite")
    done | sort -V | tail -n 1 | cut -d ' ' -f 2
}

# need_suite SUITE: sets release, headers (a path in suite_root) and suite_root.
need_suite() {
    local version package
    open_suite "$1"
    version=$(suite_version)
    suite_root=$suite_directory/root-$version
    exec 8>"$suite_directory/lock"
    flock 8
    if [ ! -e "$suite_root.complete" ]; then
        rm -rf "$suite_directory"/root-* "$suite_directory"/cache/archives/*.deb
        in_suite apt-get install -d -y -q --no-install-recommends "linux-headers-amd64=$version" "${suite_tools[@]}" \
            >"$suite_directory/log" 2>&1 || skip "cannot fetch the kernel headers of $1: $(tail -n 1 "$suite_directory/log")"
        for package in "$suite_directory"/cache/archives/{base-files_,}*.deb; do # the first makes /lib a part of /usr, where it is so
            dpkg -x "$package" "$suite_root" || fail "cannot unpack $package"
        done
        ln -sf mawk "$suite_root/usr/bin/awk"
        rm "$suite_directory"/cache/archives/*.deb
        touch "$suite_root.complete"
    fi
    exec 8>&-
    release=$(basename "$suite_root"/usr/src/linux-headers-*-amd64)
    release=${release#linux-headers-}
    headers=/usr/src/linux-headers-$release
}

# fetch_suite_image: unpacks the kernel into $tree. Newer ones are in several packages.
fetch_suite_image() { # INTO
    local packages
    mapfile -t packages < <(in_suite apt-cache depends "linux-image-$release" | sed -n "s/^ *Depends: \(linux-[a-z]*-$release\)\$/\1/p")
    (cd "$1" && in_suite apt-get download -q "linux-image-$release" "${packages[@]}" >&2) || skip "cannot download linux-image-$release"
}

# kernel_make OUT ARG...: make for modules that come to be in OUT, with the programs that are right for the kernel.
kernel_make() {
    local out=$1 space=(unshare --mount)
    shift
    if [ -z "$suite_root" ]; then
        make "$@"
        return
    fi
    [ "$(id -u)" = 0 ] || space=(unshare --user --map-root-user --mount)
    mkdir -p "$suite_root$root" "$suite_root$out"
    # objtool looks into /proc for the size of its stack.
    # shellcheck disable=SC2016
    "${space[@]}" sh -ec 'into=$1
        for directory in /dev /proc "$2" "$3"; do mount --rbind "$directory" "$into$directory"; done
        shift 3
        exec chroot "$into" make "$@"' sh "$suite_root" "$root" "$out" "$@"
}
