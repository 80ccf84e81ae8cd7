# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Programs whose datagrams go through rdma_cm: librdmacm's udaddy and mckey, and perftest -c UD -R."""
import ipaddress

import lib
from lib import expect
from test_perftest import perftest

PERSONAS = ("iwarp", "roce")
GROUP_PORT = 18790


def udaddy(lab, address, *options, persona="iwarp"):
    settings = {"SWRNIC_PERSONA": persona}
    # Its port is its own: -p is the port space.
    server = lab.start("udaddy-server", ["udaddy", "-b", address, *options], settings=settings)
    server.wait_datagrams(7174, seconds=20 * lab.slow)
    client = lab.start("udaddy", ["udaddy", "-s", address, *options], "client", settings=settings)
    for process in (client, server):
        text = process.succeed(30 * lab.slow)
        expect("data transfers complete" in text and "return status 0" in text, f"{process.name} has not moved its data")
    lab.forget()


def case_udaddy(lab):
    for persona in PERSONAS:
        udaddy(lab, lab.address, persona=persona)
        udaddy(lab, lab.address, "-c", 20, "-S", 1024, persona=persona)


def case_udaddy_ipv6(lab):
    lab.need_ipv6()
    udaddy(lab, lab.address6, "-c", 3)


def case_nobody(lab):
    """Nobody has the port: the client hears so at once."""
    client = lab.start("udaddy", ["udaddy", "-s", lab.address], "client")
    expect(client.wait(5 * lab.slow) != 0, "udaddy ended well without a server")
    expect("RDMA_CM_EVENT_UNREACHABLE, error: 1" in client.text(), "it does not hear that nobody is there")


def kernels_hex(group):
    """As /proc/net/udp and udp6 show it: words of 32 bits in this host's order."""
    octets = ipaddress.ip_address(group).packed
    return "".join(octets[i:i + 4][::-1].hex() for i in range(0, len(octets), 4)).upper()


def mckey(lab, group, sources, *options, persona="iwarp"):
    settings = {"SWRNIC_PERSONA": persona}
    member = lab.start("mckey", ["mckey", "-m", group, "-b", sources[0], *options], settings=settings)
    member.wait_datagrams(GROUP_PORT, kernels_hex(group), 20 * lab.slow)
    sender = lab.start("mckey-sender", ["mckey", "-m", group, "-b", sources[1], "-s", *options], "client", settings=settings)
    gid = group if ":" in group else f"::ffff:{group}"
    for process in (sender, member):
        text = process.succeed(30 * lab.slow)
        expect(f"joined dgid: {gid} " in text, f"{process.name} has joined another group")
        expect("data transfers complete" in text and "return status 0" in text, f"{process.name} has not moved its data")
    lab.forget()


def case_mckey(lab):
    sources = ("127.0.0.1", "127.0.0.1") if lab.place == "lo" else ("10.77.0.1", "10.77.0.2")
    mckey(lab, "239.192.7.21", sources)
    mckey(lab, "239.192.7.22", sources, "-c", 3, persona="roce")
    if lab.place == "netns":
        mckey(lab, "ff15::7:21", ("fd77::1", "fd77::2"))


def case_perftest(lab):
    for persona in PERSONAS:
        for size in (2, 1024):
            perftest(lab, "ib_send_lat", size, 1000, "-c", "UD", settings={"SWRNIC_PERSONA": persona})
    perftest(lab, "ib_send_bw", 1024, 1000, "-c", "UD", settings={"SWRNIC_PERSONA": "roce"})


if __name__ == "__main__":
    lib.main(globals())
