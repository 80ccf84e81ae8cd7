# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Connections in numbers: what an idle one costs, and that nothing of it stays."""
import json
import os
import statistics
import subprocess

import lib
from lib import expect, wait_until

EACH = 24 * 1024  # octets of resident memory, queues of 128 and 128 requests of one element


def run(lab, *numbers):
    port = lib.free_port()
    program = os.path.join(lab.build, "bin", "many_connections")
    texts = lab.pair([program, "server", lab.address, port, *numbers], [program, "client", lab.address, port, *numbers], port, 240,
                     server_seconds=60)
    results = [json.loads(text.splitlines()[-1]) for text in texts]
    for side, result in zip(("server", "client"), results):
        print(f"    {side}: {result}")
        expect(result["descriptors_left"] <= 0, f"{side}: {result['descriptors_left']} descriptors stay open")
    return results


def case_thousand(lab):
    for result in run(lab, 1000, 2):
        expect(0 < result["bytes_each"] <= EACH, f"{result['bytes_each']} octets for an idle connection")
        expect(result["idle_cpu"] < 0.02, f"a thousand idle connections take {result['idle_cpu']} of a processor")


def case_ten_thousand(lab):
    """Opened and closed, fifty at a time. What the allocator keeps is bounded by what fifty need."""
    for result in run(lab, 50, 200):
        expect(result["kib_left"] < 8 * 1024, f"{result['kib_left']} KiB stay after 10,000 connections")


class Busy:
    """A pair of processes with so many connections, a hundred of which it writes over whenever it is asked."""

    def __init__(self, lab, at_once):
        port = lib.free_port()
        command = [os.path.join(lab.build, "bin", "many_connections")]
        numbers = [lab.address, port, at_once, 1, 100]
        self.server = lab.start(f"{at_once}-server", [*command, "server", *numbers])
        self.server.wait_listening(port)
        self.client = lab.start(f"{at_once}-client", [*command, "client", *numbers], "client", stdin=subprocess.PIPE)
        self.said = 0

    def speed(self, seconds=10):
        """10^6 octets a second."""
        self.said += 1
        os.write(self.client.popen.stdin.fileno(), b"\n")
        wait_until(lambda: self.client.output().count(b"\n") >= self.said or not self.client.running(), seconds, "a speed")
        return float(self.client.text().splitlines()[self.said - 1])

    def end(self):
        self.client.popen.stdin.close()
        for process in (self.client, self.server):
            process.succeed(60)


def case_ten_thousand_at_once(lab):
    """One pair of processes; a hundred of the connections are busy, and as fast as a hundred alone. The machine's own
    speed changes from second to second, so both pairs are there at once, and are asked in turn."""
    pairs = [Busy(lab, 100), Busy(lab, 10000)]
    for pair in pairs:
        pair.speed(200)  # when it has all its connections
    ratios = []
    for i in range(40):
        speeds = {pair: pair.speed() for pair in (pairs if i % 2 else reversed(pairs))}
        ratios.append(speeds[pairs[1]] / speeds[pairs[0]])
    for pair in pairs:
        pair.end()
    quartiles = [round(ratio, 2) for ratio in statistics.quantiles(ratios)]
    print(f"    of the speed of a hundred alone, quartiles: {quartiles}")
    expect(statistics.median(ratios) >= 0.9, f"of the speed of a hundred alone: {ratios}")


def limited(lab, command, soft, hard):
    """The command under these limits of descriptors, set in front of swrnic run."""
    return ["sh", "-c", f'ulimit -Sn {soft}; ulimit -Hn {hard}; exec "$@"', "sh", *lab.swrnic, *command]


def case_descriptors(lab):
    """The usual soft limit is raised; beyond the hard one a connection is refused with a line that says why."""
    program = os.path.join(lab.build, "bin", "many_connections")
    for hard, good in ((4096, True), (300, False)):
        port = lib.free_port()
        common = [lab.address, str(port), "400", "1"]
        server = lab.start("many_connections-server", limited(lab, [program, "server", *common], 256, 4096), device=False)
        server.wait_listening(port)
        client = lab.start("many_connections-client", limited(lab, [program, "client", *common], 256, hard), "client", device=False)
        code = client.wait(60 * lab.slow)
        expect((code == 0) == good, f"400 connections at a hard limit of {hard}: status {code}")
        if good:
            server.succeed(60)
        else:
            expect("no descriptor left for a connection" in client.text(), "the refusal does not say why")
            server.kill()


if __name__ == "__main__":
    lib.main(globals())
