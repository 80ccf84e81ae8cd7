# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""UCX's own tests (gtest) of its transports rc_verbs and ud_verbs, and of what stands upon them, from a checkout of UCX at the
release that is installed (v1.13.1). Persona roce: UCX takes no RNIC of iWARP."""
import os
import re

import lib
import test_persona
import trials
from lib import expect
from trials import FAILED, NOT_RUN, PASSED

WITHOUT = "--disable-doxygen-doc --without-java --without-go --without-cuda --without-rocm --without-knem --without-xpmem --without-gdrcopy"
OUTCOMES = {"OK": PASSED, "FAILED": FAILED, "SKIP": NOT_RUN, "SKIPPED": NOT_RUN}
END = re.compile(r"^\[ +(OK|FAILED|SKIP|SKIPPED) +\] (\S+?)(?:,.*)? \(\d+ ms\)$", re.M)
# Its tools are not built: without optimisation they do not link.
PARTS = ("src/ucm", "src/ucs", "src/uct", "src/ucp", "src/tools/perf/lib", "test/gtest")
# Of one suite: the longest of them moves data of all sizes in all ways.
SECONDS = 900

EARLY = "it deregisters memory to which its last Write is still on its way"
# What ends as the machine's load has it: no outcome is expected of these.
UNSURE = {r"^\w+/test_uct_perf": "it measures, and takes long on a busy machine",
          r"many_clients_to_one_server": "it takes the end that one side hears of for heard of by both"}
FAILS = {"uct": {r"^rc_verbs/uct_p2p_rma_test_xfer\.fence": EARLY}, "ucp": {}}
RUN_NOT = {"uct": {}, "ucp": {}}


def program(lab):
    checkout = lab.checkout("ucx", "test/gtest/Makefile.am")
    lib.need("autoreconf", "libtoolize", "make")
    directory = trials.copy(lab, "ucx", checkout)
    path = os.path.join(directory, "test", "gtest", "gtest")
    if not os.path.exists(path):
        trials.build(directory, "./autogen.sh", f"./configure --enable-gtest {WITHOUT}",
                     *(f"make -C {part} -j{os.cpu_count()} CFLAGS=-O1 CXXFLAGS=-O0" for part in PARTS))
    return path


def suites(lab, path, patterns):
    """The names of the tests that match, by suite."""
    listed = lab.start("gtest-list", [path, "--gtest_list_tests", f"--gtest_filter={patterns}"], settings=test_persona.ROCE)
    found, suite = {}, None
    for line in listed.succeed(60 * lab.slow).splitlines():
        if re.match(r"^\S+\.$", line):
            suite = line
        elif suite and line.startswith("  "):
            found.setdefault(suite[:-1], []).append(line.split()[0])
    return found


def reason(text, test):
    """What UCX said between a test's beginning and its end."""
    said = re.search(r"^\[ RUN +\] " + re.escape(test) + r".*?$(.*?)^\[ +(?:OK|FAILED|SKIP|SKIPPED)", text, re.M | re.S)
    return " ".join(said.group(1).split())[-300:] if said else ""


def run(lab, level, patterns):
    path = program(lab)
    found = {}
    for suite, names in suites(lab, path, patterns).items():
        left = list(names)
        while left:
            command = [path, "--gtest_filter=" + ":".join(f"{suite}.{name}" for name in left)]
            process = lab.start("gtest", command, settings=test_persona.ROCE)
            try:
                process.wait(SECONDS * lab.slow)
            except lib.Failed:
                process.kill()
                process.wait(10)
            text = process.text()
            ended = {name: OUTCOMES[how] for how, name in END.findall(text)}
            for name in [n for n in left if f"{suite}.{n}" in ended]:
                test = f"{suite}.{name}"
                found[test] = (ended[test], reason(text, test) if ended[test] != PASSED else "")
                left.remove(name)
            if left:  # the one that began last took the program with it
                begun = re.findall(r"^\[ RUN +\] (\S+)", text, re.M)
                expect(begun, f"{suite} ran no test: {process.tail(1000)}")
                name = begun[-1].split(".", 1)[1]
                expect(name in left, f"{suite} ended behind {name}: {process.tail(1000)}")
                found[begun[-1]] = (FAILED, f"the program ended with status {process.popen.poll()}: {' '.join(process.tail(300).split())}")
                left.remove(name)
            process.excused = True
            lab.forget()
        # Thousands of tests take an hour: what has come so far shows at once.
        for test in (f"{suite}.{name}" for name in names):
            if found[test][0] == FAILED:
                print(f"    {test}: {found[test][1]}", flush=True)
    unsure = {test for test in found if any(re.search(pattern, test) for pattern in UNSURE)}
    print(f"    unsure: {sorted(test for test in unsure if found[test][0] == FAILED)} of {len(unsure)} failed")
    trials.judge({test: how for test, how in found.items() if test not in unsure}, FAILS[level], RUN_NOT[level])


def case_uct(lab):
    run(lab, "uct", "rc_verbs/*:ud_verbs/*:rdmacm/*")


def case_ucp(lab):
    # What is left out measures, for an hour and more.
    run(lab, "ucp", "rc/*:ud/*:-*/test_ucp_perf.*")


if __name__ == "__main__":
    lib.main(globals())
