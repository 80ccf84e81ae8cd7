# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""`swrnic run --trace`, in the eyes of tshark: all of each stream is decoded, though nobody captured it on a network."""
import os
import shutil
import stat

import capture
import lib
from lib import expect


def traced_pair(lab, command, client_more, settings, address_words=()):
    """Server and client, each with its own trace; returns both files."""
    if shutil.which("tshark") is None:
        raise lib.Skip("tshark is not installed")
    port = lib.free_port()
    files = [os.path.join(lab.directory, f"{side}-{port}.pcapng") for side in ("server", "client")]
    common = [*command, "-p", port]
    run = [lab.swrnic[0], "run", "--trace"]
    server = lab.start("server", [*run, files[0], "--", *common, *address_words], device=False, settings=settings)
    server.wait_listening(port, 20 * lab.slow)
    client = lab.start("client", [*run, files[1], "--", *common, *client_more], "client", device=False,
                       settings=settings)
    client.succeed(60 * lab.slow)
    server.succeed(15 * lab.slow)
    return files


def judge(path, crc, streams):
    mode = stat.S_IMODE(os.stat(path).st_mode)
    expect(mode == 0o600, f"others may read the trace: mode {mode:o}")
    capture.judge(path, crc=crc, least_streams=streams)


def case_rping(lab):
    for settings in ({"SWRNIC_CRC": "on"}, {"SWRNIC_CRC": "off"}, {"SWRNIC_CRC": "on", "SWRNIC_MPA_REV": "1"}):
        command = ["rping", "-V", "-S", 30000, "-C", 5]
        files = traced_pair(lab, [*command, "-a", lab.address], ["-c"], settings, ["-s"])
        for path in files:
            judge(path, settings["SWRNIC_CRC"] == "on", 1)


def case_ipv6(lab):
    lab.need_ipv6()
    files = traced_pair(lab, ["rping", "-V", "-S", 5000, "-C", 5, "-a", lab.address6], ["-c"], {"SWRNIC_CRC": "on"}, ["-s"])
    for path in files:
        judge(path, True, 1)


def case_perftest(lab):
    """Two streams, and two devices that append to one file."""
    for tool in ("ib_write_bw", "ib_read_bw", "ib_send_bw"):
        command = [tool, "-R", "-F", "-s", 65536, "-n", 20]
        for path in lab.perftest(lambda c=command: traced_pair(lab, c, [lab.address], {"SWRNIC_CRC": "on"})):
            judge(path, True, 2)


def case_refused(lab):
    """A file that cannot be written is said before the command starts."""
    missing = os.path.join(lab.directory, "no", "such", "file")
    for words in (["--trace", missing], [f"--trace={missing}"], ["--trace"]):
        process = lab.start("run", [lab.swrnic[0], "run", *words, "--", "echo", "started"], device=False)
        if words == ["--trace"]:
            process = lab.start("run", [lab.swrnic[0], "run", *words], device=False)
        expect(process.wait(20) == 2, f"run {words} was not refused")
        expect("started" not in process.text() and "trace" in process.text(), f"it says: {process.text()}")


if __name__ == "__main__":
    lib.main(globals())
