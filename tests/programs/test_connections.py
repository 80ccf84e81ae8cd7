# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Connections in numbers: what an idle one costs, and that nothing of it stays."""
import json
import os
import statistics

import lib
from lib import expect

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


def case_ten_thousand_at_once(lab):
    """One pair of processes; a hundred of the connections are busy, and as fast as a hundred alone."""
    ratios = []
    for _ in range(5):
        alone, among = (run(lab, at_once, 1, 100)[1]["mb_per_second"] for at_once in (100, 10000))
        ratios.append(among / alone)
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
