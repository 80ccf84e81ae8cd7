#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# packages_test.sh: README's "by hand" begins with the packages that scripts/quickstart installs, neither fewer nor more.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source=scripts/common.sh
. "$here/../../scripts/common.sh"

told() { python3 -B "$here/documents.py" "$root/README.md" by-hand | sed -e ':join' -e '/\\$/ { N; s/\\\n//; b join' -e '}' | sed -n 's/^apt-get install //p'; }
diff <(told | tr -s ' ' '\n' | sort) <(printf '%s\n' "${build_packages[@]}" "${run_packages[@]}" | sort) ||
    { echo 'FAILED: README.md (<) and scripts/common.sh (>) name other packages' && exit 1; }
echo passed
