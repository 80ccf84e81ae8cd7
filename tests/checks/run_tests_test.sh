#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# What scripts/common.sh's run_tests excuses: a test that fails once. Not one that fails twice, nor a sanitizer's report, nor many.
set -euo pipefail

# shellcheck source=scripts/common.sh
. "$(dirname "$0")/../../scripts/common.sh"
directory=$(mktemp -d)
trap 'rm -r "$directory"' EXIT
cd "$directory"

fails_once() { # NAME SAYING
    printf 'add_test(%s sh -c "test -e %s || { touch %s; echo \\"%s\\"; exit 1; }")\n' "$1" "$1" "$1" "$2"
}
expect() { # WHAT STATUS: by the tests on standard input
    local what=$1 status=$2 got=0
    rm -rf "${directory:?}"/*
    cat >CTestTestfile.cmake
    run_tests "$directory/report.xml" "$directory" >said 2>&1 || got=$?
    if [ $got = "$status" ]; then return; fi
    echo "$what: status $got, $status was expected:"
    sed 's/^/> /' said
    exit 1
}

echo 'add_test(good true)' | expect 'all pass' 0
fails_once once 'too slow' | expect 'one fails once' 0
grep -qx once failed-at-first
grep -q '^too slow$' said
{ fails_once once 'too slow' && echo 'add_test(broken false)'; } | expect 'another fails twice' 1
for report in 'ERROR: AddressSanitizer: heap' 'WARNING: ThreadSanitizer: data race' 'x.cpp:1:2: runtime error: shift'; do
    fails_once once "$report" | expect "$report" 1
done
for name in a b c d e f; do fails_once $name 'too slow'; done | expect 'six fail once' 1
