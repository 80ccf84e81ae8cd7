#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# rpm_test.sh: rpm/swrnic.spec builds what is committed, whatever the system's package manager; the device works from what it installs.
set -euo pipefail

root=$(cd "$(dirname "$0")/../.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cannot() {
    echo "cannot test: $*"
    exit 77
}
command -v rpmbuild >/dev/null || cannot 'rpmbuild is not installed'
command -v cpio >/dev/null || cannot 'cpio is not installed'
git -C "$root" -c safe.directory='*' rev-parse HEAD >/dev/null 2>&1 || cannot 'no git, or a tree without its history'

"$root/scripts/release-tarball" "$work"
# Debian's packages are there, of which rpm knows nothing.
rpmbuild --nodeps --define "_topdir $work/rpm" --define 'debug_package %{nil}' -tb "$work"/swrnic-*.tar.gz >"$work/log" 2>&1 || {
    tail -40 "$work/log"
    exit 1
}
mkdir "$work/installed"
for package in "$work"/rpm/RPMS/*/*.rpm; do
    rpm -qp --qf '%{NAME} %{VERSION}\n' "$package"
    (cd "$work/installed" && rpm2cpio "$package" | cpio -id --quiet)
done
"$work/installed/usr/sbin/swrnicd" --version
grep -qx 'ExecStart=/usr/sbin/swrnicd' "$work/installed/usr/lib/systemd/system/swrnicd.service"
# shellcheck disable=SC2016 # expanded in there
"$work/installed/usr/bin/swrnic" run sh -c 'echo "$IBV_DRIVERS"' | grep "^$work/installed/usr/lib64/libibverbs/"
"$work/installed/usr/bin/swrnic" run ibv_devinfo -d swr0 | grep PORT_ACTIVE
echo passed
