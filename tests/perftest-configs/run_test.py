# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""perftest-configs/run over the device of the build tree, both sides on the loopback."""
import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time

import browser

RUN = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "perftest-configs", "run")
ONE = '[[run]]\nprograms = ["ib_write_bw"]\nsizes = [4096]\niterations = 500\n'


class Place:
    def __init__(self, build, folder):
        self.build, self.folder = build, folder

    def path(self, name):
        return os.path.join(self.folder, name)

    def write(self, name, text, mode=0o644):
        with open(self.path(name), "w", encoding="utf-8") as out:
            out.write(text)
        os.chmod(self.path(name), mode)
        return self.path(name)

    def run(self, expected, config, *more, report="report"):
        swrnic, rawtcp = (os.path.join(self.build, "bin", name) for name in ("swrnic", "rawtcp"))
        done = subprocess.run([sys.executable, RUN, config, "--swrnic", swrnic, "--rawtcp", rawtcp, "--report", self.path(report),
                               *more], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
        print(done.stdout)
        assert done.returncode == expected, f"status {done.returncode}, expected {expected}"
        return done.stdout

    def text(self, name, report="report"):
        with open(os.path.join(self.path(report), name), encoding="utf-8") as text:
            return text.read()


def case_smoke(place):
    started = time.monotonic()
    said = place.run(0, "smoke")
    took = time.monotonic() - started
    assert took < 60, f"smoke took {took:.0f} s"
    assert "11 of 11 tests are within their limits" in said
    assert "[16/16]" in said and "left)" in said
    assert len(place.text("results.csv").splitlines()) == 12
    page = place.text("report.html")
    assert "All 11 tests ran" in page
    if shutil.which("gnuplot"):
        assert page.count("data:image/svg+xml") >= 3
        if browser.available():
            said, drawn, there = browser.look_at(os.path.join(place.path("report"), "report.html"))
            assert not said and drawn == there >= 3, f"{drawn} of {there} plots are drawn; the console: {said}"
    # What went over the loopback is not 0 and not nonsense.
    for line in place.text("results.csv").splitlines()[1:]:
        cells = line.split(",")
        assert float(cells[7]) + float(cells[9]) > 0, line
        assert float(cells[11]) + float(cells[12]) > 0, line


def case_standard(place):
    """The whole matrix as it is shipped."""
    assert "102 of 102 tests are within their limits" in place.run(0, "standard")


def case_missed_limit(place):
    config = place.write("far.toml", ONE + '[[limit]]\nwhat = "bandwidth >= 99999999 MB/s"\n')
    assert "missed: ib_write_bw 4096" in place.run(1, config, "--no-tcp")
    assert "1 of 1 tests failed or missed a limit" in place.text("report.html")
    place.run(0, config, "--no-tcp", "--no-limits")


def case_baseline(place):
    config = place.write("same.toml", ONE + '[[limit]]\nwhat = "bandwidth >= 0.000001 baseline"\n')
    assert "give --baseline" in place.run(2, config)
    place.run(0, config, "--no-limits", "--no-tcp", report="before")
    place.run(0, config, "--no-tcp", "--baseline", place.path("before"))
    assert "Baseline" in place.text("report.html")


def case_by_ssh(place):
    """The server by ssh: one that notes the host and runs the command here."""
    ssh = place.write("ssh", f'#!/bin/sh\necho "$1" >>{place.path("hosts")}\nshift\nexec sh -c "$*"\n', 0o755)
    config = place.write("one.toml", ONE)
    place.run(0, config, "--server", "user@there", "--address", "127.0.0.1", "--ssh", ssh)
    with open(place.path("hosts"), encoding="utf-8") as hosts:
        assert set(hosts.read().split()) == {"user@there"}
    assert "server on user@there" in place.text("report.html")


def case_dead_server(place):
    """A server that ends at once is told with what it said, after three tries."""
    config = place.write("dead.toml", ONE + 'arguments = ["--no-such-option"]\n')
    said = place.run(1, config, "--no-tcp")
    assert "try 2" in said and "FAILED" in said and "no-such-option" in said, said


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", required=True)
    parser.add_argument("case")
    args = parser.parse_args()
    for program in ("ib_write_bw", "rstream"):
        if not shutil.which(program):
            print(f"skipped: {program} is not installed")
            sys.exit(77)
    with tempfile.TemporaryDirectory(prefix="swrnic-perftest-test-") as folder:
        globals()[f"case_{args.case}"](Place(args.build, folder))


if __name__ == "__main__":
    main()
