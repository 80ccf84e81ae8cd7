# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""What is on the wire, in the eyes of tshark."""
import os
import re
import shutil
import struct

import capture
import lib
from lib import expect

CRC_ON = {"SWRNIC_CRC": "on"}
# Captures of another implementation, which the judge must pass (crc) or refuse.
CAPTURES = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "golden", "captures")


def rping(lab, address, sizes, count, settings):
    port = lib.free_port()
    shot = capture.Capture(lab, port)
    for size in sizes:
        common = ["-a", address, "-p", port, "-V", "-S", size, "-C", count]
        lab.pair(["rping", "-s", *common], ["rping", "-c", *common], port, 60, settings)
    capture.judge(shot.stop(), least_streams=len(sizes))


def perftest(lab, tool, runs, settings):
    def step():
        # Within the step: a connection that was refused is no stream of ours, and a capture of its own shows the runs without it.
        port = lib.free_port()
        shot = capture.Capture(lab, port)
        for size, count in runs:
            common = [tool, "-R", "-F", "-p", port, "-s", size, "-n", count]
            lab.pair(common, [*common, lab.address], port, 60, settings)
        return shot.stop()

    capture.judge(lab.perftest(step), least_streams=2 * len(runs))


def case_rping(lab):
    rping(lab, lab.address, (23, 1000, 65535), 10, CRC_ON)


def case_rping_ipv6(lab):
    lab.need_ipv6()
    rping(lab, lab.address6, [5000], 10, CRC_ON)


def case_crc_auto(lab):
    """MPA-71: without a setting CRC is asked for between two hosts, and not within one."""
    port = lib.free_port()
    shot = capture.Capture(lab, port)
    common = ["-a", lab.address, "-p", port, "-V", "-S", 1000, "-C", 5]
    lab.pair(["rping", "-s", *common], ["rping", "-c", *common], port)
    path = shot.stop()
    two_hosts = lab.place == "netns"
    capture.judge(path, crc=two_hosts)
    details = capture.tshark(path, "-V")
    asked = len(re.findall(r"= CRC flag: True", details))
    expect(asked == (2 if two_hosts else 0), f"{asked} startup frames ask for CRC")
    expect(("(Good CRC32)" in details) == two_hosts, "CRC is not used as it was asked for")


def case_rping_settings(lab):
    for more in ({"SWRNIC_FPDU": "emss"}, {"SWRNIC_FPDU": "64k"}, {"SWRNIC_MPA_REV": "1"}):
        rping(lab, lab.address, [30000], 5, {**CRC_ON, **more})


def case_perftest(lab):
    for tool in ("ib_send_bw", "ib_send_lat", "ib_write_bw", "ib_write_lat", "ib_read_bw", "ib_read_lat"):
        perftest(lab, tool, ((2, 20), (4096, 20), (65536, 5)), CRC_ON)


def payload_offset(data, start):
    """Offset of the TCP payload in an Ethernet frame with IPv4, and its length."""
    ip = start + 14
    header = (data[ip] & 15) * 4
    total = struct.unpack_from(">H", data, ip + 2)[0]
    tcp = ip + header
    return tcp + (data[tcp + 12] >> 4) * 4, total - header - (data[tcp + 12] >> 4) * 4


def records(data):
    """Of a capture: where each packet's record begins and ends. Its frame begins 16 octets behind that."""
    place = 24
    while place < len(data):
        end = place + 16 + struct.unpack_from("<I", data, place + 8)[0]
        yield place, end
        place = end


def spoil(source, target, skip, at):
    """Flips one bit of payload octet `at` of the first packet with payload after `skip` such packets."""
    with open(source, "rb") as file:
        data = bytearray(file.read())
    for place, _ in records(data):
        payload, size = payload_offset(data, place + 16)
        if size > at:
            if skip == 0:
                data[payload + at] ^= 0x10
                with open(target, "wb") as file:
                    file.write(data)
                return
            skip -= 1
    raise lib.Failed("the capture has no such packet")


def disorder(source, target):
    """Puts the second of the first two full packets that follow each other before the first one."""
    with open(source, "rb") as file:
        data = file.read()
    full = [(place, end) for place, end in records(data) if payload_offset(data, place + 16)[1] > 1400]
    for (place, middle), (second, end) in zip(full, full[1:]):
        if middle == second:
            with open(target, "wb") as file:
                file.write(data[:place] + data[middle:end] + data[place:middle] + data[end:])
            return
    raise lib.Failed("the capture has no such packets")


def case_judge(lab):
    """The judge passes a good capture, in whatever order, and refuses spoilt ones: data, CRC, header, startup."""
    if shutil.which("tshark") is None:
        raise lib.Skip("tshark is not installed")
    good = os.path.join(CAPTURES, "rping-3-crc.pcap")
    capture.judge(good)
    disordered = os.path.join(lab.directory, "disordered.pcap")
    disorder(os.path.join(CAPTURES, "ib_write_bw-8192-crc.pcap"), disordered)
    capture.judge(disordered)
    spoilt = os.path.join(lab.directory, "spoilt.pcap")
    for what, skip, at in (("data", 2, 30), ("CRC", 2, 38), ("opcode", 2, 3), ("length", 4, 1), ("startup key", 0, 4)):
        spoil(good, spoilt, skip, at)
        try:
            capture.judge(spoilt)
        except lib.Failed as why:
            print(f"    spoilt {what}: {why}")
            continue
        raise lib.Failed(f"a capture with spoilt {what} passes")
    try:
        capture.judge(os.path.join(CAPTURES, "rping-5.pcap"))
    except lib.Failed:
        return
    expect(False, "a capture without CRC passes as one with good CRC")


if __name__ == "__main__":
    lib.main(globals())
