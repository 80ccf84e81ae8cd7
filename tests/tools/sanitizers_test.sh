#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# sanitizers_test.sh SWRNIC ASAN_PROGRAM TSAN_PROGRAM SUPPRESSIONS: programs with a sanitizer run as they are, nothing of the device
# is reported, and what is wrong in the program still is.
set -euo pipefail
swrnic=$1 asan=$2 tsan=$3 suppressions=$4
unset ASAN_OPTIONS TSAN_OPTIONS

fails() {
    echo "FAILED: $1"
    printf '%s\n' "$said"
    exit 1
}

said=$("$swrnic" run -- "$asan" 127.0.0.1 2>&1) || fails 'a program with AddressSanitizer does not run, or it reports something'
said=$("$swrnic" run -- sh -c "'$asan' 127.0.0.1" 2>&1) || fails 'a program with AddressSanitizer does not run from a script'
said=$("$swrnic" run -- "$asan" 127.0.0.1 child 2>&1) || fails 'what a program with AddressSanitizer executes has its runtime'
said=$("$swrnic" run -- "$asan" 127.0.0.1 overflow 2>&1) && fails 'AddressSanitizer saw no overflow'
grep -q heap-buffer-overflow <<<"$said" || fails 'AddressSanitizer reports something else than the overflow'
for crc in off on; do
    said=$(SWRNIC_CRC=$crc TSAN_OPTIONS=suppressions=$suppressions "$swrnic" run -- "$tsan" 127.0.0.1 2>&1) ||
        fails "a program with ThreadSanitizer does not run, or it reports something (CRC $crc)"
done
