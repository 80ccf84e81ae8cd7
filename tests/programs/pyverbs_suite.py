# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Runs what is not for one vendor's devices of the test suite in rdma-core's tests/, and writes each test's outcome to a file.

pyverbs_suite.py CHECKOUT DEVICE FILE: lines of outcome, name and, of a test that was skipped, the reason, with tabs between.
"""
import os
import sys
import unittest
from importlib.machinery import SourceFileLoader

VENDORS = ("test_mlx5", "test_efa", "test_cuda")


class Outcomes(unittest.TextTestResult):
    file = None

    def note(self, outcome, test, reason=""):
        print(outcome, test.id().removeprefix("tests."), reason, sep="\t", file=self.file, flush=True)

    def addSuccess(self, test):
        super().addSuccess(test)
        self.note("passed", test)

    def addError(self, test, err):
        super().addError(test, err)
        self.note("failed", test)

    def addFailure(self, test, err):
        super().addFailure(test, err)
        self.note("failed", test)

    def addSkip(self, test, reason):
        super().addSkip(test, reason)
        self.note("skipped", test, reason.replace("\n", " "))


def main():
    checkout, device, outcomes = sys.argv[1:]
    directory = os.path.join(checkout, "tests")
    sys.path.insert(0, directory)
    # As the suite's own run_tests.py begins; its parser reads sys.argv.
    tests = SourceFileLoader("tests", os.path.join(directory, "__init__.py")).load_module()
    sys.argv[1:] = ["--dev", device]
    tests.parser.parse_args()
    modules = [m for m in tests.__test_modules__ if not m.__name__.split(".")[-1].startswith(VENDORS)]
    suite = unittest.TestSuite(map(unittest.defaultTestLoader.loadTestsFromModule, modules))
    with open(outcomes, "w", encoding="utf-8") as Outcomes.file:
        unittest.TextTestRunner(verbosity=2, resultclass=Outcomes).run(suite)


if __name__ == "__main__":
    main()
