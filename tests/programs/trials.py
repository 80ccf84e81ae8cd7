# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Programs that are built from a checkout of their public source (lab.checkout) before they are tried: below build/trials, so
that the checkout stays as it is. What has been built once is there the next time; who changes a checkout removes it."""
import os
import re
import shutil
import subprocess
import time

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


def judge(found, fails, not_run, races=()):
    """`found` has how each test ended, by its name, and what it said of why it was not run. What did not pass is known by a pattern
    that is looked for in the two, with the reason; how a race ends depends on which processors are free."""
    count = {outcome: sum(1 for o, _ in found.values() if o == outcome) for outcome in (PASSED, FAILED, NOT_RUN)}
    print(f"    {len(found)} tests: {count}")
    left = {name: ended for name, ended in found.items() if not any(re.search(race, name) for race in races)}
    for outcome, known in ((FAILED, fails), (NOT_RUN, not_run)):
        texts = [f"{name} ({said})" for name, (o, said) in left.items() if o == outcome]
        new = [text for text in texts if not any(re.search(pattern, text) for pattern in known)]
        gone = [pattern for pattern in known if not any(re.search(pattern, text) for text in texts)]
        expect(not new, f"{outcome}, and the list does not have it: {new}")
        expect(not gone, f"not {outcome} any more, so take them from the list: {gone}")


class GoogleTests:
    """Tests of a binary of GoogleTest, each by its name. One that crashes or takes too long fails alone: the rest goes on in a process
    of its own."""
    TOGETHER = 200

    def __init__(self, lab, binary, settings, arguments=()):
        self.lab, self.binary, self.settings, self.arguments = lab, binary, settings, arguments

    def start(self, *arguments):
        return self.lab.start(os.path.basename(self.binary), [self.binary, *arguments, *self.arguments], settings=self.settings)

    def names(self, pattern, parameter=""):
        """Those whose name fits the pattern, and whose parameter, as GoogleTest shows it, the expression."""
        text = self.start("--gtest_list_tests", f"--gtest_filter={pattern}").succeed(120 * self.lab.slow)
        found, suite = [], None
        for line in text.splitlines():
            word = re.match(r"( *)(\S+)", line)
            if word and not word.group(1) and word.group(2).endswith("."):
                suite = word.group(2)
            elif word and suite and len(word.group(1)) == 2 and re.search(parameter, line.partition("# GetParam() = ")[2]):
                found.append(suite + word.group(2))
        return found

    def run(self, names, seconds):
        found = {}
        while names:
            ended = self.some(names[:self.TOGETHER], seconds)
            found.update(ended)
            names = [name for name in names if name not in found]
        return found

    def some(self, names, seconds):
        """Runs them in one process, until one of them crashes or hangs. Returns how they ended, as judge() wants it: at least one."""
        process = self.start("--gtest_filter=" + ":".join(names))
        running, since = None, time.monotonic()
        while process.running():
            now = re.findall(r"^\[ RUN      \] (\S+)", process.text(), re.M)
            if now and now[-1] != running:
                running, since = now[-1], time.monotonic()
            if time.monotonic() - since > seconds * self.lab.slow:
                process.kill()
                process.wait(10)
            time.sleep(0.2)
        ended = {}
        for name, said in re.findall(r"^\[ RUN      \] (\S+)(.*?)(?=^\[ RUN      \]|^\[-{10}\]|\Z)", process.text(), re.M | re.S):
            how = re.search(r"^\[ *(OK|FAILED|SKIPPED) *\] \S", said, re.M)
            skipped = re.search(r"^\[ *SKIP *\](.*)|Skipped\n(.*)", said, re.M)
            ended[name] = (FAILED if not how or how.group(1) == "FAILED" else NOT_RUN if skipped else PASSED,
                           " ".join(filter(None, skipped.groups())).strip() if skipped else "")
        if not ended:
            ended[names[0]] = (FAILED, "")
        for name, (how, _) in ended.items():
            if how == FAILED:
                print(f"    failed: {name}")
        if not any(how == FAILED for how, _ in ended.values()):
            self.lab.forget()
        return ended
