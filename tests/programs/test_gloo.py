# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""gloo, the collectives of PyTorch, over its ibverbs transport: its own benchmark, built from a checkout against Debian's library.
Each algorithm checks its results. The processes find each other by a directory, and wire their QPs themselves, by GID 0."""
import os
import re

import lib
import test_persona
import trials
from lib import expect

ALGORITHMS = ["allgather_ring", "allreduce_ring", "allreduce_ring_chunked", "allreduce_halving_doubling", "allreduce_bcube",
              "barrier_all_to_all", "barrier_all_to_one", "broadcast_one_to_all", "reduce_scatter"]
OF_TWO = ["pairwise_exchange"]
# It destroys its buffers without waiting for the completions of what it has sent last (SIGABRT, "Destructing buffer expecting
# completions"), and its pairs while its own thread handles their events (SIGSEGV in Pair::postReceive).
OWN_ENDS = (0, -6, -11)


def program(lab):
    checkout = lab.checkout("gloo", "gloo/benchmark/runner.cc")
    lib.need("g++")
    if not os.path.exists("/usr/include/gloo/config.h"):
        raise lib.Skip("libgloo-dev is not installed")
    directory = os.path.join(lab.build, "trials", "gloo")
    os.makedirs(directory, exist_ok=True)
    path = os.path.join(directory, "benchmark")
    if not os.path.exists(path):
        sources = " ".join(os.path.join(checkout, "gloo", "benchmark", f"{name}.cc") for name in ("main", "options", "runner"))
        trials.build(directory, f"g++ -std=c++17 -O1 -idirafter {checkout} -I/usr/include/hiredis -o {path} {sources} -lgloo -lhiredis -lpthread")
    return path


def collectives(lab, settings):
    path = program(lab)
    for algorithm in ALGORITHMS + OF_TWO:
        size = 2 if algorithm in OF_TWO else 4
        for elements in (100, 100_000):
            command = [path, "--size", size, "--transport", "ibverbs", "--ib-device", "swr0", "--shared-path", lab.directory,
                       "--prefix", f"{algorithm}-{elements}", "--elements", elements, "--warmup-iters", 2, "--iteration-count", 20]
            ranks = [lab.start(f"gloo-{rank}", [*command, "--rank", rank, algorithm], settings=settings) for rank in range(size)]
            statuses = [rank.wait(60 * lab.slow) for rank in ranks]
            # Which it prints when all ranks have come through all iterations.
            expect(re.search(r"^ *\d+ +\d+ .* 20$", ranks[0].text(), re.M), f"{algorithm}: no results")
            for rank, status in zip(ranks, statuses):
                expect("Mismatch" not in rank.text(), f"{algorithm}: a result is wrong")
                expect(status in OWN_ENDS, f"{rank.name} ended with status {status}")
            lab.forget()


def case_iwarp(lab):
    collectives(lab, None)


def case_roce(lab):
    collectives(lab, test_persona.ROCE)


if __name__ == "__main__":
    lib.main(globals())
