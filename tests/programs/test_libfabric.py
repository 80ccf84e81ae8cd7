# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""libfabric's verbs provider, by the programs that Debian ships with it. It finds the device through rdma_cm: an address is the
device's when an id that is bound to it names the device."""
import re
import shutil

import lib
from lib import expect


def need(*programs):
    for program in programs:
        if not shutil.which(program):
            raise lib.Skip(f"{program} is not installed")


def case_sources(lab):
    """What it offers as its own addresses are those that others can reach."""
    need("fi_info")
    text = lab.start("fi_info", ["fi_info", "-p", "verbs", "-v"]).succeed(30 * lab.slow)
    sources = set(re.findall(r"src_addr: fi_sockaddr_in6?://\[?([0-9a-fA-F:.]+?)\]?:\d+", text))
    expect(lab.address in sources, f"{lab.address} is not among {sorted(sources)}")
    expect(not sources & {"127.0.0.1", "::1"}, f"loopback is among {sorted(sources)}")


def pingpong(lab, *options):
    need("fi_pingpong")
    port = lib.free_port()
    command = ["fi_pingpong", "-p", "verbs", "-d", "swr0", *options, "-I", 100, "-S", "all"]
    settings = {"SWRNIC_LOG": "info"}
    server = lab.start("fi_pingpong-server", [*command, "-B", port], "server", settings=settings)
    server.wait_listening(port, 20 * lab.slow)
    client = lab.start("fi_pingpong-client", [*command, "-P", port, lab.address], "client", settings=settings)
    for process in (client, server):
        text = process.succeed(120 * lab.slow)
        expect(re.search(r"swrnic: info: QP 0x[0-9a-f]+ .*: connected as", text), "no QP was connected")
        sizes = re.findall(r"^(\d+[kmg]?) +100 +=\s*100 ", text, re.M)
        expect("64" in sizes and "1m" in sizes, f"messages of these sizes came and went: {sizes}")


def case_pingpong(lab):
    pingpong(lab, "-e", "msg")


def case_pingpong_checked(lab):
    pingpong(lab, "-e", "msg", "-c")


if __name__ == "__main__":
    lib.main(globals())
