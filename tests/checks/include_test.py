#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""include_test.py BUILD: a file that stands in a room is compiled with the room's own options. What the room may include is found; what it
may not is no such file."""
import json
import pathlib
import shlex
import subprocess
import sys
import tempfile

ENGINE = ["engine/engine.h", "engine/trace.h", "engine/core/counters.h"]
HIDDEN = ["engine/core/qp.h", "engine/core/memory.h", "engine/core/tx.h", "engine/engine_impl.h", "engine/tuning.h"]
CONTRACT = "swrnic-abi.h"
COMMON = ["config.h", "log.h", "stat_page.h", "populated_pool.h"]

# A source of the room; what it may include; what it may not.
ROOMS = {
    "common/log.cpp": (COMMON, [CONTRACT, "wire/fpdu.h", *ENGINE, "host/statistics.h"]),
    "provider/wire/fpdu.cpp": (["wire/rdmap.h"], [CONTRACT, *COMMON, *ENGINE, *HIDDEN, "host/statistics.h"]),
    "provider/engine/core/qp.cpp": (["wire/fpdu.h", "engine/core/tx.h"],
                                    [CONTRACT, *COMMON, "engine/engine.h", "engine/tuning.h", "host/statistics.h", "verbs/verbs.h"]),
    "provider/engine/sched/send_gate.cpp": (["engine/core/tx.h", "engine/cycles.h", "engine/tuning.h"],
                                            [CONTRACT, *COMMON, "engine/engine.h", "engine/engine_impl.h", "engine/cycle_counter.h"]),
    "provider/engine/progress.cpp": (["wire/fpdu.h", "populated_pool.h", "signals.h", *ENGINE, *HIDDEN],
                                     [CONTRACT, "config.h", "log.h", "stat_page.h", "host/statistics.h", "provider-abi.h", "verbs/verbs.h"]),
    "provider/host/statistics.cpp": ([CONTRACT, *COMMON, *ENGINE],
                                     [*HIDDEN, "engine/core/foreign_memory.h", "provider-abi.h", "verbs/verbs.h", "swrnic_policy.h"]),
    "provider/verbs/qp.cpp": ([CONTRACT, *COMMON, *ENGINE, "host/event_file.h", "provider-abi.h", "abi/layout.h"],
                              [*HIDDEN, "engine/core/foreign_memory.h", "swrnic_policy.h", "swrnic_mpa.h"]),
    "kernel-shim/mpa/swrnic_mpa.c": ([CONTRACT], ["swrnic_policy.h", "config.h", "log.h", "wire/byteorder.h"]),
    "kernel-shim/userspace/net.cpp": ([CONTRACT, "swrnic_policy.h", "swrnic_mpa.h", *COMMON],
                                      ["wire/fpdu.h", *ENGINE, *HIDDEN, "host/event_file.h", "provider-abi.h", "operations.h", "abi/layout.h"]),
    "swrnicd/server.cpp": ([CONTRACT, "swrnic-serve.h", *COMMON, *ENGINE, "engine/core/foreign_memory.h", "host/event_file.h"],
                           [*HIDDEN, "provider-abi.h", "verbs/verbs.h", "swrnic_policy.h"]),
    "tools/run.cpp": ([*COMMON, "abi/layout.h"], [CONTRACT, "wire/fpdu.h", *ENGINE, "host/statistics.h", "provider-abi.h", "operations.h"]),
}

root = pathlib.Path(__file__).resolve().parents[2]
build = pathlib.Path(sys.argv[1]).resolve()
commands = {entry["file"]: entry for entry in json.loads((build / "compile_commands.json").read_text())}
failures = 0


def compiles(source: pathlib.Path, headers: list[str], action: str) -> str:
    """What the compiler complains of, as the room's target would call it; empty: nothing."""
    entry = commands[str(source)]
    words = shlex.split(entry["command"])
    words = words[next(i for i, word in enumerate(words) if "ccache" not in word):]
    # Not the object, nor the profile of another source.
    output = words.index("-o")
    words = [word for word in words[:output] + words[output + 2:] if word not in ("-c", str(source)) and not word.startswith("-fprofile")]
    with tempfile.NamedTemporaryFile("w", suffix=source.suffix) as file:
        file.write("".join(f'#include "{header}"\n' for header in headers))
        file.flush()
        ended = subprocess.run([*words, action, file.name, "-o", "/dev/null"], cwd=entry["directory"], text=True,
                               capture_output=True, check=False, env={"PATH": "/usr/bin:/bin", "LC_ALL": "C"})
    return ended.stderr if ended.returncode else ""


for name, (allowed, forbidden) in ROOMS.items():
    path = root / name
    complaint = compiles(path, allowed, "-fsyntax-only")
    if complaint:
        print(f"FAILED: {name} may include {', '.join(allowed)}:\n{complaint}")
        failures += 1
    for header in forbidden:
        complaint = compiles(path, [header], "-E")
        if f"{header}: No such file" not in complaint and f"'{header}' file not found" not in complaint:
            print(f"FAILED: {name} includes {header}: {complaint or 'it is found'}")
            failures += 1
sys.exit(failures > 0)
