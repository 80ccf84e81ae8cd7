# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""swrnic-checker: every byte, completion and error, in each setting that changes the wire."""
import lib
from lib import expect

# What our device promises beyond any other's.
PROMISES = ["--either-first", "--rnr-wait", "--send-inv", "--ordered"]


def judge(text):
    lines = text.splitlines()
    for line in lines:
        if line.startswith(("ok", "skip", "PASS")):
            print("    " + line)
    expect(not any(line.startswith("FAIL") for line in lines), "the checker reports failures")
    expect(any(line.startswith("PASS") for line in lines), "the checker has not reported success")


def pair(lab, address, *more, settings=None, promises=None, seconds=200):
    port = lib.free_port()
    common = [lab.checker, "-a", address, "-p", port, *(PROMISES if promises is None else promises), *more]
    try:
        server_text, client_text = lab.pair([*common, "--server"], [*common, "--client"], port, seconds, settings)
    except lib.Failed as why:
        said = [line for p in lab.processes for line in p.text().splitlines() if line.startswith("FAIL")]
        raise lib.Failed("\n  ".join([str(why), *said])) from None
    judge(server_text)
    judge(client_text)


def case_self(lab):
    text = lab.start("checker-self", [lab.checker, "--self", *PROMISES]).succeed(200 * lab.slow)
    judge(text)


def case_self_small(lab):
    text = lab.start("checker-self", [lab.checker, "--self", "--small", *PROMISES]).succeed(100 * lab.slow)
    judge(text)


def case_sanitized(lab):
    """Fewer connections, longer waits: for builds with a sanitizer."""
    text = lab.start("checker-self", [lab.checker, "--self", "--small", "--connections", 4, "--patience", 60,
                                      *PROMISES]).succeed(100 * lab.slow)
    judge(text)


def case_pair(lab):
    pair(lab, lab.address)


def case_ipv6(lab):
    lab.need_ipv6()
    pair(lab, lab.address6, "--small")


def case_crc_on(lab):
    pair(lab, lab.address, settings={"SWRNIC_CRC": "on"})


def case_crc_off(lab):
    pair(lab, lab.address, "--small", settings={"SWRNIC_CRC": "off"})


def case_crc_auto(lab):
    pair(lab, lab.address, "--small", settings={"SWRNIC_CRC": "auto"})


def case_fpdu_emss(lab):
    pair(lab, lab.address, settings={"SWRNIC_FPDU": "emss"})


def case_fpdu_emss_crc(lab):
    pair(lab, lab.address, "--small", settings={"SWRNIC_FPDU": "emss", "SWRNIC_CRC": "on"})


def case_fpdu_64k(lab):
    pair(lab, lab.address, "--small", settings={"SWRNIC_FPDU": "64k"})


def case_mpa_1(lab):
    """Revision 1 has no peer-to-peer startup: the active side speaks first."""
    pair(lab, lab.address, "--small", settings={"SWRNIC_MPA_REV": "1"}, promises=["--rnr-wait", "--send-inv", "--ordered"])


def case_mpa_2(lab):
    pair(lab, lab.address, "--small", settings={"SWRNIC_MPA_REV": "2"})


def case_seeds(lab):
    for seed in range(2, 6):
        pair(lab, lab.address, "--seed", seed, "-g", "send,write,read,sge,order,bidir,close,many")


def case_connections(lab):
    pair(lab, lab.address, "-g", "many", "--connections", 200, "--small")


def case_scribble(lab):
    """Memory that changes while it is on its way: no error, with CRC as well as without."""
    for crc in ("on", "off"):
        pair(lab, lab.address, "-g", "scribble", "--seconds", 3, settings={"SWRNIC_CRC": crc})


def case_verdicts(lab):
    """The checker itself can fail: a group that the other side does not run, and a name that does not exist."""
    process = lab.start("checker-unknown", [lab.checker, "--self", "-g", "nonsense"])
    expect(process.wait(20) != 0, "an unknown group is accepted")
    port = lib.free_port()
    common = [lab.checker, "-a", lab.address, "-p", port, "--small", "--patience", 3, "-g"]
    server = lab.start("checker-server", [*common, "send", "--server"])
    server.wait_listening(port)
    client = lab.start("checker-client", [*common, "send", "--client", "--seed", 2], "client")
    expect(client.wait(60) == 1 and server.wait(60) == 1, "two sides of different seeds agree about every byte")
    expect("byte 0 of" in server.text() + client.text(), "the difference is not named")


if __name__ == "__main__":
    lib.main(globals())
