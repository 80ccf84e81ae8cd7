#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# man_test.sh SWRNIC MAN-DIRECTORY: the pages are well formed, and tell every command, option and setting that there is.
set -euo pipefail
swrnic=$1 pages=$2 code=0

fail() {
    echo "FAILED: $*"
    code=1
}

# plain FILE: its text, with no dashes or hyphenation of the formatter's own, and none of the escape sequences that groff 1.23 has for bold.
plain() { GROFF_NO_SGR=1 MANWIDTH=10000 man --nh -Tascii -l "$1" | col -b; }

if ! command -v man >/dev/null || ! command -v col >/dev/null; then
    echo "no man here (packages man-db, groff-base, bsdextrautils)"
    exit 77
fi
for page in "$pages"/*.[157]; do
    said=$(LC_ALL=C.UTF-8 MANROFFSEQ='' MANWIDTH=80 man --warnings -l "$page" 2>&1 >/dev/null)
    [ -z "$said" ] || fail "$page: $said"
    if command -v mandoc >/dev/null; then
        said=$(mandoc -T lint -W warning "$page") || fail "$page: $said"
    fi
done
# CLI11 2.6 writes its headings in capitals.
commands=$("$swrnic" --help | sed -n '/^Subcommands:/I,$s/^  \([a-z]*\) .*/\1/p')
[ "$(wc -w <<<"$commands")" -ge 4 ] || fail "swrnic --help tells of no commands"
for command in $commands; do
    [ -e "$pages/swrnic-$command.1" ] || fail "no page swrnic-$command(1)"
    plain "$pages/swrnic.1" | grep "swrnic-$command(1)" >/dev/null || fail "swrnic(1) does not name swrnic-$command(1)"
done
settings=$("$swrnic" run --help | grep -o 'SWRNIC_[A-Z_]*' | sort -u)
[ "$(wc -w <<<"$settings")" -ge 7 ] || fail "swrnic run --help tells of no settings"
for setting in $settings; do
    plain "$pages/swrnic.7" | grep "$setting *=" >/dev/null || fail "swrnic(7) does not tell of $setting"
done
for option in $("$swrnic" stat --help | grep -o -- '--[a-z]*' | sort -u) $("$swrnic" run --help | grep -o -- '--[a-z]\+' | sort -u); do
    { plain "$pages/swrnic-stat.1" && plain "$pages/swrnic-run.1"; } | grep -- "$option" >/dev/null || [ "$option" = --help ] ||
        fail "no page tells of $option"
done
[ $code -ne 0 ] || echo passed
exit $code
