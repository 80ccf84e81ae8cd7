# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Reads a configuration: what to run, with which arguments, against which limits."""
import re
import tomllib
from dataclasses import dataclass, field

BANDWIDTH = ("ib_write_bw", "ib_read_bw", "ib_send_bw", "rstream_bw")
LATENCY = ("ib_write_lat", "ib_read_lat", "ib_send_lat", "rstream_lat")
PROGRAMS = BANDWIDTH + LATENCY

# What a limit may compare, and in which units. "tcp" and "baseline" are shares of what those reached.
METRICS = {
    "bandwidth": ("MB/s", "tcp", "baseline"),
    "rate": ("/s", "tcp", "baseline"),
    "latency": ("us", "tcp", "baseline"),
    "p99": ("us", "baseline"),
}
LIMIT = re.compile(r"(\w+)\s*(>=|<=)\s*([0-9]*\.?[0-9]+)\s*(\S+)")
SUFFIXES = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30}


class Wrong(Exception):
    """The configuration says something that cannot be meant."""


@dataclass(frozen=True)
class Case:
    """One cell of the matrix: what makes two measurements comparable."""

    program: str
    size: int
    qps: int = 1
    crc: str = "auto"
    ip: int = 4

    @property
    def is_latency(self):
        return self.program in LATENCY

    def __str__(self):
        return f"{self.program} {self.size} octets, {self.qps} QP{'s' if self.qps > 1 else ''}, CRC {self.crc}, IPv{self.ip}"


@dataclass
class Run:
    """A case, and how it is run."""

    case: Case
    iterations: int
    arguments: list
    settings: dict


@dataclass
class Limit:
    when: dict
    metric: str
    at_least: bool
    number: float
    unit: str
    text: str

    def concerns(self, case):
        return all(getattr(case, name) == value for name, value in self.when.items())


@dataclass
class Config:
    title: str
    runs: list
    limits: list
    rounds: int = 1
    minutes: float = 0  # go on with further rounds until so many have passed
    needs: set = field(default_factory=set)  # "tcp", "baseline": what some limit compares with


def octets(value):
    match = re.fullmatch(r"(\d+)([KMG]?)", str(value))
    if not match or int(match[1]) == 0:
        raise Wrong(f"{value!r} is no number of octets; such are 4096, \"64K\", \"1G\"")
    return int(match[1]) * SUFFIXES[match[2]]


def take(table, where, known):
    unknown = sorted(set(table) - set(known))
    if unknown:
        raise Wrong(f"{where}: unknown {', '.join(unknown)}; known are {', '.join(known)}")


def one_of(values, allowed, where):
    if not isinstance(values, list) or not values:
        raise Wrong(f"{where} is to be a list, with something in it")
    for value in values:
        if value not in allowed:
            raise Wrong(f"{where}: {value!r}; allowed: {', '.join(map(str, allowed))}")
    return values


def iterations_of(program, size, qps, most, total):
    """No more than asked for, no more octets than asked for, and never below what perftest takes."""
    return max(20 if program in BANDWIDTH else 50, min(most, total // (size * qps)))


def expand(block, where):
    take(block, where, ("programs", "sizes", "qps", "crc", "ip", "iterations", "octets", "arguments", "settings"))
    programs = one_of(block.get("programs"), PROGRAMS, f"{where}: programs")
    sizes = [octets(size) for size in block.get("sizes", [])]
    if not sizes:
        raise Wrong(f"{where}: no sizes")
    qps = one_of(block.get("qps", [1]), range(1, 1025), f"{where}: qps")
    crc = one_of(block.get("crc", ["auto"]), ("auto", "on", "off"), f"{where}: crc")
    ip = one_of(block.get("ip", [4]), (4, 6), f"{where}: ip")
    most, total = int(block.get("iterations", 5000)), octets(block.get("octets", "1G"))
    arguments = [str(word) for word in block.get("arguments", [])]
    settings = {str(name): str(value) for name, value in block.get("settings", {}).items()}
    if "SWRNIC_CRC" in settings:
        raise Wrong(f"{where}: SWRNIC_CRC is what crc = [...] sets")
    runs = []
    for case in (Case(p, s, q, c, i) for p in programs for i in ip for c in crc for q in qps for s in sizes):
        if case.qps > 1 and not case.program.endswith("_bw") or case.qps > 1 and case.program.startswith("rstream"):
            raise Wrong(f"{where}: {case.program} has one QP; give it a [[run]] of its own")
        if case.ip == 6 and not case.program.startswith("rstream"):
            raise Wrong(f"{where}: perftest's rdma_cm is IPv4 only; over IPv6 rstream_bw and rstream_lat measure")
        count = iterations_of(case.program, case.size, case.qps, most, total)
        runs.append(Run(case, count, arguments, settings))
    return runs


def read_limit(table, where):
    take(table, where, ("when", "what"))
    text = table.get("what", "")
    match = LIMIT.fullmatch(text)
    if not match or match[1] not in METRICS or match[4] not in METRICS[match[1]]:
        raise Wrong(f"{where}: {text!r}; such are \"bandwidth >= 500 MB/s\", \"latency <= 3 tcp\", \"p99 <= 200 us\"")
    when = table.get("when", {})
    take(when, where, ("program", "size", "qps", "crc", "ip"))
    if "size" in when:
        when = {**when, "size": octets(when["size"])}
    return Limit(when, match[1], match[2] == ">=", float(match[3]), match[4], text)


def measures(case, metric):
    return metric in (("latency", "p99") if case.is_latency else ("bandwidth", "rate"))


def parse(text):
    try:
        table = tomllib.loads(text)
    except tomllib.TOMLDecodeError as why:
        raise Wrong(f"not TOML: {why}") from None
    take(table, "at the top", ("title", "rounds", "minutes", "run", "limit"))
    runs = [run for number, block in enumerate(table.get("run", []), 1) for run in expand(block, f"[[run]] {number}")]
    if not runs:
        raise Wrong("nothing to run: no [[run]]")
    seen = set()
    for run in runs:
        if run.case in seen:
            raise Wrong(f"twice: {run.case}")
        seen.add(run.case)
    limits = [read_limit(block, f"[[limit]] {number}") for number, block in enumerate(table.get("limit", []), 1)]
    for number, limit in enumerate(limits, 1):
        # A limit that nothing can miss is a mistake, most likely in its "when".
        if not any(limit.concerns(run.case) and measures(run.case, limit.metric) for run in runs):
            raise Wrong(f"[[limit]] {number}: {limit.text!r} concerns nothing that is run")
    config = Config(str(table.get("title", "perftest")), runs, limits, int(table.get("rounds", 1)), float(table.get("minutes", 0)))
    if config.rounds < 1:
        raise Wrong("rounds: at least 1")
    config.needs = {limit.unit for limit in limits if limit.unit in ("tcp", "baseline")}
    return config
