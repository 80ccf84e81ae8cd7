#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# copy_test.sh COMPILER SOURCE: swrnic_copy() begins as it is written, whatever a build adds to functions: a package's first build
# counts branches, and distributions guard stacks.
set -euo pipefail
compiler=$1 source=$2
object=$(mktemp --suffix .o)
trap 'rm -f "$object"' EXIT
"$compiler" -std=c++20 -O2 -fPIC -fprofile-generate -fstack-protector-all -fcf-protection=none -I"$(dirname "$source")/../.." \
    -c "$source" -o "$object"
first=$(objdump -d --no-show-raw-insn "$object" | sed -n '/<swrnic_copy>:/{n;p;q}')
grep -qE 'cmp +[$]0x40,%rdx' <<<"$first" || {
    echo "FAILED: swrnic_copy() begins with: $first"
    exit 1
}
