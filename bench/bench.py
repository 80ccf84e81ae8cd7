# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""perftest over the device beside plain TCP, interleaved in one run: a table, JSON, and a plot. See scripts/bench."""
import argparse
import json
import os
import pathlib
import platform
import re
import statistics
import subprocess
import sys
import tempfile

from dataclasses import replace

from plot import plot
from programs import Failed, Runner, paced
from rows import ROWS, peers, wired_rows


def better(row, values):
    return min(values) if row.at_most else max(values)


# A host moves a virtual machine's processors while it runs; data between two that share no cache takes three times as
# long, or more. A pair that was torn apart so says nothing, and is measured again, up to so many times.
TORN = 2
AGAIN = 4


def steady_pairs(runner, pairs, theirs, ours):
    """Yields what theirs() and ours() return, one right after the other, from moments between which no processor moved.
    Where they never rest, the last pairs are taken as they are."""
    left = AGAIN * pairs
    found = 0
    before = runner.distance()
    while found < pairs:
        first = theirs()
        between = runner.distance()
        second = ours()
        after = runner.distance()
        distances = (before, between, after)
        before = after
        left -= 1
        if max(distances) > TORN * min(distances):
            runner.torn += 1
            if left >= pairs - found:
                continue
        found += 1
        yield first, second


def measure(row, runner, pairs):
    """Pairs of the baseline and the device, one after the other, so that both see the same noise."""
    ratios, of_reno, ours, baselines, tails, server, client = [], [], [], [], [], [], []
    beside_reno = paced() and row.baseline and not row.at_most

    def baseline(congestion=None):
        return better(row, [runner.baseline(row.baseline, shape, congestion) for shape in row.shapes])

    def theirs():
        if row.beside:
            return runner.perftest(replace(row, options=row.beside)).value, None
        return baseline(), baseline("reno") if beside_reno else None

    for (tcp, reno), sample in steady_pairs(runner, pairs, theirs, lambda: runner.perftest(row)):
        baselines.append(tcp)
        ours.append(sample.value)
        ratios.append(sample.value / tcp)
        if reno:
            of_reno.append(sample.value / reno)
        server.append(sample.server_cpu / row.count * 1e9)
        client.append(sample.client_cpu / row.count * 1e9)
        if sample.p99 is not None:
            tails.append(sample.p99)
    ratio = statistics.median(ratios)
    result = {
        "name": row.name, "unit": row.unit, "crc": row.crc, "ours": statistics.median(ours), "tcp": statistics.median(baselines),
        "ratio": ratio, "ratios": ratios, "target": row.target, "at_most": row.at_most,
        "reached": ratio <= row.target if row.at_most else ratio >= row.target,
        "server_ns": statistics.median(server), "client_ns": statistics.median(client),
    }
    if of_reno:
        result["of_reno"] = statistics.median(of_reno)
    if tails:
        result["p99"] = statistics.median(tails)
    return result


def measure_wired(row, runner, pairs):
    """QPs wired without rdma_cm, whose completions mean that the data is placed, beside those of rdma_cm, where they mean that
    it is sent; and wired ones with that meaning, which is what the wiring alone costs."""
    wired = replace(row, rdma_cm=False)
    kinds = {"placed": wired, "sent": replace(wired, completion="sent")}
    values = {"with": [], **{kind: [] for kind in kinds}}
    ratios = {kind: [] for kind in kinds}

    def both():
        return {kind: runner.perftest(kind_row).value for kind, kind_row in kinds.items()}

    for connected, of_kind in steady_pairs(runner, pairs, lambda: runner.perftest(row).value, both):
        values["with"].append(connected)
        for kind, value in of_kind.items():
            values[kind].append(value)
            ratios[kind].append(value / connected)
    ratio = statistics.median(ratios["placed"])
    return {"name": row.name, "unit": row.unit, "target": row.target, "at_most": row.at_most, "ratios": ratios,
            **{f"{kind}_value": statistics.median(of) for kind, of in values.items()},
            **{f"{kind}_ratio": statistics.median(of) for kind, of in ratios.items()},
            "reached": ratio <= row.target if row.at_most else ratio >= row.target}


def wired_line(result):
    return [result["name"], f"{number(result['with_value'])} {result['unit']}", number(result["placed_value"]), f"{result['placed_ratio']:.2f}",
            f"{'<=' if result['at_most'] else '>='} {result['target']:.2f}", "reached" if result["reached"] else "missed",
            number(result["sent_value"]), f"{result['sent_ratio']:.2f}"]


def measure_peer(peer, runner, pairs):
    ratios, ours, theirs = [], [], []
    for other, sample in steady_pairs(runner, pairs, lambda: getattr(runner, peer.program)(peer.ours, peer.test),
                                      lambda: runner.perftest(peer.ours)):
        theirs.append(other)
        ours.append(sample.value)
        ratios.append(sample.value / other)
    ratio = statistics.median(ratios)
    return {"name": peer.ours.name, "peer": peer.name, "unit": peer.ours.unit, "ours": statistics.median(ours), "theirs": statistics.median(theirs),
            "ratio": ratio, "ratios": ratios, "ahead": ratio <= 1 if peer.ours.at_most else ratio >= 1}


def unlike(rows):
    """The rows that measure something else than one before them: what peers and baselines are beside is the same Send or Write."""
    found = {}
    for row in rows:
        found.setdefault((row.program, row.size, row.crc, row.options), row)
    return list(found.values())


def measure_against(row, runner, other, pairs):
    """This build and another one, in turn. What differs is named only where no pair says otherwise: the pairs of one build with
    itself spread as far."""
    ratios, ours, theirs = [], [], []
    for before, now in steady_pairs(runner, pairs, lambda: other.perftest(row).value, lambda: runner.perftest(row).value):
        theirs.append(before)
        ours.append(now)
        ratios.append(before / now if row.at_most else now / before)
    return {"name": row.name, "unit": row.unit, "ours": statistics.median(ours), "theirs": statistics.median(theirs),
            "ratio": statistics.median(ratios), "ratios": ratios, "worse": max(ratios) < 1, "better": min(ratios) > 1}


def against_line(result):
    return [result["name"], f"{number(result['ours'])} {result['unit']}", number(result["theirs"]), f"{result['ratio']:.2f}",
            f"{min(result['ratios']):.2f} to {max(result['ratios']):.2f}", "worse" if result["worse"] else "better" if result["better"] else ""]


def peer_line(result):
    return [result["name"], f"{number(result['ours'])} {result['unit']}", result["peer"], number(result["theirs"]), f"{result['ratio']:.2f}",
            "ahead" if result["ahead"] else "behind"]


COUNTED = {  # a command that counts the system calls of another into the file named last, and where they stand there
    "perf": (("perf", "stat", "-x,", "-e", "raw_syscalls:sys_enter", "-o"), re.compile(r"^(\d+),,raw_syscalls:sys_enter", re.M)),
    "strace": (("strace", "-f", "-c", "-q", "-o"), re.compile(r"^100\.00\s+\S+\s+\S+\s+(\d+)", re.M)),
}


def counter_of_many():
    """perf where it may count calls: strace makes each many times as slow, so that what is done once in so many microseconds
    happens more often. But it counts the polls of programs that wait for their peers' start at their full speed, which
    only many messages can make up for."""
    command, found = COUNTED["perf"]
    with tempfile.NamedTemporaryFile() as out:
        try:
            subprocess.run([*command, out.name, "true"], capture_output=True, check=True)
        except (OSError, subprocess.CalledProcessError):
            return "strace"
        return "perf" if found.search(pathlib.Path(out.name).read_text()) else "strace"


def counted_calls(row, runner, count, by):
    """System calls of each side."""
    command, where_found = COUNTED[by]
    totals = []
    with tempfile.TemporaryDirectory() as where:
        runner.perftest(row, count, lambda side: (*command, f"{where}/{side}"))
        for side in ("server", "client"):
            found = where_found.search(pathlib.Path(where, side).read_text())
            if not found:
                raise Failed(f"{by} counted no calls of the {side}")
            totals.append(int(found.group(1)))
    return totals


def calls_per_message(row, runner, by):
    """Of each side; what starting and ending cost is taken off by a second, shorter run. A program's polls while it waits
    for its peer to start are calls too, and never the same number: many messages make little of them. Where there is a
    limit, the median of three."""
    few, many = min(2000, row.count // 4), 4 * row.count if row.unit == "messages/s" else min(row.count, 6000)
    counts = [[max(0.0, more - less) / (many - few)
               for more, less in zip(counted_calls(row, runner, many, by), counted_calls(row, runner, few, by))]
              for _ in range(3 if row.calls else 1)]
    return sorted(counts, key=sum)[len(counts) // 2]


def machine():
    cpu = next((line.split(":")[1].strip() for line in open("/proc/cpuinfo") if line.startswith("model name")), "?")
    return {"cpu": cpu, "cores": os.cpu_count(), "kernel": platform.release(), "load": os.getloadavg()[0]}


def number(value):
    return f"{value:,.0f}" if value >= 1000 else f"{value:.2f}"


def line(result):
    sign = "<=" if result["at_most"] else ">="
    calls = " / ".join(f"{count:.3f}" for count in result.get("calls", [])) or "-"
    if result.get("calls_target"):
        calls += f" (<= {result['calls_target']} together)"
    verdict = "reached" if result["reached"] else "missed"
    return [result["name"], result["crc"], f"{number(result['ours'])} {result['unit']}", number(result["tcp"]), f"{result['ratio']:.2f}",
            f"{sign} {result['target']:.2f}", verdict, f"{result['of_reno']:.2f}" if "of_reno" in result else "-",
            number(result["p99"]) if "p99" in result else "-", calls, number(result["server_ns"]), number(result["client_ns"])]


HEAD = ["row", "CRC", "swrnic", "plain TCP", "ratio", "target", "", "of reno", "p99 us", "syscalls/message, server / client",
        "server CPU ns", "client CPU ns"]
WIRED_HEAD = ["row", "-R", "wired, placed", "ratio", "target", "", "wired, sent", "ratio"]
AGAINST_HEAD = ["row", "this build", "the other", "speed, this / other", "of the pairs", ""]
PEER_HEAD = ["row", "swrnic", "peer", "", "ratio", ""]


def table(head, body):
    lines = [head, *body]
    widths = [max(len(row[column]) for row in lines) for column in range(len(head))]
    return "\n".join("  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip() for row in lines)


def main():
    parser = argparse.ArgumentParser(prog="scripts/bench", description=__doc__)
    parser.add_argument("--build", required=True, help=argparse.SUPPRESS)
    parser.add_argument("--pairs", type=int, default=5, help="interleaved pairs for each row (default 5)")
    parser.add_argument("--only", default="", help="rows whose name holds this")
    parser.add_argument("--peers", action="store_true", help="also beside UCX and libfabric over TCP")
    parser.add_argument("--against", metavar="BUILD", help="this build beside another one alone, of scripts/bench in another tree, without plain TCP")
    parser.add_argument("--wired", action="store_true", help="also QPs wired without rdma_cm beside those of rdma_cm")
    parser.add_argument("--no-calls", action="store_true", help="do not count system calls")
    parser.add_argument("--output", type=pathlib.Path, help="directory for bench.json, bench.txt and bench.svg")
    parser.add_argument("--check", action="store_true", help="exit code 1 when a row misses its target")
    options = parser.parse_args()

    runner = Runner(f"{options.build}/bin/swrnic", f"{options.build}/bin/rawtcp")
    rows = [row for row in ROWS if options.only in row.name]
    compared = []
    if options.against:
        compared, rows = unlike([*rows, *(peer.ours for peer in peers() if options.only in peer.ours.name)]), []
    wired = [row for row in wired_rows() if options.wired and options.only in row.name]
    if not rows and not compared and not wired and not options.peers:
        parser.error(f"no row is called {options.only}")
    by_many = None if options.no_calls else counter_of_many()
    results = []
    for index, row in enumerate(rows, 1):
        print(f"[{index}/{len(rows)}] {row.name}", file=sys.stderr, flush=True)
        result = measure(row, runner, options.pairs)
        if by_many and row.size:
            result["calls_by"] = by_many if row.unit == "messages/s" else "strace"
            result["calls"] = calls_per_message(row, runner, result["calls_by"])
            if row.calls:
                result["calls_target"] = row.calls
                result["reached"] = result["reached"] and sum(result["calls"]) <= row.calls
        results.append(result)

    of_compared = []
    other = Runner(f"{options.against}/bin/swrnic", runner.rawtcp)
    for index, row in enumerate(compared, 1):
        print(f"[{index}/{len(compared)}] {row.name}", file=sys.stderr, flush=True)
        of_compared.append(measure_against(row, runner, other, options.pairs))
    of_wired = []
    for row in wired:
        print(row.name, file=sys.stderr, flush=True)
        of_wired.append(measure_wired(row, runner, options.pairs))
    beside = []
    for peer in peers() if options.peers else []:
        print(f"{peer.ours.name} beside {peer.name}", file=sys.stderr, flush=True)
        beside.append(measure_peer(peer, runner, options.pairs))
    tables = ((HEAD, line, results), (AGAINST_HEAD, against_line, of_compared), (WIRED_HEAD, wired_line, of_wired), (PEER_HEAD, peer_line, beside))
    text = "\n\n".join(table(head, [to_line(result) for result in of]) for head, to_line, of in tables if of)
    about = machine()
    where = f"{about['cpu']}, {about['cores']} cores, Linux {about['kernel']}, load {about['load']:.1f}, loopback, medians of {options.pairs} pairs"
    where += f" (and {runner.torn} between which a processor moved)" if runner.torn else ""
    where += f", calls counted by strace, of 64 B by {by_many}" if by_many else ""
    print(f"{where}\n\n{text}")
    if options.output:
        options.output.mkdir(parents=True, exist_ok=True)
        (options.output / "bench.json").write_text(json.dumps({"machine": about, "torn": runner.torn, "rows": results, "against": of_compared, "wired": of_wired, "peers": beside}, indent=1))
        (options.output / "bench.txt").write_text(f"{where}\n\n{text}\n")
        if results:
            plot(results, options.output / "bench.svg")
    missed = not all(result["reached"] for result in results + of_wired) or not all(result["ahead"] for result in beside)
    missed = missed or any(result["worse"] for result in of_compared)
    return 1 if options.check and missed else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except (Failed, subprocess.TimeoutExpired) as failure:
        sys.exit(f"bench: {failure}")
