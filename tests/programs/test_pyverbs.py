# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""python3-pyverbs' own test suite over the device, from a checkout of rdma-core at the release that is installed (v44.0)."""
import os
import re

import lib
import test_persona
from lib import expect

PYTHON = "/usr/bin/python3"  # which Debian's pyverbs is for
RNIC, ADAPTER = "iwarp", "roce"
BOTH = (RNIC, ADAPTER)

BEGINS_IN_INIT = "the suite's assumption: a QP of an RNIC begins in INIT; ours begins in RESET, as a program may wire it"
# What fails, with which persona, and why.
FAILS = {
    "test_qp.QPTest.test_query_rc_qp": ((RNIC,), BEGINS_IN_INIT),
    "test_qp.QPTest.test_query_uc_qp": ((RNIC,), BEGINS_IN_INIT),
    "test_qp.QPTest.test_query_ud_qp": ((RNIC,), BEGINS_IN_INIT),
    "test_rdmacm.CMTestCase.test_rdmacm_async_traffic": (
        BOTH, "the suite's assumption: query_qp tells a timeout, which iWARP has not, nor rdma_cm in the persona roce"),
    "test_rdmacm.CMTestCase.test_rdmacm_async_traffic_external_qp": (
        BOTH, "the suite's assumption: CONNECT_RESPONSE, which no RNIC tells. In the persona roce an id whose QP is in INIT when it "
              "connects hears ESTABLISHED at once: docs/PLAN.md"),
}
# What fails or passes as the processors are free.
RACES = {
    "test_rdmacm.CMTestCase.test_rdmacm_async_write":
        'the suite\'s assumption: a completion means "placed"; with rdma_cm it means "sent"',
}
# Why a test may be skipped: what the device does not offer, and then what this machine lacks.
SKIPPED = [
    r"ODP is not supported", r"Device memory is not supported", r"Create XRCD is not supported", r"Create Raw Packet QP",
    r"Create QP type 8 is not supported",  # the same
    r"Parent Domain is not supported",  # with allocators: there are no queues in the caller's memory
    r"Extended CQ is not supported",  # with tag matching
    r"Extended QP is not supported",  # with RDMA atomic write
    r"Importing a device is not supported",
    r"dmabuf is not supported", r"There are no huge pages", r"All gid indices populated",
]


def outcomes(path):
    with open(path, encoding="utf-8") as lines:
        return {name: (outcome, reason) for outcome, name, reason in (line.rstrip("\n").split("\t") for line in lines)}


def suite(lab, persona, settings):
    checkout = lab.checkout("rdma-core", "tests/run_tests.py")
    lib.need(PYTHON)
    if lib.subprocess.run([PYTHON, "-c", "import pyverbs.qp"], capture_output=True, check=False).returncode != 0:
        raise lib.Skip("python3-pyverbs is not installed")
    path = os.path.join(lab.directory, "outcomes")
    runner = os.path.join(os.path.dirname(os.path.abspath(__file__)), "pyverbs_suite.py")
    program = lab.start("pyverbs", [PYTHON, runner, checkout, "swr0", path], settings=settings)
    program.succeed(250 * lab.slow)

    found = outcomes(path)
    known = {name for name, (personas, _) in FAILS.items() if persona in personas}
    failed = {name for name, (outcome, _) in found.items() if outcome == "failed"} - RACES.keys()
    count = {outcome: sum(1 for o, _ in found.values() if o == outcome) for outcome in ("passed", "failed", "skipped")}
    print(f"    {persona}: {len(found)} tests, {count}")
    expect(len(found) > 150, "most of the suite has not been run")
    expect(failed <= known, f"these are new: {sorted(failed - known)}")
    expect(known <= failed, f"these do not fail any more, so take them from the list: {sorted(known - failed)}")
    unexplained = {name: reason for name, (outcome, reason) in found.items()
                   if outcome == "skipped" and not any(re.search(known, reason) for known in SKIPPED)}
    expect(not unexplained, f"skipped, and the list has no such reason: {unexplained}")


def case_iwarp(lab):
    suite(lab, RNIC, None)


def case_roce(lab):
    suite(lab, ADAPTER, test_persona.ROCE)


if __name__ == "__main__":
    lib.main(globals())
