# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""What scripts/bench measures, beside which baseline, and what is to be reached."""
from dataclasses import dataclass


@dataclass(frozen=True)
class Row:
    name: str
    program: str  # of perftest
    size: int  # octets of a message
    count: int  # messages, or round trips
    baseline: tuple  # arguments of rawtcp without its shape
    shapes: tuple  # receivers' shapes of the baseline: the better one counts
    target: float  # of the ratio ours / baseline
    crc: str = "off"
    options: tuple = ()
    at_most: bool = False  # a latency: the ratio is to stay at or below the target
    calls: float = 0.0  # system calls per message at most, both sides together; 0: no limit
    unit: str = "MB/s"
    beside: tuple = ()  # no baseline, but the same program with these options
    rdma_cm: bool = True  # perftest's -R; else its QPs are wired by the addresses that it exchanges
    completion: str = "auto"  # SWRNIC_COMPLETION


# Seconds of each baseline: a pair should be over before the host moves the machine's processors, which some do each second.
STREAM = (("bw", "1048576", "0.4"), ("spin", "block"))
RATE = (("rate", "64", "0.4"), ("spin", "block"))
SPIN = (("lat", "2", "20000"), ("spin",))
BLOCK = (("lat", "2", "20000"), ("block",))
CONNECT = (("conn", "24", "3000"), ("block",))
MEMORY = (("memlat", "2", "20000"), ("block",))
MIB = 1 << 20


def latency(name, program, baseline, target, options=()):
    return Row(name, program, 2, 20000, *baseline, target, options=options, at_most=True, unit="us")


ROWS = [
    Row("ib_write_bw 1 MiB", "ib_write_bw", MIB, 5000, *STREAM, 0.90),
    Row("ib_read_bw 1 MiB", "ib_read_bw", MIB, 5000, *STREAM, 0.85),
    Row("ib_send_bw 1 MiB", "ib_send_bw", MIB, 5000, *STREAM, 0.85),
    Row("ib_write_bw 1 MiB, CRC", "ib_write_bw", MIB, 5000, *STREAM, 0.60, crc="on"),
    Row("ib_write_bw 64 B", "ib_write_bw", 64, 1000000, *RATE, 5.0, calls=0.05, unit="messages/s"),
    Row("ib_send_bw 64 B", "ib_send_bw", 64, 1000000, *RATE, 5.0, calls=0.05, unit="messages/s"),
    Row("ib_write_bw 4 KiB", "ib_write_bw", 4096, 300000, *STREAM, 0.80),
    latency("ib_send_lat 2 B", "ib_send_lat", SPIN, 1.20),
    latency("ib_write_lat 2 B", "ib_write_lat", MEMORY, 1.25),
    latency("ib_read_lat 2 B", "ib_read_lat", SPIN, 2.6),
    latency("ib_send_lat -e 2 B", "ib_send_lat", BLOCK, 1.6, options=("-e",)),
    # -N: perftest leaves out the peak, which takes it seconds to find among so many.
    Row("ib_write_bw 64 KiB, 64 QPs", "ib_write_bw", 65536, 81920, (), (), 0.90, options=("-q", "64", "-N"), beside=("-q", "1", "-N")),
    Row("cmtime, connect", "cmtime", 0, 1000, *CONNECT, 0.5, unit="connections/s"),
]


def wired_rows():
    """Each is measured with -R and without; the target is of the ratio without / with."""
    for size, label in ((64, "64 B"), (MIB, "1 MiB")):
        for program in ("ib_send_lat", "ib_write_lat"):
            yield Row(f"{program} {label}, wired", program, size, 20000 if size == 64 else 1000, (), (), 1.3, at_most=True, unit="us")
    yield Row("ib_write_bw 64 B, wired", "ib_write_bw", 64, 1000000, (), (), 0.7, unit="messages/s")
    yield Row("ib_write_bw 1 MiB, wired", "ib_write_bw", MIB, 5000, (), (), 0.95)


@dataclass(frozen=True)
class Peer:
    """Another library over TCP doing the same: `ours` is not to be behind it."""
    name: str
    ours: Row
    program: str  # a method of Runner
    test: str = ""


def peers():
    for size, count, label in ((2, 20000, "2 B"), (4096, 20000, "4 KiB"), (MIB, 1000, "1 MiB")):
        sends = Row(f"ib_send_lat {label}", "ib_send_lat", size, count, (), (), 1.0, at_most=True, unit="us")
        yield Peer("UCX tag_lat", sends, "ucx", "tag_lat")
        yield Peer("libfabric fi_pingpong", sends, "fabric")
    for size, count, label in ((64, 1000000, "64 B"), (4096, 300000, "4 KiB"), (MIB, 2000, "1 MiB")):
        yield Peer("UCX tag_bw", Row(f"ib_send_bw {label}", "ib_send_bw", size, count, (), (), 1.0), "ucx", "tag_bw")
        yield Peer("UCX ucp_put_bw", Row(f"ib_write_bw {label}", "ib_write_bw", size, count, (), (), 1.0), "ucx", "ucp_put_bw")
