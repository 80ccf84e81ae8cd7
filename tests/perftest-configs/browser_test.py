# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""The report opens in headless Chromium: no word on the console, every plot drawn; and the look itself notices what is broken."""
import os
import shutil
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "..", "perftest-configs"))
import browser  # noqa: E402
from runner import config, measure, report, results  # noqa: E402

EVERYTHING = """
title = "Every kind of row & plot, <escaped>"
[[run]]
programs = ["ib_write_bw", "ib_read_bw", "ib_send_bw"]
sizes = [64, "4K", "1M"]
qps = [1, 16]
crc = ["off", "on"]
[[run]]
programs = ["ib_write_lat", "ib_read_lat", "ib_send_lat"]
sizes = [64, "4K"]
[[run]]
programs = ["rstream_bw", "rstream_lat"]
sizes = [64, "4K"]
ip = [4, 6]
[[limit]]
what = "bandwidth >= 0.5 tcp"
[[limit]]
what = "latency <= 1.25 baseline"
"""
# 1 QP and 16, CRC on and off, and rsockets over IPv4 and IPv6, for bandwidth and for rate; latency over IPv4 and IPv6.
PLOTS = 6 + 6 + 2


def made_up(case, factor):
    if case.is_latency:
        return measure.Figures(latency=factor * (5 + case.size / 500), p99=factor * (9 + case.size / 400))
    return measure.Figures(bandwidth=case.size / factor / (2 + case.size / 4000), rate=1e6 / factor / (2 + case.size / 4000))


def write_report(path):
    wanted = config.parse(EVERYTHING)
    all_results = [results.Result(run.case, [made_up(run.case, 1 + n % 3 / 4)], tcp=made_up(run.case, 0.8), baseline=made_up(run.case, 1.2))
                   for n, run in enumerate(wanted.runs)]
    all_results[0].samples, all_results[0].failed = [], "the client said: <no> & \"why\""
    results.judge_all(all_results, wanted.limits)
    report.write(path, report.About(wanted.title, "test", 3, time.monotonic(), "host", "before", True), all_results)


def expect_broken(page, folder, old, new, what):
    with open(page, encoding="utf-8") as text:
        whole = text.read()
    assert old in whole
    with open(f"{folder}/broken.html", "w", encoding="utf-8") as out:
        out.write(whole.replace(old, new, 1))
    said, drawn, there = browser.look_at(f"{folder}/broken.html")
    assert said or drawn < there, f"{what} was not noticed"


def main():
    for program in ("chromium", "gnuplot"):
        if not shutil.which(program):
            print(f"skipped: {program} is not installed")
            sys.exit(77)
    with tempfile.TemporaryDirectory(prefix="swrnic-browser-test-") as folder:
        page = f"{folder}/report.html"
        write_report(page)
        said, drawn, there = browser.look_at(page)
        print(f"{drawn} of {there} plots are drawn; the console: {said or 'nothing'}")
        assert not said, said
        assert drawn == there == PLOTS, f"{drawn} of {there} plots are drawn, {PLOTS} were to be"
        expect_broken(page, folder, "data:image/svg+xml;base64,", "data:image/svg+xml;base64,AAAA", "a picture that is none")
        expect_broken(page, folder, "</main>", "<script>nowhere()</script></main>", "an error of a script")
        png = f"{folder}/report.png"
        browser.picture_of(page, png, 2000)
        assert os.path.getsize(png) > 20000, "the screenshot shows nothing"


if __name__ == "__main__":
    main()
