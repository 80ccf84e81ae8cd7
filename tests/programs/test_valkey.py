# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Valkey with its RDMA module and its own test of it (tests/rdma), built from a checkout. The test's script (run.py) ends well
whatever happens, and wants a port of its own; so the two programs are started here with what it gives them."""
import os

import lib
import test_persona
import test_wired
import trials
from lib import expect


def programs(lab):
    checkout = lab.checkout("valkey", "tests/rdma/rdma-test.c")
    lib.need("make")
    directory = trials.copy(lab, "valkey", checkout)
    paths = [os.path.join(directory, *parts) for parts in (("src", "valkey-server"), ("src", "valkey-rdma.so"), ("tests", "rdma", "rdma-test"))]
    if not all(map(os.path.exists, paths)):
        trials.build(directory, f"make -j{os.cpu_count()} BUILD_RDMA=module MALLOC=libc OPTIMIZATION=-O1", "make -C tests/rdma")
    return paths


def rdma_test(lab, settings):
    server_path, module, client_path = programs(lab)
    gids = test_wired.gids(lab, "server")
    address = next(gid.ipv4_mapped for _, gid in sorted(gids.items()) if gid.ipv4_mapped)
    port = lib.free_port()
    server = lab.start("valkey-server", [server_path, "--port", 0, "--loglevel", "verbose", "--protected-mode", "no", "--appendonly", "no",
                                         "--daemonize", "no", "--dir", lab.directory, "--loadmodule", module, f"port={port}", f"bind={address}"],
                       settings=settings)
    server.wait_listening(port, 20 * lab.slow)
    for threads in (1, 4, 16):
        client = lab.start("rdma-test", [client_path, "--thread", threads, "-h", address, "-p", port], "client", settings=settings)
        text = client.succeed(100 * lab.slow)
        expect("Valkey Over RDMA test [OK]" in text, "the test did not come to its end")
        for step in ("PING/PONG", "SET", "GET"):
            expect(len([line for line in text.splitlines() if f" {step}" in line and "[OK]" in line]) == threads, f"not every thread came through {step}")
    expect(server.running(), "the server has ended")


def case_iwarp(lab):
    rdma_test(lab, None)


def case_roce(lab):
    rdma_test(lab, test_persona.ROCE)


if __name__ == "__main__":
    lib.main(globals())
