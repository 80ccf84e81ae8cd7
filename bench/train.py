# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Runs what scripts/bench measures, a tenth as long, over a provider that counts its branches: see cmake/profile.cmake."""
import sys

from dataclasses import replace

from programs import Failed, Runner
from rows import MIB, ROWS

# What no row measures, and is a program's daily work all the same.
MORE = [replace(ROWS[0], name=" ".join((program, str(size), "CRC " + crc, *options)), program=program, size=size, count=count, crc=crc, options=options)
        for program, size, count, crc, options in (
            ("ib_send_bw", 4096, 100000, "off", ()), ("ib_send_bw", 4096, 100000, "on", ()), ("ib_read_bw", 4096, 100000, "on", ()),
            ("ib_write_bw", 4096, 100000, "on", ("-b",)), ("ib_send_lat", 4096, 20000, "on", ()), ("ib_send_lat", 65536, 5000, "off", ()),
            ("ib_send_bw", MIB, 2000, "on", ()), ("ib_send_bw", 64, 200000, "off", ("-q", "4", "-r", "128")))]


def main():
    runner = Runner(sys.argv[1], None)
    for row in ROWS + MORE:
        print(row.name, flush=True)
        runner.perftest(row, max(row.count // 10, 500))


if __name__ == "__main__":
    try:
        main()
    except Failed as failure:
        sys.exit(f"train: {failure}; without SWRNIC_PROFILED the provider is built in one go")
