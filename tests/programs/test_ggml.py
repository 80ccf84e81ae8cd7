# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""The RPC backend of ggml (llama.cpp's tensors) with its RDMA transport, built from a checkout. It wires QPs itself, with what
the two ends say over TCP; where it finds no device it stays with TCP and works as well, so its log is what counts."""
import os
import subprocess

import lib
import test_persona
import test_wired
from lib import expect

SOURCE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "ggml")
ACTIVATED = "RDMA activated"


def program(lab):
    checkout = lab.checkout("ggml", "include/ggml-rpc.h")
    lib.need("cmake")
    directory = os.path.join(lab.build, "trials", "ggml")
    configure = ["cmake", "-S", SOURCE, "-B", directory, f"-DGGML={checkout}", "-DCMAKE_BUILD_TYPE=Release",
                 "-DCMAKE_C_FLAGS_RELEASE=-O1", "-DCMAKE_CXX_FLAGS_RELEASE=-O1"]
    for command in (configure, ["cmake", "--build", directory, "--parallel", str(os.cpu_count()), "--target", "ggml_rpc"]):
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        expect(done.returncode == 0, f"{' '.join(command)}: {(done.stdout + done.stderr)[-2000:]}")
    return os.path.join(directory, "ggml_rpc")


def equal_tensors(lab, settings):
    path = program(lab)
    # ggml looks for the GID of its own end of the TCP connection. 127.0.0.1 has none where there are other addresses.
    gids = test_wired.gids(lab, "server")
    address = next(gid.ipv4_mapped for _, gid in sorted(gids.items()) if gid.ipv4_mapped)
    port = lib.free_port()
    endpoint = f"{address}:{port}"
    server = lab.start("ggml-server", [path, "serve", endpoint], settings=settings)
    server.wait_listening(port, 20 * lab.slow)
    client = lab.start("ggml-client", [path, "compare", endpoint], "client", settings=settings)
    text = client.succeed(240 * lab.slow)
    for end, said in (("client", text), ("server", server.text())):
        expect(ACTIVATED in said, f"the {end} stays with TCP")
        expect("RDMA CQ wc error" not in said, f"the {end} met an error")
    expect("all equal" in text, "tensors are not equal")


def case_iwarp(lab):
    equal_tensors(lab, None)


def case_roce(lab):
    equal_tensors(lab, test_persona.ROCE)


if __name__ == "__main__":
    lib.main(globals())
