#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# probes_test.sh PROVIDER: the static probes are in the library, each with its arguments.
set -euo pipefail

if ! echo '#include <sys/sdt.h>' | "${CXX:-c++}" -x c++ -fsyntax-only - 2>/dev/null; then
    echo "no sys/sdt.h here (package systemtap-sdt-dev): the library is built without probes"
    exit 77
fi
notes=$(readelf -n "$1" | awk '/^ *Provider: swrnic$/ {getline; name = $2} /^ *Arguments:/ && name {print name, NF - 1; name = ""}' |
    sort -u)
wanted='completion 5
fpdu_in 3
fpdu_out 3
post_recv 3
post_send 4
terminate_in 2
terminate_out 2'
if [ "$notes" != "$wanted" ]; then
    printf 'FAILED: probes and how many arguments they have:\n%s\nwanted:\n%s\n' "$notes" "$wanted"
    exit 1
fi
echo passed
