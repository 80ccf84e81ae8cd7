# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# Shared by the scripts beside it; sourced, not run.
# shellcheck shell=bash disable=SC2034

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
jobs=$(nproc 2>/dev/null || echo 2)

# What it takes to build and run; to test; and what CI adds.
build_packages=(g++ make cmake pkg-config libibverbs-dev librdmacm-dev libisal-dev libfmt-dev libcli11-dev libelf-dev libnl-3-dev libsystemd-dev systemtap-sdt-dev)
run_packages=(ibverbs-utils rdmacm-utils perftest)
test_packages=(libgtest-dev libbenchmark-dev nlohmann-json3-dev git binutils clang-format-14 shellcheck gnuplot-nox man-db groff-base bsdextrautils mandoc python3-yaml)
ci_packages=(clang-tidy-14 valgrind)
full_packages=(clang-14 chromium cpio debootstrap dpkg-dev libmpich-dev libopenmpi-dev lintian mpich openmpi-bin python3-pyverbs qemu-system-x86 rpm sparse)
bench_packages=(gnuplot-nox iproute2 linux-perf strace python3 ucx-utils libfabric-bin)
# Which form and which warnings there are differs between versions of clang: what wants this one is skipped where there is none.
clang_packages=(clang-14 clang-format-14 clang-tidy-14)

# What the program tests run is listed beside them.
mapfile -t program_packages < <(grep -v '^#' "$root/tests/programs/PACKAGES")
test_packages+=("${program_packages[@]}")

say() { printf '\n== %s\n' "$*"; }

die() {
    printf 'error: %s\n' "$*" >&2
    exit 1
}

as_root() {
    if [ "$(id -u)" = 0 ]; then
        env DEBIAN_FRONTEND=noninteractive "$@"
    else
        sudo env DEBIAN_FRONTEND=noninteractive "$@"
    fi
}

missing_packages() {
    local package
    for package in "$@"; do
        if [ "$(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null)" != installed ]; then
            printf '%s\n' "$package"
        fi
    done
}

lists_there() { compgen -G '/var/lib/apt/lists/*_Packages*' >/dev/null; }

# without_clang NAME...: all but those of clang_packages that apt does not offer here.
without_clang() {
    local package
    for package in "$@"; do
        if [[ " ${clang_packages[*]} " == *" $package "* ]] && ! apt-cache policy "$package" | grep -q 'Candidate: [0-9]'; then
            echo "no package $package here: what needs it is skipped" >&2
        else
            printf '%s\n' "$package"
        fi
    done
}

# install_packages NAME...: those that are missing, by apt-get.
install_packages() {
    command -v dpkg-query >/dev/null || die "this script knows Debian and Ubuntu only; elsewhere install the likes of: $*"
    local missing
    mapfile -t missing < <(missing_packages "$@")
    [ "${#missing[@]}" -gt 0 ] || return 0
    if lists_there; then mapfile -t missing < <(without_clang "${missing[@]}"); fi
    [ "${#missing[@]}" -gt 0 ] || return 0
    if [ "$(id -u)" != 0 ] && ! command -v sudo >/dev/null; then
        die "not root and no sudo; as root: apt-get install ${missing[*]}"
    fi
    # A bare machine has no package lists; one that has been off for long has old ones.
    if ! lists_there; then
        as_root apt-get update -q
        mapfile -t missing < <(without_clang "${missing[@]}")
    fi
    say "installing: ${missing[*]}"
    if ! as_root apt-get install -y -q --no-install-recommends "${missing[@]}"; then
        as_root apt-get update -q
        as_root apt-get install -y -q --no-install-recommends "${missing[@]}"
    fi
}

# run_tests REPORT BUILD CTEST-OPTION...: ctest's. What fails is run again with nothing beside it, since on a slow or shared machine some
# tests that measure time fail now and then; it stands in BUILD/failed-at-first though it passes then. Nothing excuses a sanitizer's
# report, nor many.
run_tests() {
    local report=$1 build=$2 names
    shift 2
    ctest --test-dir "$build" --output-on-failure --output-junit "$report" "$@" && return 0
    say "what failed, and printed last"
    "$root/scripts/failed" "$report"
    mapfile -t names < <("$root/scripts/failed" --names "$report")
    if [ ${#names[@]} = 0 ] || [ ${#names[@]} -gt 5 ] || grep -qE 'ERROR: AddressSanitizer|WARNING: ThreadSanitizer|: runtime error: ' "$report"; then
        return 1
    fi
    say "again, with nothing beside it: ${names[*]}"
    ctest --test-dir "$build" --rerun-failed --output-on-failure --timeout 300 || return 1
    printf '%s\n' "${names[@]}" >>"$build/failed-at-first"
}
