# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""`swrnic stat` beside programs that know how much they have moved."""
import json
import os
import re
import struct
import subprocess
import sys
from random import Random

import lib
from lib import expect

NOBODY = ["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups"]


def stat(lab, *arguments, prefix=(), pass_fds=()):
    done = subprocess.run([*prefix, lab.swrnic[0], "stat", *map(str, arguments)], capture_output=True, text=True,
                          check=False, timeout=30, pass_fds=pass_fds)
    expect(done.returncode == 0, f"swrnic stat {arguments}: status {done.returncode}: {done.stderr.strip()}")
    return done.stdout


def processes(text):
    return [process for device in json.loads(text)["devices"] for process in device["processes"]]


class Pages:
    """Descriptors of our own on the pages of a process, which outlive it."""

    def __init__(self, process):
        self.process = process
        self.open = {}

    def look(self):
        base = f"/proc/{self.process.pid}/fd"
        try:
            for name in os.listdir(base):
                if os.readlink(f"{base}/{name}") == "/memfd:swrnic-stat (deleted)":
                    inode = os.stat(f"{base}/{name}").st_ino
                    if inode not in self.open:
                        self.open[inode] = os.open(f"{base}/{name}", os.O_RDONLY)
        except OSError:
            pass  # it has ended, or has just closed this one

    def read(self, lab):
        arguments = [word for fd in self.open.values() for word in ("--page", f"/proc/self/fd/{fd}")]
        found = processes(stat(lab, "--json", *arguments, pass_fds=self.open.values()))
        for fd in self.open.values():
            os.close(fd)
        return found


def perftest_bytes(lab, tool, size, count):
    """Runs a test of `count` messages and returns what its client has counted in the end."""
    port = lib.free_port()
    common = [tool, "-R", "-F", "-p", port, "-s", size, "-n", count]
    server = lab.start(f"{tool}-server", common)
    server.wait_listening(port, 20 * lab.slow)
    client = lab.start(f"{tool}-client", [*common, lab.address], "client")
    pages = Pages(client)

    def ended():
        pages.look()
        return not client.running()

    lib.wait_until(ended, 60 * lab.slow, "the client ends")
    client.succeed(1)
    server.succeed(15 * lab.slow)
    # perftest opens the device by its name, too, and moves nothing there
    found = [p for p in pages.read(lab) if p["qps_gone"]]
    expect(len(found) == 1 and not found[0]["qps"], f"not one page of QPs that are gone: {found}")
    return found[0]["counters"]


def case_perftest(lab):
    for tool, counter in (("ib_write_bw", "tx_bytes"), ("ib_send_bw", "tx_bytes"), ("ib_read_bw", "rx_bytes")):
        for size, count in ((65536, 2000), (1048576, 500)):
            counters = lab.perftest(lambda t=tool, s=size, c=count: perftest_bytes(lab, t, s, c))
            told, counted = size * count, counters[counter]
            print(f"    {tool} {size}: perftest {told}, swrnic stat {counted}")
            expect(abs(counted - told) <= told / 100, f"{tool} moved {told} octets, swrnic stat says {counted}")
            expect(counters["rx_crc_errors"] == 0 and counters["tx_terminates"] == 0, f"errors were counted: {counters}")


def traffic(lab, seconds, prefix=()):
    return lab.perftest(lambda: start_traffic(lab, seconds, prefix))


def start_traffic(lab, seconds, prefix):
    port = lib.free_port()
    common = [*prefix, *lab.swrnic, "ib_write_bw", "-R", "-F", "-p", port, "-D", seconds]
    server = lab.start("server", common, device=False)
    server.wait_listening(port, 20 * lab.slow)
    client = lab.start("client", [*common, lab.address], "client", device=False)

    def moves():
        found = [p for p in processes(stat(lab, "--json")) if p["pid"] == client.pid]
        return any(p["counters"]["tx_bytes"] > 1000000 for p in found) or not client.running()

    lib.wait_until(moves, 20 * lab.slow, "traffic moves")
    expect(client.running() and server.running(), "the traffic ended before it was looked at")
    return server, client, port


def case_live(lab):
    """While traffic runs: all three outputs show both processes."""
    server, client, port = traffic(lab, 4)
    # perftest opens the device by its name, too, and makes no QP there
    both = {p["pid"]: p for p in processes(stat(lab, "--json")) if p["qps"]}
    for process in (server, client):
        expect(process.pid in both, f"process {process.pid} is not shown")
        shown = both[process.pid]
        expect(shown["command"] == "ib_write_bw", f"command {shown['command']}")
        expect(any(qp["state"] == "RTS" for qp in shown["qps"]), "no QP is in RTS")
    expect(any(qp["peer"].endswith(f":{port}") for qp in both[client.pid]["qps"]), "the client's peer is not shown")
    expect(any(qp["rtt_us"] > 0 for qp in both[client.pid]["qps"]), "no RTT is shown")
    expect(both[server.pid]["counters"]["rx_bytes"] > 0, "the server has received nothing")

    table = stat(lab).splitlines()
    expect(table[0].startswith("DEVICE"), table[0])
    for process in (server, client):
        line = [line for line in table if f" {process.pid} ib_write_bw" in line]
        expect(line, f"no line for process {process.pid}")
    expect(any(f"{lab.address}:{port}" in line and " RTS " in line for line in table), "no line for the client's QP")

    text = stat(lab, "--prometheus")
    sample = re.compile(r'swrnic_[a-z_]+\{([a-z]+="[^"]*",?)+\} [0-9.]+$')
    for line in text.splitlines():
        expect(line.startswith("# ") or sample.match(line), f"not a sample: {line}")
    expect(f'pid="{client.pid}"' in text, "the client is missing in Prometheus' format")

    watched = stat(lab, "--watch", "--interval", 0.3, "--count", 3)
    expect(watched.count("DEVICE") == 3 and watched.count("TX-BYTES/s") == 2, "three tables, two of them with rates")
    client.succeed(30 * lab.slow)
    server.succeed(15 * lab.slow)
    expect(not {server.pid, client.pid} & {p["pid"] for p in processes(stat(lab, "--json"))}, "ended, and still shown")


def case_hostile(lab):
    """Root reads what anybody wrote: no page makes the reader fail, or say what is no JSON."""
    random = Random(1)
    header = struct.pack("<QIIIIIIII", 0x74617473636E7277, 2, 4096, 320, 16384, 3, 2, os.getpid(), 0)
    good = bytearray(header + b"swr0".ljust(64, b"\0") + bytes(4096 - len(header) - 64) + bytes(3 * 320))
    struct.pack_into("<II", good, 4096, 0x1234, 1)
    struct.pack_into("<HH", good, 4096 + 28, 4, 4711)
    pages = [bytes(good)]
    for at, form, value in ((0, "<Q", 1), (8, "<I", 1), (12, "<I", 1 << 31), (16, "<I", 0), (20, "<I", 1 << 30),
                            (24, "<I", 16385), (24, "<I", 0xFFFFFFFF), (24, "<I", 4), (28, "<I", 3)):
        page = bytearray(good)
        struct.pack_into(form, page, at, value)
        pages.append(bytes(page))
    for length in (0, 1, 100, 4095, 4096, 4097, len(good) - 1):
        pages.append(bytes(good[:length]))
    for _ in range(150):
        page = bytearray(good)
        for at in random.sample(range(40, len(page)), 400):
            page[at] = random.randrange(256)
        pages.append(bytes(page))
    paths = []
    for number, page in enumerate(pages):
        paths += ["--page", os.path.join(lab.directory, f"{number}.page")]
        with open(paths[-1], "wb") as file:
            file.write(page)
    paths += ["--page", lab.directory, "--page", "/dev/null", "--page", "/no/such/file"]
    found = processes(stat(lab, "--json", *paths))
    expect(len(found) >= 151, f"only {len(found)} of the readable pages were read")
    expect('swr0' in stat(lab, *paths[:2]), "the good page is not shown")
    expect(any(qp["peer"] == "0.0.0.0:4711" for qp in found[0]["qps"]), f"the good page is not: {found[0]}")
    for form in ((), ("--prometheus",)):
        text = stat(lab, *form, *paths)
        expect(all(" " <= c < "\x7f" or c == "\n" for c in text), "a control character gets through")


def case_users(lab):
    """A user sees the own processes alone, root sees all."""
    if os.geteuid() != 0:
        raise lib.Skip("becoming another user needs root")
    reachable = subprocess.run([*NOBODY, lab.swrnic[0], "--version"], capture_output=True, check=False)
    if reachable.returncode != 0:
        raise lib.Skip("another user cannot reach the build directory")
    server, client, _ = traffic(lab, 3)
    expect(not processes(stat(lab, "--json", prefix=NOBODY)), "nobody sees the counters of root")
    page = subprocess.run([*NOBODY, sys.executable, "-c", f"import os; os.listdir('/proc/{client.pid}/fd')"],
                          capture_output=True, check=False)
    expect(page.returncode != 0, "nobody may look into root's descriptors: this test shows nothing")
    client.succeed(30 * lab.slow)
    server.succeed(15 * lab.slow)
    server, client, _ = traffic(lab, 3, NOBODY)
    mine = {p["pid"] for p in processes(stat(lab, "--json", prefix=NOBODY))}
    expect({server.pid, client.pid} <= mine, "nobody does not see the own processes")
    client.succeed(30 * lab.slow)
    server.succeed(15 * lab.slow)


if __name__ == "__main__":
    lib.main(globals())
