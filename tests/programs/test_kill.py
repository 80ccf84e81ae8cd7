# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""kill -9 of one side under load: the other has its errors and DISCONNECTED within a second. And an end from outside."""
import re
import subprocess
import time

import lib
from lib import expect

SOON = 1.0


def moment(text, what):
    found = re.search(rf"^LOAD {what}.* at (\d+) us$", text, re.M)
    expect(found, f"the survivor has not said '{what}'")
    return int(found.group(1)) / 1e6  # CLOCK_MONOTONIC, as time.monotonic()


def checker_killed(lab, victim, settings=None):
    port = lib.free_port()
    common = [lab.checker, "-a", lab.address, "-p", port, "-g", "load"]
    sides = {"server": lab.start("checker-server", [*common, "--server"], "server", settings=settings)}
    sides["server"].wait_listening(port)
    sides["client"] = lab.start("checker-client", [*common, "--client"], "client", settings=settings)
    for side in sides.values():
        lib.wait_until(lambda s=side: "LOAD running" in s.text(), 30, f"traffic of {side.name}")
    time.sleep(0.2)
    survivor = sides["client" if victim == "server" else "server"]
    killed = time.monotonic()
    sides[victim].kill()
    survivor.succeed(15)
    text = survivor.text()
    for what in ("error", "flushed", "disconnected"):
        delay = moment(text, what) - killed
        expect(delay < SOON, f"'{what}' came {delay:.2f} s after the kill of the {victim}")
        print(f"    {victim} killed: {what} after {delay * 1000:.0f} ms")


def case_checker(lab):
    for settings in (None, {"SWRNIC_CRC": "on"}):
        for victim in ("server", "client"):
            checker_killed(lab, victim, settings)


def case_rping(lab):
    for victim in ("server", "client"):
        port = lib.free_port()
        common = ["-a", lab.address, "-p", port, "-S", 5000]
        server = lab.start("rping-server", ["rping", "-s", *common])
        server.wait_listening(port)
        client = lab.start("rping-client", ["rping", "-c", *common], "client")
        time.sleep(1)
        survivor = client if victim == "server" else server
        expect(client.running() and server.running(), "rping has ended by itself")
        killed = time.monotonic()
        (server if victim == "server" else client).kill()
        lib.wait_until(lambda s=survivor: "DISCONNECT EVENT" in s.text(), SOON, f"DISCONNECTED, {victim} killed")
        print(f"    {victim} killed: DISCONNECTED after {(time.monotonic() - killed) * 1000:.0f} ms")
        survivor.wait(15)


def perftest_killed(lab, tool):
    port = lib.free_port()
    common = [tool, "-R", "-F", "-p", port, "-s", 65536, "-D", 30]
    server = lab.start(f"{tool}-server", common)
    server.wait_listening(port)
    client = lab.start(f"{tool}-client", [*common, lab.address], "client")
    time.sleep(2)
    expect(client.running() and server.running(), f"{tool} has ended by itself")
    killed = time.monotonic()
    server.kill()
    code = client.wait(10)
    spent = time.monotonic() - killed
    expect(code != 0, f"{tool} reports success after its server was killed")
    expect(spent < SOON, f"{tool} ended {spent:.2f} s after its server was killed")
    print(f"    {tool}: ended with status {code} {spent * 1000:.0f} ms after its server was killed")


def case_perftest(lab):
    """perftest looks at completions only: an error there ends it."""
    for tool in ("ib_send_bw", "ib_write_bw", "ib_read_bw"):
        lab.perftest(lambda t=tool: perftest_killed(lab, t))


def case_one_stream(lab):
    """SEC-30: one stream of a host is ended from outside its process; its neighbour goes on."""
    pairs = []
    for _ in range(2):
        port = lib.free_port()
        common = ["-a", lab.address, "-p", port, "-S", 100]
        server = lab.start("rping-server", ["rping", "-s", *common])
        server.wait_listening(port)
        pairs.append((port, server, lab.start("rping-client", ["rping", "-c", *common], "client")))
    time.sleep(1)
    for _, server, client in pairs:
        expect(client.running() and server.running(), "rping has ended by itself")
    port, *victims = pairs[0]
    command = [*lab.server_prefix, "ss", "-K", "-n", "-H", "-t", "state", "established", "sport", "=", f":{port}"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if not done.stdout.strip():
        raise lib.Skip(f"this kernel ends no sockets (INET_DIAG_DESTROY): {done.stderr.strip()}")
    ended = time.monotonic()
    for side in victims:
        lib.wait_until(lambda s=side: "DISCONNECT EVENT" in s.text(), SOON, f"DISCONNECTED at {side.name}")
    print(f"    DISCONNECTED on both sides after {(time.monotonic() - ended) * 1000:.0f} ms")
    for side in victims:
        side.wait(15)
    for side in pairs[1][1:]:
        expect(side.running() and "DISCONNECT EVENT" not in side.text(), "the neighbour was ended too")


if __name__ == "__main__":
    lib.main(globals())
