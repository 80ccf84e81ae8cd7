# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Runs a server and its client, here or with the server on another host, and reads what perftest and rstream say."""
import ctypes
import os
import random
import re
import shlex
import signal
import subprocess
import tempfile
import time
from dataclasses import dataclass

MIB = float(1 << 20)
TRIES = 3


class Failed(Exception):
    pass


@dataclass
class Figures:
    bandwidth: float = 0  # MB/s, 10^6 octets
    rate: float = 0  # messages per second
    latency: float = 0  # us, half of a round trip
    p99: float = 0  # us
    tries: int = 1


def read_json(text):
    """perftest's own report. What Debian 12's writes is JSON but for bare names, bare words and a comma before a brace."""
    found = {}
    for name, value in re.findall(r'^\s*"?([\w.]+)"?\s*:\s*([-0-9.]+)\s*,?\s*$', text, re.M):
        found[name] = float(value)
    if "MsgSize" not in found:
        raise Failed("perftest wrote no results")
    return found


def figures_of(case, found):
    if found["MsgSize"] != case.size:
        raise Failed(f"perftest measured {found['MsgSize']:.0f} octets instead of {case.size}")
    if case.is_latency:
        figures = Figures(latency=found["t_typical"], p99=found["percentile_99"])
        good = figures.latency > 0
    else:
        rate = found["MsgRate"] * 1e6
        # Of a small message the mean bandwidth has too few digits, of a large one the rate has.
        bandwidth = rate * case.size / 1e6 if case.size < 4096 else found["BW_average"] * MIB / 1e6
        figures = Figures(bandwidth=bandwidth, rate=rate or bandwidth * 1e6 / case.size)
        good = bandwidth > 0
    if not good:
        raise Failed("perftest could not calibrate its clock, and its figures are 0")
    return figures


def read_rstream(case, text):
    match = re.search(r"^custom\s.*\s([\d.]+)\s+([\d.]+)\s*$", text, re.M)
    if not match:
        raise Failed("rstream printed no figures")
    gigabits, micros = float(match[1]), float(match[2])
    if case.is_latency:
        return Figures(latency=micros)
    return Figures(bandwidth=gigabits * 1000 / 8, rate=gigabits * 1e9 / 8 / case.size)


def die_with_parent():
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG: no server outlives a runner that was killed


def program_of(run, port, address, json_path, client):
    """The command line of one side. address: the server's."""
    case = run.case
    if case.program.startswith("rstream"):
        count, times = (1, run.iterations) if case.is_latency else (run.iterations, 1)
        return ["rstream", "-p", port, "-S", case.size, "-C", count, "-I", times, *run.arguments,
                "-s" if client else "-b", address]
    words = [case.program, "-R", "-F", "-p", port, "-s", case.size, "-n", run.iterations, *run.arguments]
    if case.qps > 1:
        words += ["-q", case.qps]
    if client:
        words += ["--out_json", f"--out_json_file={json_path}", address]
    return words


class Pair:
    """Where the two sides run."""

    def __init__(self, swrnic, server="", address="", ssh="ssh", seconds=120):
        self.swrnic = swrnic
        self.server = server  # a host for ssh, or empty: both here
        self.address = address
        self.ssh = shlex.split(ssh)
        self.seconds = seconds

    def on_server(self, words):
        return [*self.ssh, self.server, shlex.join(words)] if self.server else words

    def address_for(self, case):
        return self.address or ("::1" if case.ip == 6 else "127.0.0.1")

    def start(self, words, output):
        return subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT, start_new_session=True,
                                preexec_fn=die_with_parent)

    def await_listener(self, server, port):
        """Read from /proc: to connect would disturb the server. By one shell, which saves a login per look."""
        script = (f"for i in $(seq 150); do grep -qi '^ *[0-9]*: [0-9A-F]*:{port:04X} [0-9A-F]*:0000 0A' /proc/net/tcp /proc/net/tcp6 "
                  "2>/dev/null && exit 0; sleep 0.1; done; exit 1")
        looker = subprocess.Popen(self.on_server(["sh", "-c", script]), stdin=subprocess.DEVNULL, start_new_session=True)
        while looker.poll() is None:
            if server.poll() is not None:
                looker.terminate()
                looker.wait()
                return False
            time.sleep(0.01)
        return looker.returncode == 0

    def once(self, run, folder):
        environment = [f"{name}={value}" for name, value in {**run.settings, "SWRNIC_CRC": run.case.crc}.items()]
        port = random.randint(20000, 29999)
        json_path = os.path.join(folder, "client.json")
        if os.path.exists(json_path):
            os.unlink(json_path)

        def words(client):
            program = program_of(run, port, self.address_for(run.case), json_path, client)
            return ["env", *environment, self.swrnic, "run", *map(str, program)]

        with open(os.path.join(folder, "server"), "w+b") as server_out, open(os.path.join(folder, "client"), "w+b") as client_out:
            server = self.start(self.on_server(words(False)), server_out)
            client = None
            try:
                if not self.await_listener(server, port):
                    raise Failed(f"the server did not listen on port {port}: {gist(all_of(server_out))}")
                client = self.start(words(True), client_out)
                code = client.wait(self.seconds)
                text = all_of(client_out)
                if "RDMA_CM_EVENT_REJECTED; error: -111" in text:
                    raise Failed("perftest's client was faster than its server's second listener")
                if code != 0:
                    raise Failed(f"the client ended with status {code}: {gist(text)}")
                code = server.wait(15)
                if code != 0:
                    raise Failed(f"the server ended with status {code}: {gist(all_of(server_out))}")
            except subprocess.TimeoutExpired as late:
                raise Failed(f"not done within {late.timeout:.0f} s") from None
            finally:
                for process in (client, server):
                    stop(process)
        if run.case.program.startswith("rstream"):
            return read_rstream(run.case, text)
        try:
            with open(json_path, encoding="utf-8", errors="replace") as report:
                return figures_of(run.case, read_json(report.read()))
        except FileNotFoundError:
            raise Failed("perftest wrote no JSON") from None

    def measure(self, run, say):
        """The figures of a run. perftest has races of its own, so up to three tries, and each that is lost is told."""
        with tempfile.TemporaryDirectory(prefix="swrnic-perftest-") as folder:
            for attempt in range(1, TRIES + 1):
                try:
                    figures = self.once(run, folder)
                    figures.tries = attempt
                    return figures
                except Failed as why:
                    if attempt == TRIES:
                        raise
                    say(f"try {attempt}: {why}; once more")
        raise AssertionError("not reached")


def stop(process):
    """Ends a process group that this runner has started."""
    if process is None or process.poll() is not None:
        return
    os.killpg(process.pid, signal.SIGTERM)
    try:
        process.wait(3)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


TROUBLE = re.compile(r"error|fail|invalid|unrecogni|cannot|can't|couldn't|unable|refused|not found|denied", re.I)


def all_of(out):
    out.flush()
    out.seek(0)
    return out.read().decode("utf-8", "replace")


def gist(text):
    """What a program said of its end, in one line: perftest prints its whole usage behind a wrong option."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return "; ".join(([line for line in lines if TROUBLE.search(line)] or lines[-2:])[:3])[:300] or "it said nothing"


class Tcp:
    """The ruler: what plain TCP does in the same shapes. Of a receiver that spins and one that sleeps the better counts."""

    def __init__(self, rawtcp):
        self.rawtcp = rawtcp

    def ask(self, mode, size, amount):
        found = []
        for shape in ("spin", "block"):
            try:
                done = subprocess.run([self.rawtcp, mode, str(size), str(amount), shape], capture_output=True, text=True, timeout=60,
                                      check=False)
            except subprocess.TimeoutExpired:
                raise Failed(f"rawtcp {mode} {size}: not done within a minute") from None
            if done.returncode != 0:
                raise Failed(f"rawtcp {mode} {size}: {done.stderr.strip()}")
            found.append(float(done.stdout))
        return min(found) if mode == "lat" else max(found)

    def latency(self, size):
        return Figures(latency=self.ask("lat", size, max(50, min(2000, (64 << 20) // size))))

    def bandwidth(self, size):
        megabytes = self.ask("bw", size, 0.5)
        return Figures(bandwidth=megabytes, rate=megabytes * 1e6 / size)
