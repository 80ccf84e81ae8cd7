#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# Gives scripts/check small trees with one fault each: it must name the fault, and must pass the tree without it.
# shellcheck disable=SC2016  # scripts in single quotes are test material
set -euo pipefail

check=$(cd "$(dirname "$0")/../.." && pwd)/scripts/check
tree=$(mktemp -d)
trap 'rm -rf "$tree"' EXIT
licence='// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause'
failures=0

complain() {
    echo "FAILED: $*"
    failures=$((failures + 1))
}

# put FILE LINE...: a file with a licence line.
put() {
    local file=$tree/$1
    shift
    mkdir -p "$(dirname "$file")"
    printf '%s\n' "$licence" "$@" >"$file"
}

# refuses CHECK FILE LINE...: the check fails and names the file; without the file it passes.
refuses() {
    local name=$1 file=$2 output
    shift
    put "$@"
    if output=$("$check" --root "$tree" "$name" 2>&1); then
        complain "$name passes $file: ${*:2}"
    elif ! grep -qF "$file" <<<"$output"; then
        complain "$name does not name $file: $output"
    fi
    rm "$tree/$file"
}

accepts() {
    local name=$1 output
    shift
    put "$@"
    output=$("$check" --root "$tree" "$name" 2>&1) || complain "$name refuses $1: $output"
    rm "$tree/$1"
}

put provider/wire/good.h '#pragma once' '#include <span>' '#include "wire/byteorder.h"'
put provider/engine/core/good.h '#include <atomic>' '#include "engine/core/types.h"' '#include "wire/fpdu.h"'
put kernel-shim/mpa/good.h '#include <linux/types.h>' '#include "swrnic-abi.h"'
put kernel-shim/policy/good.h '#include <linux/errno.h>' '#include "swrnic-abi.h"'

refuses rooms provider/wire/bad.cpp '#include "../engine/engine.h"'
refuses rooms provider/wire/bad.cpp '#include <unistd.h>'
refuses rooms provider/engine/core/bad.cpp '#include <thread>'
refuses rooms provider/engine/core/bad.cpp '#  include <sys/socket.h>'
refuses rooms provider/engine/core/bad.h '#include <infiniband/verbs.h>'
refuses rooms provider/engine/core/bad.cpp 'auto now = std::chrono::steady_clock::now();'
refuses rooms provider/engine/sched/bad.cpp '#include <sys/epoll.h>'
refuses rooms provider/engine/sched/bad.cpp 'auto now = std::chrono::steady_clock::now();'
refuses rooms provider/engine/bad.cpp '#include <rdma/rdma_cma.h>'
refuses rooms provider/host/bad.cpp '#include <infiniband/verbs.h>'
refuses rooms provider/host/bad.cpp '#include "engine/core/pass.h"'
refuses rooms provider/host/bad.cpp '#include "wire/fpdu.h"'
refuses rooms provider/verbs/bad.cpp '#include "engine/core/cq.h"'
refuses rooms swrnicd/bad.cpp '#include <infiniband/verbs.h>'
refuses rooms swrnicd/bad.cpp '#include "engine/core/lock.h"'
refuses rooms kernel-shim/mpa/bad.c '#include <string.h>'
refuses rooms kernel-shim/mpa/bad.c '#include <linux/slab.h>'
refuses rooms kernel-shim/policy/bad.h '#include <errno.h>'
refuses rooms kernel-shim/policy/bad.h '#include "../userspace/state.h"'
refuses rooms kernel-shim/userspace/bad.cpp '#include "../../provider/wire/fpdu.h"'
refuses rooms kernel-shim/module/bad.c '#include "../../provider/engine/engine.h"'
refuses rooms tools/bad.cpp '#include "../kernel-shim/abi/swrnic-abi.h"'
accepts rooms provider/engine/sched/good.h '#include <chrono>' '#include "engine/core/types.h"' '#include "engine/cycles.h"' '#include "engine/tuning.h"'
accepts rooms provider/engine/pool.h '#include "populated_pool.h"'
accepts rooms provider/engine/epoll.cpp '#include <sys/epoll.h>' '#include <thread>' '#include "engine/core/types.h"'
accepts rooms kernel-shim/userspace/ok.cpp '#include <sys/socket.h>' '#include "swrnic_mpa.h"'

accepts spdx provider/wire/ok.cpp 'int x;'
licence='// no licence'
refuses spdx provider/wire/bad.cpp 'int x;'
refuses spdx tools/CMakeLists.txt ''
licence='#!/bin/bash'
refuses spdx scripts/bad 'true'

if command -v clang-format-14 >/dev/null; then
    cp "$(dirname "$check")/../.clang-format" "$tree/"
    licence='// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause'
    rm -r "$tree/provider" "$tree/kernel-shim"
    accepts format a.cpp 'int x;'
    refuses format a.cpp 'int   x ;'
fi

if command -v shellcheck >/dev/null; then
    licence='#!/bin/bash'
    accepts shell scripts/good 'echo "$1"'
    refuses shell scripts/bad 'echo $1'
fi

# Requirements and a table of them that is whole, then the same with one bad row.
areas=(MPA:mpa:99 VERBS:verbs:56)
protocol_spec() {
    local area file count id
    mkdir -p "$tree/docs/spec"
    while IFS=: read -r area file count; do
        {
            echo '## 6. States'
            for ((id = 1; id <= count; id++)); do echo "| <a id=\"${area,,}-$id\"></a>$area-$id | MUST | something | R |"; done
        } >"$tree/docs/spec/$file.md"
    done < <(printf '%s\n' "${areas[@]}")
}
protocol_table() {
    local area file count id
    while IFS=: read -r area file count; do
        for ((id = 1; id <= count; id++)); do echo "| [$area-$id](spec/$file.md#${area,,}-$id) | MUST | something | \`Suite.test\` |"; done
    done < <(printf '%s\n' "${areas[@]}")
}
# protocol [SED-EXPRESSION [LINE...]]: the check of the table changed by it, with more lines behind it.
protocol() {
    protocol_table | sed "${1-}" >"$tree/docs/PROTOCOL.md"
    [ $# -lt 2 ] || printf '%s\n' "${@:2}" >>"$tree/docs/PROTOCOL.md"
    "$check" --root "$tree" protocol 2>&1
}
# protocol_refuses WORD SED-EXPRESSION [LINE...]: and its complaint holds the word.
protocol_refuses() {
    local output
    if output=$(protocol "${@:2}"); then
        complain "protocol passes ${*:2}"
    elif ! grep -qF "$1" <<<"$output"; then
        complain "protocol does not name $1: $output"
    fi
}
protocol_accepts() {
    local output
    output=$(protocol "$@") || complain "protocol refuses $*: $output"
}

mkdir -p "$tree/docs" "$tree/tests/golden" "$tree/tests/checker" "$tree/tests/programs"
licence='// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause'
put tests/suite_test.cpp 'TEST(Suite, test) {}' 'TEST_P(Suite, with_parameter) {}'
put tests/CMakeLists.txt 'add_test(NAME sim.seeds COMMAND sim)'
put tests/programs/CMakeLists.txt 'swrnic_program_test(rping lo quick,ci first' '    second)'
put tests/checker/session.cpp '        {"send", "Sends", false, run_send, always},'
put tests/golden/vectors.json '      "id": "FPDU-001",'
protocol_spec
put docs/EXCEPTIONS.md '| VERBS-3, MPA-7 | the RFC | we | why |'
protocol_accepts
protocol_accepts 's/^\(| .MPA-7].*|\) `.*/\1 `sim.seeds`, `programs.rping.second.lo`, `checker:send`, `FPDU-001`, [VERBS-3](EXCEPTIONS.md) |/'
protocol_accepts '/^| .MPA-7]/s/`.*`/not built: RFC 7306/'
protocol_accepts '/^| .MPA-[78]]/s/`.*`/`Suite.with_parameter`; all else not shown yet/' '## Not shown yet' '| MPA-7, MPA-8 | all else |'
protocol_refuses 'MPA-7 ' '/^| .MPA-7]/d'
protocol_refuses 'VERBS-56 ' '/^| .VERBS-56]/d'
protocol_refuses 'MPA-7 ' '/^| .MPA-7]/p'
unknown=MPA-$((99 + 1))
protocol_refuses "$unknown " '' "| [$unknown](spec/mpa.md#mpa-100) | MUST | invented | \`Suite.test\` |"
protocol_refuses 'Suite.gone' '/^| .MPA-7]/s/Suite.test/Suite.gone/'
protocol_refuses 'programs.rping.third.lo' '/^| .MPA-7]/s/Suite.test/programs.rping.third.lo/'
protocol_refuses 'checker:recv' '/^| .MPA-7]/s/Suite.test/checker:recv/'
protocol_refuses 'FPDU-002' '/^| .MPA-7]/s/Suite.test/FPDU-002/'
protocol_refuses 'MPA-8' '/^| .MPA-7]/s/`.*`/[MPA-8](EXCEPTIONS.md)/'
protocol_refuses 'MPA-7 ' '/^| .MPA-7]/s/`.*`//'
protocol_refuses 'MPA-7 ' '/^| .MPA-7]/s/`.*`/surely/'
protocol_refuses 'MPA-7 ' '/^| .MPA-7]/s/`.*`/not shown yet/'
protocol_refuses 'MPA-7 ' '' '## Not shown yet' '| MPA-7 | long shown |'
protocol_refuses 'MPA-7 is MUST' '/^| .MPA-7]/s/MUST/MAY/'
protocol_refuses 'MPA-7 does not link' '/^| .MPA-7]/s/#mpa-7/#mpa-8/'
protocol_refuses 'MPA-7 does not link' '/^| .MPA-7]/s/mpa.md/ddp.md/'
protocol_refuses 'MPA-7 does not link' '/^| .MPA-7]/s/.MPA-7.[^)]*)/MPA-7/'
protocol_refuses 'four cells' '/^| .MPA-7]/s/MUST | //'

# What is cited, anywhere.
cites() {
    put provider/cites.cpp "$1"
    protocol_accepts
    rm "$tree/provider/cites.cpp"
}
cites_in_vain() {
    put provider/cites.cpp "$1"
    protocol_refuses 'provider/cites.cpp:2:' ''
    rm "$tree/provider/cites.cpp"
}
cites '// MPA-7, VERBS-56: as docs/spec/verbs.md section 6 says; not the vector MPA-REQ-101.'
cites_in_vain "// $unknown"
cites_in_vain "// As VERBS"' section 6 says.'
cites_in_vain "// docs/spec/verbs.md"' section 7'
cites_in_vain "// docs/spec/gone.md"' section 6'
twice=$(sed -n '/"mpa-7"/p' "$tree/docs/spec/mpa.md")
printf '%s\n' "$twice" >>"$tree/docs/spec/mpa.md"
protocol_refuses 'stands twice in docs/spec' ''
protocol_spec
sed -i 's/"mpa-7"/"mpa-8"/' "$tree/docs/spec/mpa.md"
protocol_refuses 'has the anchor mpa-8' ''
rm -r "$tree/docs/spec"
if protocol >/dev/null; then complain "protocol passes a tree without requirements"; fi
protocol_spec

rm "$tree/docs/PROTOCOL.md"
if "$check" --root "$tree" protocol >/dev/null; then complain "protocol passes a tree without the table"; fi

[ "$failures" = 0 ] && echo "all faults were caught"
exit "$((failures > 0))"
