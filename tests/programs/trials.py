# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Programs that are built from a checkout of their public source (lab.checkout) before they are tried: below build/trials, so
that the checkout stays as it is. What has been built once is there the next time; who changes a checkout removes it."""
import os
import re
import shutil
import subprocess

from lib import expect

PASSED, FAILED, NOT_RUN = "passed", "failed", "not run"


def copy(lab, name, checkout):
    """A copy to build in, of a program that builds in its own tree."""
    directory = os.path.join(lab.build, "trials", name)
    if not os.path.exists(directory):
        shutil.copytree(checkout, directory, symlinks=True, ignore=shutil.ignore_patterns(".git"))
    return directory


def build(directory, *commands, env=None):
    """Each command is what a shell would be given."""
    for command in commands:
        done = subprocess.run(["sh", "-c", command], cwd=directory, env={**os.environ, **(env or {})}, capture_output=True, text=True,
                              check=False)
        expect(done.returncode == 0, f"{command} in {directory}: {(done.stdout + done.stderr)[-2000:]}")


def judge(found, fails, not_run):
    """`found` has how each test ended, by its name, and what it said of why it was not run. What did not pass is known by a pattern
    that is looked for in the two, with the reason."""
    count = {outcome: sum(1 for o, _ in found.values() if o == outcome) for outcome in (PASSED, FAILED, NOT_RUN)}
    print(f"    {len(found)} tests: {count}")
    for outcome, known in ((FAILED, fails), (NOT_RUN, not_run)):
        texts = [f"{name} ({said})" for name, (o, said) in found.items() if o == outcome]
        new = [text for text in texts if not any(re.search(pattern, text) for pattern in known)]
        gone = [pattern for pattern in known if not any(re.search(pattern, text) for text in texts)]
        expect(not new, f"{outcome}, and the list does not have it: {new}")
        expect(not gone, f"not {outcome} any more, so take them from the list: {gone}")
