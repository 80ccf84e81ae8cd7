# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""What was measured, beside plain TCP and a baseline; which limits were met; the CSV that holds it and is read back."""
import csv
import statistics
from dataclasses import dataclass, field

from runner.config import Case, Wrong, measures
from runner.measure import Figures

METRICS = ("bandwidth", "rate", "latency", "p99")
COLUMNS = ["program", "size", "qps", "crc", "ip", "rounds", "tries", "bandwidth_MBps", "rate_per_s", "latency_us", "p99_us",
           "tcp_bandwidth_MBps", "tcp_latency_us", "failed"]


@dataclass
class Result:
    case: Case
    samples: list = field(default_factory=list)  # Figures of each round
    failed: str = ""
    tcp: Figures | None = None
    baseline: Figures | None = None
    verdicts: list = field(default_factory=list)  # (text, met, what was measured)

    def value(self, metric):
        """The median of the rounds; 0: not measured."""
        return statistics.median(getattr(sample, metric) for sample in self.samples) if self.samples else 0.0

    def tries(self):
        return max((sample.tries for sample in self.samples), default=0)

    def missed(self):
        return bool(self.failed) or not all(met for _, met, _ in self.verdicts)


def judge(result, limit):
    """(text, met, why). What could not be measured or has nothing to be compared with is missed, not passed over."""
    measured = result.value(limit.metric)
    if not measured:
        return limit.text, False, "not measured"
    if limit.unit in ("tcp", "baseline"):
        other = getattr(result, limit.unit)
        reference = getattr(other, limit.metric) if other else 0
        if not reference:
            return limit.text, False, f"no {limit.unit} figure to compare with"
        measured /= reference
    met = measured >= limit.number if limit.at_least else measured <= limit.number
    return limit.text, met, f"{measured:.0f} {limit.unit}" if measured >= 100 else f"{measured:.3g} {limit.unit}"


def judge_all(results, limits):
    for result in results:
        result.verdicts = [judge(result, limit) for limit in limits
                           if limit.concerns(result.case) and measures(result.case, limit.metric)]


def write_csv(path, results):
    with open(path, "w", newline="", encoding="utf-8") as out:
        rows = csv.writer(out)
        rows.writerow(COLUMNS)
        for result in results:
            case, tcp = result.case, result.tcp or Figures()
            rows.writerow([case.program, case.size, case.qps, case.crc, case.ip, len(result.samples), result.tries(),
                           *(f"{result.value(metric):.3f}" for metric in METRICS),
                           f"{tcp.bandwidth:.3f}", f"{tcp.latency:.3f}", result.failed])


def read_csv(path):
    """Case -> Figures of an earlier report."""
    found = {}
    try:
        with open(path, newline="", encoding="utf-8") as lines:
            for row in csv.DictReader(lines):
                if row["failed"]:
                    continue
                case = Case(row["program"], int(row["size"]), int(row["qps"]), row["crc"], int(row["ip"]))
                found[case] = Figures(float(row["bandwidth_MBps"]), float(row["rate_per_s"]), float(row["latency_us"]), float(row["p99_us"]))
    except (OSError, KeyError, ValueError, TypeError) as why:
        raise Wrong(f"cannot read the baseline {path}: {why}") from None
    if not found:
        raise Wrong(f"the baseline {path} holds no results")
    return found
