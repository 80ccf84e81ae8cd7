# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""cost_test.py ENGINE_COST LIMITS: instructions (by callgrind) and transport calls of a small message stay within their limits.
Two runs of different length, so that starting and ending cost nothing. Exit code 77 where it cannot be measured."""
import re
import shutil
import subprocess
import sys

FEW, MANY = 2000, 12000


def run(program, mode, messages):
    done = subprocess.run(["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null", program, mode, str(messages)],
                          capture_output=True, text=True)
    found = re.search(r"Collected : (\d+)", done.stderr)
    if done.returncode != 0 or not found:
        sys.exit(f"{mode} failed: {done.stdout}{done.stderr}")
    return int(found.group(1)), int(done.stdout)


def main():
    program, limits = sys.argv[1:]
    if not shutil.which("valgrind"):
        print("skipped: no valgrind")
        return 77
    failed = False
    for line in open(limits):
        if line.startswith("#"):
            continue
        mode, most_instructions, most_calls = line.split()
        few, many = run(program, mode, FEW), run(program, mode, MANY)
        instructions = (many[0] - few[0]) / (MANY - FEW)
        calls = (many[1] - few[1]) / (MANY - FEW)
        over = instructions > float(most_instructions) or calls > float(most_calls)
        failed = failed or over
        print(f"{mode}: {instructions:.0f} instructions (at most {most_instructions}), {calls:.3f} transport calls "
              f"(at most {most_calls}){'  OVER' if over else ''}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
