# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""perftest with rdma_cm: each test, each size, events, many QPs; what its streams ask of their sockets."""
import re
import subprocess

import lib
from lib import expect

SIZES = [2, 64, 4096, 65536, 1 << 20]


def row(text, size):
    """The line of results for the size, as numbers."""
    for line in text.splitlines():
        words = line.split()
        if len(words) >= 4 and words[0] == str(size):
            return [float(w) for w in words]
    raise lib.Failed(f"no line of results for {size} octets")


def run(lab, *command, settings=None):
    """The client's output."""
    def step():
        port = lib.free_port()
        common = [*command, "-R", "-F", "-p", port]
        return lab.pair(common, [*common, lab.address], port, 60, settings)[1]

    return lab.perftest(step)


def perftest(lab, tool, size, iterations, *more, settings=None):
    sizes = () if tool.startswith("ib_atomic") else ("-s", size)
    text = run(lab, tool, *sizes, "-n", iterations, *more, settings=settings)
    numbers = row(text, size)
    qps = int(more[more.index("-q") + 1]) if "-q" in more else 1
    expect(numbers[1] == iterations * qps, f"{tool} counts {numbers[1]} iterations, expected {iterations * qps}")
    if "Correlation coefficient" in text:
        # perftest could not find out the speed of its clock on a busy machine: its figures are 0 or nonsense.
        print("    perftest has not calibrated its clock")
    elif tool.endswith("_bw"):
        # At 2 octets the mean can be shown as 0.00 MiB/s on a slow machine; the message rate cannot.
        expect(numbers[4] > 0, f"{tool} shows a message rate of {numbers[4]}")
    else:
        expect(0 < numbers[2] <= numbers[5] <= numbers[3], f"{tool} shows impossible latencies {numbers}")
    print(f"    {tool} -s {size} -n {iterations} {' '.join(map(str, more))}: {numbers[2:]}")
    lab.forget()


def iterations_of(tool, size):
    if tool.endswith("_lat"):
        return 1000 if size <= 4096 else 100
    return 5000 if size <= 4096 else 1000 if size <= 65536 else 100


def all_sizes(lab, tool):
    for size in SIZES:
        perftest(lab, tool, size, iterations_of(tool, size))


def case_send_bw(lab):
    all_sizes(lab, "ib_send_bw")


def case_send_lat(lab):
    all_sizes(lab, "ib_send_lat")


def case_write_bw(lab):
    all_sizes(lab, "ib_write_bw")


def case_write_lat(lab):
    all_sizes(lab, "ib_write_lat")


def case_read_bw(lab):
    all_sizes(lab, "ib_read_bw")


def case_read_lat(lab):
    all_sizes(lab, "ib_read_lat")


def case_atomics(lab):
    for tool in ("ib_atomic_bw", "ib_atomic_lat"):
        for kind in ("FETCH_AND_ADD", "CMP_AND_SWAP"):
            perftest(lab, tool, 8, 1000, "-A", kind)
    perftest(lab, "ib_atomic_bw", 8, 1000, "-q", 8)


def case_events(lab):
    for size in SIZES:
        perftest(lab, "ib_send_lat", size, iterations_of("ib_send_lat", size), "-e")
        perftest(lab, "ib_read_bw", size, iterations_of("ib_read_bw", size), "-e")


def case_qps(lab):
    for tool in ("ib_send_bw", "ib_write_bw", "ib_read_bw"):
        for size in SIZES:
            perftest(lab, tool, size, 500 if size <= 65536 else 20, "-q", 16)


def case_both_ways(lab):
    for tool in ("ib_send_bw", "ib_write_bw", "ib_read_bw"):
        perftest(lab, tool, 4096, 2000, "-b")


def case_post_lists(lab):
    for tool in ("ib_send_bw", "ib_write_bw", "ib_read_bw"):
        perftest(lab, tool, 64, 3200, "-l", 16)


def case_shared_receives(lab):
    # Not with -q: perftest credits the QP that a receive was posted for, not the one that took it, and may then wait for ever.
    for more in ((), ("-b",)):
        perftest(lab, "ib_send_bw", 4096, 2000, "--use-srq", *more)
    perftest(lab, "ib_send_bw", 1 << 20, 100, "--use-srq")
    # Out of credits, ib_send_bw -e sleeps until a Send completes, though it waits for a Write of the peer. A credit comes for each third
    # of the receive queue (512), so there must pass more time than a scheduler's slice while two thirds of it, less what the sockets hold,
    # are sent.
    perftest(lab, "ib_send_bw", 1 << 20, 1500, "--use-srq", "-e")
    perftest(lab, "ib_send_lat", 64, 500, "--use-srq")


def case_options(lab):
    """Every other option that perftest takes for these tests over rdma_cm."""
    for tool in ("ib_send_bw", "ib_write_bw", "ib_read_bw"):
        perftest(lab, tool, 64, 2000, "-t", 16, "-Q", 8)
        perftest(lab, tool, 4096, 1000, "-c", "RC")
        perftest(lab, tool, 65536, 200, "-N")
        perftest(lab, tool, 4096, 1000, "-m", 1024)
    for tool in ("ib_send_lat", "ib_write_lat"):
        perftest(lab, tool, 64, 1000, "-I", 64)
        perftest(lab, tool, 64, 1000, "-c", "RC")
    for tool in ("ib_send_bw", "ib_write_bw"):
        perftest(lab, tool, 64, 2000, "-I", 64)
    for count in (1, 2, 3, 8, 33, 64):
        for tool in ("ib_send_bw", "ib_write_bw", "ib_read_bw"):
            perftest(lab, tool, 4096, 200, "-q", count)


def case_all_sizes_at_once(lab):
    """-a: from 2 octets to 8 MiB in one connection; in the latency tests too."""
    for tool in ("ib_send_bw", "ib_write_bw", "ib_read_bw", "ib_send_lat", "ib_write_lat", "ib_read_lat"):
        text = run(lab, tool, "-a", "-n", 100)
        for exponent in range(1, 24):
            expect(row(text, 1 << exponent)[1] == 100, f"{tool} -a: not 100 iterations at {1 << exponent}")
        lab.forget()


def case_duration(lab):
    for tool in ("ib_send_bw", "ib_write_bw", "ib_read_bw", "ib_send_lat", "ib_write_lat", "ib_read_lat"):
        text = run(lab, tool, "-D", 1, "-s", 4096)
        expect(row(text, 4096)[1] > 0, f"{tool} -D 1 shows no iterations")
        lab.forget()


def case_settings(lab):
    for settings in ({"SWRNIC_CRC": "on"}, {"SWRNIC_FPDU": "emss"}, {"SWRNIC_FPDU": "64k"}, {"SWRNIC_MPA_REV": "1"}):
        for tool in ("ib_send_bw", "ib_write_bw", "ib_read_bw"):
            perftest(lab, tool, 65536, 500, settings=settings)


def case_smoke(lab):
    perftest(lab, "ib_write_bw", 65536, 500)
    perftest(lab, "ib_send_bw", 4096, 500)
    perftest(lab, "ib_read_lat", 64, 200)
    perftest(lab, "ib_send_lat", 64, 200, "-e")


def streams(prefix, end, port):
    """Of the connections in a namespace with this port at this end, sport or dport: their congestion controls, their send
    buffers, and the most octets that one of them has brought to its peer."""
    shown = subprocess.run([*prefix, "ss", "-Htinm", "state", "established", end, "=", f":{port}"], capture_output=True,
                           text=True, check=True).stdout
    return (set(re.findall(r"\b(?:bbr|reno|cubic)\b", shown)), set(map(int, re.findall(r"\btb(\d+)", shown))),
            max(map(int, re.findall(r"\bbytes_acked:(\d+)", shown)), default=0))


def case_no_xrc(lab):
    """What is not offered is refused on both sides: a server does not wait for what its client cannot have either."""
    command = ["ib_write_lat", "-c", "XRC", "-p", lib.free_port()]
    server = lab.start("server", command)
    server.wait_listening(command[-1], 20 * lab.slow)
    client = lab.start("client", [*command, lab.address], "client")
    for side in (client, server):
        expect(side.wait(10 * lab.slow) != 0, f"{side.name} ended well")
        expect("XRC" in side.text(), f"{side.name} does not say why it ended")


def case_pacing(lab):
    """BBR goes on across a cable and is left where no cable is between, whichever the listener had; there the send buffer of a
    stream that was full is ours."""
    with open("/proc/sys/net/core/wmem_max", encoding="ascii") as most:
        small = 2 * min(int(most.read()), 512 * 1024)
    for prefix in (lab.server_prefix, lab.client_prefix):
        chosen = subprocess.run([*prefix, "sh", "-c", "echo bbr > /proc/sys/net/ipv4/tcp_congestion_control"],
                                capture_output=True, text=True, check=False)
        if chosen.returncode != 0:
            raise lib.Skip(f"no BBR here: {chosen.stderr.strip()}")
    for side, prefix, expected in (("client", lab.client_prefix, "bbr"), ("server", lab.server_prefix, "reno")):
        port = lib.free_port()
        command = ["ib_write_bw", "-R", "-F", "-s", 1 << 20, "-D", 600, "-p", port]
        server = lab.start("write-server", command)
        server.wait_listening(port, 20 * lab.slow)
        client = lab.start("write-client", [*command, lab.address], side)
        lib.wait_until(lambda c=client, p=prefix: streams(p, "dport", port)[2] > 100 << 20 or not c.running(), 30 * lab.slow,
                       "a client writes")
        if expected == "reno":  # once the socket was full, which takes its time where its peer keeps up
            lib.wait_until(lambda c=client, p=prefix: small in streams(p, "dport", port)[1] or not c.running(), 30 * lab.slow,
                           f"a send buffer of {small}")
        received, sent = streams(lab.server_prefix, "sport", port), streams(prefix, "dport", port)
        for controls in (received[0], sent[0]):
            expect(controls == {expected}, f"client at the {side}'s place: {controls} instead of {expected}")
        expect((small in sent[1]) == (expected == "reno"), f"client at the {side}'s place: send buffers of {sent[1]}")
        for process in (client, server):
            process.kill()
            process.wait(10)
    lab.forget()


if __name__ == "__main__":
    lib.main(globals())
