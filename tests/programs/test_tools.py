# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""The other programs that Debian ships: librdmacm's examples, rsockets under plain socket programs, qperf, fio."""
import hashlib
import os
import re

import lib
from lib import expect, need


def rspreload():
    for directory in ("/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib"):
        path = os.path.join(directory, "rsocket", "librspreload.so")
        if os.path.exists(path):
            return path
    raise lib.Skip("librspreload.so is not installed")


def over_rsockets(command):
    """The command with librspreload in front of the userspace shim, which swrnic run has put into the environment."""
    return ["sh", "-c", f'LD_PRELOAD={rspreload()}:$LD_PRELOAD exec "$@"', "sh", *command]


def expect_connected(texts):
    """librspreload falls back to plain TCP without a word: the log tells."""
    for text in texts:
        expect(re.search(r"swrnic: info: QP 0x[0-9a-f]+ .*: connected as", text), "no QP was connected: was this plain TCP?")


def case_rdma_client(lab):
    port = lib.free_port()
    server, client = lab.pair(["rdma_server", "-p", port], ["rdma_client", "-s", lab.address, "-p", port], port, 30)
    expect("rdma_server: end 0" in server and "rdma_client: end 0" in client, "no end 0 on both sides")


def case_cmtime(lab):
    """Its server serves until it is killed."""
    port = lib.free_port()
    server = lab.start("cmtime-server", ["cmtime", "-p", port, "-c", 200])
    server.wait_listening(port, 20 * lab.slow)
    text = lab.start("cmtime", ["cmtime", "-s", lab.address, "-p", port, "-c", 200], "client").succeed(60 * lab.slow)
    for step in ("create id", "resolve addr", "resolve route", "create qp", "connect", "disconnect", "destroy"):
        expect(re.search(rf"^{step} *: +[0-9.]+ +[0-9.]+ +[0-9.]+ +[0-9.]+$", text, re.M), f"no line of the step {step}")
    expect("error" not in text.lower() and "fail" not in text.lower(), "cmtime speaks of an error")


def case_rcopy(lab):
    port = lib.free_port()
    source, target = os.path.join(lab.directory, "source"), os.path.join(lab.directory, "target")
    with open(source, "wb") as out:
        for i in range(400):
            out.write(hashlib.sha256(str(i).encode()).digest() * 1024 + bytes(i))
    server = lab.start("rcopy-server", ["rcopy", "-p", port])
    server.wait_listening(port, 20 * lab.slow)
    for _ in range(2):  # it serves on
        lab.start("rcopy", ["rcopy", source, f"{lab.address}:{target}", "-p", port], "client").succeed(60 * lab.slow)
        with open(source, "rb") as a, open(target, "rb") as b:
            expect(a.read() == b.read(), "the copy differs")
        os.remove(target)
    expect(server.running(), "the server has ended")


def stream(lab, program, option):
    """With -T a the client takes POLLHUP beside its last data for an error (status 16), though all has come: whether the server's
    end is there by then is a matter of timing. Then once more."""
    for attempt in range(5):
        port = lib.free_port()
        common = ["-p", port, *option.split()]
        try:
            return lab.pair([program, *common], [program, "-s", lab.address, *common], port, 120)[1]
        except lib.Failed:
            if attempt == 4 or "-T a" not in option or lab.processes[-1].popen.poll() != 16:
                raise
            print("    the end came with the last data: again")
    raise AssertionError("not reached")


def streams(lab, program, options):
    for option in options:
        text = stream(lab, program, option)
        expect(re.search(r"^\S+ +\S+ +\S+ +\S+ +\S+ +[0-9.]+s +[0-9.]+ +[0-9.]+$", text, re.M), f"{program} {option}: no result")
        lab.forget()


STREAMS = ["-S 4096 -C 1000", "-S 1000000 -C 50", "-S 64 -C 1000 -I 3", "-S 65536 -C 100 -T b", "-S 1000 -C 500 -T n",
           "-S 1000 -C 1 -I 500 -T a", "-S 10000 -C 100 -T v", "-S 500 -C 100 -i 0", "-S 5000 -C 100 -B 4096"]


def case_rstream(lab):
    streams(lab, "rstream", [*STREAMS, "-S 4096 -C 100 -T r", "-S 4096 -C 100 -k 5"])


def case_rstream_all(lab):
    streams(lab, "rstream", ["-S all -T v"])


def case_riostream(lab):
    streams(lab, "riostream", [option for option in STREAMS if "-B" not in option])


def case_rsockets(lab):
    """Plain socket programs over librspreload. iperf3 is not among them: its server learns of its streams by select(), and
    librspreload's select() gives back the numbers of rsockets for those of descriptors."""
    port = lib.free_port()
    log = {"SWRNIC_LOG": "info"}
    program = os.path.join(lab.build, "bin", "plain_sockets")
    texts = lab.pair(over_rsockets([program, "server", lab.address, port, 4 << 20]),
                     over_rsockets([program, "client", lab.address, port, 4 << 20]), port, 60, log)
    expect_connected(texts)
    for text in texts:
        expect("the data agrees" in text, "the data does not agree")


def case_iperf(lab):
    need("iperf")
    port = lib.free_port()
    log = {"SWRNIC_LOG": "info"}
    server = lab.start("iperf-server", over_rsockets(["iperf", "-s", "-p", port]), settings=log)
    server.wait_listening(port, 20 * lab.slow)
    client = lab.start("iperf", over_rsockets(["iperf", "-c", lab.address, "-p", port, "-n", "20M", "-f", "m"]), "client", settings=log)
    text = client.succeed(60 * lab.slow)
    expect_connected([text, server.text()])
    found = re.search(r"20\.0 MBytes +([0-9.]+) Mbits/sec", text)
    expect(found and float(found.group(1)) > 0, "iperf shows no 20 MBytes")


QPERF = ["conf", "rc_bi_bw", "rc_bw", "rc_lat", "rc_rdma_read_bw", "rc_rdma_read_lat", "rc_rdma_write_bw", "rc_rdma_write_lat",
         "rc_rdma_write_poll_lat", "rc_compare_swap_mr", "rc_fetch_add_mr", "ver_rc_compare_swap", "ver_rc_fetch_add"]


def qperf(lab, test, port):
    """qperf's server tells its port before it listens there, and the client may be faster."""
    for _ in range(5):
        client = lab.start(f"qperf-{test}", ["qperf", lab.address, "-lp", port, "-cm1", "-t", 1, test], "client")
        client.wait(60 * lab.slow)
        if "Event rejected" not in client.text():
            return client
    raise lib.Failed("qperf was refused five times")


def case_qperf(lab):
    need("qperf")
    port = lib.free_port()
    server = lab.start("qperf-server", ["qperf", "-lp", port])
    server.wait_listening(port, 20 * lab.slow)
    for test in QPERF:
        text = qperf(lab, test, port).succeed(60 * lab.slow)
        what = r"rem_cpu +=" if test == "conf" else r"(bw|latency|msg_rate) +=  [0-9.]+ \S*(/sec|s)"
        expect(re.search(what, text), f"{test} shows no result")
    expect(server.running(), "the server has ended")


FIO = """[global]
ioengine=rdma
port={port}
bs=64k
size=32m
iodepth=16
[{name}]
{more}
"""


def case_fio(lab):
    """fio's engine moves in one direction and compares nothing: swrnic-checker does that."""
    need("fio")
    for verb in ("write", "read", "send"):
        port = lib.free_port()
        files = {"server": "rw=read", "client": f"rw=write\nverb={verb}\nhostname={lab.address}"}
        for side, more in files.items():
            with open(os.path.join(lab.directory, f"{side}.fio"), "w", encoding="ascii") as out:
                out.write(FIO.format(port=port, name=side, more=more))
        _, text = lab.pair(["fio", "server.fio"], ["fio", "client.fio"], port, 60)
        expect(re.search(r"err= 0:", text) and "io=32.0MiB" in text, f"fio {verb} has not written 32 MiB")


def case_asyncwatch(lab):
    watch = lab.start("ibv_asyncwatch", ["ibv_asyncwatch", "-d", "swr0"])
    lib.wait_until(lambda: "async event FD" in watch.text() or not watch.running(), 10 * lab.slow, "ibv_asyncwatch watches")
    expect(watch.running(), "ibv_asyncwatch has ended")


if __name__ == "__main__":
    lib.main(globals())
