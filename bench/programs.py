# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Runs perftest's pairs and the baseline, and reads what they say."""
import os
import random
import re
import subprocess
import time
from dataclasses import dataclass

HOST = "127.0.0.1"
SAYS_NOTHING = {  # what a client prints whose run tells nothing, and why; it is run again
    "error: -111": "the client did not find the server's second listener",
    "Correlation coefficient": "perftest did not find out how fast its clock runs",
}


class Failed(Exception):
    pass


@dataclass
class Sample:
    value: float  # MB/s (10^6), messages/s or us
    p99: float | None = None  # us
    server_cpu: float = 0.0  # seconds
    client_cpu: float = 0.0


def paced():
    """Whether plain TCP gets BBR, which sends by timers where no network is between; the device takes reno there."""
    with open("/proc/sys/net/ipv4/tcp_congestion_control") as name:
        return name.read().startswith("bbr")


def listens(port):
    with open("/proc/net/tcp") as table:
        return any(f":{port:04X} 00000000:0000 0A" in line for line in table)


def wait_listening(server, port, name):
    end = time.monotonic() + 20
    while not listens(port):
        if server.poll() is not None or time.monotonic() > end:
            finish(server, 0)
            raise Failed(f"the server of {name} does not listen")
        time.sleep(0.02)


def finish(process, seconds):
    """The process' exit code and its CPU seconds, children included."""
    end = time.monotonic() + seconds
    while True:
        pid, status, usage = os.wait4(process.pid, os.WNOHANG)
        if pid != 0:
            process.returncode = os.waitstatus_to_exitcode(status)
            return process.returncode, usage.ru_utime + usage.ru_stime
        if time.monotonic() > end:
            process.terminate()  # timeout(1) passes it on, and follows it by a kill
            end += 10
        time.sleep(0.01)


def qps(options):
    return int(options[options.index("-q") + 1]) if "-q" in options else 1


def parse_cmtime(text):
    """Microseconds for each connection, of the step in which all of them connect at once."""
    found = re.search(r"^connect *:.* ([0-9.]+)$", text, re.M)
    if not found:
        raise Failed(f"cmtime printed no result:\n{text}")
    return Sample(1e6 / float(found.group(1)))


def parse(row, text):
    if row.program == "cmtime":
        return parse_cmtime(text)
    for line in reversed(text.splitlines()):
        fields = line.split()
        if not fields or fields[0] != str(row.size):
            continue
        if not all(re.fullmatch(r"[\d.]+", field) for field in fields):
            continue
        if row.unit == "us":
            return Sample(float(fields[4]), p99=float(fields[7]))  # t_typical, 99 %
        if row.unit == "messages/s":
            return Sample(float(fields[4]) * 1e6)
        return Sample(float(fields[3]) * (1 << 20) / 1e6)  # MiB/s, average
    raise Failed(f"{row.program} printed no result:\n{text}")


class Runner:
    def __init__(self, swrnic, rawtcp):
        self.swrnic = swrnic
        self.rawtcp = rawtcp
        self.torn = 0  # pairs

    def baseline(self, arguments, shape, congestion=None):
        chosen = ["--congestion", congestion] if congestion else []
        done = subprocess.run([self.rawtcp, *arguments, shape, *chosen], capture_output=True, text=True, timeout=60)
        if done.returncode != 0:
            raise Failed(f"rawtcp {arguments}: {done.stderr}")
        return float(done.stdout)

    def distance(self):
        """Nanoseconds from one processor to the other."""
        return self.baseline(("cores", "64", "3000"), "block")

    def perftest(self, row, count=None, prefix=lambda side: ()):
        """One run that tells something, of five at most."""
        for _ in range(5):
            sample, why = self._pair(row, count or row.count, prefix)
            if sample is not None:
                return sample
        raise Failed(f"{row.program}: {why}, five times")

    def ucx(self, row, test):
        """UCX over TCP; unit and meaning as in the row."""
        port = str(random.randint(20000, 30000))
        environment = dict(os.environ, UCX_TLS="tcp")
        command = ["timeout", "60", "ucx_perftest", "-p", port]
        server = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=environment)
        wait_listening(server, int(port), "ucx_perftest")
        count = min(row.count, 100000)
        done = subprocess.run([*command, HOST, "-t", test, "-s", str(row.size), "-n", str(count), "-w", str(count // 10), "-f", "-v"],
                              capture_output=True, text=True, env=environment)
        finish(server, 10)
        fields = done.stdout.strip().splitlines()[-1].split(",") if done.stdout.strip() else []
        if done.returncode != 0 or len(fields) < 8:
            raise Failed(f"ucx_perftest {test} failed with {done.returncode}: {done.stderr}")
        return float(fields[1]) if row.unit == "us" else float(fields[5]) * (1 << 20) / 1e6  # median us; MiB/s over all

    def fabric(self, row, _):
        """libfabric over TCP: half of a round trip, mean. The port of its control connection is fixed."""
        command = ["timeout", "60", "fi_pingpong", "-p", "tcp", "-e", "rdm", "-S", str(row.size), "-I", str(row.count)]
        server = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        wait_listening(server, 47592, "fi_pingpong")
        done = subprocess.run([*command, HOST], capture_output=True, text=True)
        finish(server, 10)
        if done.returncode != 0:
            raise Failed(f"fi_pingpong failed with {done.returncode}: {done.stderr}")
        return float(done.stdout.split()[-2])

    def _pair(self, row, count, prefix):
        port = random.randint(20000, 30000)
        if row.program == "cmtime":
            command, to_server = ["cmtime", "-p", str(port), "-c", str(count)], ["-s", HOST]
        else:
            each = str(max(1, count // qps(row.options)))
            command = [row.program, *(["-R"] if row.rdma_cm else []), "-F", "-p", str(port), "-s", str(row.size), "-n", each, *row.options]
            to_server = [HOST]
        environment = dict(os.environ, SWRNIC_CRC=row.crc, SWRNIC_COMPLETION=row.completion)

        def run(side):
            return ["timeout", "--kill-after=5", "120", *prefix(side), self.swrnic, "run", "--"]

        out = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True, "env": environment}
        server = subprocess.Popen(run("server") + command, **dict(out, stdout=subprocess.DEVNULL))
        wait_listening(server, port, row.program)
        client = subprocess.Popen(run("client") + command + to_server, **out)
        text = client.stdout.read()
        code, client_cpu = finish(client, 60)
        served_on = row.program == "cmtime"  # until it is killed
        _, server_cpu = finish(server, 10 if code == 0 and not served_on else 0)
        for said, why in SAYS_NOTHING.items():
            if said in text:
                return None, why
        if code != 0:
            raise Failed(f"{row.program} failed with {code}:\n{text}")
        sample = parse(row, text)
        sample.client_cpu, sample.server_cpu = client_cpu, server_cpu
        return sample, None
