#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# tarball_test.sh: scripts/release-tarball makes the same octets whoever makes it, and all that is committed is in them.
set -euo pipefail

root=$(cd "$(dirname "$0")/../.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
fail() {
    echo "FAILED: $*"
    exit 1
}

if ! git -C "$root" -c safe.directory='*' rev-parse HEAD >/dev/null 2>&1; then
    echo 'cannot test: no git, or a tree without its history'
    exit 77
fi
mkdir -p "$work/one" "$work/two" "$work/home"
printf '[tar]\n\tumask = user\n[core]\n\tautocrlf = true\n' >"$work/home/.gitconfig"
"$root/scripts/release-tarball" "$work/one"
sleep 1.1 # the archive must not tell when it was made
(umask 077 && HOME=$work/home XDG_CONFIG_HOME=$work/home TZ=Asia/Tokyo "$root/scripts/release-tarball" --commit HEAD "$work/two")
cmp "$work"/one/*.tar.gz "$work"/two/*.tar.gz || fail 'two tarballs of one commit differ'
diff <(tar -tzf "$work"/one/*.tar.gz | grep -v '/$' | sed 's,^swrnic-[0-9.]*/,,' | sort) \
    <(git -C "$root" -c safe.directory='*' ls-tree -r --name-only HEAD | sort) || fail 'the tarball does not hold what is committed'
echo passed
