# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Configurations, limits, perftest's nearly-JSON, results and their CSV, the report: without running anything."""
import glob
import html.parser
import os
import re
import sys
import tempfile
import time
import unittest

HERE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "perftest-configs")
sys.path.insert(0, HERE)
from runner import config, measure, plots, report, results  # noqa: E402

RUN = '[[run]]\nprograms = ["ib_write_bw"]\nsizes = ["64K"]\n'
LATENCY = '[[run]]\nprograms = ["ib_read_lat"]\nsizes = [64]\n'

# What perftest 4.5 of Debian 12 writes.
WRITTEN = """{
test_info: {
test: RDMA_Write_BW_Test,
Device: "swr0",
Number_of_qps: 1,
TX_depth : 128,
},
results: {
MsgSize: 65536,
n_iterations: 1000,
BW_peak: 3398.53,
BW_average: 2734.37,
MsgRate: 0.043750,
},
}
"""


class Configurations(unittest.TestCase):
    def test_the_shipped_ones_are_right(self):
        files = sorted(glob.glob(os.path.join(HERE, "*.toml")))
        names = [os.path.basename(file)[:-5] for file in files]
        self.assertEqual(names, ["compare", "latency", "message-rate", "smoke", "soak", "standard"])
        for file in files:
            with open(file, encoding="utf-8") as text:
                parsed = config.parse(text.read())
            self.assertTrue(parsed.limits, file)

    def test_the_one_of_the_readme_is_right(self):
        with open(os.path.join(HERE, "README.md"), encoding="utf-8") as text:
            blocks = re.findall(r"^```toml\n(.*?)^```$", text.read(), re.M | re.S)
        self.assertEqual([len(config.parse(block).runs) for block in blocks], [8])

    def test_standard_is_the_whole_matrix(self):
        with open(os.path.join(HERE, "standard.toml"), encoding="utf-8") as text:
            cases = [run.case for run in config.parse(text.read()).runs]
        self.assertEqual({case.program for case in cases if case.ip == 4}, set(config.PROGRAMS))
        self.assertEqual({case.ip for case in cases}, {4, 6})
        self.assertEqual({case.crc for case in cases}, {"on", "off"})
        self.assertGreater(len({case.qps for case in cases}), 1)
        self.assertGreater(len({case.size for case in cases}), 3)

    def test_a_matrix_is_expanded(self):
        runs = config.parse('[[run]]\nprograms = ["ib_write_bw", "ib_read_bw"]\nsizes = [64, "1M"]\nqps = [1, 4]\n'
                            'crc = ["on"]\narguments = ["-t", 64]\nsettings = { SWRNIC_FPDU = "emss" }\n').runs
        self.assertEqual(len(runs), 8)
        self.assertEqual(runs[3].case, config.Case("ib_write_bw", 1 << 20, 4, "on", 4))
        self.assertEqual(runs[3].arguments, ["-t", "64"])
        self.assertEqual(runs[3].settings, {"SWRNIC_FPDU": "emss"})

    def test_iterations_keep_to_the_octets(self):
        self.assertEqual(config.iterations_of("ib_write_bw", 64, 1, 5000, 1 << 30), 5000)
        self.assertEqual(config.iterations_of("ib_write_bw", 1 << 20, 4, 5000, 1 << 30), 256)
        self.assertEqual(config.iterations_of("ib_write_bw", 1 << 23, 16, 5000, 1 << 20), 20)

    def test_what_cannot_be_meant_is_refused(self):
        for text, why in (
                ("", "nothing to run"),
                ("[[run", "not TOML"),
                (RUN + "sices = [4]\n", "unknown sices"),
                ("colour = 1\n" + RUN, "unknown colour"),
                (RUN.replace("write", "wrote"), "allowed"),
                (RUN.replace('"64K"', ""), "no sizes"),
                (RUN.replace('"64K"', '"64 furlongs"'), "no number of octets"),
                (RUN.replace('"64K"', "0"), "no number of octets"),
                (RUN + 'crc = ["maybe"]\n', "allowed: auto, on, off"),
                (RUN + "qps = [0]\n", "qps"),
                (RUN + "ip = [6]\n", "IPv4 only"),
                (LATENCY + "qps = [1, 2]\n", "has one QP"),
                (RUN + RUN, "twice"),
                (RUN + 'settings = { SWRNIC_CRC = "on" }\n', "SWRNIC_CRC"),
                ("rounds = 0\n" + RUN, "rounds"),
                (RUN + '[[limit]]\nwhat = "speed >= 5 MB/s"\n', "such are"),
                (RUN + '[[limit]]\nwhat = "bandwidth >= 5 us"\n', "such are"),
                (RUN + '[[limit]]\nwhat = "bandwidth > 5 MB/s"\n', "such are"),
                (RUN + '[[limit]]\nwhat = "latency <= 5 us"\n', "concerns nothing"),
                (RUN + '[[limit]]\nwhen = { size = 63 }\nwhat = "bandwidth >= 5 MB/s"\n', "concerns nothing"),
                (RUN + '[[limit]]\nwhen = { seize = 64 }\nwhat = "bandwidth >= 5 MB/s"\n', "unknown seize")):
            with self.subTest(text=text), self.assertRaises(config.Wrong) as caught:
                config.parse(text)
            self.assertIn(why, str(caught.exception))


def judged(text, what, figures, tcp=None, baseline=None):
    parsed = config.parse(f'{text}[[limit]]\nwhat = "{what}"\n')
    result = results.Result(parsed.runs[0].case, figures, tcp=tcp, baseline=baseline)
    results.judge_all([result], parsed.limits)
    return result


class Limits(unittest.TestCase):
    def test_each_side_of_a_limit(self):
        for value, met in ((499, False), (500, True), (501, True)):
            self.assertEqual(judged(RUN, "bandwidth >= 500 MB/s", [measure.Figures(bandwidth=value)]).missed(), not met)
        for value, met in ((19, True), (20, True), (21, False)):
            self.assertEqual(judged(LATENCY, "latency <= 20 us", [measure.Figures(latency=value)]).missed(), not met)

    def test_the_median_of_the_rounds_counts(self):
        rounds = [measure.Figures(bandwidth=value) for value in (1, 600, 700)]
        self.assertFalse(judged(RUN, "bandwidth >= 500 MB/s", rounds).missed())

    def test_shares(self):
        ours = [measure.Figures(bandwidth=90)]
        self.assertFalse(judged(RUN, "bandwidth >= 0.9 tcp", ours, tcp=measure.Figures(bandwidth=100)).missed())
        self.assertTrue(judged(RUN, "bandwidth >= 0.91 tcp", ours, tcp=measure.Figures(bandwidth=100)).missed())
        self.assertTrue(judged(RUN, "bandwidth >= 0.8 baseline", ours, baseline=measure.Figures(bandwidth=200)).missed())

    def test_what_was_not_measured_is_missed(self):
        self.assertTrue(judged(RUN, "bandwidth >= 0 MB/s", []).missed())
        self.assertTrue(judged(RUN, "bandwidth >= 0.1 tcp", [measure.Figures(bandwidth=5)]).missed())
        self.assertTrue(judged(RUN, "bandwidth >= 0.1 baseline", [measure.Figures(bandwidth=5)]).missed())


class Reading(unittest.TestCase):
    def test_perftests_report(self):
        figures = measure.figures_of(config.Case("ib_write_bw", 65536), measure.read_json(WRITTEN))
        self.assertAlmostEqual(figures.bandwidth, 2734.37 * 1.048576)
        self.assertAlmostEqual(figures.rate, 43750)

    def test_small_messages_are_counted(self):
        text = WRITTEN.replace("65536", "2").replace("2734.37", "0.01").replace("0.043750", "1.500000")
        self.assertAlmostEqual(measure.figures_of(config.Case("ib_write_bw", 2), measure.read_json(text)).bandwidth, 3.0)

    def test_proper_json_is_read_too(self):
        found = measure.read_json('{\n"results": {\n"MsgSize": 64,\n"t_typical": 7.5,\n"percentile_99": 9.25\n}\n}\n')
        figures = measure.figures_of(config.Case("ib_read_lat", 64), found)
        self.assertEqual((figures.latency, figures.p99), (7.5, 9.25))

    def test_nonsense_is_refused(self):
        for text, why in (("", "no results"), (WRITTEN.replace("65536", "64"), "instead of"),
                          (WRITTEN.replace("2734.37", "0.00"), "clock")):
            with self.subTest(why=why), self.assertRaises(measure.Failed) as caught:
                measure.figures_of(config.Case("ib_write_bw", 65536), measure.read_json(text))
            self.assertIn(why, str(caught.exception))

    def test_rstream(self):
        text = ("name      bytes   xfers   iters   total       time     Gb/sec    usec/xfer\n"
                "custom    64k     1k      1       125m        0.39s      2.70     194.52\n")
        self.assertAlmostEqual(measure.read_rstream(config.Case("rstream_bw", 65536), text).bandwidth, 337.5)
        self.assertAlmostEqual(measure.read_rstream(config.Case("rstream_lat", 65536), text).latency, 194.52)
        with self.assertRaises(measure.Failed):
            measure.read_rstream(config.Case("rstream_bw", 65536), "name bytes\n")


class Reports(unittest.TestCase):
    def setUp(self):
        # pylint: disable=consider-using-with
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.path = os.path.join(self.folder.name, "results.csv")

    def test_a_csv_is_read_back(self):
        case = config.Case("ib_write_bw", 65536, 16, "on", 4)
        lost = results.Result(config.Case("ib_read_lat", 64), failed="the client, it said: no")
        results.write_csv(self.path, [results.Result(case, [measure.Figures(512.5, 7820, tries=2)]), lost])
        found = results.read_csv(self.path)
        self.assertEqual(list(found), [case])
        self.assertEqual((found[case].bandwidth, found[case].rate), (512.5, 7820))

    def test_a_wrong_baseline_is_refused(self):
        for text in (None, "", "a,b\n1,2\n", ",".join(results.COLUMNS) + "\n"):
            if text is not None:
                with open(self.path, "w", encoding="utf-8") as out:
                    out.write(text)
            with self.subTest(text=text), self.assertRaises(config.Wrong):
                results.read_csv(self.path)

    def page(self, *all_results, tcp=True):
        path = os.path.join(self.folder.name, "report.html")
        report.write(path, report.About("A <title>", "test", 1, time.monotonic(), "", "", tcp), all_results)
        with open(path, encoding="utf-8") as text:
            return text.read()

    def test_the_page_stands_alone_and_escapes(self):
        bad = results.Result(config.Case("ib_write_bw", 64), failed="<script>alert(1)</script>")
        good = results.Result(config.Case("ib_write_bw", 4096), [measure.Figures(100, 24414)], tcp=measure.Figures(200, 48828))
        text = self.page(bad, good)
        outside = []

        class Finder(html.parser.HTMLParser):
            def handle_starttag(self, tag, attributes):
                named = dict(attributes)
                outside.extend(named[name] for name in ("src", "href") if name in named and not named[name].startswith("data:"))
                if tag in ("script", "link"):
                    outside.append(tag)

        Finder().feed(text)
        self.assertEqual(outside, [])
        self.assertIn("A &lt;title&gt;", text)
        self.assertIn("1 of 2 tests failed or missed a limit", text)
        self.assertIn("0.50", text)
        self.assertNotIn("All 2 tests", text)

    @unittest.skipUnless(plots.available(), "gnuplot is not installed")
    def test_a_plot_for_each_group(self):
        members = [results.Result(config.Case(f"ib_{kind}_bw", size, qps), [measure.Figures(size / 7, 1000)],
                                  tcp=measure.Figures(size / 5, 2000), baseline=measure.Figures(size / 6, 1000))
                   for kind in ("write", "read", "send") for size in (64, 4096) for qps in (1, 16)]
        drawings = plots.draw(members, "bandwidth")
        self.assertEqual([title for title, _ in drawings], ["Bandwidth: 1 QP, CRC auto, IPv4", "Bandwidth: 16 QPs, CRC auto, IPv4"])
        for name in ("RDMA Write", "baseline", "plain TCP", "Send", "4 KiB"):
            self.assertIn(name, drawings[0][1])
        self.assertEqual(plots.draw([results.Result(members[0].case, failed="x")], "bandwidth"), [])


if __name__ == "__main__":
    unittest.main()
