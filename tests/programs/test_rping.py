# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""rping and ucmatose: connections through rdma_cm, data validated by the programs themselves."""
import re

import lib
from lib import expect


def rping(lab, address, count, size, settings=None, seconds=120):
    port = lib.free_port()
    common = ["-a", address, "-p", port, "-v", "-V", "-C", count, "-S", size]
    server_text, client_text = lab.pair(["rping", "-s", *common], ["rping", "-c", *common], port, seconds, settings)
    for side, text in (("server ping data", server_text), ("ping data", client_text)):
        seen = sum(line.startswith(side) for line in text.splitlines())
        expect(seen == count, f"rping shows {seen} lines of '{side}', expected {count}")
    expect("error" not in client_text.lower(), "the rping client speaks of an error")
    lab.forget()


def case_validate(lab):
    rping(lab, lab.address, 1000, 65535)


def case_small(lab):
    """The smoke test: a few rounds of several sizes."""
    for size in (23, 64, 1500, 65535):
        rping(lab, lab.address, 20, size)


def case_ipv6(lab):
    lab.need_ipv6()
    rping(lab, lab.address6, 200, 65535)


def case_settings(lab):
    for settings in ({"SWRNIC_CRC": "on"}, {"SWRNIC_CRC": "off"}, {"SWRNIC_FPDU": "emss"}, {"SWRNIC_FPDU": "64k"},
                     {"SWRNIC_MPA_REV": "1"}, {"SWRNIC_CRC": "on", "SWRNIC_FPDU": "emss", "SWRNIC_MPA_REV": "1"}):
        rping(lab, lab.address, 50, 65535, settings)


def case_log_lines(lab):
    """What the log says of a QP names it, and its peer once there is one."""
    port = lib.free_port()
    common = ["-a", lab.address, "-p", port, "-C", 3]
    for text in lab.pair(["rping", "-s", *common], ["rping", "-c", *common], port, 30, {"SWRNIC_LOG": "debug"}):
        lines = [line for line in text.splitlines() if re.match(r"swrnic: \w+: QP ", line)]
        for line in lines:
            expect(re.match(r"swrnic: \w+: QP 0x[0-9a-f]+ \(peer [0-9.]+:[0-9]+\): .", line), f"no QP and peer: {line}")
        for what in ("connected as", "ended"):
            expect(any(what in line for line in lines), f"no line '{what}'")


def case_clients(lab):
    """Several clients at once against one persistent server. They come one after the other: rping's server keeps a
    single place for the request that has just come, and two at the same moment overwrite each other there."""
    port = lib.free_port()
    server = lab.start("rping-server", ["rping", "-s", "-P", "-V", "-a", lab.address, "-p", port, "-S", 400])
    server.wait_listening(port, 20 * lab.slow)
    clients = []
    for _ in range(6):
        client = lab.start("rping-client", ["rping", "-c", "-v", "-V", "-a", lab.address, "-p", port, "-C", 8000,
                                            "-S", 400], "client")
        lib.wait_until(lambda c=client: b"ping data" in c.output()[:400] or not c.running(), 20 * lab.slow,
                       "a client pings")
        clients.append(client)
    together = sum(client.running() for client in clients)
    for client in clients:
        client.succeed(100 * lab.slow)
    expect(server.running(), "the persistent server has ended")
    expect(together >= 3, f"only {together} clients ran at once: this says nothing")
    lab.forget()


def ucmatose(lab, address, *more):
    port = lib.free_port()
    common = ["-p", port, "-c", 8, "-C", 200, "-S", 10000, *more]
    server_text, client_text = lab.pair(["ucmatose", "-b", address, *common], ["ucmatose", "-s", address, *common],
                                        port, 60)
    for text in (server_text, client_text):
        expect("return status 0" in text, "ucmatose does not report status 0")


def case_ucmatose(lab):
    ucmatose(lab, lab.address)


def case_ucmatose_migrate(lab):
    ucmatose(lab, lab.address, "-m")


def case_ucmatose_ipv6(lab):
    lab.need_ipv6()
    ucmatose(lab, lab.address6, "-f", "ip6")


if __name__ == "__main__":
    lib.main(globals())
