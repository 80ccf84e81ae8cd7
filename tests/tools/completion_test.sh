#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# completion_test.sh FILE: what bash would offer behind some words.
set -uo pipefail

# shellcheck source=completions/swrnic
. "$1"
PATH=$(cd "$(dirname "$0")" && pwd):$PATH # for a program with a name like no other
compopt() { :; } # there is no line being edited here

# offers 'WANTED...' WORD...: the last word is the one being completed.
offers() {
    local wanted=$1 found
    shift
    COMP_WORDS=("$@")
    COMP_CWORD=$(($# - 1))
    COMPREPLY=()
    _swrnic
    found=$(printf '%s\n' "${COMPREPLY[@]}" | LC_ALL=C sort | xargs)
    if [ "$found" != "$wanted" ]; then
        echo "FAILED: behind '$*': '$found' instead of '$wanted'"
        exit 1
    fi
}

offers '--help --version doctor link run stat' swrnic ''
offers 'stat' swrnic st
offers '--help add del show' swrnic link ''
offers 'netdev type' swrnic link add swr0 ''
offers 'swrnic' swrnic link add swr0 type ''
offers 'lo' swrnic link add swr0 netdev lo
offers '' swrnic link add ''
offers '--json' swrnic stat --j
offers '' swrnic stat --interval ''
offers '-- --help --only --persona --trace' swrnic run -
offers 'roce' swrnic run --persona r
offers 'completion_test.sh' swrnic run --persona roce completion_tes
offers '--only' swrnic run --trace /x --o
offers 'completion_test.sh' swrnic run --only --trace /x -- completion_tes
offers 'completion_test.sh' swrnic run completion_tes
offers 'completion_test.sh' swrnic run -- completion_tes
offers 'completion_test.sh' swrnic run --trace /x completion_tes
cd "$(dirname "$0")" || exit 1
offers 'completion_test.sh' swrnic run --trace completion_tes
echo passed
