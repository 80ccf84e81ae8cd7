# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Programs that wire their QPs themselves, as people type them: perftest without -R, and the pingpongs."""
import ipaddress
import os
import re

import lib
from lib import expect
from test_perftest import iterations_of, row

SIX = ("ib_send_bw", "ib_write_bw", "ib_read_bw", "ib_send_lat", "ib_write_lat", "ib_read_lat")
# Without rdma_cm perftest 4.5 never deregisters the region of the credits that its ib_send_bw sends on iWARP, so its PD is busy at
# the end. All else has ended well by then.
LEAK = "Failed to deallocate PD - Device or resource busy"


def ended(process, seconds, tool):
    code = process.wait(seconds)
    text = process.text()
    leaks = tool == "ib_send_bw" and code == 1 and LEAK in text
    expect(code == 0 or leaks, f"{process.name} ended with status {code}")
    return text.replace(LEAK, f"\n{LEAK}")  # it follows the figures in their line


def perftest(lab, tool, *options, settings=None, address=None):
    """The client's output."""
    port = lib.free_port()
    command = [tool, *options, "-F", "-p", port]
    server = lab.start(f"{tool}-server", command, settings=settings)
    server.wait_listening(port, 20 * lab.slow)
    client = lab.start(f"{tool}-client", [*command, address or lab.address], "client", settings=settings)
    text = ended(client, 60 * lab.slow, tool)
    ended(server, 15 * lab.slow, tool)
    lab.forget()
    return text


def measured(lab, tool, size, *options, **more):
    iterations = iterations_of(tool, size)
    numbers = row(perftest(lab, tool, "-s", size, "-n", iterations, *options, **more), size)
    qps = int(options[options.index("-q") + 1]) if "-q" in options else 1
    expect(numbers[1] == iterations * qps, f"{tool} counts {numbers[1]} iterations, expected {iterations * qps}")


def case_as_typed(lab):
    """With no option at all."""
    for tool in SIX:
        text = perftest(lab, tool)
        expect("rdma_cm QPs	 : OFF" in text, f"{tool} used rdma_cm")


def all_sizes(lab, *tools):
    """From 2 octets to 8 MiB over one QP. perftest calibrates its clock at each size, which takes longer than all iterations."""
    for tool in tools:
        text = perftest(lab, tool, "-a", "-n", 20)
        for exponent in range(1, 24):
            expect(row(text, 1 << exponent)[1] == 20, f"{tool} -a: not 20 iterations at {1 << exponent}")


def case_sizes(lab):
    all_sizes(lab, "ib_send_bw", "ib_write_bw", "ib_read_bw")
    for tool in ("ib_send_lat", "ib_write_lat", "ib_read_lat"):
        for size in (2, 4096, 1 << 20):
            measured(lab, tool, size)


def case_all_sizes_at_once(lab):
    all_sizes(lab, *SIX)


def case_atomics(lab):
    for tool in ("ib_atomic_bw", "ib_atomic_lat"):
        for kind in ("FETCH_AND_ADD", "CMP_AND_SWAP"):
            expect(row(perftest(lab, tool, "-A", kind, "-n", 1000), 8)[1] == 1000, f"{tool} -A {kind}: not 1000 iterations")


def case_qps(lab):
    for tool in ("ib_send_bw", "ib_write_bw", "ib_read_bw"):
        measured(lab, tool, 4096, "-q", 16)


def case_options(lab):
    for tool in ("ib_send_bw", "ib_write_bw", "ib_read_bw"):
        measured(lab, tool, 4096, "-b")
    measured(lab, "ib_send_bw", 4096, "--use-srq")
    for tool in ("ib_send_lat", "ib_read_bw"):
        measured(lab, tool, 4096, "-e")
    measured(lab, "ib_write_lat", 64, "-m", 256)


def case_durations(lab):
    for tool in SIX:
        expect(row(perftest(lab, tool, "-D", 1, "-s", 4096), 4096)[1] > 0, f"{tool} -D 1 shows no iterations")


def gids(lab, side):
    shown = lab.start("devinfo", ["ibv_devinfo", "-v"], side).succeed(20 * lab.slow)
    return {int(index): ipaddress.IPv6Address(gid) for index, gid in re.findall(r"GID\[ *(\d+)\]:\s+([0-9a-f:.]+)", shown)}


def reaches(lab, gid):
    """Across a cable what is of one host alone does not: loopback, and what is made from a MAC."""
    is_loopback = gid.is_loopback or (gid.ipv4_mapped is not None and gid.ipv4_mapped.is_loopback)
    return lab.place == "lo" or not (is_loopback or gid.is_link_local)


def case_gids(lab):
    """Each GID that both sides have, IPv4 and IPv6."""
    server, client = gids(lab, "server"), gids(lab, "client")
    usable = [i for i in server if i in client and reaches(lab, server[i]) and reaches(lab, client[i])]
    expect(any(server[i].ipv4_mapped for i in usable), f"no IPv4 GID: {server}")
    for index in usable:
        text = perftest(lab, "ib_write_bw", "-x", index, "-n", 200)
        expect(f"GID index       : {index}" in text, f"perftest did not use GID {index}")


def pingpong(lab, *command):
    port = lib.free_port()
    full = [*command, "-p", port]
    server_text, client_text = lab.pair(full, [*full, lab.address], port, 60)
    for text in (server_text, client_text):
        expect(re.search(r"1000 iters in ", text), f"{' '.join(map(str, command))} did not end its iterations")
    lab.forget()


def case_pingpong(lab):
    # The first GID of an IPv4 address.
    index = next(i for i, gid in sorted(gids(lab, "server").items()) if gid.ipv4_mapped)
    for program in ("ibv_rc_pingpong", "ibv_srq_pingpong"):
        for options in ((), ("-e",), ("-s", 65536)):
            pingpong(lab, program, "-g", index, *options)
    for options in (("-c",), ("-e", "-c")):
        pingpong(lab, "ibv_rc_pingpong", "-g", index, *options)
    for options in ((), ("-e",), ("-s", 65536)):
        pingpong(lab, "ibv_uc_pingpong", "-g", index, *options)


def case_unreliable(lab):
    """UC: Sends and Writes."""
    for tool in ("ib_send_bw", "ib_write_bw", "ib_send_lat", "ib_write_lat"):
        for size in (2, 4096, 1 << 20):
            measured(lab, tool, size, "-c", "UC")


def case_datagrams(lab):
    """UD: each GID that is an address, of IPv4 and IPv6."""
    server, client = gids(lab, "server"), gids(lab, "client")
    usable = [i for i in server if i in client and reaches(lab, server[i]) and reaches(lab, client[i]) and not server[i].is_link_local]
    for index in usable:
        for options in ((), ("-e",)):
            pingpong(lab, "ibv_ud_pingpong", "-g", index, "-s", 1024, *options)
        for size in (2, 1024):
            measured(lab, "ib_send_lat", size, "-c", "UD", "-x", index)


def case_groups(lab):
    """Two members of one host hear what another process, across the cable, says to their group."""
    program = os.path.join(lab.build, "bin", "group_member")
    for group in ("::ffff:239.192.7.11", "ff0e::ffff:239.192.7.12", *(["ff15::7:11"] if lab.place == "netns" else [])):
        members = [lab.start(f"member-{i}", [program, "listen", group, 20]) for i in range(2)]
        for member in members:
            lib.wait_until(lambda m=member: "joined" in m.text() or not m.running(), 20 * lab.slow, f"{member.name} joins")

        def heard(said=group, by=members):
            lab.start("speaker", [program, "send", said, 20], "client").succeed(20 * lab.slow)
            return not any(member.running() for member in by)

        # A link that has just come up sends to no group of IPv6 for a second.
        lib.wait_until(heard, 20 * lab.slow, "the members hear all")
        for member in members:
            member.succeed(20 * lab.slow)
    lab.forget()


def case_ports(lab):
    """QP numbers name ports of SWRNIC_PORTS, one for 256 QPs."""
    text = perftest(lab, "ib_write_bw", "-n", 100, settings={"SWRNIC_PORTS": "21000-21009"})
    numbers = [int(n, 16) for n in re.findall(r"address: LID 0000 QPN (0x[0-9a-f]+)", text)]
    expect(len(numbers) == 2 and all(21000 <= n >> 8 <= 21009 for n in numbers), f"numbers outside the ports: {numbers}")


if __name__ == "__main__":
    lib.main(globals())
