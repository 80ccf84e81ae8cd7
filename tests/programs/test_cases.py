# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Small programs that showed a fault once, each with what is right. They are not ours and are built from the directory of
cases beside the repository, where there is one. The tests that keep the mends are in tests/verbs, tests/shim and
tests/engine; here the very inputs run, with a provider and a shim that a sanitizer watches as well. api is left out: it posts
atomics, which were refused once and now end the connection that it goes on with. asan is tools.sanitizers."""
import os
import re
import subprocess
import sys

import lib
from lib import expect

CASES = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "..", "shared", "cases")
LOOPBACK_ALONE = ["unshare", "--net", "sh", "-c", 'ip link set lo up && exec "$@"', "sh"]
# The programs are not instrumented, and fork while the runtime of ThreadSanitizer has threads.
SANITIZERS = {"TSAN_OPTIONS": "die_after_fork=0", "ASAN_OPTIONS": "detect_leaks=0"}


def program(lab, name):
    for ending, compiler in ((".c", ["gcc"]), (".cpp", ["g++", "-std=c++20"])):
        source = os.path.join(CASES, name + ending)
        if os.path.exists(source):
            break
    else:
        raise lib.Skip(f"no {name} in {CASES}")
    path = os.path.join(lab.directory, name)
    if not os.path.exists(path):
        done = subprocess.run([*compiler, "-O1", "-w", "-o", path, source, "-libverbs", "-lrdmacm", "-lpthread"],
                              capture_output=True, text=True, check=False)
        expect(done.returncode == 0, f"{source}: {done.stderr}")
    return path


def run(lab, name, arguments="", right=(), wrong=(), **settings):
    """What it prints must hold each of `right`, and none of `wrong`."""
    process = lab.start(name, [program(lab, name), *arguments.split()], settings={**SANITIZERS, **settings})
    check(process, process.succeed(60 * lab.slow), right, wrong)


def check(process, text, right, wrong=()):
    for pattern in right:
        expect(re.search(pattern, text), f"{process.name}: no \"{pattern}\"")
    for pattern in wrong:
        expect(not re.search(pattern, text), f"{process.name}: \"{pattern}\"")


def rounds(lab, many):
    return many if lab.slow == 1 else many // 20


def case_closing(lab):
    many = rounds(lab, 1500)
    run(lab, "close_race", f"{many} 200", [f"{many} times, no crash"])
    run(lab, "close_all", "", [r"after close_range: [0-5]% CPU", "new channel: bind 0 listen 0"])


def case_memory(lab):
    for crc in ("off", "on"):
        for how in ("write 64", "write 4096", "write 65536", "write 300000", "recv 64"):
            run(lab, "munmap_mr", how, ["QP states 6 6; the process lives"], SWRNIC_CRC=crc)
        for how in ("read 64", "read 65536"):
            run(lab, "munmap_mr", how, ["status 10; QP states 6 6; the process lives"], SWRNIC_CRC=crc)
        for how in ("sendsrc 64", "sendsrc 65536"):
            run(lab, "munmap_mr", how, ["status 4; QP states 6 6; the process lives"], SWRNIC_CRC=crc)
        for how in ("munmap", "mremap", "trunc", "protnone"):
            for operation in ("write", "read", "send"):
                run(lab, "r24", f"{how} {operation} 4096", ["first QP state 6", "other connection success; VICTIM exit 0"],
                    SWRNIC_CRC=crc)
        for kind in "wrsotp":
            run(lab, "gone", f"{kind} 4096", ["event RDMA_CM_EVENT_DISCONNECTED"], SWRNIC_CRC=crc)
    run(lab, "r24", "dontneed write 4096", ["first QP state 3", "other connection success; VICTIM exit 0"])


def case_write_barrier(lab):
    for size in (64, 65536, 1000000):
        run(lab, "segv_handler", f"{size}", [r"status 0, handler ran [1-9]\d* times, octet 7, states 3 3"])


def case_fork(lab):
    many = rounds(lab, 1500)
    # GCC 12's run times do not hold their allocator's locks in fork(): a child may find one taken for ever.
    hung = "0" if lab.slow == 1 else r"\d"
    run(lab, "fork_stress", f"{many}", [f"{many} forks: 0 crashed, {hung} hung, 0 bad"])
    run(lab, "fork_linger", "", [r"with a child that sleeps: [0-5]% CPU"])
    run(lab, "fork_child_ops", "", [r"alloc_mw +returned 0 errno 5", r"post_srq_recv +returned 5", r"resize_cq +returned 5"],
        ["signal"])
    run(lab, "prefork", "b", ["child's connection: success"])
    script = lab.start("fork_and_bind", ["/usr/bin/python3", os.path.join(CASES, "fork_and_bind.py")], settings=SANITIZERS)
    check(script, script.succeed(30 * lab.slow), ["is_fork_initialized 2", "child status 0"])


def case_invalidation(lab):
    many = rounds(lab, 400)
    lib.need("unshare")
    # It registers by its listener, which names a device where nothing but the loopback is there.
    lab.swrnic = [*LOOPBACK_ALONE, *lab.swrnic]
    run(lab, "inv_race", f"{many}", [r"[1-9]\d* rounds with an invalidation, in 0 the region changed"], SWRNIC_LOG="error")


def case_rdma_cm(lab):
    run(lab, "cm_misc", "", ["second rdma_bind_addr to the same port: -1 errno 98", "right after rdma_accept: 0 errno 0",
                             "of 30: 0 EINVAL, 30 ok", "an IPv4 TCP connect 111"])
    run(lab, "cmrace", "", [], ["try"])
    run(lab, "tos", "", [r"set after ADDR_RESOLVED: .*stream tos 32", r"a listener's after bind: .*listener tos 32"])


def case_files(lab):
    run(lab, "dirstream", "", [r"telldir: exit 0", r"after seekdir: \.", r"readdir_r: exit 0", r"scandir 3 ", r"readlink: exit 0"],
        ["signal"])
    run(lab, "scan", "", ["scandir 3", "glob 0", r"realpath /sys/devices\S+ports", "popen swr0"])
    run(lab, "mw", "", [r"access 1: 0 success; type 2: 0 success", "rkey kept"])
    if lab.slow == 1:  # a sanitizer's own frames are larger than that
        run(lab, "stack", "16", ["fine"])


def case_events(lab):
    run(lab, "r13b", "comp", [r"edges 10, events taken \(one per edge\) 10; left in the channel 1"])
    run(lab, "r13b", "cm", ["edges 10, taken 10, left 1"])
    # All its receives share one buffer: a race of its own, whose report would hold its threads for seconds.
    settings = {} if lab.slow == 1 else {"TSAN_OPTIONS": "die_after_fork=0:report_bugs=0", "SWRNIC_RNR_TIMEOUT": "30"}
    run(lab, "rb", f"{rounds(lab, 100000)} 64 16 64 0 0", [f"server: {rounds(lab, 100000)} messages", "sent .* bad 0"], **settings)


def case_order(lab):
    many = rounds(lab, 20000)
    path = program(lab, "order")
    server = lab.start("order-server", [path, "e", many], settings=SANITIZERS)
    server.wait_listening(17950, 20 * lab.slow)
    client = lab.start("order-client", [path, "e", many, "c"], settings=SANITIZERS)
    check(client, client.succeed(100 * lab.slow), [f"0 of {many} answers completed before the send"])
    server.succeed(20 * lab.slow)


if __name__ == "__main__":
    if not os.path.isdir(CASES):
        print("SKIPPED: there is no directory of cases beside the repository")
        sys.exit(lib.SKIPPED)
    lib.main(globals())
