# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""fabtests, libfabric's own test suite, from a checkout of libfabric at the release that is installed (v1.17.0). Its own script
(scripts/runfabtests.sh) ends every process of this host whose name begins with fi_, so its lists of tests are read, and what it
leaves out for a provider, and each test is run here as it would."""
import os
import re
import time

import lib
import test_persona
import trials
from trials import FAILED, NOT_RUN, PASSED

RNIC, ADAPTER = "iwarp", "roce"
SETTINGS = {RNIC: None, ADAPTER: test_persona.ROCE}
# The provider, and whose list of what is left out holds.
MSG, RXM = ("verbs", "verbs"), ("verbs;ofi_rxm", "ofi_rxm")
ENODATA, ENOSYS = 61, 38  # with which a test says that the provider has not what it tests
PORT = 9228  # the tests' own
SECONDS = 120
CLIENT = "10.77.0.2"  # in the namespace of the lab: it takes no address of a loopback interface

# What fails, and what is not run, by persona and provider, with the reason.
NO_DATA = "libfabric offers no remote CQ data over an RNIC"
FAILS = {(RNIC, RXM): {r"^fi_cq_data -e rdm": f"{NO_DATA}, and its ofi_rxm takes a program that asks for it all the same"}}
RUN_NOT = {(RNIC, MSG): {r"^fi_cq_data -e msg": NO_DATA, r"^fi_rma_bw -e msg -o writedata": NO_DATA}}


def suite(checkout):
    """The lists that its script calls quick, by name."""
    with open(os.path.join(checkout, "scripts", "runfabtests.sh"), encoding="utf-8") as script:
        lists = dict(re.findall(r"^(\w+)_tests=\($(.*?)^\)", script.read(), re.M | re.S))
    return {name: re.findall(r'"(.*)"', lists[name]) for name in ("unit", "neg_unit", "functional", "short")}


def left_out(checkout, name):
    with open(os.path.join(checkout, "test_configs", name, f"{name}.exclude"), encoding="utf-8") as lines:
        return [re.compile(line.strip()) for line in lines if line.strip() and not line.startswith("#")]


def program(lab):
    checkout = os.path.join(lab.checkout("libfabric", "fabtests/configure.ac"), "fabtests")
    lib.need("autoreconf", "make")
    if not os.path.exists("/usr/include/rdma/fabric.h"):
        raise lib.Skip("libfabric-dev is not installed")
    directory = trials.copy(lab, "fabtests", checkout)
    if not os.path.exists(os.path.join(directory, "ubertest", "fi_ubertest")):
        trials.build(directory, "./autogen.sh && ./configure CFLAGS=-O1", f"make -j{os.cpu_count()}")
    return directory


class Suite:
    def __init__(self, lab, persona, provider):
        self.lab, self.settings, self.provider = lab, SETTINGS[persona], provider
        self.directory = program(lab)
        self.paths = {name: os.path.join(folder, name) for folder, _, names in os.walk(self.directory) for name in names
                      if name.startswith("fi_") and os.access(os.path.join(folder, name), os.X_OK) and ".libs" not in folder}

    def start(self, test, side, *arguments):
        name, *options = test.split()
        return self.lab.start(f"{name}-{side}", [self.paths[name], *options, *arguments], side, settings=self.settings)

    def status(self, process):
        try:
            return process.wait(SECONDS * self.lab.slow)
        except lib.Failed:
            process.kill()
            process.wait(10)
            return None

    def alone(self, test, right=0):
        test = test.replace("GOOD_ADDR", self.lab.address).replace("SERVER_ADDR", self.lab.address)
        status = self.status(self.start(test, "server", "-p", self.provider))
        if status == right:
            return PASSED
        return NOT_RUN if status in (ENODATA, ENOSYS) else FAILED

    def pair(self, test):
        server = self.start(test, "server", "-p", self.provider, "-s", self.lab.address)
        end = time.monotonic() + 1  # Not each of them listens at once, or there.
        while server.running() and not server.listens(PORT) and time.monotonic() < end:
            time.sleep(0.02)
        client = self.start(test, "client", "-p", self.provider, "-s", CLIENT, self.lab.address)
        statuses = [self.status(client)]
        if statuses[0] != 0:
            time.sleep(2)
            server.kill()
        statuses.append(self.status(server))
        if statuses == [0, 0]:
            return PASSED
        return NOT_RUN if statuses in ([ENODATA, ENODATA], [ENOSYS, ENOSYS]) else FAILED


def run(lab, persona, provider):
    here = Suite(lab, persona, provider[0])
    excluded = left_out(here.directory, provider[1])
    found = {}
    for kind, tests in suite(here.directory).items():
        for test in tests:
            if any(pattern.search(test) for pattern in excluded):
                continue
            if kind == "unit":
                found[test] = here.alone(test)
            elif kind == "neg_unit":
                found[test] = here.alone(test, right=ENODATA)
            else:
                found[test] = here.pair(test)
            if found[test] == PASSED:
                lab.forget()
            else:
                print(f"    {found[test]}: {test}")
                for process in lab.processes[-2:]:
                    print(process.tail(1000))
    trials.judge({test: (outcome, "") for test, outcome in found.items()}, FAILS.get((persona, provider), {}),
                 RUN_NOT.get((persona, provider), {}))


def case_iwarp_msg(lab):
    run(lab, RNIC, MSG)


def case_iwarp_rxm(lab):
    run(lab, RNIC, RXM)


def case_roce_msg(lab):
    run(lab, ADAPTER, MSG)


def case_roce_rxm(lab):
    run(lab, ADAPTER, RXM)


if __name__ == "__main__":
    lib.main(globals())
