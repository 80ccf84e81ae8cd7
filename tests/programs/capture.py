# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Captures traffic with tcpdump, and judges a capture by what tshark makes of it."""
import os
import re
import shutil
import signal
import subprocess
import time

import lib
from lib import expect

# The first two dissectors guess at what Sends carry, and call perftest's own messages malformed. A client's port may be known for
# another protocol (44321 is): what the octets look like goes first. And a veth pair may put packets out of order, where their
# sender moves to another processor.
TSHARK = ["tshark", "--disable-protocol", "rpcordma", "--disable-protocol", "smb_direct", "-o", "tcp.try_heuristic_first:TRUE",
          "-o", "tcp.reassemble_out_of_order:TRUE"]
FIELDS = ["frame.number", "tcp.stream", "ip.src", "ipv6.src", "tcp.srcport", "tcp.seq", "tcp.len", "frame.protocols",
          "iwarp_mpa.ulpdulength", "iwarp_mpa.pdlength", "iwarp_mpa.req", "iwarp_mpa.rep"]
# Where tshark knows these (4.6 does), IRD and ORD at the start of the private data are no part of iwarp_mpa.pdlength.
DEPTHS = ["iwarp_mpa.enhanced", "iwarp_mpa.legacy"]


class Capture:
    """tcpdump of one TCP port, from start to stop."""

    def __init__(self, lab, port):
        if os.geteuid() != 0:
            raise lib.Skip("capturing needs root")
        for tool in ("tcpdump", "tshark"):
            if shutil.which(tool) is None:
                raise lib.Skip(f"{tool} is not installed")
        self.path = os.path.join(lab.directory, f"{port}.pcap")
        self.tcpdump = lab.start("tcpdump", ["tcpdump", "-i", lab.device, "--immediate-mode", "-Z", "root", "-U",
                                             "-s", "0", "-B", "65536", "-w", self.path, "tcp", "port", port],
                                 "server", device=False)
        lib.wait_until(lambda: "listening on" in self.tcpdump.text(), 20, "tcpdump listens")

    def stop(self):
        # What the kernel holds for tcpdump is lost when it is told to end: on a busy machine it may be far behind.
        size, since = -1, time.monotonic()
        while time.monotonic() - since < 1.5:
            now = os.path.getsize(self.path)
            if now != size:
                size, since = now, time.monotonic()
            time.sleep(0.05)
        self.tcpdump.kill(signal.SIGINT)
        expect(self.tcpdump.wait(20) == 0, "tcpdump failed")
        dropped = re.search(r"(\d+) packets? dropped by kernel", self.tcpdump.text())
        expect(dropped and dropped.group(1) == "0", "tcpdump has lost packets: this capture cannot be judged")
        return self.path


def tshark(path, *more):
    done = subprocess.run([*TSHARK, "-r", path, *more], capture_output=True, text=True, check=False, errors="replace")
    expect(done.returncode == 0, f"tshark: {done.stderr.strip()[-500:]}")
    return done.stdout


def knows(path, field):
    """Whether tshark has such a field. One that it has not ends it."""
    return subprocess.run([*TSHARK, "-r", path, "-c", "1", "-T", "fields", "-e", field], capture_output=True, check=False).returncode == 0


def padded(ulpdu):
    """Octets on the wire of an FPDU without markers: length field, ULPDU, pad, CRC. RFC 5044 4.4."""
    return (2 + ulpdu + 3) // 4 * 4 + 4


def numbers(text):
    return [int(n) for n in text.split(",") if n]


class Direction:
    """The octets of one way of one stream: those that TCP carried and those that tshark found in MPA frames."""

    def __init__(self):
        self.carried = 0
        self.decoded = 0
        self.startup = 0


def account(path):
    """Per direction: every octet of TCP payload must belong to an MPA frame that was decoded."""
    directions = {}
    arguments = ["-T", "fields", "-E", "occurrence=a", "-E", "aggregator=,", "-E", "separator=\t"]
    fields = FIELDS + (DEPTHS if all(knows(path, field) for field in DEPTHS) else [])
    for name in fields:
        arguments += ["-e", name]
    for line in tshark(path, *arguments).splitlines():
        row = dict(zip(fields, line.split("\t")))
        if not row["tcp.len"]:
            continue
        way = directions.setdefault((row["tcp.stream"], row["ip.src"] or row["ipv6.src"], row["tcp.srcport"]),
                                    Direction())
        length = int(row["tcp.len"])
        if length:
            way.carried = max(way.carried, int(row["tcp.seq"]) + length - 1)
        way.decoded += sum(padded(n) for n in numbers(row["iwarp_mpa.ulpdulength"]))
        if row["iwarp_mpa.req"] or row["iwarp_mpa.rep"]:
            way.startup += 1
            way.decoded += 20 + sum(numbers(row["iwarp_mpa.pdlength"])) + 4 * any(row.get(field) for field in DEPTHS)
    return directions


def judge(path, crc=True, least_streams=1):
    """Throws Failed unless tshark decodes everything as MPA, DDP and RDMAP, with good CRC, nothing malformed."""
    directions = account(path)
    streams = {stream for stream, _, _ in directions}
    expect(len(streams) >= least_streams, f"{len(streams)} streams captured, expected at least {least_streams}")
    for (stream, source, port), way in sorted(directions.items()):
        who = f"stream {stream} from {source} port {port}"
        expect(way.startup == 1, f"{who}: {way.startup} MPA startup frames")
        expect(way.decoded == way.carried, f"{who}: TCP carried {way.carried} octets, tshark decoded {way.decoded}")
    details = tshark(path, "-V")
    fpdus = len(re.findall(r"^\s*ULPDU length: ", details, re.M))
    good = details.count("(Good CRC32)")
    ddp = len(re.findall(r"^iWARP Direct Data Placement", details, re.M))
    ddp = ddp or len(re.findall(r"DDP header", details))
    opcodes = len(re.findall(r"^\s*[01. ]+ = OpCode: (?!.*(?i:reserved|unknown))", details, re.M))
    expect(fpdus > 0, "no FPDU was decoded")
    expect(not crc or good == fpdus, f"{good} of {fpdus} FPDUs have a good CRC")
    expect(opcodes == fpdus, f"{opcodes} RDMAP opcodes in {fpdus} FPDUs")
    bad = re.search(r"^.*(Malformed Packet|Dissector bug|Bad CRC32|Bad length|Expert Info \(Error).*$", details, re.M)
    expect(not bad, f"tshark says: {bad.group(0).strip() if bad else ''}")
    print(f"    {len(streams)} streams, {fpdus} FPDUs, {ddp} with DDP, {good} with good CRC")
    return fpdus
