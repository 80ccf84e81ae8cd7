# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""MPI over UCX over the device, as an adapter for RoCE: four ranks on one host."""
import os
import subprocess

import lib
from lib import expect

RANKS = 4
SETTINGS = {"SWRNIC_PERSONA": "roce", "UCX_TLS": "rc_verbs,ud_verbs,self", "UCX_NET_DEVICES": "swr0:1",
            "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}


def ring(lab, implementation, *options):
    compiler, runner = f"mpicc.{implementation}", f"mpirun.{implementation}"
    lib.need(compiler, runner)
    program = os.path.join(lab.directory, "mpi_ring")
    source = os.path.join(os.path.dirname(os.path.abspath(__file__)), "mpi_ring.c")
    made = subprocess.run([compiler, "-O1", "-o", program, source], capture_output=True, text=True, check=False)
    expect(made.returncode == 0, f"{compiler}: {made.stderr}")
    command = [runner, "-np", RANKS, *options, *lab.swrnic, program]
    text = lab.start(implementation, command, device=False, settings=SETTINGS).succeed(120 * lab.slow)
    expect(text.count("right") == RANKS, f"not {RANKS} ranks are right: {text}")


def case_openmpi(lab):
    ring(lab, "openmpi", "--oversubscribe", "--mca", "pml", "ucx", "--mca", "osc", "ucx", "--mca", "btl", "^openib")


def case_mpich(lab):
    ring(lab, "mpich")


if __name__ == "__main__":
    lib.main(globals())
