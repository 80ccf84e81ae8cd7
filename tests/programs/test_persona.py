# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""The device as a channel adapter with an Ethernet port (SWRNIC_PERSONA=roce), as what programs of that world want of it."""
import re

import lib
import test_perftest
import test_wired
from lib import expect

ROCE = {"SWRNIC_PERSONA": "roce"}


def case_shown(lab):
    for settings, transport in ((None, "iWARP (1)"), (ROCE, "InfiniBand (0)")):
        text = lab.start("devinfo", ["ibv_devinfo"], settings=settings).succeed(20 * lab.slow)
        expect(re.search(rf"transport:\s+{re.escape(transport)}", text), f"not {transport}: {text}")
        expect(re.search(r"link_layer:\s+Ethernet", text), f"no Ethernet: {text}")
    if lib.shutil.which("ibstat"):  # which passes over an RNIC
        text = lab.start("ibstat", ["ibstat"], settings=ROCE).succeed(20 * lab.slow)
        expect("CA 'swr0'" in text and "State: Active" in text and "Hardware version: 0" in text, f"ibstat: {text}")


def case_perftest(lab):
    for tool in test_wired.SIX:
        test_wired.perftest(lab, tool, "-n", 200, settings=ROCE)
        test_perftest.perftest(lab, tool, 64, 200, settings=ROCE)


def case_mixed(lab):
    """One end of each persona: the wire is the same."""
    for server_side, client_side in ((ROCE, None), (None, ROCE)):
        for wiring in ([], ["-R"]):
            port = lib.free_port()
            command = ["ib_write_bw", *wiring, "-F", "-n", 200, "-p", port]

            def step():
                server = lab.start("server", command, settings=server_side)
                server.wait_listening(port, 20 * lab.slow)
                client = lab.start("client", [*command, lab.address], "client", settings=client_side)
                text = client.succeed(60 * lab.slow)
                server.succeed(15 * lab.slow)
                return text

            expect(test_perftest.row(lab.perftest(step), 65536)[1] == 200, "not 200 iterations")
            lab.forget()


def case_ucx(lab):
    """UCX takes no RNIC. Its endpoints find each other by datagrams, and wire their QPs by what those say."""
    lib.need("ucx_perftest")
    settings = {**ROCE, "UCX_TLS": "rc_verbs,ud_verbs,self"}
    tests = [(test, size) for test in ("tag_lat", "tag_bw", "ucp_put_lat", "ucp_get", "stream_bw", "ucp_am_lat") for size in (8, 100000)]
    for test, size in tests + [(test, 8) for test in ("ucp_add", "ucp_fadd", "ucp_swap", "ucp_cswap")]:
        port = lib.free_port()
        command = ["ucx_perftest", "-p", port]
        server = lab.start("ucx-server", command, settings=settings)
        server.wait_listening(port, 20 * lab.slow)
        client = lab.start("ucx-client", [*command, lab.address, "-t", test, "-s", size, "-n", 200, "-w", 10, "-f"], "client", settings=settings)
        text = client.succeed(60 * lab.slow)
        server.succeed(15 * lab.slow)
        expect(re.search(r"^ +200 +[0-9.]+ ", text, re.M), f"{test} of {size} octets shows no 200 iterations: {text}")
        lab.forget()


def case_ucx_rdmacm(lab):
    """UCX makes its QPs itself; rdma_cm only carries what it says of them. With iWARP's events it would find no way to the server."""
    lib.need("io_demo")
    settings = {**ROCE, "UCX_TLS": "rc_verbs,ud_verbs,self", "UCX_SOCKADDR_TLS_PRIORITY": "rdmacm"}
    for more in ([], ["-A"]):
        port = lib.free_port()
        command = ["io_demo", "-p", port, "-q", "-d", "1:100000", *more]
        server = lab.start("io-server", command, settings=settings)
        server.wait_listening(port, 20 * lab.slow)
        client = lab.start("io-client", [*command, "-i", 200, "-o", "read,write", lab.address], "client", settings=settings)
        text = client.succeed(60 * lab.slow)
        expect("Client exit with status 'OK'" in text, f"the client has not come to its end: {text[-1000:]}")
        server.kill()  # it serves for ever
        server.wait(10)


if __name__ == "__main__":
    lib.main(globals())
